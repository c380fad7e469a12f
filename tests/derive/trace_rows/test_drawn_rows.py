"""What a trace viewer shows: sections, tracks, rows, derived lines and arrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.derive.columns.arrays import ints
from stepscope.derive.device.correlation import Correlation
from stepscope.derive.steps.chosen import steps
from stepscope.derive.trace_rows.drawn_rows import trace_timeline
from stepscope.derive.trace_rows.step_lines import Names, launch_lines
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.trace_rows.drawn_rows import TraceTimeline
    from stepscope.trace.model import TraceData

US = 1_000_000
NS = 1_000
DERIVED = -559038737

REAL = (
    "gpu_tf/t4_healthy",
    "gpu_tf/t4_starved",
    "gpu_tf/v100_large",
    "gpu_tf/turing_launch_bound",
    "gpu_jax_amd/jax08_conv",
    "tf_cpu/keras_fit",
    "tf_cpu/xla",
    "tf_cpu/tf215_python_tracer",
    "jax_cpu/steps",
    "tpu/tpu_inference_2",
    "kineto/tracelens_qwen1.5_0.5b_h100",
    "kineto/dlrm_8rank_v100",
    "corrupt/truncated_60",
)


def timeline(trace: TraceData) -> TraceTimeline:
    found = blueprint.profile(trace).derived(trace.host, trace_timeline)
    assert not isinstance(found, Unavailable)
    return found


def names(found: TraceTimeline, section: int) -> list[str]:
    return found.tracks.filter(pl.col("section") == section)["name"].to_list()


def spans(found: TraceTimeline, track: str) -> list[tuple[Any, ...]]:
    """(name, start, duration in µs, row) of a derived line."""
    row = found.tracks.filter(
        (pl.col("name") == track) & pl.col("source").is_null()
    ).row(0, named=True)
    part, slices = slice(row["begin"], row["end"]), found.slices
    return [
        (found.names[name], start / US, dur / US, at)
        for name, start, dur, at in zip(
            slices.name[part].tolist(),
            slices.start_ps[part].tolist(),
            slices.dur_ps[part].tolist(),
            slices.row[part].tolist(),
            strict=True,
        )
    ]


def rows_of(found: TraceTimeline, track: str) -> list[int]:
    begin, end = (
        found.tracks.filter(pl.col("name") == track).select("begin", "end").row(0)
    )
    return found.row[begin:end].tolist()


def lanes_of(found: TraceTimeline, track: str) -> list[tuple[int, int, str]]:
    number = found.tracks["name"].to_list().index(track)
    return (
        found.lanes.filter(pl.col("track") == number)
        .select("first_row", "rows", "kind")
        .rows()
    )


def test_sections_and_tracks_of_the_acceptance_vector_stand_in_the_guides_order() -> (
    None
):
    found = timeline(blueprint.a1())
    assert found.sections["name"].to_list() == ["/device:GPU:0", "Host Threads"]
    assert names(found, 0) == [
        "Steps",
        "Launch Stats",
        "Framework Name Scope",
        "Framework Ops",
        "Stream #7(Compute)",
        "Stream #8(MemcpyH2D)",
    ]
    assert names(found, 1)[0] == "Step windows"


def test_the_step_track_has_the_hulls_and_the_window_track_the_wall_time() -> None:
    found = timeline(blueprint.a1())
    steps, windows = spans(found, "Steps"), spans(found, "Step windows")
    assert steps == [(f"train {100 + i}", 1000 * i + 300, 400, 0) for i in range(8)]
    assert [dur for _, _, dur, _ in windows] == [1000.0] * 7 + [900.0]


def test_calls_that_put_no_work_anywhere_are_of_no_line() -> None:
    trace = blueprint.a1()
    launches, activity = trace.table("launches"), trace.table("device_activity")
    types = trace.table("event_types")
    assert isinstance(launches, pl.DataFrame)
    assert isinstance(activity, pl.DataFrame)
    assert isinstance(types, pl.DataFrame)
    nothing = np.empty(0, np.int32)
    lines, totals = launch_lines(
        Correlation(
            activity=activity.clear(),
            launches=launches,
            launch_of_activity=nothing,
            activity_count_of_launch=np.zeros(len(launches), np.int32),
            queue_empty=np.empty(0, np.bool_),
            latency_ps=np.empty(0, np.int64),
            notes=(),
        ),
        activity_steps=nothing,
        steps=blueprint.profile(trace).derived(trace.host, steps),
        names=Names(types),
    )
    assert lines == []
    assert totals.is_empty()


def test_launch_stats_cover_the_calls_of_each_step() -> None:
    found = timeline(blueprint.a1())
    lines = spans(found, "Launch Stats")
    # The first call begins 200 before the kernel at 300, the last one ends 5 after
    # its begin, which is 200 before the copy at 690.
    assert [(start, dur) for _, start, dur, _ in lines] == [
        (1000 * i + 100, 395) for i in range(8)
    ]
    stats = found.launch_stats
    assert stats["num_launches"].to_list() == [6] * 8
    assert stats["max_launch_time_ps"].to_list() == [5 * US] * 8
    assert stats["total_launch_time_ps"].to_list() == [30 * US] * 8


def test_an_arrow_leads_from_each_launch_call_to_its_kernel() -> None:
    trace = blueprint.a1()
    found = timeline(trace)
    events, types = trace.table("events"), trace.table("event_types")
    assert isinstance(events, pl.DataFrame)
    assert isinstance(types, pl.DataFrame)
    name = types["name"].gather(events["type"])
    launch, device = found.flows.launch_event, found.flows.device_event
    assert set(name.gather(launch)) == {"cuLaunchKernel"}
    assert len(device) == 48
    start = ints(events, "start_ps")
    assert (start[device] - start[launch] == 200 * US).all()
    assert sorted(set(found.flows.correlation.tolist())) == list(range(1, 49))
    assert (np.diff(device) > 0).all()


def kernel(start: float, dur: float, op: str, stream: str = "7(Compute)") -> Any:
    return (f"gpu:0/{stream}", f"k{op[-1]}", start, dur, {"tf_op": op})


def test_scopes_and_ops_extend_over_consecutive_kernels() -> None:
    found = timeline(
        blueprint.trace(
            [
                kernel(0, 10, "m/a/Conv:Conv2D"),
                kernel(20, 10, "m/a/Conv:Conv2D"),
                kernel(40, 10, "m/b/Mul:Mul"),
                kernel(60, 10, "n/Mul:Mul"),
                kernel(80, 10, "Top:Add"),
                kernel(100, 10, "Top:Add"),
                kernel(120, 10, "n/Mul:Mul"),
            ]
        )
    )
    assert spans(found, "Framework Ops") == [
        ("Conv2D", 0, 30, 0),
        ("Mul", 40, 10, 0),
        ("Mul", 60, 10, 0),
        ("Add", 80, 30, 0),
        ("Mul", 120, 10, 0),
    ]
    assert spans(found, "Framework Name Scope") == [
        ("m", 0, 50, 0),
        ("a", 0, 30, 1),
        ("b", 40, 10, 1),
        ("n", 60, 10, 0),
        ("n", 120, 10, 0),
    ]
    full = [found.full_names[int(code)] for code in found.slices.name]
    assert {"m/a/Conv", "m/b/Mul", "n/Mul", "Top"} <= set(full)


def test_levels_of_equal_length_are_shortened_by_a_nanosecond_each() -> None:
    found = timeline(
        blueprint.trace(
            [kernel(0, 10, "a/b/c/Op:Op"), kernel(20, 0.002, "d/e/f/g/Op:Op")]
        )
    )
    assert spans(found, "Framework Name Scope") == [
        ("a", 0, 10, 0),
        ("b", 0, 9.999, 1),
        ("c", 0, 9.998, 2),
        ("d", 20, 0.002, 0),
        ("e", 20, 0.001, 1),
        # A nanosecond is the least that is left.
        ("f", 20, 0.001, 2),
        ("g", 20, 0.001, 3),
    ]


def test_a_new_step_opens_new_spans_of_the_same_op() -> None:
    lines = []
    for step in range(3):
        at = 100 * step
        lines += [
            ("main", "train", at, 90, {"_r": 1, "step_num": step}),
            ("main", "launch", at + 1, 1, {"correlation_id": step + 1}),
            (
                "gpu:0/7(Compute)",
                "k",
                at + 10,
                20,
                {"correlation_id": step + 1, "tf_op": "m/Op:Op"},
            ),
        ]
    found = timeline(blueprint.trace(lines))
    assert [start for _, start, _, _ in spans(found, "Framework Ops")] == [10, 110, 210]
    part = found.tracks.filter(pl.col("view") == "framework_ops").row(0, named=True)
    assert found.slices.step[part["begin"] : part["end"]].tolist() == [0, 1, 2]


def test_each_stream_has_its_own_op_lines_computing_ones_first() -> None:
    found = timeline(
        blueprint.trace(
            [
                kernel(0, 10, "a/Op:Op", "3(Compute)"),
                kernel(0, 10, "b/Op:Op", "9(Compute)"),
                kernel(20, 10, "b/Op:Op", "9(Compute)"),
                ("gpu:0/1(MemcpyH2D)", "MemcpyH2D", 0, 5, {"tf_op": "c/Send:_Send"}),
            ]
        )
    )
    assert names(found, 0) == [
        "Framework Name Scope - from #9",
        "Framework Ops - from #9",
        "Framework Name Scope - from #3",
        "Framework Ops - from #3",
        "Stream #1(MemcpyH2D)",
        "Stream #3(Compute)",
        "Stream #9(Compute)",
    ]


def compiled(start: float, dur: float, hlo: str, module: str = "jit_f") -> Any:
    stats = {"hlo_op": hlo, "hlo_module": module, "program_id": 4}
    return ("gpu:0/7(Compute)", "k", start, dur, stats)


def test_modules_close_the_instructions_inside_them() -> None:
    found = timeline(
        blueprint.trace(
            [
                compiled(0, 10, "while::dot"),
                compiled(20, 10, "while::add"),
                compiled(40, 10, "while::add", module="jit_g"),
            ]
        )
    )
    assert spans(found, "XLA Modules") == [
        ("jit_f(4)", 0, 30, 0),
        ("jit_g(4)", 40, 10, 0),
    ]
    assert spans(found, "XLA Ops") == [
        ("while", 0, 30, 0),
        ("dot", 0, 10, 1),
        ("add", 20, 10, 1),
        ("while", 40, 10, 0),
        ("add", 40, 9.999, 1),
    ]


def test_threads_of_a_program_without_device_show_their_instructions() -> None:
    stats = {"hlo_module": "jit_f", "program_id": 4}
    found = timeline(
        blueprint.trace(
            [
                ("pool/7", "dot.1", 0, 10, {**stats, "hlo_op": "dot.1"}),
                ("pool/7", "end: dot.1", 10, 0, {**stats, "hlo_op": "dot.1"}),
                ("pool/7", "add.2", 100, 10, {**stats, "hlo_op": "add.2"}),
            ]
        )
    )
    assert names(found, 0) == ["pool/7", "XLA Modules - pool/7", "XLA Ops - pool/7"]
    # Without steps what lies further off than twice the span's length is another run.
    assert spans(found, "XLA Modules - pool/7") == [
        ("jit_f(4)", 0, 10, 0),
        ("jit_f(4)", 100, 10, 0),
    ]


def test_overlapping_kernels_of_one_stream_have_rows_of_their_own() -> None:
    line = "gpu:0/7(Compute)"
    found = timeline(
        blueprint.trace(
            [
                (line, "a", 0, 10),
                (line, "b", 5, 10),
                (line, "c", 6, 2),
                (line, "d", 20, 5),
            ]
        )
    )
    assert rows_of(found, "Stream #7(Compute)") == [0, 1, 2, 0]
    assert lanes_of(found, "Stream #7(Compute)") == [
        (0, 1, "main"),
        (1, 1, "overlap"),
        (2, 1, "overlap"),
    ]


def test_what_outlives_the_span_around_it_leaves_the_nest() -> None:
    found = timeline(
        blueprint.trace(
            [
                ("main", "outer", 0, 100),
                ("main", "inner", 10, 20),
                ("main", "late", 20, 30),
                ("main", "leaf", 60, 10),
                ("main", "beyond", 90, 30),
            ]
        )
    )
    assert rows_of(found, "main") == [0, 1, 2, 1, 2]
    assert lanes_of(found, "main") == [(0, 2, "main"), (2, 1, "overlap")]


def test_lines_of_the_program_are_not_shown_beside_their_functions() -> None:
    samples = "samples of main, 100 a second"
    found = timeline(
        blueprint.trace(
            [
                ("main", "train", 0, 10),
                (samples, "$train.py:20 step", 0, 10),
                (
                    *("source lines of main, 100 a second", "$train.py:20 step"),
                    *(0, 10, {"source_line": 22}),
                ),
            ]
        )
    )
    assert names(found, 0) == ["main", samples]


def test_asynchronous_events_run_beside_the_thread_that_shows_them() -> None:
    found = timeline(
        blueprint.trace(
            [
                ("main", "outer", 0, 100),
                ("main", "waits", 10, 20, {"_a": 1}),
                ("main", "inner", 20, 30),
            ]
        )
    )
    assert rows_of(found, "main") == [0, 2, 1]


def test_bookkeeping_lies_below_what_is_drawn() -> None:
    found = timeline(
        blueprint.trace(
            [
                ("main", "op:Op", 0, 100),
                ("main", "MemoryAllocation", 5, 0),
                ("main", "PrefetchProduce", 10, 50),
                ("main", "inner:Op", 20, 10),
                ("pool", "ThreadpoolListener::Record", 1, 0),
            ]
        )
    )
    assert rows_of(found, "main") == [0, 2, 2, 1]
    main, pool = found.tracks.select("rows", "drawn_rows").rows()
    assert (main, pool) == ((3, 2), (1, 0))
    shown = dict(zip(found.names, found.visibility, strict=True))
    assert shown == {
        "op:Op": 0,
        "MemoryAllocation": 2,
        "PrefetchProduce": 2,
        "inner:Op": 0,
        "ThreadpoolListener::Record": 1,
    }


def test_a_stored_line_gives_way_to_ours_and_stays_within_reach() -> None:
    found = timeline(
        blueprint.trace(
            [
                kernel(0, 10, "m/Op:Op"),
                ("gpu:0/Framework Ops", "m/Op", 0, 10),
                ("gpu:0/Source code", "a.py:1", 0, 10),
            ]
        )
    )
    assert found.tracks.select("name", "folded").rows() == [
        ("Framework Name Scope", False),
        ("Framework Ops", False),
        ("Source code", False),
        ("Stream #7(Compute)", False),
        ("Framework Ops (stored)", True),
    ]


@pytest.mark.parametrize(
    "table",
    [*("device_activity", "launches", "stats", "devices", "hlo_ops", "type_stats")],
)
@pytest.mark.sweep(every=3)
def test_a_missing_table_takes_away_what_it_tells_and_nothing_else(table: str) -> None:
    why = Unavailable(code="NOT_RECORDED", reason="Taken away.", remedy="None.")
    found = timeline(blueprint.a1().without(table, why))
    whole = timeline(blueprint.a1())
    recorded = found.tracks.filter(pl.col("source").is_not_null())
    assert recorded["name"].to_list() == (
        whole.tracks.filter(pl.col("source").is_not_null())["name"].to_list()
    )
    if table in {"device_activity", "launches"}:
        assert len(found.flows.device_event) == 0
    else:
        assert len(found.flows.device_event) == 48


def test_without_events_there_is_no_timeline() -> None:
    why = Unavailable(code="CORRUPT", reason="Taken away.", remedy="None.")
    trace = blueprint.a1().without("events", why)
    assert blueprint.profile(trace).derived("vm", trace_timeline) == why


@pytest.mark.parametrize("name", REAL)
def test_every_event_has_one_place_and_no_row_shows_two_at_a_time(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    profile = ss.open(shared_profile(name))
    for host in profile.hosts:
        found = profile.derived(host, trace_timeline)
        events = profile.table(host, "events")
        assert isinstance(events, pl.DataFrame)
        start, dur = ints(events, "start_ps"), ints(events, "dur_ps")
        seen = np.zeros(len(events), np.int64)
        for track in found.tracks.iter_rows(named=True):
            part = slice(track["begin"], track["end"])
            if track["source"] is None:
                row, lengths = found.slices.row[part], found.slices.dur_ps[part]
                starts = found.slices.start_ps[part]
            else:
                row, starts, lengths = found.row[part], start[part], dur[part]
                seen[part] += 1
            assert 0 <= row.min() <= row.max() < track["rows"]
            order = np.lexsort((starts, row))
            ends = (starts + lengths)[order]
            same_row = np.diff(row[order]) == 0
            assert (starts[order][1:] >= ends[:-1])[same_row].all()
        assert (seen == 1).all()


@pytest.mark.parametrize(
    ("name", "stored_ops"),
    [
        ("gpu_tf/t4_healthy", 126),
        ("gpu_tf/t4_starved", 104),
        ("gpu_tf/v100_large", 701),
        ("gpu_tf/turing_launch_bound", 100),
    ],
)
def test_ops_equal_the_line_that_the_producer_derived_itself(
    shared_profile: Callable[[str], Path], name: str, stored_ops: int
) -> None:
    profile = ss.open(shared_profile(name))
    (host,) = profile.hosts
    found = profile.derived(host, trace_timeline)
    events, types = profile.table(host, "events"), profile.table(host, "event_types")
    assert isinstance(events, pl.DataFrame)
    assert isinstance(types, pl.DataFrame)
    of_view = found.tracks.filter(pl.col("view") == "framework_ops")
    stored = of_view.filter("folded").row(0, named=True)
    ours = of_view.filter(~pl.col("folded")).row(0, named=True)
    part = events.slice(stored["begin"], stored["end"] - stored["begin"])
    expected = set(
        zip(
            part["start_ps"],
            part["dur_ps"],
            types["name"].gather(part["type"]).str.split(":").list.first(),
            strict=True,
        )
    )
    own, slices = slice(ours["begin"], ours["end"]), found.slices
    full = pl.select(
        pl.coalesce(
            found.full_names.gather(slices.name[own]),
            found.names.gather(slices.name[own]),
        )
    ).to_series()
    actual = set(
        zip(
            slices.start_ps[own].tolist(),
            slices.dur_ps[own].tolist(),
            full,
            strict=True,
        )
    )
    assert len(expected) == stored_ops
    assert expected == actual
