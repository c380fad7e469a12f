"""Rules about launches and copies over literal signals: whole findings, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict

from stepscope.advice.rules.copies import copy_exposed
from stepscope.advice.rules.launches import device_fill, op_launches
from stepscope.derive.facts.devices.device_copies import (
    CopyGroup,
    DeviceCopies,
    copy_signals,
)
from stepscope.derive.facts.devices.device_fill import (
    DeviceFill,
    Unfilled,
    fill_signals,
)
from stepscope.derive.facts.devices.small_work import (
    SmallOps,
    WorkGroup,
    small_kernels,
    small_ops,
)
from stepscope.derive.facts.evidence import Evidence
from stepscope.derive.facts.hosts.eager_ops import EagerOps, EagerSignals, eager_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import (
    CopiesInParallel,
    Faster,
    Joined,
)
from stepscope.derive.verdicts.recorded_devices import DeviceSignals
from stepscope.thresholds import THRESHOLDS

MS, US = 1_000_000_000, 1_000_000
HOST_ONLY = DeviceSignals(recorded="host_only")


def facts_of(finding: Any) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in finding.facts}


# ----------------------------------------------------------- kernels that fill little


def fill_of(**fields: Any) -> DeviceFill:
    """Of 100 ms of kernels half have few blocks, and leave 40 ms' worth empty."""
    return DeviceFill(
        **{
            "cores": 100,
            "kernel_ps": 100 * MS,
            "unshaped_ps": 10 * MS,
            "unfilled_ps": 50 * MS,
            "idle_ps": 40 * MS,
            "steps": 10,
            "largest": (
                Unfilled("op", 10, 30 * MS, 27 * MS, 10.04, 80.16),
                Unfilled("other", 50, 20 * MS, 10 * MS, 2.0),
            ),
            "classes": ((0.9, (1, 2)), (0.5, (7,))),
            **fields,
        }
    )


def test_everything_about_a_device_that_is_half_full(
    signals_of: Any, shares: Any
) -> None:
    one = shares(copy_out=6.0)
    signals = signals_of(one, {fill_signals: {"vm:0": fill_of()}, record_grade: 0.9})
    finding = device_fill.judge_kernel_fill(signals)
    # Four of 10 ms are kernels; of half of them 80 % are empty.
    assert (finding.status, finding.severity, finding.note) == ("fail", "warn", None)
    assert finding.value == pytest.approx(20.0)
    assert finding.ms_per_step == pytest.approx(2.0)
    assert finding.saving_ms.high == pytest.approx(1.6)
    assert finding.saving_ms.low == pytest.approx(0.8)
    assert (finding.steps_clean, finding.confidence) == (12, 0.9)
    assert finding.threshold == THRESHOLDS.fill_warn
    assert finding.devices == ("vm:0",)
    assert [(part.name, part.detail, part.share_percent) for part in finding.parts] == [
        ("op", "10 blocks", pytest.approx(12.0)),
        ("other", "50 blocks", pytest.approx(8.0)),
    ]
    assert facts_of(finding) == {
        "cores": 100,
        "last_round": None,
        "last_round_idle": None,
        "for_one_each": 10.0,
        "for_three_rounds": 80.2,
        "without_grid": pytest.approx(10.0),
    }
    assert finding.inputs == ("kernels", "account")
    # The multiprocessors may do all of what they do not, or half of it.
    first, second = device_fill.kernel_fill_changes(signals)
    assert isinstance(first, Faster)
    assert asdict(first) == asdict(Faster((1, 2), pytest.approx((0.55, 0.1))))
    assert asdict(second) == asdict(Faster((7,), (0.75, 0.5)))
    assert device_fill.judge_kernel_fill.changes(signals_of(one)) == ()
    nobody = signals_of(one, {fill_signals: {"vm:1": fill_of()}})
    assert device_fill.kernel_fill_changes(nobody) == ()


def test_without_steps_nothing_is_saved_in_each(signals_of: Any, shares: Any) -> None:
    one = shares(fields={"step_source": None, "step_confidence": 0.0})
    signals = signals_of(one, {fill_signals: {"vm:0": fill_of()}})
    finding = device_fill.judge_kernel_fill(signals)
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert (finding.saving_ms, finding.ms_per_step, finding.steps_clean) == (None,) * 3
    assert finding.confidence == 0.5


@pytest.mark.parametrize(
    ("steps", "severity"), [(1, "warn"), (2, "warn"), (3, "critical")]
)
def test_few_steps_warn_at_most(
    signals_of: Any, shares: Any, steps: int, severity: str
) -> None:
    signals = signals_of(shares(steps=steps), {fill_signals: {"vm:0": fill_of()}})
    finding = device_fill.judge_kernel_fill(signals)
    assert (finding.status, finding.severity) == ("fail", severity)
    assert finding.value == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("step_ms", "status"), [(1.0, "fail"), (0.999, "pass"), (2.0, "fail")]
)
def test_a_tenth_of_a_millisecond_matters(
    signals_of: Any, shares: Any, step_ms: float, status: str
) -> None:
    fill = fill_of(unfilled_ps=10 * MS, idle_ps=9 * MS)
    one = shares(step_ms=step_ms)
    signals = signals_of(one, {fill_signals: {"vm:0": fill}})
    finding = device_fill.judge_kernel_fill(signals)
    assert finding.status == status
    assert (finding.saving_ms is None) is (status == "pass")


@pytest.mark.parametrize(
    ("fields", "note", "named"),
    [
        ({"last_round_ps": 10 * MS}, "rounds", ["late"]),
        ({"last_round_ps": 9 * MS}, None, ["op", "other"]),
        ({"last_round_ps": None}, None, ["op", "other"]),
        (
            {"last_round_ps": 10 * MS, "unfilled_ps": 10 * MS},
            None,
            ["op", "other"],
        ),
    ],
)
def test_last_rounds_are_told_where_few_blocks_are_not_the_matter(
    signals_of: Any,
    shares: Any,
    fields: dict[str, Any],
    note: str | None,
    named: list[str],
) -> None:
    base = {
        "unfilled_ps": 9 * MS,
        "last_round_idle_ps": 4 * MS,
        "in_rounds": (Unfilled("late", 300, 10 * MS, 4 * MS),),
    }
    fill = fill_of(**(base | fields))
    signals = signals_of(shares(), {fill_signals: {"vm:0": fill}})
    finding = device_fill.judge_kernel_fill(signals)
    assert (finding.note, [part.name for part in finding.parts]) == (note, named)
    facts = facts_of(finding)
    last = fields["last_round_ps"]
    assert facts["last_round"] == (None if last is None else pytest.approx(last / MS))
    idle = None if last is None else pytest.approx(4.0)
    assert facts["last_round_idle"] == idle


@pytest.mark.parametrize(("unshaped", "status"), [(50, "cannot_tell"), (49, "fail")])
def test_most_kernels_need_a_grid(
    signals_of: Any, shares: Any, unshaped: int, status: str
) -> None:
    fill = fill_of(unshaped_ps=unshaped * MS)
    signals = signals_of(shares(), {fill_signals: {"vm:0": fill}})
    assert device_fill.judge_kernel_fill(signals).status == status
    signals = signals_of(shares(), {fill_signals: {}})
    assert device_fill.judge_kernel_fill(signals).status == "cannot_tell"


# ----------------------------------------------------------------- ops one by one


def eager_of(eager_percent: int | None, per_step: float = 30.0) -> EagerSignals:
    ops = EagerOps(
        eager_ps=eager_percent or 7,
        op_ps=None if eager_percent is None else 100,
        dispatch_ps=(MS,) * 12,
        per_step=per_step,
        names=(("Mul", 60.0), ("Add", 30.0)),
    )
    return EagerSignals({"vm": ops}, torch=False)


@pytest.mark.parametrize(("percent", "part"), [(50, 0.5), (None, 1.0), (100, 1.0)])
def test_eager_ops_have_their_part_of_the_time_of_ops(
    signals_of: Any, shares: Any, percent: int | None, part: float
) -> None:
    given = {eager_signals: eager_of(percent)}
    signals = signals_of(shares(device=None), given, device=HOST_ONLY)
    finding = op_launches.judge_eager_ops(signals)
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert [(each.name, each.share_percent) for each in finding.parts] == [
        ("Mul", pytest.approx(60 * part)),
        ("Add", pytest.approx(30 * part)),
    ]
    assert facts_of(finding) == {"per_step": 30.0, "eager": percent}
    assert finding.explained_by == ()
    assert (finding.value, finding.ms_per_step) == (pytest.approx(10.0), 1.0)
    assert (finding.steps_hit, finding.steps_clean) == (12, 12)
    assert (finding.saving_ms.low, finding.saving_ms.open_above) == (0.0, True)


def small_of(dispatch_ms: float, own_ms: float = 0.5) -> SmallOps:
    return SmallOps(
        dispatch_ps=(round(dispatch_ms * MS),) * 12,
        own_ps=(round(own_ms * MS),) * 12,
        per_step=80.0,
        mean_ps=6 * US,
        names=(("Mul", 60.0), ("Add", 20.0)),
    )


@pytest.mark.parametrize(
    ("dispatch", "eager", "explained", "saved"),
    [
        (1.0, eager_of(50), ("launch.eager",), False),
        (1.0, eager_of(9), (), True),
        (1.0, eager_of(None, 19.0), (), True),
        (0.1, eager_of(50), (), False),
        (0.1, eager_of(9), (), False),
    ],
)
def test_tiny_ops_that_run_one_by_one_are_the_matter_of_that_finding(
    signals_of: Any,
    shares: Any,
    *,
    dispatch: float,
    eager: EagerSignals,
    explained: tuple[str, ...],
    saved: bool,
) -> None:
    given = {small_ops: {"vm": small_of(dispatch)}, eager_signals: eager}
    signals = signals_of(shares(device=None), given, device=HOST_ONLY)
    finding = op_launches.judge_small_work(signals)
    fails = dispatch == 1.0
    assert finding.status == ("fail" if fails else "pass")
    assert finding.explained_by == explained
    percent = 15.0 if fails else 1.0
    assert finding.value == pytest.approx(percent)
    assert [(each.name, each.share_percent) for each in finding.parts] == [
        ("Mul", pytest.approx(percent * 0.75)),
        ("Add", pytest.approx(percent * 0.25)),
    ]
    assert facts_of(finding) == {"ops": 80.0, "recorded_ops": None, "mean_op": 6.0}
    if saved:
        # At most all ways and ops.
        assert finding.saving_ms.high == pytest.approx(1.5)
    else:
        assert finding.saving_ms is None


def group(name: str, **fields: Any) -> WorkGroup:
    return WorkGroup(
        **{
            "name": name,
            "short_name": name.split("<", maxsplit=1)[0],
            "has_op": False,
            "per_step": 50.0,
            "mean_ps": 19.0 * US,
            "percent": 12.0,
            "count_percent": 20.0,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("groups", "launch", "status", "threshold"),
    [
        # Launches take 10 µs: kernels below 20 µs are brief, if 50 run in a step.
        ([group("k")], 1.0, "fail", "small_share"),
        ([group("k", mean_ps=20.0 * US)], 1.0, "pass", "small_info"),
        ([group("k", per_step=49.9)], 1.0, "pass", "small_info"),
        ([group("k", percent=10.0)], 1.0, "fail", "small_share"),
        ([group("k", percent=9.9)], 1.0, "pass", "small_info"),
        ([group("k", percent=1.0, count_percent=30.0)], 1.0, "fail", "small_share"),
        ([group("k", percent=1.0, count_percent=29.0)], 1.0, "pass", "small_info"),
        # Where the device does not wait, a fifth of its time is told.
        ([group("k", percent=19.9)], 0.0, "pass", "small_info"),
        ([group("k", percent=20.0)], 0.0, "fail", "small_info"),
        ([group("k"), group("l", percent=8.0)], 0.0, "fail", "small_info"),
    ],
)
def test_brief_kernels_matter_by_their_time_or_number(
    signals_of: Any,
    shares: Any,
    *,
    groups: list[WorkGroup],
    launch: float,
    status: str,
    threshold: str,
) -> None:
    given = {small_kernels: {"vm:0": tuple(groups)}}
    signals = signals_of(shares(launch=launch), given)
    finding = op_launches.judge_small_work(signals)
    assert finding.status == status
    assert finding.threshold == getattr(THRESHOLDS, threshold)
    starved = threshold == "small_share"
    assert finding.explained_by == (("launch.delay",) if starved else ())
    hidden = status == "fail" and not starved
    assert finding.note == ("hidden" if hidden else None)
    assert facts_of(finding)["brief_kernel"] == 20.0


@pytest.mark.parametrize(
    ("latency", "samples", "brief"),
    [(10, 200, 20.0), (30, 200, 40.0), (20, 200, 40.0), (19, 1, 38.0), (30, 0, 10.0)],
)
def test_a_kernel_is_brief_below_two_launches(
    signals_of: Any,
    shares: Any,
    *,
    launch_of: Any,
    latency: int,
    samples: int,
    brief: float,
) -> None:
    launching = launch_of(latency_ps=latency * US, latency_samples=samples)
    rows = (
        group("k<int>", mean_ps=(brief - 0.1) * US, classes=(4, 2)),
        group("k<float>", mean_ps=1.0 * US, percent=8.0, per_step=70.0, classes=(9,)),
        group("long", mean_ps=brief * US, per_step=500.0, classes=(5,)),
        group("Mul", mean_ps=1.0 * US, has_op=True, per_step=130.0, percent=5.0),
    )
    given = {small_kernels: {"vm:0": rows}}
    signals = signals_of(shares(copy_out=5.0), given, launching=launching)
    finding = op_launches.judge_small_work(signals)
    facts = facts_of(finding)
    assert facts["brief_kernel"] == brief
    assert (facts["kernels"], facts["all_kernels"]) == (250.0, 750.0)
    assert finding.value == 25.0
    # Half of the step are kernels. Those of one template are named once.
    assert [(it.name, it.detail, it.share_percent) for it in finding.parts] == [
        ("Mul", None, 2.5),
        ("k", "kernel", 10.0),
    ]
    (change,) = op_launches.joined_kernel_changes(signals)
    assert isinstance(change, Joined)
    assert asdict(change) == asdict(Joined([4, 2, 9], 2))
    alone = {small_kernels: {"vm:0": rows[2:3]}}
    nothing = signals_of(shares(), alone, launching=launching)
    assert op_launches.joined_kernel_changes(nothing) == ()
    assert op_launches.judge_small_work.changes(signals_of(shares())) == ()


# -------------------------------------------------------------------------- copies


def copies_of(owner: str, alone: float, **fields: Any) -> CopyGroup:
    return CopyGroup(
        **{
            "owner": owner,
            "source": None,
            "certainty": None,
            "per_step": 2.0,
            "bytes_per_step": 1000.0,
            "bytes_per_s": 5e9,
            "alone_ps": round(alone * MS),
            "pageable_ps": 0,
            "blocking_ps": 0,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("pageable", "blocking", "small", "small_ms", "because"),
    [
        (5.0, 5.0, 0, 0.0, ()),
        (5.1, 5.0, 0, 0.0, ("pageable",)),
        (5.0, 5.1, 50, 2.4, ("blocking",)),
        (0.0, 0.0, 50, 2.5, ("many",)),
        (0.0, 0.0, 49, 9.0, ()),
        (6.0, 6.0, 60, 9.0, ("pageable", "blocking", "many")),
    ],
)
def test_copies_take_long_for_reasons_of_half_or_a_quarter_of_them(
    signals_of: Any,
    shares: Any,
    *,
    pageable: float,
    blocking: float,
    small: float,
    small_ms: float,
    because: tuple[str, ...],
) -> None:
    groups = (
        copies_of(
            "copy_out",
            6.0,
            pageable_ps=round(pageable * MS),
            source="Mul",
            certainty="recorded",
        ),
        copies_of("copy_out", 3.0, blocking_ps=round(blocking * MS), bytes_per_s=None),
        copies_of("copy_within", 1.0, source="Add", certainty="by position"),
        copies_of("copy_out", 0.0, source="None"),
    )
    copies = DeviceCopies(groups, small, round(small_ms * MS), ((5, 9, "MemcpyDtoH"),))
    one = shares(copy_out=1.8, copy_within=0.2)
    signals = signals_of(one, {copy_signals: {"vm:0": copies}})
    finding = copy_exposed.evaluate(signals)
    assert (finding.status, finding.because) == ("fail", because)
    assert finding.value == pytest.approx(20.0)
    item = copy_exposed.evaluate.item
    out, within = item.note("copy_out"), item.note("copy_within")
    assert [(it.name, it.detail, it.share_percent) for it in finding.parts] == [
        (f"{out} of Mul", "recorded", pytest.approx(12.0)),
        (out, None, pytest.approx(6.0)),
        (f"{within} Add", "by position", pytest.approx(2.0)),
    ]
    facts = facts_of(finding)
    told = {
        "copies_per_step": 8.0,
        "small_copies_per_step": small,
        "largest_bytes_per_step": 1000.0,
        "largest_gigabytes_per_second": 5.0,
    }
    assert {name: facts[name] for name in told} == told
    seen = Evidence(
        host="vm", device=0, track=None, start_ps=5, end_ps=9, ops=("MemcpyDtoH",)
    )
    assert finding.evidence == (seen,)
    # A pass needs no reasons.
    passing = signals_of(shares(copy_out=0.2), {copy_signals: {"vm:0": copies}})
    assert copy_exposed.evaluate(passing).because == ()
    unknown = copy_exposed.evaluate(signals_of(one, {copy_signals: {}}))
    facts = facts_of(unknown)
    assert [facts[name] for name in told] == [0, None, None, None]


@pytest.mark.parametrize(
    ("owners", "changed"),
    [
        ({"copy_out": 1.0}, (["copy_in", "copy_out"], 1.0)),
        ({"copy_out": 1.0, "copy_in": 0.4}, (["copy_in", "copy_out"], 1.4)),
        # From a twentieth of the step on, input is the matter of another finding.
        ({"copy_out": 1.0, "copy_in": 0.5}, (["copy_out"], 1.0)),
        ({"copy_out": 1.0, "copy_in": 0.4, "input": 0.1}, (["copy_out"], 1.0)),
        # Where two fifths of the rest are other copies, nothing is edited.
        ({"copy_out": 1.0, "copy_within": 0.4}, (["copy_in", "copy_out"], 1.0)),
        ({"copy_out": 1.0, "copy_within": 0.41}, None),
        ({"copy_out": 1.0, "copy_within": 0.2, "transfer_wait": 0.21}, None),
    ],
)
def test_copies_to_and_from_the_host_may_run_beside_kernels(
    signals_of: Any, shares: Any, owners: Any, changed: Any
) -> None:
    signals = signals_of(shares(**owners), {copy_signals: {}})
    found = copy_exposed.parallel_copy_changes(signals)
    if changed is None:
        assert found == ()
        return
    (change,) = found
    assert isinstance(change, CopiesInParallel)
    kinds, effect = changed
    assert asdict(change) == asdict(CopiesInParallel(kinds, pytest.approx(effect)))


@pytest.mark.parametrize(
    ("into", "out", "high", "explained"),
    [(1.0, 1.0, 1.0, ()), (1.1, 1.0, 1.0, ("input.bound",)), (0.4, 1.0, 1.4, ())],
)
def test_copies_of_input_are_saved_by_another_finding(
    signals_of: Any,
    shares: Any,
    *,
    into: float,
    out: float,
    high: float,
    explained: tuple[str, ...],
) -> None:
    one = shares(copy_in=into, copy_out=out)
    finding = copy_exposed.evaluate(signals_of(one, {copy_signals: {}}))
    assert finding.status == "fail"
    assert finding.saving_ms.high == pytest.approx(high)
    assert finding.saving_ms.low == 0
    assert finding.explained_by == explained
