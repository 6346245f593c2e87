"""Clips: opened, compared, counted, and the same afterwards (ADR 0006)."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import clips
from vmafx.adapters.vmaf_cli import frames
from vmafx.adapters.vmaf_cli.frames import OpenPair, check_unchanged, open_pair
from vmafx.adapters.vmaf_cli.unnamed import unnamed_file
from vmafx.domain.errors import ClipError
from vmafx.domain.scoring import ClipDescriptor, ClipFile, LengthMismatch

REFERENCE = clips.y4m(distorted=False)
DISTORTED = clips.y4m(distorted=True)


def descriptors() -> set[str]:
    return {entry.name for entry in Path("/dev/fd").iterdir()}


def clip(path: Path, data: bytes | None = None) -> ClipFile:
    if data is not None:
        path.write_bytes(data)
    return ClipFile(path=str(path), name=f"as written: {path.name}")


def opened(
    reference: ClipFile | ClipDescriptor,
    distorted: ClipFile | ClipDescriptor,
    rule: LengthMismatch = LengthMismatch.FAIL,
) -> OpenPair:
    return open_pair(reference, distorted, length_mismatch=rule)


def refused(
    reference: ClipFile, distorted: ClipFile, rule: LengthMismatch = LengthMismatch.FAIL
) -> ClipError:
    """The error of a pair that must be refused; checks that nothing stays open."""
    before = descriptors()
    with pytest.raises(ClipError) as caught:
        opened(reference, distorted, rule)
    assert descriptors() == before
    return caught.value


@pytest.fixture
def reference(tmp_path: Path) -> ClipFile:
    return clip(tmp_path / "ref.y4m", REFERENCE)


@pytest.fixture
def pair(tmp_path: Path, reference: ClipFile) -> Iterator[OpenPair]:
    pair = opened(reference, clip(tmp_path / "dis.y4m", DISTORTED))
    yield pair
    pair.close()


def test_whole_frames_are_counted_and_everything_is_closed(tmp_path: Path, reference: ClipFile) -> None:
    before = descriptors()
    pair = opened(reference, clip(tmp_path / "d", DISTORTED))
    assert (pair.frames, pair.reference.frames, pair.distorted.frames) == (6, 6, 6)
    pair.close()
    assert descriptors() == before


@pytest.mark.parametrize("kind", ["p10", "c444", "mono", "odd", "one", "params", "long header", "tiny"])
def test_every_format_is_counted(tmp_path: Path, kind: str) -> None:
    make: dict[str, Callable[[], tuple[bytes, int]]] = {
        "p10": lambda: (clips.y4m(distorted=False, size=(50, 48), depth=10, frames=3), 3),
        "c444": lambda: (clips.y4m(distorted=False, sub="444", frames=3), 3),
        "mono": lambda: (clips.y4m(distorted=False, sub="mono", frames=3), 3),
        "odd": lambda: (clips.y4m(distorted=False, size=(35, 27), frames=4), 4),
        "one": lambda: (clips.y4m(distorted=False, frames=1), 1),
        "params": lambda: (clips.y4m(distorted=False, frames=3, marker=b"FRAME Ip XY=z\n"), 3),
        "long header": lambda: (clips.y4m(distorted=False, frames=3, extra="X" + "y" * 120), 3),
        "tiny": lambda: (clips.y4m(distorted=False, size=(2, 2), frames=40), 40),
    }
    data, count = make[kind]()
    both = clip(tmp_path / "c", data)
    pair = opened(both, both)
    assert pair.frames == count
    pair.close()


@pytest.mark.parametrize("rate", ["F50:1", "F30000:1001"])
def test_frame_rates_are_no_reason_to_refuse(tmp_path: Path, reference: ClipFile, rate: str) -> None:
    pair = opened(reference, clip(tmp_path / "d", clips.y4m(distorted=True, rate=rate)))
    assert pair.frames == 6
    pair.close()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (clips.y4m(distorted=True, depth=10), ["8 bit", "10 bit"]),
        (clips.y4m(distorted=True, depth=12), ["8 bit", "12 bit"]),
        (clips.y4m(distorted=True, depth=16), ["8 bit", "16 bit"]),
        (clips.y4m(distorted=True, tag="C422"), ["4:2:0", "4:2:2"]),
        (clips.y4m(distorted=True, size=(48, 64)), ["64x48", "48x64"]),
        (clips.y4m(distorted=True, extra="XCOLORRANGE=FULL"), ["limited range", "full range"]),
        (clips.y4m(distorted=True, tag="C444alpha"), ["alpha"]),
        (clips.y4m(distorted=True, interlace="It"), ["interlaced"]),
        (clips.y4m(distorted=True, rate=""), ["no frame rate"]),
        (clips.y4m(distorted=True, magic="YUV4MPEG1"), ["not Y4M"]),
        (clips.y4m(distorted=True, end=""), ["there is no FRAME"]),
        (b"<!DOCTYPE html><title>Sign in</title>", ["not Y4M"]),
        (b"\0\0\0\x20ftypisom", ["not Y4M", "MP4"]),
        (b"", ["empty"]),
        (clips.y4m(distorted=True, frames=0), ["no frames"]),
        (b"YUV4MPEG2 W64 H48 F25:1 Ip C420", ["does not end"]),
        (b"YUV4MPEG2 W65536 H65536 F25:1 Ip C420\nFRAME\n", ["65536"]),
        (b"YUV4MPEG2 W99999999999999999999 H48 F25:1 Ip C420\nFRAME\n", ["is not supported"]),
        (clips.y4m(distorted=True, extra="X" + "y" * 400), ["does not end within 256 bytes"]),
    ],
)
def test_clip_that_cannot_be_compared_is_refused_by_name_and_cause(
    tmp_path: Path, reference: ClipFile, data: bytes, words: list[str]
) -> None:
    if words == ["there is no FRAME"]:
        data = data.replace(b"FRAME\n", b"\nXRAME\n", 1)
    error = refused(reference, clip(tmp_path / "bad", data))
    assert '"as written: bad"' in str(error)
    assert error.source == "as written: bad"
    for word in words:
        assert word in str(error)


def test_gigantic_pictures_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    both = clip(tmp_path / "huge", b"YUV4MPEG2 W16384 H16384 F25:1 Ip C444p16\nFRAME\n" + b"x" * 1000)
    assert "partial frame" in str(refused(both, both))


@pytest.mark.parametrize(("frames_there", "words"), [(4, ["has 6", "has 4"]), (8, ["has 6", "has 8"])])
def test_different_numbers_of_frames_are_refused_with_both(
    tmp_path: Path, reference: ClipFile, frames_there: int, words: list[str]
) -> None:
    error = refused(reference, clip(tmp_path / "d", clips.y4m(distorted=True, frames=frames_there)))
    assert all(word in str(error) for word in words)
    assert "as written: ref.y4m" in str(error)


@pytest.mark.parametrize(("frames_there", "common"), [(4, 4), (8, 6)])
def test_the_common_frames_are_compared_where_that_is_the_rule(
    tmp_path: Path, reference: ClipFile, frames_there: int, common: int
) -> None:
    short = clip(tmp_path / "d", clips.y4m(distorted=True, frames=frames_there))
    pair = opened(reference, short, LengthMismatch.SHORTEST)
    assert (pair.frames, pair.same_length) == (common, False)
    pair.close()


@pytest.mark.parametrize("rule", list(LengthMismatch))
@pytest.mark.parametrize(
    "cut",
    [
        1,
        1000,
        clips.raw(distorted=True, frames=1).__len__() - 1,
        clips.raw(distorted=True, frames=1).__len__() + 3,
    ],
)
def test_partial_frame_is_refused_whatever_the_rule(
    tmp_path: Path, reference: ClipFile, rule: LengthMismatch, cut: int
) -> None:
    assert "partial frame" in str(refused(reference, clip(tmp_path / "d", DISTORTED[:-cut]), rule))


def test_luma_under_a_420_tag_is_no_whole_number_of_frames(tmp_path: Path, reference: ClipFile) -> None:
    data = clips.y4m(distorted=True, sub="mono", tag="C420")
    assert "no whole number of frames" in str(refused(reference, clip(tmp_path / "d", data)))


@given(cut=st.integers(0, 4 * 30))
def test_count_is_exact_at_every_end(cut: int) -> None:
    data = clips.y4m(distorted=True, size=(4, 4), frames=4)
    data = data[: len(data) - cut]
    descriptor = unnamed_file("clip", data)
    try:
        source = ClipDescriptor(descriptor=descriptor, name="c", path="/c")
        if cut % 30:
            with pytest.raises(ClipError, match="partial frame"):
                opened(source, source)
        elif cut == 120:
            with pytest.raises(ClipError, match="no frames"):
                opened(source, source)
        else:
            pair = opened(source, source)
            assert pair.frames == 4 - cut // 30
            pair.close()
    finally:
        os.close(descriptor)


def test_relative_path_is_refused(reference: ClipFile) -> None:
    assert "not an absolute path" in str(refused(reference, ClipFile(path="d.y4m", name="d.y4m")))


def test_path_with_a_zero_byte_is_refused(reference: ClipFile) -> None:
    assert "not a path" in str(refused(reference, ClipFile(path="/a\0b", name="a\0b")))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "No such file"),
        ("loop", "symbolic links"),
        ("dangling", "No such file"),
        ("folder", "a directory, not a regular file"),
        ("pipe", "a pipe (write the clip to a file first), not a regular file"),
        ("socket", "a socket, not a regular file"),
        ("device", "a device, not a regular file"),
        ("file/below", "Not a directory"),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, reference: ClipFile, monkeypatch: pytest.MonkeyPatch, kind: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as there:
        there.bind("socket")
        error = refused(reference, clip(tmp_path / kind))
    assert reason in str(error)
    assert "as written" in str(error)


def test_link_to_a_clip_is_a_clip(tmp_path: Path, reference: ClipFile) -> None:
    (tmp_path / "link").symlink_to("ref.y4m")
    pair = opened(reference, clip(tmp_path / "link"))
    assert pair.frames == 6
    pair.close()


def test_pipe_that_took_the_place_of_a_file_is_refused(
    tmp_path: Path, reference: ClipFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = clip(tmp_path / "d", DISTORTED)
    real_open = os.open

    def swap(path: str, flags: int) -> int:
        if path == victim.path:
            Path(path).unlink()
            os.mkfifo(path)
        return real_open(path, flags)

    monkeypatch.setattr(frames.os, "open", swap)
    assert "a pipe" in str(refused(reference, victim))


def test_descriptor_is_read_without_moving_or_closing_it(reference: ClipFile) -> None:
    descriptor = unnamed_file("clip", DISTORTED)
    os.lseek(descriptor, 17, os.SEEK_SET)
    pair = opened(reference, ClipDescriptor(descriptor=descriptor, name="d", path="/real/d.y4m"))
    assert pair.frames == 6
    pair.close()
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 17
    os.close(descriptor)


def test_closed_descriptor_is_refused(reference: ClipFile) -> None:
    before = descriptors()
    with pytest.raises(ClipError, match="Bad file descriptor"):
        opened(reference, ClipDescriptor(descriptor=1_000_000, name="d", path="/real"))
    assert descriptors() == before


def test_descriptor_of_a_pipe_is_refused(reference: ClipFile) -> None:
    read, write = os.pipe()
    with pytest.raises(ClipError, match="a pipe"):
        opened(reference, ClipDescriptor(descriptor=read, name="d", path="/real"))
    os.close(read)
    os.close(write)


def test_short_reads_mean_the_same(
    tmp_path: Path, reference: ClipFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pread
    monkeypatch.setattr(frames.os, "pread", lambda fd, count, offset: real(fd, min(count, 3), offset))
    pair = opened(reference, clip(tmp_path / "d", clips.y4m(distorted=True, marker=b"FRAME Xa\n")))
    assert pair.frames == 6
    pair.close()


@pytest.mark.parametrize("readable", [0, 1, 2])
@pytest.mark.parametrize(
    ("number", "machine"),
    [(errno.EIO, True), (errno.ESTALE, True), (errno.ENOTCONN, True), (errno.EISDIR, False)],
)
def test_read_error_names_the_clip_and_tells_a_broken_disk_or_mount(
    tmp_path: Path,
    reference: ClipFile,
    monkeypatch: pytest.MonkeyPatch,
    readable: int,
    number: int,
    *,
    machine: bool,
) -> None:
    real, reads = os.pread, 0

    def broken(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads > readable:
            raise OSError(number, os.strerror(number))
        return real(descriptor, count, offset)

    monkeypatch.setattr(frames.os, "pread", broken)
    error = refused(reference, clip(tmp_path / "d", DISTORTED))
    assert f"cannot be read: {os.strerror(number)}" in str(error)
    assert error.machine_fault is machine


def test_permission_denied_is_named(
    tmp_path: Path, reference: ClipFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = clip(tmp_path / "d", DISTORTED)
    real = os.open

    def refuse(path: str, flags: int) -> int:
        if path == victim.path:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags)

    monkeypatch.setattr(frames.os, "open", refuse)
    assert "cannot be read: Permission denied" in str(refused(reference, victim))


@pytest.mark.parametrize(("number", "machine"), [(errno.ESTALE, True), (errno.EACCES, False)])
def test_clip_that_cannot_be_looked_at_afterwards_counts_as_changed(
    tmp_path: Path, reference: ClipFile, monkeypatch: pytest.MonkeyPatch, number: int, *, machine: bool
) -> None:
    pair = opened(reference, clip(tmp_path / "d", DISTORTED))

    def refuse(descriptor: int) -> os.stat_result:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(frames.os, "fstat", refuse)
    with pytest.raises(
        ClipError, match=f"changed while it was being scored: {os.strerror(number)}"
    ) as caught:
        frames.check_unchanged(pair)
    monkeypatch.undo()
    pair.close()
    assert caught.value.machine_fault is machine


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EDQUOT])
def test_want_of_the_machine_is_not_the_clips_fault(
    tmp_path: Path, reference: ClipFile, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    victim = clip(tmp_path / "d", DISTORTED)
    real = os.open

    def refuse(path: str, flags: int) -> int:
        if path == victim.path:
            raise OSError(number, os.strerror(number))
        return real(path, flags)

    monkeypatch.setattr(frames.os, "open", refuse)
    before = descriptors()
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        opened(reference, victim)
    assert caught.value.errno == number
    assert descriptors() == before


def test_counting_can_be_ended_between_two_frames(tmp_path: Path, reference: ClipFile) -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyError

    before = descriptors()
    with pytest.raises(KeyError):
        open_pair(reference, reference, length_mismatch=LengthMismatch.FAIL, check=check)
    assert calls == 4
    assert descriptors() == before


def test_counting_reads_little_of_each_picture(
    tmp_path: Path, reference: ClipFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, real = 0, os.pread

    def counted(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal read
        read += count
        return real(descriptor, count, offset)

    monkeypatch.setattr(frames.os, "pread", counted)
    opened(reference, reference).close()
    assert read < len(REFERENCE) / 10


def test_clips_that_stayed_as_they_were_pass(pair: OpenPair) -> None:
    check_unchanged(pair)


@pytest.mark.parametrize("which", ["ref.y4m", "dis.y4m"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: os.truncate(path, 100), "its size went from"),
        (lambda path: path.open("ab").write(b"x"), "its size went from"),
        (lambda path: os.utime(path, ns=(5, 5)), "it was written to"),
        (lambda path: path.unlink(), "No such file"),
        (
            lambda path: path.rename(path.with_suffix(".old")) and path.write_bytes(DISTORTED),
            "took its place",
        ),
    ],
    ids=["truncated", "grown", "touched", "removed", "replaced"],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_clip_that_changed_is_named_with_how(
    tmp_path: Path, pair: OpenPair, which: str, change: Callable[[Path], object], words: str
) -> None:
    change(tmp_path / which)
    with pytest.raises(ClipError, match="changed while it was being scored") as caught:
        check_unchanged(pair)
    assert f"as written: {which}" in str(caught.value)
    assert words in str(caught.value)


def _rewritten_with_its_old_time(path: Path) -> None:
    before = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _moved_away_and_back(path: Path) -> None:
    path.rename(path.with_suffix(".away"))
    path.with_suffix(".away").rename(path)


@pytest.mark.parametrize("change", [_rewritten_with_its_old_time, _moved_away_and_back])
def test_clip_that_was_another_for_a_while_is_refused(
    tmp_path: Path, pair: OpenPair, change: Callable[[Path], None]
) -> None:
    change(tmp_path / "dis.y4m")
    with pytest.raises(ClipError, match="changed while it was being scored"):
        check_unchanged(pair)


def test_new_name_of_an_open_clip_changes_nothing(tmp_path: Path, reference: ClipFile) -> None:
    path = tmp_path / "d"
    path.write_bytes(DISTORTED)
    descriptor = os.open(path, os.O_RDONLY)
    pair = opened(reference, ClipDescriptor(descriptor=descriptor, name="d", path=str(path)))
    path.rename(tmp_path / "e")
    check_unchanged(pair)
    pair.close()
    os.close(descriptor)
