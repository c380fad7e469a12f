"""Another producer's steps against counting microseconds, and its shares by hand."""

from __future__ import annotations

import random
from statistics import mean
from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.compat_tensorflow.analyzer import (
    compat_input_ops,
    compat_placement,
    compat_summary,
)
from stepscope.analysis.compat_tensorflow.steps import CompatStep, compat_steps
from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.analysis.overview_page.ops import Eager, Placement
from stepscope.analysis.tools import ProfileWithTools
from stepscope.derive.step_time.owners import CATEGORIES as OWN_CATEGORIES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.trace.model import TraceData

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")
STEP_US = 300
#: Name of an event on the host → its class; a launch makes work a preparation.
ON_HOST = {
    "MemcpyHtoD": 80,
    "MemcpyHtoH": 70,
    "ExecutorState::Process": 90,
    "IteratorGetNext": 110,
    "a/Op:Op": 10,
    "FunctionRun": None,
    "x:InfeedEnqueueTuple": 80,
}
ON_DEVICE = {
    "MEMCPYHtoD": 80,
    "MemcpyDtoH": 130,
    "memcpydtod": 120,
    "ncclAllReduce": 100,
    "sgemm": 140,
    "gemm_fp16": 150,
    "half_gemm": 150,
}
NONE = dict.fromkeys((*OWN_CATEGORIES,), 0)
CATEGORIES = {
    10: "host_compute",
    80: "input",
    90: "kernel_launch",
    100: "device_collectives",
    110: "input",
    120: "device_to_device",
    130: "output",
    140: "device_compute_32",
    150: "device_compute_16",
}


def drawn(seed: int, groups: int = 3) -> list[blueprint.Line]:
    """Events of some step groups, of none, and without a correlation id."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    lines: list[blueprint.Line] = []
    for group in range(groups):
        at = STEP_US * group
        ids = {"group_id": group}
        if group != 1:
            lines.append(("main", "train", at, 290, {**ids, "step_name": str(group)}))
        lines.append(("gpu:0/Steps", f"step {group}", at + 20, 200 + group, ids))
        for number in range(14):
            name = chance.choice(list(ON_HOST))
            start, dur = at + chance.randint(0, 250), chance.randint(1, 40)
            stats = {} if number % 7 == 6 else {"group_id": group}
            lines.append((f"pool {number % 4}", name, start, dur, stats))
        for number in range(8):
            name = chance.choice(list(ON_DEVICE))
            start, dur = at + 30 * number, chance.randint(1, 30)
            stats = {"group_id": group, "correlation_id": len(lines)}
            if number == 3:
                del stats["correlation_id"]
            if number == 5:
                stats["shape"] = chance.choice(["(half[4])", "(f32[4])"])
            lines.append(("gpu:0/7(Compute)", name, start, dur, stats))
            if number % 3 == 0 and "correlation_id" in stats:
                call = ("pool 1", "cuLaunchKernel", start + 2, 6, stats)
                lines.append((*call[:4], {**stats}))
    order: dict[str, int] = {}
    for line in lines:
        order.setdefault(line[0], len(order))
    return sorted(lines, key=lambda line: order[line[0]])


def class_of(line: blueprint.Line) -> int | None:
    """The number of an event's class; None for one that is left out."""
    track, name, _, _, stats = line
    if track == "gpu:0/Steps" or name == "train" or "group_id" not in stats:
        return None
    if not track.startswith("gpu"):
        return 90 if name == "cuLaunchKernel" else ON_HOST[name]
    if "correlation_id" not in stats:
        return None
    number = ON_DEVICE[name]
    if "shape" in stats and number in {140, 150}:
        return 150 if "half" in stats["shape"] else 140
    return number


def swept(lines: list[blueprint.Line], group: int) -> tuple[int, int, dict[str, int]]:
    """Begin, length and µs of each category of a step, microsecond by microsecond."""
    begin, end = STEP_US * group + 20, STEP_US * group + 220 + group
    if group != 1:
        begin, end = STEP_US * group, STEP_US * group + 290
    own = [
        (line, number)
        for line in lines
        if line[4].get("group_id") == group and (number := class_of(line)) is not None
    ]
    spent: dict[str, int] = {}
    for at in range(begin, end):
        active = [number for line, number in own if line[2] <= at < line[2] + line[3]]
        category = CATEGORIES.get(max(active), "other") if active else "other"
        spent[category] = spent.get(category, 0) + 1
    return begin, end - begin, spent


@pytest.mark.parametrize(
    ("later", "output", "launching"),
    [
        # Nothing that ends is a copy or larger: the copy stays to the last bound.
        ([], 40, 10),
        # Another copy ends, or a kernel, at 60 or 62: what goes on counts again.
        ([("gpu:0/8(MemcpyD2H)", "MemcpyDtoH", 60, 2)], 12, 38),
        ([("gpu:0/7(Compute)", "sgemm", 60, 2)], 10, 38),
    ],
)
def test_a_copy_without_duration_is_the_largest_until_one_like_it_ends(
    later: list[tuple[object, ...]], output: int, launching: int
) -> None:
    """A step of 100 µs: executor from 40 to 90, and a copy of 0 µs at 50."""
    ids = {"group_id": 0}
    lines = [
        ("main", "train", 0, 100, {**ids, "step_name": "0"}),
        ("pool", "ExecutorState::Process", 40, 50, ids),
        ("gpu:0/Steps", "0", 5, 90, ids),
        ("gpu:0/7(Compute)", "sgemm", 10, 20, {**ids, "correlation_id": 1}),
        ("gpu:0/8(MemcpyD2H)", "MemcpyDtoH", 50, 0, {**ids, "correlation_id": 2}),
        *((*line, {**ids, "correlation_id": 3}) for line in later),
    ]
    (step,) = steps_of(blueprint.trace(lines))
    spent = {name: ps / US for name, ps in step.category_ps.items() if ps}
    kernels = 20 + 2 * any("sgemm" in line for line in later)
    assert spent == {
        "device_compute_32": kernels,
        "output": output,
        "kernel_launch": launching,
        "other": 100 - kernels - output - launching,
    }


def test_a_single_step_has_the_deviation_that_tensorflow_writes() -> None:
    """0 for one value; of one 0 TensorFlow writes that it is not a number."""
    times = compat_summary(
        [CompatStep("vm", 0, "0", 0, 9 * US, {**NONE, "other": 9 * US})]
    )
    assert times.summary.step_time_ms.std == 0.0
    assert times.summary.breakdown_std_ms["other"] == 0.0
    assert times.summary.breakdown_std_ms["output"] is None


def steps_of(*traces: TraceData) -> tuple[CompatStep, ...]:
    profile = blueprint.profile(*traces)
    found = compat_steps(profile, profile.hosts)
    assert isinstance(found, tuple), found
    return found


@pytest.mark.parametrize("seed", range(2))
def test_each_microsecond_is_of_the_largest_class_that_is_active(seed: int) -> None:
    hosts = {"a": drawn(seed), "b": drawn(100 + seed)}
    steps = steps_of(*(blueprint.trace(hosts[host], host=host) for host in hosts))
    assert [(step.host, step.group) for step in steps] == [
        (host, group) for host in hosts for group in range(3)
    ]
    for step in steps:
        begin, length, spent = swept(hosts[step.host], step.group)
        assert (step.start_ps, step.duration_ps) == (begin * US, length * US)
        assert {name: ps / US for name, ps in step.category_ps.items() if ps} == spent
        assert step.name == f"step {step.group}"


def test_without_stored_steps_the_activity_of_a_group_is_its_step() -> None:
    lines = [
        line for line in drawn(7) if line[0] != "gpu:0/Steps" and line[1] != "train"
    ]
    steps = steps_of(blueprint.trace(lines))
    for step in steps:
        own = [
            line
            for line in lines
            if line[0].startswith("gpu") and line[4].get("group_id") == step.group
        ]
        begin = min(line[2] for line in own)
        assert step.start_ps == begin * US
        end = max(line[2] + line[3] for line in own)
        assert step.duration_ps == (end - begin) * US
        assert step.name == str(step.group)


def test_of_several_stored_steps_of_a_group_the_longest_counts() -> None:
    (step,) = steps_of(
        blueprint.trace(
            [
                ("gpu:0/Steps", "short", 0, 10, {"group_id": 4}),
                ("gpu:0/Steps", "long", 20, 30, {"group_id": 4}),
                ("gpu:0/Steps", "as long", 60, 30, {"group_id": 4}),
                ("gpu:0/7", "k", 20, 5, {"group_id": 4, "correlation_id": 1}),
            ]
        )
    )
    assert (step.name, step.start_ps, step.duration_ps) == ("long", 20 * US, 30 * US)


def test_a_marker_that_does_not_cover_the_step_is_not_the_step() -> None:
    for begin, dur, expected in ((0, 120, (0, 120)), (11, 120, (10, 100))):
        (step,) = steps_of(
            blueprint.trace(
                [
                    ("main", "train", begin, dur, {"group_id": 0, "step_name": "0"}),
                    ("gpu:0/Steps", "0", 10, 100, {"group_id": 0}),
                    ("gpu:0/7", "k", 20, 5, {"group_id": 0, "correlation_id": 1}),
                ]
            )
        )
        assert (step.start_ps / US, step.duration_ps / US) == expected


@pytest.mark.parametrize("table", ["tracks", "events", "event_types", "stats"])
def test_without_a_table_there_are_no_steps(table: str) -> None:
    profile = blueprint.profile(blueprint.trace(drawn(1)).without(table, ABSENT))
    assert compat_steps(profile, profile.hosts) == ABSENT


def test_a_lost_table_of_device_activity_is_no_cpu() -> None:
    trace = blueprint.trace(drawn(1), devices={0: blueprint.A100})
    profile = blueprint.profile(trace.without("device_activity", ABSENT))
    assert compat_steps(profile, profile.hosts) == ABSENT


def step(duration: int, **us: int) -> CompatStep:
    names = {*CATEGORIES.values(), "compilation", "other"}
    spent = {name: us.get(name, 0) * US for name in names}
    spent["other"] += (duration - sum(us.values())) * US
    return CompatStep("vm", 0, "0", 5 * US, duration * US, spent)


def test_the_summary_has_the_means_and_shares_of_its_steps() -> None:
    steps = [
        step(100, input=5, device_compute_32=40, output=10, kernel_launch=3),
        step(300, input=30, device_compute_16=100, device_collectives=20),
    ]
    times = compat_summary(steps)
    summary = times.summary
    assert (summary.step_count, summary.row_count) == (2, 2)
    assert summary.step_time_ms.mean == pytest.approx(0.2)
    assert summary.step_time_ms == summary.device_step_time_ms
    assert summary.breakdown_ms["input"] == pytest.approx(0.0175)
    assert summary.breakdown_ms["other"] == pytest.approx((42 + 150) / 2 / 1000)
    assert summary.breakdown_std_ms["input"] == pytest.approx(0.025 / 2**0.5)
    assert summary.breakdown_percent["input"] == pytest.approx(100 * 35 / 400)
    assert summary.input_percent == summary.breakdown_percent["input"]
    assert summary.kernel_launch_percent == pytest.approx(100 * 3 / 400)
    assert summary.device_execution_percent == pytest.approx(100 * 170 / 400)
    assert summary.idle_percent == pytest.approx(100 - 100 * 170 / 400)
    assert [one.duration_ms for one in times.steps] == pytest.approx([0.1, 0.3])
    assert [one.start_ms for one in times.steps] == pytest.approx([0.005] * 2)
    assert times.steps[0].breakdown_ms["output"] == pytest.approx(0.01)
    absent = {one.field for one in times.missing}
    assert {"any_device", "batch_time_ms", "breakdown_detail_ms"} <= absent
    empty = compat_summary([step(0)]).summary
    assert (empty.input_percent, empty.idle_percent) == (None, None)


@pytest.mark.parametrize(
    ("fed", "other", "word", "verdict"),
    [
        (20, 0, "HIGHLY", "highly"),
        (19, 0, "MODERATELY", "moderately"),
        (5, 50, "MODERATELY", "moderately"),
        (4, 3, "POTENTIALLY", "not"),
        (4, 2, "NOT", "not"),
    ],
)
def test_the_verdict_of_its_page_depends_on_input_and_unexplained_time(
    fed: int, other: int, word: str, verdict: str
) -> None:
    lines = [
        ("main", "train", 0, 100, {"group_id": 0, "step_name": "0"}),
        ("main", "Iterator::Batch", 1, 1),
        ("gpu:0/Steps", "0", 0, 100, {"group_id": 0}),
        (
            *("gpu:0/7(Compute)", "sgemm", fed, 100 - fed - other),
            {"group_id": 0, "correlation_id": 1},
        ),
        (
            *("gpu:0/8(x)", "MemcpyHtoD", 0, fed),
            {"group_id": 0, "correlation_id": 2},
        ),
    ]
    profile = ProfileWithTools("run", {"vm": blueprint.trace(lines)})
    result = profile.tool("input_pipeline_analyzer", compat="tensorflow")
    assert isinstance(result, InputPipelineResult), result
    assert (result.compat, result.compat_verdict) == ("tensorflow", word)
    assert result.verdict.startswith(verdict)
    assert result.input_percent == result.input_at_most_percent == fed
    assert ("POTENTIALLY" in result.text) == (word == "POTENTIALLY")
    (only,) = result.by_host
    assert (only.input_percent, only.step_count) == (pytest.approx(fed), 1)
    (one,) = result.steps
    assert one.counted
    assert one.input_ms == pytest.approx(fed / 1000)
    for kind in ("avg", "min", "max"):
        assert getattr(one, f"input_percent_{kind}") == pytest.approx(fed)


def test_shares_of_hosts_are_of_their_own_steps() -> None:
    traces = [
        blueprint.trace(drawn(seed), host=host) for seed, host in ((3, "a"), (4, "b"))
    ]
    profile = ProfileWithTools("run", {trace.host: trace for trace in traces})
    page = profile.tool("overview_page", compat="tensorflow")
    assert isinstance(page, OverviewPageResult)
    steps = steps_of(*traces)
    assert page.compat == "tensorflow"
    assert len(page.steps) == len(steps)
    assert page.step_time_ms.mean == pytest.approx(
        mean(one.duration_ps for one in steps) / 1e9
    )
    whole = sum(one.duration_ps for one in steps)
    fed = sum(one.category_ps["input"] for one in steps)
    assert page.input_percent == pytest.approx(100 * fed / whole)


def test_ops_are_counted_on_both_sides() -> None:
    """Input ops count, and work without an annotation does not."""
    lines = [
        ("main", "a/MatMul:MatMul", 0, 30, {"is_eager": 1}),
        ("main", "cuLaunchKernel", 5, 5, {"correlation_id": 1}),
        ("main", "a/Relu:Relu", 40, 10, {"is_eager": 0}),
        ("main", "Iterator::Map", 60, 20),
        (
            *("gpu:0/7(Compute)", "gemm", 20, 60),
            {"correlation_id": 1, "tf_op": "a/MatMul:MatMul"},
        ),
        ("gpu:0/7(Compute)", "nobody's", 90, 60),
    ]
    profile = blueprint.profile(
        blueprint.trace(lines, host="a"), blueprint.trace(lines[:3], host="b")
    )
    found = compat_placement(profile, ["a"])
    assert not isinstance(found, Unavailable)
    placement, eager = found
    assert placement == Placement(
        host_op_percent=75.0,
        device_op_percent=25.0,
        host_self_time_percent=None,
        device_self_time_percent=None,
        host_executions=3,
        device_executions=1,
        dataset_executions=None,
    )
    assert isinstance(eager, Eager)
    assert eager.host_percent == pytest.approx(100 * 30 / 60)
    assert isinstance(compat_placement(profile, ["a", "b"]), Unavailable)


def ops_of(*lines: blueprint.Line) -> pl.DataFrame | Unavailable:
    profile = blueprint.profile(blueprint.trace(list(lines)))
    return compat_input_ops(profile, "vm")


def test_input_ops_have_the_categories_of_their_names() -> None:
    found = ops_of(
        ("a", "Iterator::Batch", 0, 100),
        ("a", "Iterator::Batch::TFRecord", 10, 30),
        ("b", "Iterator::Prefetch::TFRecord", 0, 50),
        ("c", "Iterator::Prefetch::TFRecord", 0, 20),
        ("b", "Iterator::Prefetch::Map", 60, 8),
        ("c", "x:InfeedEnqueueTuple", 30, 5),
        ("c", "a/MatMul:MatMul", 40, 50),
    )
    assert not isinstance(found, Unavailable)
    columns = ("name", "category", "count", "total_ps", "self_ps", "threads")
    rows = {name: rest for name, *rest in found.select(columns).iter_rows()}
    assert rows == {
        "Iterator::Batch": ["preprocessing", 1, 100 * US, 70 * US, 1],
        "Iterator::Prefetch::TFRecord": ["advanced_file_read", 2, 70 * US, 70 * US, 2],
        "Iterator::Batch::TFRecord": ["demanded_file_read", 1, 30 * US, 30 * US, 1],
        "Iterator::Prefetch::Map": ["preprocessing", 1, 8 * US, 8 * US, 1],
        "x": ["enqueue", 1, 5 * US, 5 * US, 1],
    }
    assert found["self_ps"].to_list() == sorted(found["self_ps"], reverse=True)
    assert found["name"].to_list()[:2] == [
        *("Iterator::Batch", "Iterator::Prefetch::TFRecord")
    ]


def test_without_input_ops_it_says_so() -> None:
    assert isinstance(ops_of(("a", "a/MatMul:MatMul", 0, 5)), Unavailable)
    trace = blueprint.trace([("a", "Iterator::Batch", 0, 5)])
    profile = blueprint.profile(trace.without("events", ABSENT))
    assert compat_input_ops(profile, "vm") == ABSENT
