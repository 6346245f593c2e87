"""LocalSources: what only real files can show (ADR 0021)."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import _AsyncGeneratorContextManager
from pathlib import Path

import pytest

from tests.clips import y4m
from tests.contract.test_sources import Gate, open_below
from tests.names import plant
from tests.trees import TenantTree, grow
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.sources import files
from vmafx.adapters.sources.blocking import THREAD_NAME, CallLimits
from vmafx.adapters.sources.local import LocalSources
from vmafx.domain.errors import ClipError, OutsideRootsError, SourceError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.scoring import Clip, ClipDescriptor, ClipFile
from vmafx.domain.source import SourceRef

CONTENT = y4m(distorted=False, frames=1)
EVERYWHERE = ScoringRoots.parse(["/"])


@pytest.fixture(autouse=True)
def no_descriptor_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(10)
    assert open_below(tmp_path.resolve()) == 0


@pytest.fixture
def tree(tmp_path: Path) -> TenantTree:
    return grow(tmp_path)


@pytest.fixture
def sources() -> LocalSources:
    return LocalSources(SystemClock())


def below(folder: Path) -> ScoringRoots:
    return ScoringRoots.parse([f"{folder}"])


def ref_of(path: Path | str) -> SourceRef:
    return SourceRef.parse(str(path))


def content_of(clip: Clip) -> bytes:
    assert isinstance(clip, ClipDescriptor)
    return os.pread(clip.descriptor, 1 << 24, 0)


async def threads_ended() -> None:
    while any(thread.name == THREAD_NAME for thread in threading.enumerate()):
        await asyncio.sleep(0)


async def used(
    sources: LocalSources,
    path: Path | str,
    roots: ScoringRoots,
    *,
    meanwhile: Callable[[], None] = lambda: None,
    before: Callable[[], None] = lambda: None,
) -> bytes:
    """Resolve a source, prepare it and read it; things may happen before it is opened, and while it is."""
    source = await sources.resolve(ref_of(path), roots)
    before()
    async with sources.prepared(source, roots=roots) as clip:
        content = content_of(clip)
        meanwhile()
    return content


# ---------------------------------------------------------------- a tenant's folder


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("ref.y4m", "ref.y4m"),
        ("/sub/./dist.y4m", "sub/dist.y4m"),
        ("link_inside.y4m", "sub/dist.y4m"),
        ("dir_inside/ref.y4m", "sub/ref.y4m"),
    ],
)
async def test_a_clip_of_the_tenant_is_read_under_its_real_path(
    sources: LocalSources, tree: TenantTree, name: str, real: str
) -> None:
    roots = below(tree.root)
    source = await sources.resolve(ref_of(f"{tree.root}/{name}"), roots)
    async with sources.prepared(source, roots=roots) as clip:
        assert isinstance(clip, ClipDescriptor)
        assert (clip.name, clip.path) == (f"{tree.root}/{name}", str(tree.root / real))
        assert content_of(clip) == (tree.root / real).read_bytes()
        assert not os.get_inheritable(clip.descriptor)


@pytest.mark.parametrize("name", ["link_outside.y4m", "link_near.y4m", "link_absolute.y4m"])
async def test_a_link_out_of_the_folder_is_refused(
    sources: LocalSources, tree: TenantTree, name: str
) -> None:
    with pytest.raises(OutsideRootsError, match="resolves to"):
        await used(sources, tree.root / name, below(tree.root))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("loop.y4m", "Too many levels of symbolic links"),
        ("dangling.y4m", "No such file or directory"),
        ("n" * 256, "File name too long"),
        ("ref.y4m/below", "Not a directory"),
    ],
)
async def test_what_cannot_be_found_fails_with_its_own_reason(
    sources: LocalSources, tree: TenantTree, name: str, reason: str
) -> None:
    with pytest.raises(SourceError) as caught:
        await used(sources, tree.root / name, below(tree.root))
    assert str(caught.value) == f'scoring input "{tree.root / name}": resolve: {reason}'
    assert not caught.value.machine_fault


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
async def test_a_file_that_may_not_be_read_is_refused(sources: LocalSources, tree: TenantTree) -> None:
    with pytest.raises(SourceError, match="Permission denied") as caught:
        await used(sources, tree.root / "unreadable.y4m", below(tree.root))
    assert not caught.value.machine_fault


async def test_no_permission_is_the_inputs_fault(
    sources: LocalSources, tree: TenantTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_open(monkeypatch, tree.root / "ref.y4m", errno.EACCES)
    with pytest.raises(SourceError, match="cannot be opened: Permission denied") as caught:
        await used(sources, tree.root / "ref.y4m", below(tree.root))
    assert not caught.value.machine_fault


# ---------------------------------------------------------------- kinds of files


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")  # the path itself may be too long for a socket
        finally:
            os.close(folder)


@pytest.mark.parametrize(
    ("make", "kind"), [(os.mkfifo, "a pipe"), (Path.mkdir, "a directory"), (make_socket, "a socket")]
)
async def test_only_regular_files_are_clips_and_nothing_waits_for_a_writer(
    sources: LocalSources, tmp_path: Path, make: Callable[[Path], None], kind: str
) -> None:
    path = tmp_path / "odd.y4m"
    make(path)
    with pytest.raises(ClipError, match=f"{kind}.*not a regular file"):
        await used(sources, path, below(tmp_path))


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, make_socket])
async def test_a_file_that_becomes_something_else_before_it_is_opened_is_refused(
    sources: LocalSources, tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)

    def swap() -> None:
        path.unlink()
        make(path)

    just_before_open(monkeypatch, path, swap)
    with pytest.raises(SourceError):
        await used(sources, path, below(tmp_path))


async def test_a_huge_sparse_file_is_opened_like_any_other(sources: LocalSources, tmp_path: Path) -> None:
    path = tmp_path / "huge.y4m"
    path.write_bytes(CONTENT)
    os.truncate(path, 1 << 40)
    roots = below(tmp_path)
    source = await sources.resolve(ref_of(path), roots)
    async with sources.prepared(source, roots=roots) as clip:
        assert isinstance(clip, ClipDescriptor)
        assert os.pread(clip.descriptor, 9, 0) == CONTENT[:9]


@pytest.mark.parametrize(
    "path",
    [
        "/proc/self/environ",
        "/proc/{own}/environ",
        "/proc/self/fd/0",
        "/proc/self/maps",
        "/proc/version",
        "/dev/stdin",
        "/dev/fd/3",
        "/dev/zero",
        "/sys/kernel/uevent_seqnum",
        "/proc/self/root/etc/passwd",
        "/proc",
        "file:///%70roc/self/environ",
    ],
)
async def test_the_systems_own_files_are_never_inputs_whatever_the_roots(
    sources: LocalSources, path: str
) -> None:
    path = path.format(own=os.getpid())
    with pytest.raises(SourceError, match="one of the system's own files") as caught:
        await used(sources, path, EVERYWHERE)
    assert caught.value.source == path


async def test_a_refusal_names_the_input_once(sources: LocalSources, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as named:
        await used(sources, "/dev/fd/0", EVERYWHERE)
    refused = "is one of the system's own files, which are never inputs"
    assert str(named.value) == f'"/dev/fd/0" {refused}'
    link = tmp_path / "clip.y4m"
    link.symlink_to("/sys/kernel/uevent_seqnum")
    with pytest.raises(SourceError) as led:
        await used(sources, link, EVERYWHERE)
    assert str(led.value) == f'"{link}" leads to "/sys/kernel/uevent_seqnum", which {refused}'


async def test_a_link_to_the_systems_own_files_is_not_resolved(sources: LocalSources, tmp_path: Path) -> None:
    path = tmp_path / "clip.y4m"
    path.symlink_to("/proc/self/environ")
    with pytest.raises(SourceError, match="one of the system's own files"):
        await sources.resolve(ref_of(path), EVERYWHERE)


@pytest.mark.parametrize("place", ["/proc/self/environ", "/etc/passwd"])
async def test_what_may_not_be_read_is_never_opened(
    sources: LocalSources, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = EVERYWHERE if place.startswith("/proc") else below(tmp_path)
    source = ResolvedSource(ref=ref_of(tmp_path / "clip.y4m"), real_path=place)
    opened: list[str] = []
    just_before_open(monkeypatch, Path(place), lambda: opened.append(place))
    with pytest.raises(SourceError):
        await sources.prepared(source, roots=roots).__aenter__()
    assert opened == []


async def test_a_folder_swapped_for_the_systems_own_is_refused_once_open(
    sources: LocalSources, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = two
    path = root / "sub/version"
    path.write_bytes(CONTENT)
    just_before_open(monkeypatch, path, lambda: swap_folder(root, Path("/proc")))
    monkeypatch.setattr(files, "_MOUNTS", root / "no such table")
    with pytest.raises(SourceError, match="one of the system's own files"):
        await used(sources, path, EVERYWHERE)


async def test_our_own_descriptors_are_never_inputs(sources: LocalSources, tmp_path: Path) -> None:
    own = tmp_path / "own.y4m"
    own.write_bytes(CONTENT)
    with own.open("rb") as file:
        for path in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            with pytest.raises(SourceError, match="one of the system's own files"):
                await used(sources, path, EVERYWHERE)


async def test_the_systems_own_files_are_known_by_their_mount_too(
    sources: LocalSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    device = path.stat().st_dev
    table = tmp_path.with_name("mounts")
    line = f"36 35 {os.major(device)}:{os.minor(device)} / /host/proc rw,noatime - {{}} proc rw\nshort line\n"
    monkeypatch.setattr(files, "_MOUNTS", table)
    table.write_text(line.format("ext4"))
    assert await used(sources, path, below(tmp_path)) == CONTENT
    table.write_text(line.format("proc"))
    with pytest.raises(SourceError, match="one of the system's own files"):
        await used(sources, path, below(tmp_path))


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no shared memory here")
async def test_clips_in_shared_memory_are_files_like_others(sources: LocalSources) -> None:
    path = Path(f"/dev/shm/vmafx-test-{os.getpid()}.y4m")
    path.write_bytes(CONTENT)
    try:
        assert await used(sources, path, below(path.parent)) == CONTENT
    finally:
        path.unlink()


async def test_awkward_names_reach_their_own_file_or_are_no_sources(
    sources: LocalSources, tmp_path: Path
) -> None:
    folder = tmp_path / "names"
    folder.mkdir()
    roots, reached = below(folder), 0
    for awkward in plant(folder, CONTENT):
        text = f"{folder}/{awkward.name}"
        try:
            ref = SourceRef.parse(text)
        except SourceError:
            continue
        assert await used(sources, text, roots) == CONTENT, ref
        reached += 1
    assert reached > 20


@pytest.mark.parametrize("name", ["-r", "--version", "ü" * 127 + "x", " ", "a%20b", "$(id)", "'\""])
async def test_names_of_up_to_255_bytes_are_taken_as_they_are(
    sources: LocalSources, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(CONTENT)
    assert await used(sources, f"{path}/", below(tmp_path)) == CONTENT


# ---------------------------------------------------------------- what changes


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A tenant's folder with a clip, and a secret outside of it."""
    root, secret = tmp_path / "root", tmp_path / "secret"
    for folder in (root / "sub", secret):
        folder.mkdir(parents=True)
        (folder / "clip.y4m").write_bytes(CONTENT if folder.parent == root else b"secret")
    return root, secret


def swap_folder(root: Path, secret: Path) -> None:
    (root / "sub").rename(root / "away")
    (root / "sub").symlink_to(secret)


def swap_file(root: Path, secret: Path) -> None:
    (root / "sub/clip.y4m").rename(root / "away.y4m")
    (root / "sub/clip.y4m").symlink_to(secret / "clip.y4m")


@pytest.mark.parametrize("swap", [swap_folder, swap_file])
async def test_what_is_swapped_for_a_link_after_resolving_is_refused(
    sources: LocalSources, two: tuple[Path, Path], swap: Callable[[Path, Path], None]
) -> None:
    with pytest.raises(SourceError):
        await used(sources, two[0] / "sub/clip.y4m", below(two[0]), before=lambda: swap(*two))


@pytest.mark.parametrize("swap", [swap_folder, swap_file])
async def test_what_is_swapped_for_a_link_between_the_look_and_the_opening_is_refused(
    sources: LocalSources,
    two: tuple[Path, Path],
    swap: Callable[[Path, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = two[0] / "sub/clip.y4m"
    just_before_open(monkeypatch, path, lambda: swap(*two))
    with pytest.raises(SourceError):
        await used(sources, path, below(two[0]))


async def test_a_file_swapped_for_a_link_to_another_of_the_tenants_is_refused_too(
    sources: LocalSources, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, path = two[0], two[0] / "sub/clip.y4m"
    other = root / "other.y4m"
    other.write_bytes(CONTENT)

    def relink() -> None:
        path.unlink()
        path.symlink_to(other)

    just_before_open(monkeypatch, path, relink)
    with pytest.raises(SourceError, match="cannot be opened"):
        await used(sources, path, below(root))


async def test_a_folder_swapped_back_after_the_opening_does_not_help(
    sources: LocalSources, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, path = two[0], two[0] / "sub/clip.y4m"

    def swap_back() -> None:
        (root / "sub").unlink()
        (root / "away").rename(root / "sub")

    just_before_open(monkeypatch, path, lambda: swap_folder(*two), swap_back)
    with pytest.raises(OutsideRootsError, match="secret"):
        await used(sources, path, below(root))
    assert path.read_bytes() == CONTENT


async def test_no_race_with_links_ever_gives_a_file_from_outside(
    sources: LocalSources, two: tuple[Path, Path]
) -> None:
    root, secret = two
    ended = threading.Event()

    def swap() -> None:
        inside, outside, link = root / "inside", root / "outside", root / "link"
        inside.mkdir()
        (inside / "clip.y4m").write_bytes(CONTENT)
        outside.symlink_to(secret)
        while not ended.is_set():
            for target in (secret, inside):
                link.symlink_to(target)
                link.rename(root / "race")

    swapping = threading.Thread(target=swap)
    swapping.start()
    given = refused = 0
    try:
        for _ in range(200):
            try:
                assert await used(sources, root / "race/clip.y4m", below(root)) == CONTENT
                given += 1
            except SourceError:
                refused += 1
    finally:
        ended.set()
        swapping.join()
    assert given + refused == 200


def grow_file(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"FRAME\n")


def write_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"X")
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (grow_file, "its size went from"),
        (lambda path: os.truncate(path, 10), "its size went from"),
        (write_in_place, "it was written to"),
        (lambda path: os.utime(path, ns=(1, 1)), "it was written to"),
    ],
)
async def test_a_file_that_changes_while_it_is_used_fails_and_that_is_the_inputs_fault(
    sources: LocalSources, tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    with pytest.raises(ClipError, match=f"changed while it was being scored: {words}") as caught:
        await used(sources, path, below(tmp_path), meanwhile=lambda: change(path))
    assert not caught.value.machine_fault


@pytest.mark.parametrize(
    "move",
    [Path.unlink, lambda path: path.rename(path.with_name("moved.y4m")), lambda path: path.chmod(0o600)],
)
async def test_what_becomes_of_the_name_does_not_matter_once_it_is_open(
    sources: LocalSources, tmp_path: Path, move: Callable[[Path], None]
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    assert await used(sources, path, below(tmp_path), meanwhile=lambda: move(path)) == CONTENT


async def test_the_same_file_may_be_both_clips(sources: LocalSources, tmp_path: Path) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    roots = below(tmp_path)
    source = await sources.resolve(ref_of(path), roots)
    async with sources.prepared(source, roots=roots) as one:
        async with sources.prepared(source, roots=roots) as two:
            assert isinstance(one, ClipDescriptor)
            assert isinstance(two, ClipDescriptor)
            assert one.descriptor != two.descriptor
            os.lseek(two.descriptor, 0, os.SEEK_END)
            assert os.read(one.descriptor, len(CONTENT)) == CONTENT
        assert content_of(one) == CONTENT


async def test_without_roots_the_clip_is_the_path_as_it_was_named(
    sources: LocalSources, tree: TenantTree
) -> None:
    ref = ref_of(tree.root / "link_outside.y4m")
    async with sources.prepared(ResolvedSource(ref=ref), roots=None) as clip:
        assert clip == ClipFile(path=ref.path, name=ref.shown)


# ---------------------------------------------------------------- faults of the machine


def fail_open(patch: pytest.MonkeyPatch, path: Path, number: int) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    just_before_open(patch, path, fail)


def just_before_open(
    patch: pytest.MonkeyPatch, path: Path, act: Callable[[], None], after: Callable[[], None] = lambda: None
) -> None:
    """Let something happen right before, and right after, a file is opened."""
    real_open = os.open
    acts = iter([act])

    def opened(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(name) != str(path):
            return real_open(name, flags, mode, dir_fd=dir_fd)
        next(acts, lambda: None)()
        descriptor = real_open(name, flags, mode, dir_fd=dir_fd)
        after()
        return descriptor

    patch.setattr(os, "open", opened)


@pytest.mark.parametrize(
    ("number", "machine"),
    [
        (errno.EIO, True),
        (errno.ESTALE, True),
        (errno.ENOSPC, True),
        (errno.EMFILE, True),
        (errno.ENFILE, True),
        (errno.ENOMEM, True),
        (errno.ENOTCONN, True),
        (errno.ETIMEDOUT, True),
        (errno.ENOENT, False),
        (errno.EPERM, False),
        (errno.ELOOP, False),
    ],
    ids=lambda value: errno.errorcode.get(value, "") if not isinstance(value, bool) else "",
)
async def test_want_and_broken_mounts_are_the_machines_fault_and_the_rest_is_the_inputs(
    sources: LocalSources, tmp_path: Path, number: int, *, machine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    fail_open(monkeypatch, path, number)
    with pytest.raises(SourceError, match=os.strerror(number)) as caught:
        await used(sources, path, below(tmp_path))
    assert caught.value.machine_fault is machine


async def test_a_root_on_a_broken_mount_does_not_put_the_clip_outside(
    sources: LocalSources, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = two
    link = root / "clip.y4m"
    link.symlink_to(two[1] / "clip.y4m")
    real_stat = os.stat

    def stale_stat(path: str, *, follow_symlinks: bool = True, dir_fd: int | None = None) -> os.stat_result:
        if str(path) == str(root):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real_stat(path, follow_symlinks=follow_symlinks, dir_fd=dir_fd)

    monkeypatch.setattr(os, "stat", stale_stat)
    with pytest.raises(SourceError, match="resolve a scoring root") as caught:
        await used(sources, link, below(root))
    assert caught.value.machine_fault
    assert not isinstance(caught.value, OutsideRootsError)


async def test_where_nobody_tells_where_an_open_file_lies_nothing_is_read(
    sources: LocalSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    real_readlink = os.readlink

    def readlink(name: str, *, dir_fd: int | None = None) -> str:
        if str(name).startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return real_readlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "readlink", readlink)
    with pytest.raises(SourceError, match="does not tell where an open file lies") as caught:
        await used(sources, path, below(tmp_path))
    monkeypatch.undo()
    assert caught.value.machine_fault


@pytest.mark.skipif(sys.platform == "darwin", reason="the call is stood in for")
async def test_on_macos_the_system_is_asked_for_the_path_of_the_descriptor(
    sources: LocalSources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    monkeypatch.setattr(fcntl, "F_GETPATH", 50, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _fd, _command, room: os.fsencode(path).ljust(len(room), b"\0"))
    assert await used(sources, path, below(tmp_path)) == CONTENT
    monkeypatch.setattr(fcntl, "fcntl", lambda _fd, _command, room: b"/elsewhere".ljust(len(room), b"\0"))
    with pytest.raises(OutsideRootsError, match="/elsewhere"):
        await used(sources, path, below(tmp_path))


# ---------------------------------------------------------------- mounts that do not answer


async def test_a_file_that_opens_after_its_caller_has_gone_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, gate = tmp_path / "clip.y4m", Gate()
    path.write_bytes(CONTENT)
    just_before_open(monkeypatch, path, lambda: None, gate.hold)
    sources = LocalSources(SystemClock(), limits=CallLimits(stop_wait_s=0.01))
    using = asyncio.create_task(used(sources, path, below(tmp_path)))
    await gate.wait()
    assert open_below(tmp_path.resolve()) == 1
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    gate.open()
    await threads_ended()
    assert open_below(tmp_path.resolve()) == 0


async def test_a_mount_that_does_not_answer_fails_in_time_by_the_machines_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, gate, clock = tmp_path / "clip.y4m", Gate(), VirtualClock()
    path.write_bytes(CONTENT)
    just_before_open(monkeypatch, path, gate.hold)
    sources = LocalSources(clock)
    using = asyncio.create_task(used(sources, path, below(tmp_path)))
    await gate.wait()
    await clock.advance(59)
    assert not using.done()
    await clock.advance(1)
    with pytest.raises(SourceError, match="did not answer within 60s") as caught:
        await using
    assert caught.value.machine_fault
    gate.open()
    await threads_ended()
    assert open_below(tmp_path.resolve()) == 0


async def test_an_error_of_the_scorer_gives_way_to_the_change_that_caused_it(
    sources: LocalSources, tmp_path: Path
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)

    def fail() -> None:
        grow_file(path)
        raise LookupError("partial frame")

    with pytest.raises(ClipError, match="changed") as caught:
        await used(sources, path, below(tmp_path), meanwhile=fail)
    assert isinstance(caught.value.__context__, LookupError)


async def test_a_context_that_is_thrown_away_closes_its_file(sources: LocalSources, tmp_path: Path) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    roots = below(tmp_path)
    source = await sources.resolve(ref_of(path), roots)
    context = sources.prepared(source, roots=roots)
    await context.__aenter__()
    assert open_below(tmp_path.resolve()) == 1
    assert isinstance(context, _AsyncGeneratorContextManager)
    await context.gen.aclose()
    assert open_below(tmp_path.resolve()) == 0


async def test_many_at_once_and_cancelled_at_any_step_leave_no_descriptor(
    sources: LocalSources, tmp_path: Path
) -> None:
    path = tmp_path / "clip.y4m"
    path.write_bytes(CONTENT)
    chance = random.Random(7)
    tasks = [asyncio.create_task(used(sources, path, below(tmp_path))) for _ in range(60)]
    for task in tasks:
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        if chance.random() < 0.7:
            task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) or end == CONTENT for end in ends)
