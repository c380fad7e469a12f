"""Sections, tracks and derived spans of a small trace: every column, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.support.kept_promises import check_curve
from tests.support.traces import blueprint

from stepscope.derive.trace_rows.counters import CounterCurve, counter_curves
from stepscope.derive.trace_rows.drawn_rows import TraceTimeline, trace_timeline
from stepscope.derive.trace_rows.step_lines import LineSpans, Names, no_spans
from stepscope.unavailable import Unavailable

US = 1_000_000
GONE = Unavailable(code="LOST_EVENTS", reason="Taken away.", remedy="Put it back.")

LINES: list[blueprint.Line] = [
    ("main", "train", 0, 100, {"_r": 1, "step_num": 1}),
    ("main", "cuLaunchKernel", 5, 2, {"correlation_id": 1}),
    ("main", "cuLaunchKernel", 20, 4, {"correlation_id": 2}),
    ("main", "train", 100, 100, {"_r": 1, "step_num": 2}),
    ("main", "cuLaunchKernel", 110, 3, {"correlation_id": 3}),
    ("main", "cuLaunchKernel", 110, 1, {"correlation_id": 4}),
    ("worker", "x", 0, 5),
    ("samples of main, 100 a second", "f", 0, 10),
    ("_counters_", "level (bytes)", 7, 0, {"counter_value": 4.5}),
    # One call launches work on both devices.
    ("gpu:1/7(Compute)", "k", 10, 20, {"correlation_id": 1, "tf_op": "m/Op:Op"}),
    ("gpu:1/7(Compute)", "k", 40, 20, {"correlation_id": 2, "tf_op": "m/Op:Op"}),
    ("gpu:0/9(Compute)", "k", 12, 20, {"correlation_id": 1}),
    ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 120, 5, {"correlation_id": 3}),
    ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 130, 5, {"correlation_id": 4}),
    ("/strange|line", "y", 0, 1),
]


def timeline(*lines: blueprint.Line, **without: Unavailable) -> TraceTimeline:
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    for table, why in without.items():
        trace = trace.without(table, why)
    found = blueprint.profile(trace).derived("vm", trace_timeline)
    assert isinstance(found, TraceTimeline)
    return found


def spans_of(found: TraceTimeline, track: str, section: int) -> list[tuple[Any, ...]]:
    """(name, start µs, duration µs, row, step, event) of a derived line."""
    (number,) = found.tracks.with_row_index().filter(
        pl.col("name") == track,
        pl.col("section") == section,
    )["index"]
    line = found.line(number)
    assert line is not None
    spans = line.spans
    columns = (
        found.names.gather(spans.name).to_list(),
        (spans.start_ps / US).tolist(),
        (spans.dur_ps / US).tolist(),
        *(line.row.tolist(), spans.step.tolist(), spans.event.tolist()),
    )
    return list(zip(*columns, strict=True))


def test_every_section_and_every_track() -> None:
    found = timeline(*LINES)
    assert found.sections.select("name", "kind", "plane", "device").rows() == [
        ("/device:GPU:0", "device", "/device:GPU:0", 0),
        ("/device:GPU:1", "device", "/device:GPU:1", 1),
        ("Host Threads", "host", "/host:CPU", None),
        ("/strange", "host", "/strange", None),
    ]
    samples = "samples of main, 100 a second"
    columns = ("section", "name", "kind", "view", "id", "folded", "rows", "drawn_rows")
    assert found.tracks.select(columns).rows() == [
        (0, "Steps", "derived", "steps", None, False, 1, 1),
        (0, "Launch Stats", "derived", "launch_stats", None, False, 1, 1),
        (0, "Stream #8(MemcpyH2D)", "stream", None, 8, False, 1, 1),
        (0, "Stream #9(Compute)", "stream", None, 9, False, 1, 1),
        (1, "Steps", "derived", "steps", None, False, 1, 1),
        (1, "Launch Stats", "derived", "launch_stats", None, False, 1, 1),
        (1, "Framework Name Scope", "derived", "name_scope", 7, False, 1, 1),
        (1, "Framework Ops", "derived", "framework_ops", 7, False, 1, 1),
        (1, "Stream #7(Compute)", "stream", None, 7, False, 1, 1),
        (2, "Step windows", "derived", "step_windows", None, False, 1, 1),
        (2, "main", "thread", None, 1, False, 3, 3),
        (2, samples, "samples", None, 2**30 + 1, False, 1, 1),
        (2, "worker", "thread", None, 2, False, 1, 1),
        (2, "_counters_", "counters", None, 4, False, 1, 1),
        (3, "line", "thread", None, 8, False, 1, 1),
    ]
    # Ranges of events and of spans are those of their own tables, without gaps.
    recorded = found.tracks.filter(pl.col("source").is_not_null())
    assert (recorded["end"] - recorded["begin"]).sum() == len(LINES)
    derived = found.tracks.filter(pl.col("source").is_null())
    assert derived["begin"].to_list() == [0, *derived["end"].to_list()[:-1]]
    assert found.slice_count == derived["end"].to_list()[-1] == len(found.slices.row)
    assert [found.line(k) is None for k in range(len(found.tracks))] == (
        found.tracks["source"].is_not_null().to_list()
    )


def test_a_section_has_the_name_of_its_chip() -> None:
    trace = blueprint.trace(LINES, devices={0: blueprint.A100})
    devices = trace.table("devices")
    assert isinstance(devices, pl.DataFrame)
    named = devices.filter(pl.col("device") == 0).with_columns(name=pl.lit("A100"))
    trace = blueprint.substitute(trace, devices=pl.concat([named, named]))
    found = blueprint.profile(trace).derived("vm", trace_timeline)
    # Device 1 is not described.
    assert found.sections["label"].to_list() == ["A100", None, None, None]


def first_event(found: TraceTimeline, track: str) -> int:
    """The row of events with which a recorded track begins."""
    return int(found.tracks.filter(pl.col("name") == track)["begin"][0])


def test_every_span_of_the_derived_lines() -> None:
    found = timeline(*LINES)
    # Calls are events 1, 2, 4 and 5 of the main thread; steps are events 0 and 3.
    main = first_event(found, "main")
    one, two = ("train 1", 0), ("train 2", 1)
    assert spans_of(found, "Step windows", 2) == [
        (one[0], 0, 100, 0, 0, main),
        (two[0], 100, 100, 0, 1, main + 3),
    ]
    assert spans_of(found, "Steps", 0) == [
        (one[0], 12, 20, 0, 0, main),
        (two[0], 120, 15, 0, 1, main + 3),
    ]
    assert spans_of(found, "Steps", 1)[0] == (one[0], 10, 50, 0, 0, main)
    assert spans_of(found, "Launch Stats", 0) == [
        (one[0], 5, 2, 0, 0, main + 1),
        # Of two calls that begin together, the first one in the table.
        (two[0], 110, 3, 0, 1, main + 4),
    ]
    assert spans_of(found, "Launch Stats", 1) == [(one[0], 5, 19, 0, 0, main + 1)]
    event = first_event(found, "Stream #7(Compute)")
    assert spans_of(found, "Framework Ops", 1) == [("Op", 10, 50, 0, 0, event)]
    assert spans_of(found, "Framework Name Scope", 1) == [("m", 10, 50, 0, 0, event)]
    stats = found.launch_stats.drop("slice").rows()
    assert stats == [(1, 2 * US, 2 * US), (2, 3 * US, 4 * US), (2, 4 * US, 6 * US)]
    lines = found.tracks.filter(pl.col("view") == "launch_stats")
    assert found.launch_stats["slice"].to_list() == [
        number
        for begin, end in lines.select("begin", "end").rows()
        for number in range(begin, end)
    ]


def test_busy_times_of_derived_spans_are_those_of_their_work() -> None:
    found = timeline(*LINES)
    busy = {}
    for number, view in enumerate(found.tracks["view"]):
        line = found.line(number)
        if line is not None:
            work = line.spans.busy_ps
            section = found.tracks["section"][number]
            busy[view, section] = None if work is None else (work / US).tolist()
    assert busy == {
        ("steps", 0): None,
        ("launch_stats", 0): [2, 3],
        ("steps", 1): None,
        ("launch_stats", 1): [6],
        ("name_scope", 1): [40],
        ("framework_ops", 1): [40],
        ("step_windows", 2): None,
    }


def test_arrows_lead_from_the_calls_to_their_work() -> None:
    found = timeline(*LINES)
    main, compute = first_event(found, "main"), first_event(found, "Stream #7(Compute)")
    copies = first_event(found, "Stream #8(MemcpyH2D)")
    other = first_event(found, "Stream #9(Compute)")
    expected = [
        (compute, main + 1, 1),
        (compute + 1, main + 2, 2),
        (other, main + 1, 1),
        (copies, main + 4, 3),
        (copies + 1, main + 5, 4),
    ]
    flows = found.flows
    columns = (flows.device_event, flows.launch_event, flows.correlation)
    arrows = list(zip(*(column.tolist() for column in columns), strict=True))
    assert arrows == sorted(expected)


def test_without_device_activity_there_are_the_steps_and_the_threads() -> None:
    found = timeline(*LINES, device_activity=GONE)
    derived = found.tracks.filter(pl.col("source").is_null())
    assert derived["view"].to_list() == ["step_windows"]
    assert len(found.launch_stats) == len(found.flows.correlation) == 0


def test_steps_without_launch_calls_have_no_launch_line() -> None:
    found = timeline(*LINES, launches=GONE)
    assert "launch_stats" not in found.tracks["view"].to_list()
    assert "framework_ops" in found.tracks["view"].to_list()


def test_instructions_of_threads_are_of_the_step_in_which_they_begin() -> None:
    stats = {"hlo_module": "jit_f", "program_id": 4, "hlo_op": "dot.1"}
    lines: list[blueprint.Line] = [
        *(("main", "train", 100 * k, 100, {"_r": 1, "step_num": k}) for k in (1, 2)),
        ("pool", "dot.1", 50, 10, stats),
        ("pool", "dot.1", 150, 10, stats),
        ("pool", "dot.1", 170, 10, stats),
        ("pool", "dot.1", 210, 10, stats),
    ]
    found = timeline(*lines)
    section = found.tracks.filter(pl.col("name") == "main")["section"][0]
    listed = spans_of(found, "XLA Ops - pool", section)
    assert [(start, dur, step) for _, start, dur, _, step, _ in listed] == [
        (50, 10, -1),
        (150, 30, 0),
        (210, 10, 1),
    ]


def test_names_have_one_code_each() -> None:
    types = pl.DataFrame(
        {"name": ["a", "long b", "c"], "display_name": [None, "b", "c"]},
        schema={"name": pl.String, "display_name": pl.String},
    )
    names = Names(types)
    assert [
        names.name_code("x"),
        names.name_code("x", "x"),
        names.name_code("y", "x"),
    ] == [*(3, 3, 4)]
    assert names.name_codes(["y", "x", "z"]).tolist() == [5, 3, 6]
    shown, full = names.name_texts()
    assert shown.to_list() == ["a", "b", "c", "x", "y", "y", "z"]
    assert full.to_list() == [None, "long b", None, None, "x", None, None]


@pytest.mark.parametrize("with_busy", [False, True])
def test_spans_are_ordered_by_start_then_length_then_level(
    with_busy: bool,  # noqa: FBT001 - a parameter
) -> None:
    rows = [
        (5, 1, 0),
        (0, 9, 1),
        (0, 9, 0),
        (0, 4, 2),
        (0, 10, 3),
        (5, 3, 1),
        (7, 0, 0),
    ]
    start, dur, level = (np.array([row[k] for row in rows]) for k in range(3))
    number = np.arange(7, dtype=np.int32)
    busy = 10 * np.arange(7) if with_busy else None
    spans = LineSpans(start, dur, level.astype(np.int32), number, number, number, busy)
    assert not spans.is_ordered()
    found = spans.order_spans()
    order = [4, 2, 1, 3, 5, 0, 6]
    assert found.name.tolist() == found.event.tolist() == found.step.tolist() == order
    assert list(zip(found.start_ps, found.dur_ps, found.level, strict=True)) == [
        rows[row] for row in order
    ]
    assert (found.busy_ps is None) is not with_busy
    if found.busy_ps is not None:
        assert found.busy_ps.tolist() == [10 * row for row in order]
    assert found.is_ordered()
    assert found.order_spans() is found
    assert len(no_spans().start_ps) == 0


def test_curves_of_counters_and_queues() -> None:
    lines: list[blueprint.Line] = [
        ("main", "Iterator::Prefetch", 4, 5, {"buffered_elements": 3}),
        ("main", "Iterator::Prefetch", 20, 5, {"buffered_elements": 5}),
        ("worker", "Iterator::Prefetch", 9, 5, {"buffered_elements": 4}),
        ("main", "noted", 30, 5, {"counter_value": 8}),
        ("_counters_", "level (bytes)", 7, 0, {"counter_value": 4.5}),
        ("_counters_", "level (bytes)", 9, 0, {"counter_value": float("nan")}),
        ("_counters_", "level (bytes)", 11, 0, {"counter_value": -2}),
        ("_counters_", "plain", 8, 0, {"counter_value": 2**63 - 1}),
        ("_counters_", "text", 8, 0, {"counter_value": "many"}),
        ("_counters_", "never", 8, 0, {"counter_value": float("inf")}),
        ("_counters_", "nothing", 8, 0),
    ]
    trace = blueprint.trace(lines)
    found = blueprint.profile(trace).derived("vm", counter_curves)
    assert [
        (c.name, c.unit, c.source, (c.time_ps / US).tolist(), c.value.tolist())
        for c in found
    ] == [
        ("Queue: Iterator::Prefetch", "elements", "queue", [4, 9, 20], [3, 4, 5]),
        ("level", "bytes", "recorded", [7, 11], [4.5, -2]),
        ("plain", None, "recorded", [8], [float(2**63 - 1)]),
    ]
    for curve in found:
        assert isinstance(curve, CounterCurve)
        check_curve(curve)
    bare = trace.without("stats", GONE)
    assert blueprint.profile(bare).derived("vm", counter_curves) == ()


def test_times_of_a_curve_ascend() -> None:
    times, values = np.array([3, 2]), np.array([0.0, 1.0])
    with pytest.raises(ValueError, match="ascend"):
        check_curve(CounterCurve("a", None, "recorded", times, values))
    check_curve(CounterCurve("a", None, "recorded", np.array([2, 2]), values))
