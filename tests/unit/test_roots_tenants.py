"""Roots made for each tenant: no id leads out of its place in the template (ADR 0011)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.source_texts import anything
from vmafx.domain.errors import OutsideRootsError, SourceSyntaxError
from vmafx.domain.roots import RootTemplates, ScoringRoots

TEMPLATES = (
    "/data/{tenant}",
    "file:///files/{tenant}/clips",
    "https://host/{tenant}/",
    "s3:bucket/{tenant}",
    "s3://other/{tenant}/x",
    "rclone://r:{tenant}",
)


def test_tenant_is_filled_in_everywhere() -> None:
    templates = RootTemplates.parse(["/data/{tenant}/{tenant}-x", "s3:b/{tenant}", "/shared"])
    assert templates.for_tenant("acme").texts == ("/data/acme/acme-x", "s3:b/acme", "/shared")


def test_no_templates_give_no_roots() -> None:
    assert RootTemplates.parse([]).for_tenant("acme") == ScoringRoots()


@pytest.mark.parametrize(
    "tenant",
    ["a/b", "a\\b", "a:b", "a\0b", ".", "..", "", " ", " acme", "acme\n", "\udcc3\udca9", "\ud800", "a\x1bb"],
)
@pytest.mark.parametrize("template", TEMPLATES)
def test_id_that_could_lead_elsewhere_is_refused_by_name(template: str, tenant: str) -> None:
    with pytest.raises(OutsideRootsError) as caught:
        RootTemplates.parse([template]).for_tenant(tenant)
    message = str(caught.value)
    assert message.startswith('scoring roots: tenant "')
    assert message.isprintable()


@pytest.mark.parametrize("tenant", ["", "a/b", "..", "urn:acme"])
def test_id_that_is_not_filled_in_does_not_matter(tenant: str) -> None:
    assert RootTemplates.parse(["/shared"]).for_tenant(tenant).texts == ("/shared",)


@pytest.mark.parametrize(
    "template", ["", "data/{tenant}", "/data/../{tenant}", "{tenant}", "http://{tenant}:x/", ":{tenant}"]
)
def test_malformed_template_is_refused_before_any_tenant_calls(template: str) -> None:
    with pytest.raises(SourceSyntaxError, match=r"^scoring root "):
        RootTemplates.parse(["/data", template])


def test_more_templates_than_roots_may_be_are_refused() -> None:
    with pytest.raises(SourceSyntaxError, match=r"^scoring roots: 33 entries, at most 32$"):
        RootTemplates.parse(["/data/{tenant}"] * 33)


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(
    "tenant", ["%61cme", "acm%65", "a%2Fb", "%2e%2e", "a?b", "a#b", "a@b", "a b", "{tenant}"]
)
def test_id_is_never_decoded_into_another(template: str, tenant: str) -> None:
    templates = RootTemplates.parse([template])
    (root,) = templates.for_tenant(tenant).roots
    assert tenant in root.path.split("/")
    assert not templates.for_tenant("acme").admits(root)


@pytest.mark.parametrize(
    ("template", "tenant"),
    [
        ("{tenant}:/etc", "file"),
        ("{tenant}:clips", "-x"),
        ("{tenant}:clips", "a,b"),
        ("http://{tenant}.host/", "evil@x"),
        ("http://{tenant}.host/", "evil?"),
        ("http://{tenant}.host/", "evil#"),
        ("s3://{tenant}/x", "a@b"),
        ("s3:b/{tenant}/x", "\uff0e\uff0e"),
    ],
)
def test_id_that_does_not_fit_its_place_is_refused(template: str, tenant: str) -> None:
    templates = RootTemplates.parse([template])
    assert templates.for_tenant("acme").roots
    with pytest.raises(OutsideRootsError, match=r"^scoring roots: tenant "):
        templates.for_tenant(tenant)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TEMPLATES), anything, anything)
def test_no_tenant_gets_anothers_root(template: str, one: str, other: str) -> None:
    templates = RootTemplates.parse([template])
    try:
        ours, theirs = templates.for_tenant(one), templates.for_tenant(other)
    except OutsideRootsError:
        return
    for root in theirs.roots:
        assert ours.admits(root) is (one == other)
