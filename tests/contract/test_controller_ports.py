"""The ports around a controller keep to their form: small, documented, without behaviour (ADR 0001, 0013)."""

from __future__ import annotations

import ast
import inspect
from dataclasses import is_dataclass
from types import ModuleType

import pytest

from vmafx.adapters.fakes.controller import FakeController
from vmafx.domain.job import SessionId
from vmafx.domain.session_state import Session
from vmafx.ports import controller, feedback, jobs, listener, metrics, spool, telemetry, tokens

MODULES = [controller, feedback, jobs, listener, metrics, spool, telemetry, tokens]
PROTOCOLS = [
    value
    for module in MODULES
    for value in vars(module).values()
    if inspect.isclass(value)
    and value.__module__ == module.__name__
    and getattr(value, "_is_protocol", False)
]
METHODS_MAX = 6


def _methods(protocol: type) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    (tree,) = ast.parse(inspect.getsource(protocol)).body
    assert isinstance(tree, ast.ClassDef)
    return [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_every_port_is_there() -> None:
    assert sorted(protocol.__name__ for protocol in PROTOCOLS) == [
        "Controller",
        "Desk",
        "Exposition",
        "Feedback",
        "Jobs",
        "Listener",
        "Nodes",
        "Spool",
        "Telemetry",
        "TokenSource",
        "TokenVerifier",
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_port_is_small_and_has_no_behaviour(protocol: type) -> None:
    methods = _methods(protocol)
    assert 1 <= len(methods) <= METHODS_MAX
    for method in methods:
        documentation, body = method.body
        assert isinstance(documentation, ast.Expr)
        assert isinstance(body, ast.Expr)
        assert isinstance(body.value, ast.Constant)
        assert body.value.value is ..., f"{protocol.__name__}.{method.name} does something"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_values_of_a_port_are_frozen_and_slotted(module: ModuleType) -> None:
    for value in vars(module).values():
        if inspect.isclass(value) and value.__module__ == module.__name__ and is_dataclass(value):
            assert value.__dataclass_params__.frozen  # type: ignore[attr-defined]
            assert "__slots__" in vars(value)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_port_names_all_that_it_defines(module: ModuleType) -> None:
    defined = {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }
    assert defined <= set(module.__all__)


def test_fake_controller_meets_the_port_call_by_call() -> None:
    for method in (*_methods(controller.Controller), *_methods(controller.Desk)):
        port, fake = (
            inspect.signature(getattr(owner, method.name)) for owner in (controller.Desk, FakeController)
        )
        assert port == fake, method.name


def test_secrets_of_the_ports_are_never_shown() -> None:
    session_id = SessionId("node-1")
    shown = repr(
        (
            controller.Registration(node_id=session_id, session_token="hush-hush"),
            Session(generation=1, node_id=session_id, session_token="hush-hush"),
        )
    )
    assert "hush-hush" not in shown
    assert "node-1" in shown
