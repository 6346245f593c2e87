"""Who may make which call: no role includes another, and what is not listed is nobody's (ADR 0026)."""

from __future__ import annotations

import pytest

from tests.grpc_listening import listener_of
from vmafx.adapters.auth.disabled import EVERYONE, EveryoneVerifier
from vmafx.adapters.grpc.gate import shown_token
from vmafx.adapters.grpc.roles import CONTROLLER_ROLES
from vmafx.domain.bearer import TOKEN_BYTES_MAX
from vmafx.domain.callers import Principal, Role, RoleTable
from vmafx.domain.errors import RoleRequiredError
from vmafx.domain.job import TenantId

METHOD = "/vmafx.controller.v1.VmafxController/GetJob"
CONTRACT = {  # reader, writer, admin, node
    "GetJob": "rwa-",
    "StreamJobs": "rwa-",
    "SubmitJob": "-wa-",
    "CancelJob": "-wa-",
    "RegisterNode": "---n",
    "Heartbeat": "---n",
    "PullWork": "---n",
    "ReportResult": "---n",
}
LETTERS = dict(zip("rwan", Role, strict=True))


def holder_of(*roles: Role) -> Principal:
    return Principal(tenant=TenantId("acme"), roles=frozenset(roles))


def admits(table: RoleTable, method: str, *roles: Role) -> bool:
    try:
        table.admit(method, holder_of(*roles))
    except RoleRequiredError:
        return False
    return True


# ---------------------------------------------------------------- the controller's table


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", CONTRACT)
def test_the_controllers_table_is_that_of_the_contract(name: str, role: Role) -> None:
    path = f"/vmafx.controller.v1.VmafxController/{name}"
    expected = {LETTERS[letter] for letter in CONTRACT[name] if letter != "-"}
    assert admits(RoleTable(CONTROLLER_ROLES), path, role) is (role in expected)


def test_served_methods_and_entries_are_the_same() -> None:
    assert listener_of().methods == set(RoleTable(CONTROLLER_ROLES))


@pytest.mark.parametrize("role", Role)
def test_health_and_reflection_are_for_every_role(role: Role) -> None:
    table = RoleTable(CONTROLLER_ROLES)
    others = [path for path in table if "VmafxController" not in path]
    assert len(others) == 3
    assert all(admits(table, path, role) for path in others)


# ---------------------------------------------------------------- any table


def test_roles_add_up() -> None:
    table = RoleTable({METHOD: [Role.READER, Role.NODE]})
    assert admits(table, METHOD, Role.ADMIN, Role.NODE)
    assert not admits(table, METHOD, Role.ADMIN, Role.WRITER)
    assert not admits(table, METHOD)


def test_a_refusal_names_the_roles_in_a_fixed_order() -> None:
    table = RoleTable({METHOD: {Role.NODE, Role.READER, Role.ADMIN}})
    with pytest.raises(
        RoleRequiredError, match=r"^role required: vmafx:reader \| vmafx:admin \| vmafx:node$"
    ):
        table.admit(METHOD, holder_of())


@pytest.mark.parametrize(
    "method", [METHOD + "x", METHOD.lower(), METHOD[1:], METHOD + "/", "", "/", "/a/b", "*"]
)
def test_what_is_not_listed_is_nobodys(method: str) -> None:
    assert not admits(RoleTable({METHOD: list(Role)}), method, *Role)


@pytest.mark.parametrize(
    "method", ["", "GetJob", "/GetJob", "a/b", "/a/", "//b", "/a/b/c", "/a b/c", "/a/b\n"]
)
def test_a_malformed_path_is_refused(method: str) -> None:
    with pytest.raises(ValueError, match="is no path of a method"):
        RoleTable({method: [Role.READER]})


def test_a_method_without_roles_is_refused() -> None:
    with pytest.raises(ValueError, match="has no roles"):
        RoleTable({METHOD: []})


def test_the_table_is_a_copy() -> None:
    roles = [Role.READER]
    entries = {METHOD: roles}
    table = RoleTable(entries)
    roles.append(Role.NODE)
    entries["/a/b"] = [Role.NODE]
    assert not admits(table, METHOD, Role.NODE)
    assert list(table) == [METHOD]


# ---------------------------------------------------------------- who calls


@pytest.mark.parametrize("token", [None, "", "whatever"])
async def test_without_authentication_everybody_is_the_developer(token: str | None) -> None:
    assert await EveryoneVerifier().verify(token) == EVERYONE
    assert (EVERYONE.tenant, EVERYONE.subject) == ("dev", "dev")
    assert EVERYONE.roles == {Role.ADMIN, Role.NODE}


@pytest.mark.parametrize(
    ("metadata", "token"),
    [
        ((), None),
        ((("authorization", "Bearer abc"),), "abc"),
        ((("user-agent", "x"), ("authorization", "Bearer a.b-c_d~+/=")), "a.b-c_d~+/="),
        ((("Authorization", "Bearer abc"),), None),  # grpc hands keys over in lower case
        ((("authorization", "bearer abc"),), None),
        ((("authorization", "BEARER abc"),), None),
        ((("authorization", " Bearer abc"),), None),
        ((("authorization", "Bearer"),), None),
        ((("authorization", "Bearer "),), None),
        ((("authorization", "Bearer  abc"),), None),
        ((("authorization", "Bearer\tabc"),), None),
        ((("authorization", "Bearer abc def"),), None),
        ((("authorization", "Bearer abc\n"),), None),
        ((("authorization", "Bearer ab\u00e9"),), None),
        ((("authorization", b"Bearer abc"),), None),
        ((("authorization", "Bearer abc"), ("authorization", "Bearer abc")), None),
        ((("authorization", "Bearer " + "t" * TOKEN_BYTES_MAX),), "t" * TOKEN_BYTES_MAX),
        ((("authorization", "Bearer " + "t" * (TOKEN_BYTES_MAX + 1)),), None),
    ],
)
def test_a_shown_token_is_exactly_one_behind_the_word_bearer(metadata, token: str | None) -> None:
    assert shown_token(metadata) == token
