"""Rules that compare workers, over literal steps and worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.advice.conftest import signals_of
from tests.advice.test_findings_in_full import changes_of, judged, numbers
from tests.support.traces.literal import fields_of

from stepscope.advice.catalogue import rule_item
from stepscope.advice.judging.worker_comparison import (
    StepWorkers,
    WorkerSignals,
    worker_signals,
)
from stepscope.advice.rules.multi_device.unequal_workers import largest_excess_name
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.worker_processes import WorkerOps, worker_ops
from stepscope.derive.facts.processors import Processors, processor_signals
from stepscope.derive.facts.savings.what_if_changes import Levelled
from stepscope.derive.facts.step_shares import AccountSignals, NamedTime
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals

MS = 1_000_000_000
STAGES = SimpleNamespace(exposed_ps={"vm:0": {"send-receive": (1,)}}, count={})


def step(**ms: Any) -> StepWorkers:
    """A step of 10 ms; times in ms, and what else is known of its workers."""
    other = {name: ms.pop(name, None) for name in ("busiest", "last", "concurrency")}
    times = {
        f"{name}_ps": None if value is None else round(value * MS)
        for name, value in {
            "window": 10,
            "waiting": 0,
            "excess": 0,
            "skew": 0,
            "skew_doubt": 0,
            **ms,
        }.items()
    }
    fields: dict[str, Any] = times | other
    return StepWorkers(**fields)


def compared(*steps: StepWorkers, given: Any = None, **fields: Any) -> Signals:
    workers = WorkerSignals(
        **{
            "workers": ("b", "a"),
            "devices": 1,
            "steps": steps,
            "step_source": "marker",
            "step_confidence": 1.0,
            "slowest": None,
            "work_ms": {"a": 8.0, "b": 6.0},
            "absent": 0,
            **fields,
        }
    )
    return signals_of({worker_signals: workers, **(given or {})})


def facts_of(finding: Any) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in finding.facts}


# --- who has more work ---


def named(name: str | None, ms: float, owner: str = "host_compute") -> NamedTime:
    return NamedTime(owner, "inside", name, time_ps=round(ms * MS))


def account(shares: Any, names: Any, host: str, device: int | None = None) -> Any:
    return shares(host=host, device=device, names=names, steps=10)


@pytest.mark.parametrize(
    ("excess_ms", "name"), [(3.0, "Conv"), (3.01, None), (0.0, "Conv")]
)
def test_what_takes_half_of_the_excess_is_named(
    shares: Any, excess_ms: float, name: str | None
) -> None:
    """`Conv` takes 3 ms a step, and 1 and 2 on others, so 1.5 more than their median.

    Other names take 1.2 more; the loop, waits and what has no name do not count.
    """
    loop = NamedTime("host_compute", "inside", "loop", loop=True, time_ps=90 * MS)
    own = [named("Conv", 20), named("Save", 12, "output"), named("Conv", 10)]
    own += [loop, named("Wait", 80, "input"), named(None, 90)]
    found = AccountSignals(
        (
            account(shares, [named("Conv", 10)], "b"),
            account(shares, own, "a"),
            account(shares, [named("Conv", 20)], "c"),
            account(shares, [named("Conv", 90)], "d", 0),
        )
    )
    assert largest_excess_name(found, "a", excess_ms) == name
    assert largest_excess_name(found, "d", excess_ms) is None
    alone = AccountSignals((account(shares, own, "a"),))
    assert largest_excess_name(alone, "a", excess_ms) is None
    nothing = AccountSignals((account(shares, [], "a"), account(shares, own, "b")))
    assert largest_excess_name(nothing, "a", excess_ms) is None


@pytest.mark.parametrize(("excess_ms", "name"), [(6.0, "Conv"), (6.01, None)])
def test_what_others_do_not_run_is_all_excess(
    shares: Any, excess_ms: float, name: str | None
) -> None:
    own = account(shares, [named("Conv", 30)], "a")
    found = AccountSignals((own, account(shares, [named("Add", 9)], "b")))
    assert largest_excess_name(found, "a", excess_ms) == name


def accounts(shares: Any, more: str = "Conv", ms: float = 30) -> Any:
    """`a` has 2 ms more of `Conv` in each step than `b`."""
    return (
        account(shares, [named(more, ms)], "a"),
        account(shares, [named(more, 10)], "b"),
    )


def with_accounts(signals: Signals, known: Any, given: Any = None) -> Signals:
    comparison = {worker_signals: signals.of(worker_signals)}
    return signals_of(*known, {**comparison, **(given or {})})


SIX = [step(excess=2, busiest="a")] * 6 + [step(excess=2, busiest="b")] * 4


def test_every_number_of_a_worker_with_more_work(shares: Any) -> None:
    found = judged("multi.balance", with_accounts(compared(*SIX), accounts(shares)))
    assert numbers(found) == numbers(found) | {
        "status": "fail",
        "severity": "critical",
        "value": 20.0,
        "share_percent": 20.0,
        "ms_per_step": 2.0,
        "devices": ("a", "b"),
        "parts": (Part(name="a", detail="Conv", share_percent=20.0),),
    }
    assert facts_of(found)["busiest_in"] == 60.0
    assert found.causes[0].cause == "excess"
    little = accounts(shares, ms=19.9)
    found = judged("multi.balance", with_accounts(compared(*SIX), little))
    assert found.parts == (Part(name="a", share_percent=20.0),)
    found = judged("multi.balance", compared(*SIX))
    assert found.parts == (Part(name="a", share_percent=20.0),)


def test_work_of_another_worker_in_each_step_is_nobodys() -> None:
    five = [step(excess=2, busiest="a")] * 5 + [step(excess=2, busiest="b")] * 5
    found = judged("multi.balance", compared(*five))
    assert (found.status, found.severity, found.note) == ("pass", "info", "changing")
    assert (found.value, found.share_percent, found.ms_per_step) == (20.0, 20.0, 2.0)
    assert (found.steps_clean, found.devices) == (10, ("b", "a"))
    assert found.threshold == THRESHOLDS.balance_warn
    assert found.confidence == judged("multi.balance", compared(*SIX)).confidence
    assert facts_of(found)["busiest_in"] is None
    assert facts_of(found)["effect"] == 2000.0
    assert found.parts == ()
    assert found.inputs == ("pod_viewer",)
    same = judged("multi.balance", compared(*[step(excess=0, busiest="a")] * 10))
    assert (same.status, same.note) == ("pass", None)


@pytest.mark.parametrize(
    ("excess", "status"), [(1.0, "fail"), (0.99, "pass"), (None, "cannot_tell")]
)
def test_a_tenth_of_a_step_is_more_work(excess: float | None, status: str) -> None:
    known = step(excess=1.0, busiest="a")
    last = 1.0 if excess is None else 10 * excess - 9
    steps = [known] * 9 + [step(excess=None if excess is None else last, busiest="a")]
    assert judged("multi.balance", compared(*steps)).status == status
    found = signals_of(
        {worker_signals: compared(*steps).of(worker_signals)}, exchanged=STAGES
    )
    assert judged("multi.balance", found).status == "not_applicable"


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({}, (1 - 0.25 / 2, 0.75)),
        ({"work_ms": {"a": 1.0, "b": 9.0}}, (0.5, 0.0)),
        ({"work_ms": {"a": 0.0, "b": 6.0}}, None),
        ({"work_ms": {"a": None, "b": 6.0}}, None),
        ({"devices": 2}, None),
        ({"devices": 0}, None),
    ],
)
def test_the_busiest_worker_is_levelled(fields: Any, left: Any) -> None:
    expected = () if left is None else (Levelled(left),)
    found = changes_of("multi.balance", compared(*SIX, **fields))
    assert found == fields_of(expected)
    assert changes_of("multi.balance", compared(*[step(excess=1)] * 9)) == ()


# --- a worker without a core ---

FULL = Processors(4, (15.0, 25.0), 3.2, None, None)
OPS = WorkerOps({"a": {"Conv": 101.0}, "b": {"Conv": 100.0}})


def crowded(**given: Any) -> dict[Any, Any]:
    cores = Processors(
        **{**fields_of(FULL), **{key: given[key] for key in given if key != "runs"}}
    )
    runs = WorkerOps(given["runs"]) if "runs" in given else OPS
    return {processor_signals: {"a": cores}, worker_ops: runs}


@pytest.mark.parametrize(
    ("given", "waiting"),
    [
        ({}, 20.0),
        ({"waiting_percent": (15.0, 24.0)}, None),
        ({"machine": 3.19}, None),
        ({"runs": {"a": {"Conv": 102.0}, "b": {"Conv": 100.0}}}, None),
        ({"runs": {"a": {"Save": 100.0}, "b": {"Save": 100.0}}}, None),
        ({"runs": {"a": {"Conv": 100.0}}}, None),
    ],
)
def test_a_worker_that_waits_for_a_core_has_no_more_work(
    shares: Any, given: Any, waiting: float | None
) -> None:
    seen = with_accounts(compared(*SIX), accounts(shares), crowded(**given))
    found = judged("multi.balance", seen)
    assert found.status == "fail"
    expected = ("info", "cores") if waiting is not None else ("critical", None)
    assert (found.severity, found.note) == expected
    assert found.because == (("cores",) if waiting is not None else ())
    assert facts_of(found)["waiting_for_cores"] == waiting


def test_what_takes_no_half_of_the_excess_may_be_no_op(shares: Any) -> None:
    """20 ms more in 10 steps are 2 ms, and 9 ms are less than half of that."""
    ops = crowded(runs={"a": {"Save": 100.0}, "b": {"Save": 100.0}})
    few = accounts(shares, ms=15.9)
    found = judged("multi.balance", with_accounts(compared(*SIX), few, ops))
    assert found.note == "cores"
    without = judged("multi.balance", compared(*SIX, given=crowded()))
    assert without.note is None
    other = {processor_signals: {"b": FULL}, worker_ops: OPS}
    found = judged("multi.balance", with_accounts(compared(*SIX), few, other))
    assert found.note is None


@pytest.mark.parametrize(
    ("excess", "note"), [(1.0, "cores"), (0.99, None), (None, None)]
)
def test_a_late_worker_must_also_have_more_work(
    shares: Any, excess: float | None, note: str | None
) -> None:
    """Of 2 ms that others wait, 1 ms is half; the excess of others does not count."""
    steps = [step(waiting=2, last="a", excess=excess, busiest="a")] * 10
    seen = with_accounts(compared(*steps), accounts(shares), crowded())
    assert judged("allreduce.arrival", seen).note == note
    steps = [step(waiting=2, last="a", excess=2, busiest="b")] * 10
    seen = with_accounts(compared(*steps), accounts(shares), crowded())
    assert judged("allreduce.arrival", seen).note is None
    steps = [step(waiting=0.2, last="a", excess=2, busiest="a")] * 10
    seen = with_accounts(compared(*steps), accounts(shares), crowded())
    assert facts_of(judged("allreduce.arrival", seen))["waiting_for_cores"] is None


def test_if_workers_are_late_by_turns_all_must_wait_for_cores(shares: Any) -> None:
    turns = [step(waiting=2, last=name, excess=2, busiest=name) for name in "ab"] * 5
    alike = {"a": {"Conv": 100.0}, "b": {"Conv": 100.0}}
    less = Processors(4, (20.0, 21.0), 3.2, None, None)
    known = accounts(shares, ms=10)
    seen: dict[Any, Any] = {worker_ops: WorkerOps(alike)}
    both = seen | {processor_signals: {"a": FULL, "b": less}}
    found = judged("allreduce.arrival", with_accounts(compared(*turns), known, both))
    assert (found.note, found.parts) == ("cores", ())
    assert facts_of(found)["waiting_for_cores"] == 20.0
    assert facts_of(found)["last_in"] is None
    one = seen | {processor_signals: {"a": FULL}}
    found = judged("allreduce.arrival", with_accounts(compared(*turns), known, one))
    assert found.note is None


# --- arrival, turns and stagger ---


def test_the_last_worker_is_named_if_it_is_mostly_the_same() -> None:
    late = [step(waiting=1, last=last) for last in "aaaaaabbbb"]
    found = judged("allreduce.arrival", compared(*late))
    assert (found.status, found.severity) == ("fail", "warn")
    assert (found.value, found.ms_per_step) == (10.0, 1.0)
    assert found.devices == ("a", "b")
    assert found.parts == (Part(name="a", share_percent=10.0),)
    assert facts_of(found)["last_in"] == 60.0
    assert found.causes[0].cause == "waiting"
    turns = [step(waiting=1, last=last) for last in "aaaaabbbbb"]
    found = judged("allreduce.arrival", compared(*turns))
    assert (found.parts, found.devices) == ((), ("b", "a"))
    assert facts_of(found)["last_in"] is None
    nobody = judged("allreduce.arrival", compared(*[step(waiting=1)] * 10))
    assert (nobody.status, nobody.parts) == ("fail", ())
    unknown = [*late[:9], step(waiting=None, last="a")]
    assert judged("allreduce.arrival", compared(*unknown)).status == "cannot_tell"


@pytest.mark.parametrize(
    ("at_a_time", "fields", "status", "effect_ms"),
    [
        # Of four devices 2.4 at a time are 60 % of them: 4 of 10 ms are waiting.
        (2.4, {}, "fail", 4.0),
        (2.41, {}, "pass", 3.975),
        (1.0, {}, "fail", 7.5),
        (5.0, {}, "pass", 0.0),
        (1.0, {"devices": 2}, "fail", 5.0),
        (1.0, {"devices": 1}, "not_applicable", None),
        (1.0, {"work_ms": {"a": 9.0, "b": 6.0}}, "not_applicable", None),
        (1.0, {"work_ms": {"a": 8.99, "b": 6.0}}, "fail", 7.5),
        (None, {}, "cannot_tell", None),
    ],
)
def test_devices_that_take_turns_wait_for_each_other(
    at_a_time: float | None, fields: Any, status: str, effect_ms: float | None
) -> None:
    steps = [step(concurrency=1.0 if at_a_time is None else at_a_time)] * 9
    steps.append(step(concurrency=at_a_time))
    found = judged("multi.sequential", compared(*steps, **{"devices": 4, **fields}))
    assert found.status == status
    if effect_ms is not None:
        assert found.ms_per_step == pytest.approx(effect_ms)
        assert at_a_time is not None
        facts = facts_of(found)
        assert facts["at_a_time"] == round(at_a_time, 1)
        assert facts["devices_of_host"] == fields.get("devices", 4)
        assert (found.note, found.devices) == (None, ("b", "a"))


def test_stages_of_a_pipeline_take_turns_and_start_one_after_another() -> None:
    steps = [step(concurrency=1.0, skew=1.0)] * 10
    seen = compared(*steps, devices=4).of(worker_signals)
    staged = signals_of({worker_signals: seen}, exchanged=STAGES)
    assert judged("multi.sequential", staged).note == "pipeline"
    assert judged("multi.stagger", staged).status == "not_applicable"
    assert judged("multi.stagger", compared(*steps, devices=4)).status == "fail"


@pytest.mark.parametrize(
    ("skew", "doubt", "status"),
    [
        (0.3, 0.0, "fail"),
        (0.299, 0.0, "pass"),
        # A third of it may be an error of the clocks.
        (0.6, 0.2, "fail"),
        (0.6, 0.201, "cannot_tell"),
        # What clocks alone could make is as long as what would be a finding.
        (0.0, 0.3, "cannot_tell"),
        (0.1, 0.3, "cannot_tell"),
        (0.0, 0.2, "pass"),
        (None, 0.0, "cannot_tell"),
    ],
)
def test_starts_apart_count_beyond_the_error_of_clocks(
    skew: float | None, doubt: float, status: str
) -> None:
    steps = [step(skew=skew or 0.0, skew_doubt=doubt)] * 9
    steps.append(step(skew=skew, skew_doubt=doubt))
    found = judged("multi.stagger", compared(*steps))
    assert found.status == status
    if status == "cannot_tell":
        assert found.unavailable == rule_item("multi.stagger").reason("clocks")
    if status == "fail":
        assert found.ms_per_step == skew
        assert found.causes[0].cause == "skew"
    unlike = compared(*steps, work_ms={"a": 9.0, "b": 6.0})
    assert judged("multi.stagger", unlike).status == "not_applicable"
