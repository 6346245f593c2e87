"""Numbers are shown as their families were declared: names, labels, limits, nothing else (ADR 0027)."""

from __future__ import annotations

import asyncio
import math
import threading
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from vmafx.adapters.telemetry import prometheus
from vmafx.adapters.telemetry.prometheus import BUILD_INFO, PrometheusTelemetry
from vmafx.adapters.telemetry.series import LABEL_BYTES_MAX, LABEL_VALUES_MAX
from vmafx.ports.metrics import Kind, MetricFamily, MetricsPage

TENANTS_MAX = 256

REQUESTS = MetricFamily(name="x_requests_total", kind=Kind.COUNTER, help='Says "why"\\\nin two lines.')
JOBS = MetricFamily(
    name="x_jobs_total", kind=Kind.COUNTER, help="Jobs.", labels=("tenant",), limits={"tenant": TENANTS_MAX}
)
REQUEUED = MetricFamily(
    name="x_requeued_total",
    kind=Kind.COUNTER,
    help="Requeued.",
    labels=("reason", "by"),
    closed={"reason": ("lost", "released"), "by": ("node", "controller")},
)
LIVE = MetricFamily(name="x_live", kind=Kind.GAUGE, help="Live.")
PENDING = MetricFamily(
    name="x_pending", kind=Kind.GAUGE, help="Pending.", labels=("tenant",), limits={"tenant": TENANTS_MAX}
)
AGE = MetricFamily(
    name="x_age_seconds",
    kind=Kind.GAUGE,
    help="Age.",
    labels=("tenant",),
    limits={"tenant": TENANTS_MAX},
    merged_by_max=True,
)
WAIT = MetricFamily(name="x_wait_seconds", kind=Kind.HISTOGRAM, help="Wait.", buckets=(0.5, 1.0, 30.0))
SCORE = MetricFamily(
    name="x_score",
    kind=Kind.HISTOGRAM,
    help="Score.",
    labels=("tenant", "model", "profile"),
    closed={"profile": ("none",)},
    limits={"tenant": TENANTS_MAX, "model": 2},
    buckets=(20.0, 90.0),
)
FAMILIES = (REQUESTS, JOBS, REQUEUED, LIVE, PENDING, AGE, WAIT, SCORE)
PROCESS = {
    "process_cpu_seconds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "python_gc_collections",
    "python_info",
}
"""Some of what a process shows anyway, as the parser names it."""


@pytest.fixture
def metrics() -> PrometheusTelemetry:
    return PrometheusTelemetry(FAMILIES, version="1.2.3")


def page(metrics: PrometheusTelemetry) -> MetricsPage:
    return asyncio.run(metrics.page())


def parsed(metrics: PrometheusTelemetry):
    text = page(metrics).content.decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(metrics: PrometheusTelemetry, family: str) -> dict[tuple[str, ...], float]:
    """Values by the values of the labels, these in the order of their names; for a counter or gauge."""
    found = parsed(metrics).get(family.removesuffix("_total"))
    if found is None:
        return {}
    assert {sample.name for sample in found.samples} == {family}
    return {tuple(v for _, v in sorted(s.labels.items())): s.value for s in found.samples}


def buckets(metrics: PrometheusTelemetry, family: str) -> dict[tuple[str, ...], dict[str, float]]:
    """Of each series of a histogram its buckets, `sum` and `count`."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for sample in parsed(metrics)[family].samples:
        labels = dict(sample.labels)
        name = labels.pop("le", sample.name.removeprefix(f"{family}_"))
        found.setdefault(tuple(v for _, v in sorted(labels.items())), {})[name] = sample.value
    return found


def used(metrics: PrometheusTelemetry) -> None:
    """Give every family a number."""
    metrics.count(REQUESTS.name)
    metrics.count(JOBS.name, {"tenant": "dev"})
    metrics.gauge(PENDING.name, 3, {"tenant": "dev"})
    metrics.gauge(AGE.name, 3.5, {"tenant": "dev"})
    metrics.observe(SCORE.name, 93.0, {"tenant": "dev", "model": "m", "profile": "none"})


def test_exactly_the_declared_families_are_shown_beside_those_of_the_process(metrics):
    used(metrics)
    shown = parsed(metrics)
    ours = {family.name.removesuffix("_total") for family in FAMILIES}
    assert shown.keys() >= ours | PROCESS | {BUILD_INFO}
    rest = shown.keys() - ours - {BUILD_INFO}
    assert all(name.startswith(("process_", "python_")) for name in rest)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_is_shown_as_it_was_declared(metrics, family):
    used(metrics)
    shown = parsed(metrics)[family.name.removesuffix("_total")]
    assert (shown.type, shown.documentation) == (family.kind.value, family.help)
    suffixes = {"_bucket", "_sum", "_count"} if family.kind is Kind.HISTOGRAM else {""}
    assert {sample.name for sample in shown.samples} == {family.name + suffix for suffix in suffixes}
    for sample in shown.samples:
        assert sample.labels.keys() - {"le"} == {*family.labels}


def test_no_name_is_doubled_and_nothing_tells_when_it_was_made(metrics):
    used(metrics)
    text = page(metrics).content.decode()
    assert "_total_total" not in text
    assert "_created" not in text


def test_the_type_of_the_page_is_prometheus_text(metrics):
    assert page(metrics).content_type == "text/plain; version=0.0.4; charset=utf-8"


def test_the_version_is_always_there_declared_or_not(metrics):
    assert samples(metrics, BUILD_INFO) == {("1.2.3",): 1}
    declared = MetricFamily(name=BUILD_INFO, kind=Kind.GAUGE, help="Ours.", labels=("version",))
    metrics = PrometheusTelemetry([declared], version="2")
    assert samples(metrics, BUILD_INFO) == {("2",): 1}
    assert parsed(metrics)[BUILD_INFO].documentation == "Ours."


# ---------------------------------------------------------------- from the start


def test_every_combination_of_closed_labels_is_there_from_the_start(metrics):
    assert samples(metrics, REQUESTS.name) == {(): 0}
    assert samples(metrics, LIVE.name) == {(): 0}
    combinations = product(*(REQUEUED.closed[label] for label in sorted(REQUEUED.labels)))
    assert samples(metrics, REQUEUED.name) == dict.fromkeys(combinations, 0)
    assert buckets(metrics, WAIT.name)[()] == dict.fromkeys(["0.5", "1.0", "30.0", "+Inf", "sum", "count"], 0)


def test_a_family_with_open_labels_is_absent_until_it_has_a_number(metrics):
    assert not parsed(metrics).keys() & {"x_jobs", "x_pending", "x_age_seconds", "x_score"}
    metrics.count(JOBS.name, {"tenant": "dev"}, by=0)
    assert samples(metrics, JOBS.name) == {("dev",): 0}


# ---------------------------------------------------------------- labels


def test_a_value_outside_a_closed_set_is_other(metrics):
    for reason in ("lost", "stolen", "", "none", "LOST"):
        metrics.count(REQUEUED.name, {"reason": reason, "by": "node"})
    shown = samples(metrics, REQUEUED.name)
    assert shown["node", "lost"] == 1
    assert shown["node", "other"] == 4
    assert sum(shown.values()) == 5


def test_an_empty_or_missing_value_is_none_and_a_label_too_many_is_left_out(metrics):
    metrics.count(JOBS.name, {"tenant": ""})
    metrics.count(JOBS.name, {})
    metrics.count(JOBS.name)
    metrics.count(JOBS.name, {"tenant": "none", "node": "n1"})
    metrics.observe(SCORE.name, 1, {"tenant": "dev", "model": "m", "profile": ""})
    assert samples(metrics, JOBS.name) == {("none",): 4}
    assert buckets(metrics, SCORE.name).keys() == {("m", "none", "dev")}


def test_the_257th_tenant_and_later_ones_are_counted_under_other(metrics):
    for number in range(TENANTS_MAX):
        metrics.count(JOBS.name, {"tenant": f"t{number}"})
    assert len(samples(metrics, JOBS.name)) == TENANTS_MAX
    assert ("other",) not in samples(metrics, JOBS.name)
    metrics.count(JOBS.name, {"tenant": "late"}, by=2)
    metrics.count(JOBS.name, {"tenant": "later"}, by=3)
    metrics.count(JOBS.name, {"tenant": "t0"})
    shown = samples(metrics, JOBS.name)
    assert len(shown) == TENANTS_MAX + 1
    assert (shown["other",], shown["t0",], shown["t255",]) == (5, 2, 1)


def test_none_and_other_take_up_no_room(metrics):
    for tenant in ("none", "", "other"):
        metrics.count(JOBS.name, {"tenant": tenant})
    for number in range(TENANTS_MAX):
        metrics.count(JOBS.name, {"tenant": f"t{number}"})
    shown = samples(metrics, JOBS.name)
    assert len(shown) == TENANTS_MAX + 2
    assert (shown["none",], shown["other",], shown["t255",]) == (2, 1, 1)


def test_tenants_are_bounded_per_process_and_not_per_family(metrics):
    for number in range(TENANTS_MAX):
        metrics.count(JOBS.name, {"tenant": f"t{number}"})
    metrics.gauge(PENDING.name, 7, {"tenant": "late"})
    metrics.gauge(PENDING.name, 8, {"tenant": "t9"})
    assert samples(metrics, PENDING.name) == {("other",): 7, ("t9",): 8}


def test_each_label_has_its_own_limit(metrics):
    for model in ("a", "b", "c", "d"):
        metrics.observe(SCORE.name, 1, {"tenant": f"of {model}", "model": model, "profile": "none"})
    assert buckets(metrics, SCORE.name).keys() == {
        ("a", "none", "of a"),
        ("b", "none", "of b"),
        ("other", "none", "of c"),
        ("other", "none", "of d"),
    }


def test_a_label_without_a_limit_has_one_all_the_same():
    family = MetricFamily(name="x_total", kind=Kind.COUNTER, help="X.", labels=("version",))
    metrics = PrometheusTelemetry([family], version="1")
    for number in range(LABEL_VALUES_MAX + 10):
        metrics.count("x_total", {"version": str(number)})
    assert len(samples(metrics, "x_total")) == LABEL_VALUES_MAX + 1


@given(tenant=st.text(st.characters(exclude_categories=()), max_size=300))
def test_any_text_is_a_value_that_can_be_read_back(tenant):
    metrics = PrometheusTelemetry([JOBS], version="1")
    metrics.count(JOBS.name, {"tenant": tenant})
    metrics.count(JOBS.name, {"tenant": tenant})
    ((shown,),) = samples(metrics, JOBS.name)
    assert len(shown.encode()) <= LABEL_BYTES_MAX
    assert samples(metrics, JOBS.name) == {(shown,): 2}
    if tenant and len(tenant.encode(errors="backslashreplace")) <= LABEL_BYTES_MAX:
        assert shown == tenant.encode(errors="backslashreplace").decode()


def test_long_values_with_the_same_ends_are_one():
    metrics = PrometheusTelemetry([JOBS], version="1")
    for middle in "ab":
        metrics.count(JOBS.name, {"tenant": "x" * 1000 + middle + "x" * 1000})
    assert list(samples(metrics, JOBS.name).values()) == [2]


# ---------------------------------------------------------------- numbers


def test_counts_add_up(metrics):
    metrics.count(REQUESTS.name)
    metrics.count(REQUESTS.name, by=2.5)
    assert samples(metrics, REQUESTS.name) == {(): 3.5}


def test_a_gauge_shows_what_it_was_set_to_last(metrics):
    metrics.gauge(LIVE.name, 5)
    metrics.gauge(LIVE.name, -2.5)
    assert samples(metrics, LIVE.name) == {(): -2.5}


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_a_gauge_may_be_endless(metrics, value):
    metrics.gauge(LIVE.name, value)
    assert samples(metrics, LIVE.name) == {(): value}


def test_buckets_hold_what_is_up_to_their_bound(metrics):
    for value in (0.5, 0.500001, 1, 29, 30, 31, 1e9):
        metrics.observe(WAIT.name, value)
    assert buckets(metrics, WAIT.name)[()] == {
        "0.5": 1, "1.0": 3, "30.0": 5, "+Inf": 7, "count": 7, "sum": pytest.approx(1e9 + 92.000001),
    }  # fmt: skip


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=30))
def test_a_histogram_agrees_with_counting_by_hand(values):
    metrics = PrometheusTelemetry([WAIT], version="1")
    for value in values:
        metrics.observe(WAIT.name, value)
    shown = buckets(metrics, WAIT.name)[()]
    for bound in WAIT.buckets:
        assert shown[repr(bound)] == sum(value <= bound for value in values)
    assert shown["+Inf"] == shown["count"] == len(values)
    assert shown["sum"] == pytest.approx(sum(values))


@pytest.mark.parametrize("by", [-1, math.nan, math.inf, -math.inf, None, "1", ()], ids=str)
def test_what_is_no_count_changes_nothing(metrics, by):
    before = page(metrics).content.partition(b"# HELP process")[0]
    metrics.count(REQUESTS.name, by=by)
    metrics.count(JOBS.name, {"tenant": "dev"}, by=by)
    assert page(metrics).content.partition(b"# HELP process")[0] == before


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "1", ()], ids=str)
def test_what_is_no_observation_changes_nothing(metrics, value):
    before = page(metrics).content.partition(b"# HELP process")[0]
    metrics.observe(WAIT.name, value)
    metrics.observe(SCORE.name, value, {"tenant": "dev"})
    assert page(metrics).content.partition(b"# HELP process")[0] == before


@pytest.mark.parametrize("name", ["", "x", "x_requests", "process_open_fds", REQUESTS.name + "\n"])
def test_a_family_that_was_not_declared_is_ignored(metrics, name):
    before = parsed(metrics).keys()
    metrics.count(name)
    metrics.gauge(name, 1)
    metrics.observe(name, 1)
    metrics.replace(name, [({}, 1)])
    assert parsed(metrics).keys() == before


def test_a_family_is_told_by_its_own_kind_of_call_alone(metrics):
    metrics.gauge(REQUESTS.name, 5)
    metrics.observe(REQUESTS.name, 5)
    metrics.replace(REQUESTS.name, [({}, 5)])
    metrics.count(LIVE.name)
    metrics.count(WAIT.name)
    assert samples(metrics, REQUESTS.name) == {(): 0}
    assert samples(metrics, LIVE.name) == {(): 0}
    assert buckets(metrics, WAIT.name)[()]["count"] == 0


@pytest.mark.parametrize("labels", [7, ["tenant"], {"tenant": []}, {"tenant": None}, {1: 2}], ids=str)
def test_labels_of_another_make_never_raise(metrics, labels):
    metrics.count(JOBS.name, labels)
    metrics.gauge(PENDING.name, 1, labels)
    metrics.observe(SCORE.name, 1, labels)
    assert parsed(metrics)


# ---------------------------------------------------------------- gauges that are replaced


def test_replacing_says_everything(metrics):
    metrics.gauge(PENDING.name, 9, {"tenant": "gone"})
    metrics.replace(PENDING.name, [({"tenant": "a"}, 1), ({"tenant": "b"}, 2)])
    assert samples(metrics, PENDING.name) == {("a",): 1, ("b",): 2}
    metrics.replace(PENDING.name, iter([({"tenant": "b"}, 3)]))
    assert samples(metrics, PENDING.name) == {("b",): 3}


@pytest.mark.parametrize("family", [PENDING, LIVE], ids=lambda family: family.name)
def test_replacing_by_nothing_makes_a_family_absent_until_it_is_back(metrics, family):
    metrics.replace(family.name, [({}, 5)])
    assert family.name in parsed(metrics)
    metrics.replace(family.name, [])
    assert family.name not in parsed(metrics)
    metrics.gauge(family.name, 4)
    assert list(samples(metrics, family.name).values()) == [4]


def test_merged_samples_add_up_or_the_largest_counts(metrics):
    late = [({"tenant": f"t{number}"}, float(number)) for number in range(TENANTS_MAX + 3)]
    metrics.replace(PENDING.name, late)
    metrics.replace(AGE.name, late)
    assert samples(metrics, PENDING.name)["other",] == 256 + 257 + 258
    assert samples(metrics, AGE.name)["other",] == 258
    assert len(samples(metrics, AGE.name)) == TENANTS_MAX + 1


# ---------------------------------------------------------------- declarations


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "x", "kind": Kind.COUNTER}, "end in _total"),
        ({"name": "x_total", "kind": Kind.GAUGE}, "end in _total"),
        ({"name": "x_total", "kind": Kind.HISTOGRAM, "buckets": (1.0,)}, "end in _total"),
        ({"name": "x", "kind": Kind.HISTOGRAM}, "have buckets"),
        ({"name": "x", "kind": Kind.GAUGE, "buckets": (1.0,)}, "have buckets"),
        ({"name": "x", "kind": Kind.HISTOGRAM, "buckets": (2.0, 1.0)}, "ascending"),
        ({"name": "x", "kind": Kind.HISTOGRAM, "buckets": (1.0, math.inf)}, "finite"),
        ({"name": "x", "kind": Kind.HISTOGRAM, "buckets": (1.0, math.nan)}, "finite"),
        ({"name": "x", "kind": Kind.HISTOGRAM, "buckets": (0.0, 1.0)}, "above 0"),
        ({"name": "a b", "kind": Kind.GAUGE}, "name"),
        ({"name": "x", "kind": Kind.GAUGE, "labels": ("a-b",)}, "name"),
        ({"name": "x", "kind": Kind.GAUGE, "labels": ("a", "a")}, "twice"),
        ({"name": "x", "kind": Kind.HISTOGRAM, "buckets": (1.0,), "labels": ("le",)}, "called le"),
        ({"name": "x", "kind": Kind.GAUGE, "closed": {"a": ("b",)}}, "has not"),
        ({"name": "x", "kind": Kind.GAUGE, "limits": {"a": 1}}, "has not"),
    ],
)
def test_a_family_that_contradicts_itself_is_refused_by_name(wrong, words):
    with pytest.raises(ValueError, match=words) as caught:
        PrometheusTelemetry([MetricFamily(help="X.", **wrong)], version="1")
    assert wrong["name"] in str(caught.value)


def test_a_family_that_is_declared_twice_is_refused():
    with pytest.raises(ValueError, match="x_live is declared twice"):
        PrometheusTelemetry([LIVE, LIVE], version="1")


@pytest.mark.parametrize("name", ["x_score_count", "x_score_bucket", "x_jobs"])
def test_a_family_that_is_called_like_a_line_of_another_is_refused(name):
    clash = MetricFamily(name=name, kind=Kind.GAUGE, help="X.")
    with pytest.raises(ValueError, match=f"{name} is declared twice"):
        PrometheusTelemetry([SCORE, JOBS, clash], version="1")


# ---------------------------------------------------------------- in a service


class Press:
    """Writes pages as prometheus-client does, when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.at_work = 0
        self.most_at_once = 0
        self.threads: set[str] = set()

    def write(self, registry: CollectorRegistry) -> bytes:
        self.at_work += 1
        self.most_at_once = max(self.most_at_once, self.at_work)
        self.threads.add(threading.current_thread().name)
        self.begun.set()
        assert self.go_on.wait(60)
        self.at_work -= 1
        return generate_latest(registry)


@pytest.fixture
def press(monkeypatch: pytest.MonkeyPatch) -> Press:
    press = Press()
    monkeypatch.setattr(prometheus, "generate_latest", press.write)
    return press


async def test_the_loop_goes_on_while_a_page_is_written(metrics, press):
    asked = asyncio.create_task(metrics.page())
    assert await asyncio.to_thread(press.begun.wait, 60)
    metrics.count(REQUESTS.name)  # which the same thread could not do
    press.go_on.set()
    assert b"x_requests_total 1.0" in (await asked).content


async def test_pages_that_are_asked_for_at_once_are_written_one_after_the_other(metrics, press):
    asked = [asyncio.create_task(metrics.page()) for _ in range(5)]
    assert await asyncio.to_thread(press.begun.wait, 60)
    press.go_on.set()
    pages = await asyncio.gather(*asked)
    assert (press.most_at_once, len(press.threads)) == (1, 1)
    assert all(b"x_requests_total 0.0" in page.content for page in pages)


async def test_a_page_that_nobody_waits_for_any_more_harms_none_that_follows(metrics, press):
    left = [asyncio.create_task(metrics.page()) for _ in range(5)]
    assert await asyncio.to_thread(press.begun.wait, 60)
    for task in left:
        task.cancel()
    await asyncio.wait(left)
    press.go_on.set()
    assert b"x_requests_total" in (await metrics.page()).content


def test_a_gauge_is_replaced_at_once(metrics):
    metrics.replace(PENDING.name, [({"tenant": "a"}, 1), ({"tenant": "b"}, 2)])
    meanwhile = []

    def later():
        yield {"tenant": "b"}, 3
        meanwhile.append(samples(metrics, PENDING.name))
        yield {"tenant": "c"}, 4

    metrics.replace(PENDING.name, later())
    assert meanwhile == [{("a",): 1, ("b",): 2}]
    assert samples(metrics, PENDING.name) == {("b",): 3, ("c",): 4}


def test_a_service_s_own_metrics_stay_as_they_are(metrics):
    own = CollectorRegistry()
    Counter("own", "Own.", registry=own)
    used(metrics)
    assert "own_total" not in page(metrics).content.decode()
    lines = generate_latest(own).decode()
    assert "own_created" in lines
    assert "x_" not in lines


def test_two_processes_worth_of_metrics_in_one_do_not_mix(metrics):
    other = PrometheusTelemetry(FAMILIES, version="9")
    other.count(REQUESTS.name)
    assert samples(metrics, REQUESTS.name) == {(): 0}
