"""A tenant's folder with links, pipes and look-alikes, made where a test needs it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests import clips


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantTree:
    """The folder of the tenant `acme`, and what lies around it and must stay out of reach.

    Attributes:
        top: Everything below here was made for the test.
        root: The tenant's only root; its real path.
    """

    top: Path
    root: Path

    @property
    def look_alike(self) -> Path:
        """A clip of a folder whose name only starts like the root's."""
        return self.top / "roots" / "acme-private" / "secret.y4m"

    @property
    def other(self) -> Path:
        """A clip of another tenant."""
        return self.top / "roots" / "other" / "secret.y4m"


def grow(top: Path, *, frames: int = 1) -> TenantTree:
    """Make the tree below `top`; clips have `frames` frames."""
    top = top.resolve()
    root = top / "roots" / "acme"
    tree = TenantTree(top=top, root=root)
    reference = clips.y4m(distorted=False, frames=frames)
    distorted = clips.y4m(distorted=True, frames=frames)
    for folder in (root, root / "sub"):
        folder.mkdir(parents=True)
        (folder / "ref.y4m").write_bytes(reference)
        (folder / "dist.y4m").write_bytes(distorted)
    for secret in (tree.look_alike, tree.other):
        secret.parent.mkdir(parents=True)
        secret.write_bytes(distorted)
    _link(root)
    (root / "folder.y4m").mkdir()
    os.mkfifo(root / "pipe.y4m")
    (root / "unreadable.y4m").write_bytes(distorted)
    (root / "unreadable.y4m").chmod(0)
    return tree


def _link(root: Path) -> None:
    targets = {
        "link_inside.y4m": "sub/dist.y4m",
        "link_outside.y4m": "../other/secret.y4m",
        "link_near.y4m": "../acme-private/secret.y4m",
        "link_absolute.y4m": "/etc/passwd",
        "link_of_link.y4m": "link_outside.y4m",
        "dir_inside": "sub",
        "dir_outside": "../other",
        "dir_up": "..",
        "loop.y4m": "loop.y4m",
        "dangling.y4m": "nothing-here.y4m",
    }
    for name, target in targets.items():
        (root / name).symlink_to(target)
    (root.parent / "by-another-name").symlink_to("acme")
