"""A file system in memory, to check resolving against: directories are objects, so inside means inside."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from vmafx.domain.errors import SourceError

LINKS_MAX = 40


@dataclass(eq=False)
class Folder:
    """A directory; `parent` is itself at the top."""

    name: str = ""
    parent: Folder | None = None
    entries: dict[str, Node] = field(default_factory=dict)

    def is_in(self, folder: Folder) -> bool:
        """Whether this is `folder` or somewhere in it."""
        return self is folder or (self.parent is not None and self.parent.is_in(folder))


@dataclass(eq=False)
class File:
    name: str
    parent: Folder

    def is_in(self, folder: Folder) -> bool:
        """Whether the file is somewhere in `folder`."""
        return self.parent.is_in(folder)


@dataclass(eq=False)
class Link:
    target: str


Node: TypeAlias = Folder | File | Link


class ModelFiles:
    """Follows links as the operating system does."""

    def __init__(self) -> None:
        self.top = Folder()
        self._start = self.top

    def settle(self, place: Path) -> None:
        """Move the tree to `place`, as it will be on disk; paths are whole from now on."""
        above = self._start = Folder()
        for name in place.parts[1:-1]:
            below = Folder(name=name, parent=above)
            above.entries[name] = below
            above = below
        self.top.name, self.top.parent = place.name, above
        above.entries[place.name] = self.top

    def __call__(self, path: str, /) -> str:
        node = self.find(path)
        names: list[str] = []
        while node.parent is not None:
            names.append(node.name)
            node = node.parent
        return "/" + "/".join(reversed(names))

    def find(self, path: str) -> Folder | File:
        """Return what is at `path` once every link is followed."""
        todo = list(reversed(path.split("/")))
        here: Folder | File = self._start
        links = 0
        while todo:
            name = todo.pop()
            if not isinstance(here, Folder):
                raise SourceError(path, "Not a directory")
            if name in {"", "."}:
                continue
            if name == "..":
                here = here.parent or here
                continue
            node = here.entries.get(name)
            if node is None:
                raise SourceError(path, "No such file or directory")
            if isinstance(node, Link):
                links += 1
                if links > LINKS_MAX:
                    raise SourceError(path, "Too many levels of symbolic links")
                here = self.top if node.target.startswith("/") else here
                todo.extend(reversed(node.target.split("/")))
            else:
                here = node
        return here

    def folders(self) -> list[Folder]:
        """Every directory, the top first."""
        found = [self.top]
        for folder in found:
            found.extend(node for node in folder.entries.values() if isinstance(node, Folder))
        return found

    def write(self) -> None:
        """Make the same tree on disk, where it settled; absolute links lead below its top."""
        for folder in self.folders():
            place = Path(_path(folder))
            place.mkdir(exist_ok=True)
            for name, node in folder.entries.items():
                if isinstance(node, File):
                    (place / name).write_bytes(b"")
                elif isinstance(node, Link):
                    start = _path(self.top) if node.target.startswith("/") else ""
                    (place / name).symlink_to(start + node.target)


def _path(folder: Folder) -> str:
    return f"{_path(folder.parent)}/{folder.name}" if folder.parent else ""
