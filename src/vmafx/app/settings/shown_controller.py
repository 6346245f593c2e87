"""What `vmafx-controller` shows of its settings, and what is odd about them (ADR 0019, ADR 0028)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vmafx.app.settings.auth import DISABLED
from vmafx.app.settings.controller import GRPC_ADDRESS, ROOTS, ControllerSettings
from vmafx.app.settings.shown import Row, part_rows
from vmafx.app.settings.store import default_database
from vmafx.app.settings.unserved import UNSERVED_BY_CONTROLLER, unserved
from vmafx.domain.roots import RootTemplates
from vmafx.domain.source import SourceKind, shown_source
from vmafx.domain.text import quoted

__all__ = ["auth_warnings", "controller_rows", "controller_warnings"]


def controller_rows(settings: ControllerSettings, environment: Mapping[str, str]) -> tuple[Row, ...]:
    """Return every setting of a controller.

    Args:
        settings: The settings.
        environment: What they were read from; it says where the database is when they do not.
    """
    store = settings.store
    if store.path is None:
        store = replace(store, path=default_database(environment))
    return tuple(part_rows(replace(settings, store=store), environment))


def controller_warnings(settings: ControllerSettings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is dangerous or without effect, one line each; no values of secrets.

    Args:
        settings: The settings.
        environment: What they were read from.
    """
    return (
        *_root_warnings(settings.scoring_roots or RootTemplates()),
        *settings.store.warnings(),
        *unserved(environment, UNSERVED_BY_CONTROLLER),
    )


def _root_warnings(roots: RootTemplates) -> Iterator[str]:
    if not roots.texts:
        yield f"{ROOTS} is unset: nothing lies below a scoring root, so every job is refused"
    for text in roots.texts:
        for word in roots.strange_words(text):
            shown = quoted(shown_source(text))
            yield f"{ROOTS}: {shown} has {quoted(word)}, which stands for itself; only {{tenant}} is replaced"
    if any(root.kind is SourceKind.LOCAL and root.path == "/" for root in roots.sample.roots):
        yield f"{ROOTS} has the root /: every file that a node can read may be scored"


def auth_warnings(settings: ControllerSettings) -> tuple[str, ...]:
    """Return what it means that no tokens are verified, one line each; nothing where they are.

    Args:
        settings: The settings.
    """
    if not settings.auth.disabled:
        return ()
    address = settings.grpc.address
    first = f"{DISABLED} is true: no token is looked at, every caller may do everything, as tenant dev"
    if not settings.reachable:
        return (first,)
    second = (
        f"{GRPC_ADDRESS}={address} can be reached from other machines, and who reaches it owns this "
        f"controller: give it 127.0.0.1:{address.port}, or a network of trusted machines alone"
    )
    return (first, second)
