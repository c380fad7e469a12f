"""The spans of an export one by one: places, values and arrows, worked out by hand."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint

import stepscope
from stepscope.analysis.tools import analyse
from stepscope.analysis.trace_viewer import TraceViewerResult
from stepscope.analysis.trace_viewer.arguments import INTEGER, REAL, TEXT, UNSIGNED
from stepscope.analysis.trace_viewer.events import PIECE_SPANS, trace_spans
from stepscope.analysis.trace_viewer.viewer import clock_offsets, host_traces
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.analysis.trace_viewer.arguments import Arguments
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

US = 1_000_000
#: (process, thread, name, start µs, duration µs, category, values)
Shown = tuple[int, int, str, float, float, str | None, dict[str, Any]]
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")

LINES: list[blueprint.Line] = [
    ("main", "train", 0, 90, {"_r": 1, "step_num": 7, "group_id": 3}),
    ("main", "cuLaunchKernel", 10, 5, {"correlation_id": 1, "kernel_details": "rest"}),
    ("main", "cuMemcpyHtoDAsync", 30, 5, {"correlation_id": 2}),
    ("main", "note", 50, 10, {"text": "x", "share": 0.5, "_pt": 4, "count": -3}),
    ("main", "crosses", 55, 20),
    ("main", "train", 100, 90, {"_r": 1, "step_num": 8, "group_id": 4}),
    (
        *("gpu:0/7(Compute)", "gemm", 20, 40),
        {"correlation_id": 1, "tf_op": "a/b:B", "kernel_details": "regs:16"},
    ),
    (
        *("gpu:1/8(MemcpyH2D)", "MemcpyH2D", 40, 4),
        {"correlation_id": 2, "memcpy_details": "size:8000 dest:0"},
    ),
    ("gpu:1/8(MemcpyH2D)", "MemcpyH2D ", 70, 0, {"memcpy_details": "size:9 dest:0"}),
]


def values_of(arguments: Arguments) -> list[tuple[int, str, Any]]:
    """(span, name, value) in order."""
    found = []
    for span, key, kind, value in zip(
        arguments.span.tolist(),
        arguments.key.tolist(),
        arguments.kind.tolist(),
        arguments.value.tolist(),
        strict=True,
    ):
        bits = struct.pack("<q", value)
        told = {
            INTEGER: lambda value=value: value,
            UNSIGNED: lambda bits=bits: struct.unpack("<Q", bits)[0],
            REAL: lambda bits=bits: struct.unpack("<d", bits)[0],
            TEXT: lambda value=value: arguments.texts[value],
        }
        found.append((span, arguments.keys[key], told[kind]()))
    return found


def exported(
    profile: ProfileData,
    *,
    piece_spans: int = PIECE_SPANS,
    window: tuple[int, int] | None = None,
) -> tuple[list[Shown], dict[int, list[str]]]:
    """All spans that are wanted, and the names of the spans at the ends of arrows."""
    spans: list[Shown] = []
    arrows: dict[int, list[str]] = {}
    for host in trace_spans(profile, piece_spans=piece_spans, window=window):
        for piece in host.pieces:
            count = len(piece.name)
            values: list[dict[str, Any]] = [{} for _ in range(count)]
            for span, name, value in values_of(piece.arguments):
                assert name not in values[span]
                values[span][name] = value
            for index in range(count):
                code = int(piece.category[index])
                if piece.kept is None or piece.kept[index]:
                    spans.append(
                        (
                            int(piece.process[index]),
                            int(piece.thread[index]),
                            host.names[int(piece.name[index])],
                            int(piece.start_ps[index]) / US,
                            int(piece.dur_ps[index]) / US,
                            None if code < 0 else host.categories[code],
                            values[index],
                        )
                    )
            for end in (piece.leaves, piece.arrives):
                for index, number in zip(*(part.tolist() for part in end), strict=True):
                    name = host.names[int(piece.name[index])]
                    arrows.setdefault(number, []).append(name)
    return spans, arrows


def test_every_span_has_its_place_its_values_and_its_arrows() -> None:
    spans, arrows = exported(blueprint.profile(blueprint.trace(LINES)))
    streams = {7: (1, "Stream #7(Compute)"), 8: (2, "Stream #8(MemcpyH2D)")}
    trace = host_traces(blueprint.profile(blueprint.trace(LINES)))[0][0]
    threads = {
        (process, name): thread
        for process, name, thread in trace.threads.select(
            "process", "name", "thread"
        ).iter_rows()
    }
    compute, copies = (threads[streams[stream]] for stream in (7, 8))
    main, apart = threads[701, "main"], threads[701, "main · overlap"]
    rate = 8000 / 4e-6 / 1e9
    assert [span for span in spans if span[5] is not None] == [
        (701, main, "train", 0, 90, "other", {"group_id": 3, "step_num": 7}),
        # Launch calls hold rests of memory where kernels have their details.
        (
            *(701, main, "cuLaunchKernel", 10, 5, "kernel_launch"),
            {"correlation_id": 1},
        ),
        (
            *(701, main, "cuMemcpyHtoDAsync", 30, 5, "kernel_launch"),
            {"correlation_id": 2},
        ),
        (
            *(701, main, "note", 50, 10, "other"),
            {"text": "x", "share": 0.5, "count": -3},
        ),
        (701, apart, "crosses", 55, 20, "other", {}),
        (701, main, "train", 100, 90, "other", {"group_id": 4, "step_num": 8}),
        (
            *(1, compute, "gemm", 20, 40, "device_compute_32"),
            {
                "correlation_id": 1,
                "tf_op": "a/b:B",
                "kernel_details": "regs:16",
                "step": "train 7",
                "op": "a/b",
            },
        ),
        (
            *(2, copies, "MemcpyH2D", 40, 4, "input"),
            {
                "correlation_id": 2,
                "memcpy_details": "size:8000 dest:0",
                "step": "train 7",
                "copied_bytes": 8000,
                "gigabytes_per_s": pytest.approx(rate),
            },
        ),
        # An instant moves its bytes at no rate.
        (
            *(2, copies, "MemcpyH2D ", 70, 0, "input"),
            {
                "memcpy_details": "size:9 dest:0",
                "step": "train 7",
                "copied_bytes": 9,
            },
        ),
    ]
    assert sorted(map(sorted, arrows.values())) == [
        ["MemcpyH2D", "cuMemcpyHtoDAsync"],
        ["cuLaunchKernel", "gemm"],
    ]
    assert sorted(arrows) == [0, 1]


def test_spans_of_derived_tracks_tell_their_step() -> None:
    profile = blueprint.profile(blueprint.trace(LINES))
    spans, _ = exported(profile)
    names = host_traces(profile)[0][0].threads.select("process", "thread", "name")
    thread = {(process, number): name for process, number, name in names.iter_rows()}
    told = {
        (thread[process, number], process, name): (start, dur, values)
        for process, number, name, start, dur, category, values in spans
        if category is None
    }
    marks = {"step": "train 7", "step_num": 7}
    # Marks of steps tell number and group; an op only the step, and its full name.
    assert told["Step windows", 701, "train 7"] == (0, 100, {**marks, "group_id": 3})
    assert told["Framework Ops", 1, "B"][2] == {"step": "train 7", "long_name": "a/b"}
    assert told["Launch Stats", 1, "train 7"][2] == {
        "num_launches": 1,
        "max_launch_time_us": 5.0,
        "avg_launch_time_us": 5.0,
        **marks,
        "group_id": 3,
    }


def test_the_group_stands_first_then_what_was_recorded() -> None:
    spans, _ = exported(blueprint.profile(blueprint.trace(LINES)))
    orders = [list(values) for *_, category, values in spans if category is not None]
    assert all("group_id" not in order[1:] for order in orders)
    assert ["correlation_id", "tf_op", "kernel_details", "step", "op"] in orders


@pytest.fixture(scope="module", params=["made", "gpu/check_torch"])
def profile(
    request: pytest.FixtureRequest, shared_profile: Callable[[str], Path]
) -> ProfileData:
    if request.param == "made":
        return blueprint.profile(
            blueprint.trace(LINES), blueprint.trace(LINES, host="other")
        )
    return stepscope.open(shared_profile(request.param))


def test_the_size_of_pieces_changes_nothing(profile: ProfileData) -> None:
    whole = exported(profile)
    assert exported(profile, piece_spans=max(2, len(whole[0]) // 7)) == whole


def test_a_window_has_what_begins_in_it_or_runs_into_it(profile: ProfileData) -> None:
    everything, arrows = exported(profile)
    offsets = {trace.host: trace.offset_ps for trace in host_traces(profile)[0]}
    assert set(offsets.values()) == {0}
    edges = sorted(
        {span[3] for span in everything} | {span[3] + span[4] for span in everything}
    )
    for low, high in ((0, -1), (len(edges) // 3, len(edges) // 2), (1, 2)):
        begin, end = round(edges[low] * US), round(edges[high] * US)
        spans, found = exported(profile, window=(begin, end))
        assert spans == [
            span
            for span in everything
            if begin <= round(span[3] * US) < end
            or round(span[3] * US) < begin < round((span[3] + span[4]) * US)
        ]
        # An arrow needs both of its ends.
        assert all(len(ends) == 2 for ends in found.values())
        assert found.items() <= arrows.items()


def test_arrows_of_a_window_have_both_ends_inside() -> None:
    profile = blueprint.profile(blueprint.trace(LINES))
    for window, count in (((0, 100), 2), ((0, 30), 1), ((36, 100), 0), ((30, 41), 1)):
        begin, end = (at * US for at in window)
        assert len(exported(profile, window=(begin, end))[1]) == count, window


def clocked(trace: TraceData, start_ns: int | None) -> TraceData:
    environment = trace.table("environment")
    assert isinstance(environment, pl.DataFrame)
    start = pl.lit(start_ns, pl.Int64).alias("start_unix_ns")
    return blueprint.substitute(trace, environment=environment.with_columns(start))


def two_hosts(first_ns: int | None, second_ns: int | None) -> ProfileData:
    return blueprint.profile(
        clocked(blueprint.trace(LINES, host="a"), first_ns),
        clocked(blueprint.trace(LINES, host="b"), second_ns),
    )


def test_hosts_share_the_clock_of_the_earliest() -> None:
    profile = two_hosts(5_000, 2_000)
    assert clock_offsets(profile) == {"a": 3_000_000, "b": 0}
    spans, arrows = exported(profile)
    starts = {span[0] // 1000: span[3] for span in spans if span[2] == "gemm"}
    assert starts == {1: 23, 2: 20}
    # The arrows of the second host are numbered after those of the first.
    assert sorted(arrows) == [0, 1, 2, 3]
    result = analyse(profile, "trace_viewer", {})
    assert isinstance(result, TraceViewerResult)
    assert result.one_clock is True
    assert (result.start_ms, result.end_ms) == (0.0, 0.193)
    assert result.flows == 4


def test_a_host_without_a_clock_prevents_a_common_one() -> None:
    for starts in ((5_000, None), (None, 2_000), (None, None)):
        offsets = clock_offsets(two_hosts(*starts))
        assert isinstance(offsets, Unavailable)
        assert offsets.code == "NO_CLOCK"
        spans, _ = exported(two_hosts(*starts))
        assert {span[3] for span in spans if span[2] == "gemm"} == {20}
    alone = blueprint.profile(blueprint.trace(LINES))
    assert clock_offsets(alone) == {"vm": 0}


def test_tracks_and_sections_are_counted_host_by_host() -> None:
    result = analyse(two_hosts(2_000, 2_000), "trace_viewer", {})
    assert isinstance(result, TraceViewerResult)
    columns = ("process", "spans", "drawn", "lanes", "start_ms", "end_ms")
    by_name = {
        (host, section, name): rest
        for host, section, name, *rest in result.tracks.select(
            "host", "section", "name", *columns
        ).iter_rows()
    }
    for host, first in (("a", 1000), ("b", 2000)):
        gpus = [f"/device:GPU:{number}" for number in (0, 1)]
        assert by_name[host, gpus[0], "Stream #7(Compute)"] == [
            *(first + 1, 1, 1, 1, 0.02, 0.06)
        ]
        assert by_name[host, gpus[1], "Stream #8(MemcpyH2D)"] == [
            *(first + 2, 2, 2, 1, 0.04, 0.07)
        ]
        assert by_name[host, "Host Threads", "main"] == [
            *(first + 701, 6, 6, 2, 0.0, 0.19)
        ]
        mine = result.tracks.filter(host=host)
        sections = result.sections.filter(host=host)
        assert sections["process"].to_list() == [first + 1, first + 2, first + 701]
        for process, tracks, spans in sections.select(
            "process", "tracks", "spans"
        ).iter_rows():
            own = mine.filter(process=process)
            assert (tracks, spans) == (own.height, own["spans"].sum())
        derived = mine.filter(~pl.col("recorded"))["spans"].sum()
        assert result.inputs[host] == {
            "tracks": mine.height,
            "events": len(LINES),
            "derived_spans": derived,
        }
    assert result.events == result.drawn == 2 * len(LINES)
    assert result.derived_spans == sum(
        counts["derived_spans"] for counts in result.inputs.values()
    )


def test_a_host_whose_events_are_lost_is_missing_beside_one_that_has_some() -> None:
    profile = blueprint.profile(
        blueprint.trace(LINES, host="a"),
        blueprint.trace(LINES, host="b").without("events", ABSENT),
    )
    result = analyse(profile, "trace_viewer", {})
    assert isinstance(result, TraceViewerResult)
    assert set(result.tracks["host"]) == {"a"}
    assert {one.field: one.code for one in result.missing}["hosts.b"] == "CORRUPT"


@pytest.mark.parametrize(
    ("table", "value"), [("stats", "text"), ("device_activity", "op")]
)
def test_without_a_table_its_values_are_gone_and_the_others_stay(
    table: str, value: str
) -> None:
    whole, _ = exported(blueprint.profile(blueprint.trace(LINES)))
    profile = blueprint.profile(blueprint.trace(LINES).without(table, ABSENT))
    spans, _ = exported(profile)
    assert any(value in span[-1] for span in whole)
    assert not any(value in span[-1] for span in spans)
    recorded = [name for _, name, *_ in LINES]
    for name in set(recorded):
        assert [span[2] for span in spans].count(name) >= recorded.count(name)
    assert np.array_equal([span[3] for span in spans if span[2] == "gemm"], [20.0])
