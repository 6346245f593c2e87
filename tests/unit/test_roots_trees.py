"""No admitted source is ever read from outside its roots, whatever links there are (ADR 0011)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trees import TenantTree, grow
from tests.unit.model_files import File, Folder, Link, ModelFiles
from vmafx.domain.errors import OutsideRootsError, SourceError
from vmafx.domain.roots import RealPath, ScoringRoots

PHRASE = "outside the tenant's scoring roots"


def real_path(path: str, /) -> str:
    try:
        Path(path).stat()  # realpath alone accepts `file/..`, which the kernel does not
        return os.path.realpath(path, strict=True)
    except OSError as error:
        raise SourceError(path, error.strerror or "unknown") from error


def resolved(roots: ScoringRoots, text: str) -> str:
    path = roots.resolve(roots.admit(text), real_path).real_path
    assert path is not None
    return path


# ---------------------------------------------------------------- a tenant's folder


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> TenantTree:
    return grow(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def acme(tree: TenantTree) -> ScoringRoots:
    return ScoringRoots.parse([str(tree.root)])


@pytest.mark.parametrize(
    ("text", "real"),
    [
        ("{root}/ref.y4m", "ref.y4m"),
        ("{root}/sub/dist.y4m", "sub/dist.y4m"),
        ("{root}//sub/./dist.y4m", "sub/dist.y4m"),
        ("file://{root}/sub%2Fdist.y4m", "sub/dist.y4m"),
        ("{root}/link_inside.y4m", "sub/dist.y4m"),
        ("{root}/dir_inside/ref.y4m", "sub/ref.y4m"),
        # outside by name on the way, but the file itself is the tenant's
        ("{root}/dir_up/acme/ref.y4m", "ref.y4m"),
        # what kind of file it is, whoever opens it finds out
        ("{root}/folder.y4m", "folder.y4m"),
        ("{root}/pipe.y4m", "pipe.y4m"),
        ("{root}/unreadable.y4m", "unreadable.y4m"),
    ],
)
def test_what_lies_in_the_folder_is_scored_by_its_real_path(
    tree: TenantTree, acme: ScoringRoots, text: str, real: str
) -> None:
    assert resolved(acme, text.format(root=tree.root)) == str(tree.root / real)


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("link_outside.y4m", "{top}/roots/other/secret.y4m"),
        ("link_of_link.y4m", "{top}/roots/other/secret.y4m"),
        ("link_near.y4m", "{top}/roots/acme-private/secret.y4m"),
        ("link_absolute.y4m", os.path.realpath("/etc/passwd")),
        ("dir_outside/secret.y4m", "{top}/roots/other/secret.y4m"),
        ("dir_up/other/secret.y4m", "{top}/roots/other/secret.y4m"),
        ("dir_up", "{top}/roots"),
    ],
)
def test_link_out_of_the_folder_is_refused(
    tree: TenantTree, acme: ScoringRoots, name: str, real: str
) -> None:
    with pytest.raises(OutsideRootsError) as caught:
        resolved(acme, f"{tree.root}/{name}")
    shown = real.format(top=tree.top)
    assert str(caught.value) == f'scoring input "{tree.root}/{name}" resolves to "{shown}", {PHRASE}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{root}/../other/secret.y4m", f': ".." is not accepted, {PHRASE}'),
        ("{root}/sub/../ref.y4m", f': ".." is not accepted, {PHRASE}'),
        ("{top}/roots/acme-private/secret.y4m", f" is {PHRASE}"),
        ("{top}/roots/by-another-name/ref.y4m", f" is {PHRASE}"),
        ("ref.y4m", f": a relative path is not accepted; give an absolute path, {PHRASE}"),
        ("./ref.y4m", f": a relative path is not accepted; give an absolute path, {PHRASE}"),
    ],
)
def test_what_is_not_named_below_the_folder_is_refused_unseen(
    tree: TenantTree, acme: ScoringRoots, text: str, problem: str
) -> None:
    written = text.format(root=tree.root, top=tree.top)
    with pytest.raises(OutsideRootsError) as caught:
        acme.admit(written)
    assert str(caught.value) == f'scoring input "{written}"{problem}'


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("loop.y4m", "Too many levels of symbolic links"),
        ("dangling.y4m", "No such file or directory"),
        ("missing.y4m", "No such file or directory"),
        ("ref.y4m/below", "Not a directory"),
        ("n" * 256, "File name too long"),
    ],
)
def test_what_cannot_be_resolved_fails_with_its_own_reason(
    tree: TenantTree, acme: ScoringRoots, name: str, reason: str
) -> None:
    with pytest.raises(SourceError) as caught:
        resolved(acme, f"{tree.root}/{name}")
    assert not isinstance(caught.value, OutsideRootsError)
    assert str(caught.value) == f'scoring input "{tree.root}/{name}": resolve: {reason}'


def test_root_that_is_a_link_works(tree: TenantTree) -> None:
    link = tree.top / "roots" / "by-another-name"
    roots = ScoringRoots.parse([str(link)])
    assert resolved(roots, f"{link}/ref.y4m") == str(tree.root / "ref.y4m")
    with pytest.raises(OutsideRootsError, match="resolves to"):
        resolved(roots, f"{link}/link_near.y4m")


# ---------------------------------------------------------------- any tree

_NAMES = st.sampled_from(["a", "b", "ab"])
_STEPS = st.sampled_from(["a", "b", "ab", "..", "."])


@st.composite
def model_files(draw: st.DrawFn) -> ModelFiles:
    files = ModelFiles()
    for _ in range(draw(st.integers(3, 14))):
        folder = draw(st.sampled_from(files.folders()))
        name = draw(_NAMES)
        if name in folder.entries:
            continue
        match draw(st.sampled_from(["folder", "folder", "file", "link", "link"])):
            case "folder":
                folder.entries[name] = Folder(name=name, parent=folder)
            case "file":
                folder.entries[name] = File(name=name, parent=folder)
            case _:
                target = "/".join(draw(st.lists(_STEPS, min_size=1, max_size=4)))
                folder.entries[name] = Link(draw(st.sampled_from(["", "/"])) + target)
    return files


_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
_ROOTS = st.lists(_PATHS, min_size=1, max_size=2)


def is_inside(files: ModelFiles, roots: list[str], path: str) -> bool:
    """Whether what is at `path` is in a root, by the objects and not by their names."""
    node = files.find(path)
    for root in roots:
        try:
            top = files.find(root)
        except SourceError:
            continue
        if node is top or (isinstance(top, Folder) and node.is_in(top)):
            return True
    return False


@settings(max_examples=200, deadline=None)
@given(model_files(), _ROOTS, _PATHS)
def test_source_is_resolved_exactly_if_it_is_in_a_root(
    files: ModelFiles, texts: list[str], below: str
) -> None:
    roots = ScoringRoots.parse(texts)
    ref = roots.admit(texts[0] + below)
    try:
        real = roots.resolve(ref, files).real_path
    except OutsideRootsError:
        assert not is_inside(files, texts, ref.path)
    except SourceError:
        with pytest.raises(SourceError):
            files.find(ref.path)
    else:
        assert real is not None
        assert files.find(real) is files.find(ref.path)
        assert is_inside(files, texts, real)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(model_files(), _ROOTS, _PATHS)
def test_operating_system_follows_links_as_the_model_does(
    files: ModelFiles, texts: list[str], below: str
) -> None:
    with tempfile.TemporaryDirectory() as made:
        top = Path(made).resolve() / "1" / "2" / "3"
        top.mkdir(parents=True)
        files.settle(top)
        files.write()
        places = [f"{top}{text}" for text in texts]
        for path in (*places, places[0] + below):
            assert outcome(real_path, path) == outcome(files, path)
        try:
            real = resolved(ScoringRoots.parse(places), places[0] + below)
        except SourceError:
            return
        tops = [Path(place).stat() for place in places if Path(place).exists()]
        above = [folder.stat() for folder in (Path(real), *Path(real).parents)]
        assert any(os.path.samestat(one, other) for one in tops for other in above)


def outcome(follow: RealPath, path: str) -> str:
    try:
        return follow(path)
    except SourceError as error:
        return f"! {error}"
