"""Chrome trace JSON as another reader understands it."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.chrome import broken_nesting, end, read_trace

from stepscope.analysis.tools import analyse
from stepscope.analysis.trace_viewer.arguments import (
    INTEGER,
    REAL,
    TEXT,
    UNSIGNED,
    Arguments,
)
from stepscope.analysis.trace_viewer.events import SpanPiece, trace_spans
from stepscope.analysis.trace_viewer.viewer import host_traces
from stepscope.reporting.envelope import describe_profile, recording_doubts
from stepscope.reporting.to_json import make_envelope
from stepscope.reporting.to_trace_json import render_piece, write_trace
from stepscope.trace.tables import INT, TYPE_STATS

if TYPE_CHECKING:
    from tests.support.traces.chrome import TraceFile

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

US = 1_000_000


def written(profile: ProfileData, *, piece_spans: int = 1000) -> bytes:
    file = io.BytesIO()
    result = analyse(profile, "trace_viewer", {})
    answer = make_envelope(
        "trace_viewer",
        result,
        profile=describe_profile(profile),
        quality=recording_doubts(profile),
    )
    hosts, _ = host_traces(profile)
    write_trace(
        answer, hosts, trace_spans(profile, piece_spans=piece_spans), file.write
    )
    return file.getvalue()


def traced(*traces: TraceData) -> TraceFile:
    return read_trace(written(blueprint.profile(*traces)))


def piece(**fields: Any) -> SpanPiece:
    """One span with these values."""
    none = np.empty(0, np.int64)
    given: dict[str, Any] = {
        "process": np.array([1], np.int32),
        "thread": np.array([1], np.int32),
        "start_ps": np.array([0]),
        "dur_ps": np.array([1]),
        "name": np.array([0], np.int32),
        "category": np.array([-1], np.int16),
        "counter": np.array([False]),
        "arguments": told([]),
        "leaves": (none, none),
        "arrives": (none, none),
    }
    return SpanPiece(**{**given, **fields})


def told(values: list[tuple[str, int, int | str]]) -> Arguments:
    """Values of the first span: name, kind, 64 bits or text."""
    texts = [value for _, _, value in values if isinstance(value, str)]
    return Arguments(
        np.zeros(len(values), np.int32),
        np.arange(len(values), dtype=np.int32),
        np.array([kind for _, kind, _ in values], np.uint8),
        np.array(
            [
                texts.index(value) if isinstance(value, str) else value
                for _, _, value in values
            ],
            np.int64,
        ),
        [name for name, _, _ in values],
        texts,
    )


def rendered(one: SpanPiece, name: str = "a") -> str:
    names = pl.Series([json.dumps(name)])
    return render_piece(one, names, pl.Series(['"input"'])).decode()


@pytest.mark.parametrize(
    ("start_ps", "dur_ps", "ts", "dur"),
    [
        (0, 1, "0.000000", "0.000001"),
        (1_234_567, 1_000_000, "1.234567", "1.000000"),
        (-1, 7, "-0.000001", "0.000007"),
        (-2_500_000, 30, "-2.500000", "0.000030"),
        (2**62, 2**61, "4611686018427.387904", "2305843009213.693952"),
    ],
)
def test_times_are_exact_decimals_of_a_microsecond(
    start_ps: int, dur_ps: int, ts: str, dur: str
) -> None:
    one = piece(start_ps=np.array([start_ps]), dur_ps=np.array([dur_ps]))
    assert rendered(one) == (
        f'{{"ph":"X","pid":1,"tid":1,"ts":{ts},"dur":{dur},"name":"a"}}'
    )


def test_what_has_no_length_is_an_instant() -> None:
    one = piece(dur_ps=np.array([0]), category=np.array([0], np.int16))
    assert rendered(one) == (
        '{"ph":"i","s":"t","pid":1,"tid":1,"ts":0.000000,"name":"a","cat":"input"}'
    )


def bits(value: float) -> int:
    return int(np.array([value]).view(np.int64)[0])


def test_values_keep_their_type_and_every_digit() -> None:
    reals = (0.1, 1e-300, 1.7976931348623157e308, -2.5, 1 / 3)
    values = [
        ("whole", INTEGER, -7),
        ("exact", INTEGER, 2**53),
        ("beyond", INTEGER, 2**53 + 1),
        ("low", INTEGER, -(2**63)),
        ("high", UNSIGNED, -1),
        ("small", UNSIGNED, 5),
        ("nan", REAL, bits(math.nan)),
        ("infinite", REAL, bits(-math.inf)),
        *((f"real{value}", REAL, bits(value)) for value in reals),
        ('te"xt\n', TEXT, 'é \\ "x"\n\x00'),
    ]
    event = json.loads(rendered(piece(arguments=told(values))))
    assert event["args"] == {
        "whole": -7,
        "exact": 2**53,
        "beyond": str(2**53 + 1),
        "low": str(-(2**63)),
        "high": str(2**64 - 1),
        "small": 5,
        "nan": "NaN",
        "infinite": "-inf",
        **{f"real{value}": value for value in reals},
        'te"xt\n': 'é \\ "x"\n\x00',
    }


def test_names_are_escaped() -> None:
    name = 'kernel<"a\\b">\n\t'
    assert json.loads(rendered(piece(), name))["name"] == name


def test_a_counter_is_a_sample_of_its_numbers() -> None:
    values = [("Raw Value", INTEGER, 12), ("unit", TEXT, "W")]
    sample = piece(counter=np.array([True]), arguments=told(values))
    assert json.loads(rendered(sample)) == {
        "ph": "C",
        "pid": 1,
        "tid": 1,
        "ts": 0.0,
        "name": "a",
        "args": {"Raw Value": 12},
    }
    nothing = sample._replace(
        dur_ps=np.array([0]), arguments=told([("unit", TEXT, "W")])
    )
    assert json.loads(rendered(nothing))["ph"] == "i"


def test_the_acceptance_vector_reads_back_event_by_event() -> None:
    found = traced(blueprint.a1())
    assert list(found.processes.values()) == ["vm /device:GPU:0", "vm Host Threads"]
    stream = found.on("Stream #7(Compute)", "vm /device:GPU:0")
    expected = [
        (name, 1000 * step + at, dur)
        for step in range(8)
        for name, at, dur in (
            ("volta_fp16_s884gemm", 300, 100),
            ("ampere_sgemm_32x32", 420, 100),
            ("ncclDevKernel_AllReduce", 540, 60),
        )
    ]
    assert expected == [
        (each.name, each.start_ps // US, each.dur_ps // US) for each in stream
    ]
    assert all(each.args["step"].startswith("train 10") for each in stream)
    assert Counter(each.args["op"] for each in stream) == {
        "model/dense/MatMul": 8,
        "model/dense_1/MatMul": 8,
        "allreduce": 8,
    }
    assert broken_nesting(found) == []


def test_arrows_begin_at_the_call_and_end_at_the_kernel_that_it_launched() -> None:
    found = traced(blueprint.a1())
    shown = {(each.place, each.start_ps): each for each in found.shown}
    pairs = [(shown[start], shown[stop]) for start, stop in found.arrows]
    assert len(pairs) == 48
    for call, work in pairs:
        assert call.name == "cuLaunchKernel"
        assert call.args["correlation_id"] == work.args["correlation_id"]


def test_steps_tell_their_numbers_and_launches_their_statistics() -> None:
    found = traced(blueprint.a1())
    steps, launches = found.on("Steps"), found.on("Launch Stats")
    assert [each.args["step_num"] for each in steps] == list(range(100, 108))
    assert [each.name for each in steps] == [f"train {at}" for at in range(100, 108)]
    told_of = launches[0].args
    assert told_of["num_launches"] == 6
    assert (told_of["max_launch_time_us"], told_of["avg_launch_time_us"]) == (5, 5)


def test_threads_are_listed_in_the_order_of_the_timeline() -> None:
    found = traced(blueprint.a1())
    process = next(iter(found.processes))
    names = [name for place, name in found.threads.items() if place[0] == process]
    assert names[:4] == [
        "Steps",
        "Launch Stats",
        "Framework Name Scope",
        "Framework Ops",
    ]


def test_overlapping_kernels_of_one_stream_all_survive() -> None:
    line = "gpu:0/7(Compute)"
    lines = [(line, f"k{at}", at, 10) for at in range(5)]
    found = traced(blueprint.trace(lines))
    kernels = {each.name: each for each in found.shown if each.name[0] == "k"}
    assert sorted(kernels) == ["k0", "k1", "k2", "k3", "k4"]
    assert {each.dur_ps for each in kernels.values()} == {10 * US}
    assert broken_nesting(found) == []
    own = [name for name in found.threads.values() if name.startswith("Stream #7")]
    assert own == ["Stream #7(Compute)"] + ["Stream #7(Compute) · overlap"] * 4


def test_the_file_is_also_the_answer_of_the_tool() -> None:
    found = traced(blueprint.a1())
    assert list(found.head) == [
        *("schema", "tool", "profile", "unavailable", "missing", "quality"),
        *("inputs", "data", "displayTimeUnit"),
    ]
    assert found.head["tool"] == "trace_viewer"
    assert found.head["displayTimeUnit"] == "ns"
    recorded = len(found.shown) - found.head["data"]["derived_spans"]
    assert found.head["data"]["events"] == recorded == 8 * 13


@pytest.mark.slow(seconds=1.8)
@pytest.mark.parametrize("piece_spans", [1, 7, 1 << 20])
@pytest.mark.sweep(every=3)
def test_pieces_leave_no_trace_in_the_file(piece_spans: int) -> None:
    profile = blueprint.profile(blueprint.a1(), blueprint.a5_host_b())
    assert lines_of(written(profile, piece_spans=piece_spans)) == lines_of(
        written(profile)
    )


def lines_of(data: bytes) -> Counter[str]:
    """The events, whatever their order."""
    return Counter(json.dumps(each) for each in json.loads(data)["traceEvents"])


def test_the_own_value_wins_over_that_of_the_type_and_the_group_comes_first() -> None:
    own = {"_pt": 1, "size": 3, "flow": 9, "shape": "f32[2]", "group_id": 4}
    trace = blueprint.trace(
        [("main", "op:Op", 0, 10, own), ("main", "op:Op", 20, 10, {"shape": "f32[]"})]
    )
    of_type = pl.DataFrame(
        [(0, trace.strings.index("size"), INT, 8, 0)],
        schema=TYPE_STATS.dtypes(),
        orient="row",
    )
    first, second = traced(blueprint.substitute(trace, type_stats=of_type)).shown
    assert list(first.args.items()) == [
        *(("group_id", 4), ("size", 3), ("shape", "f32[2]")),
    ]
    assert second.args == {"size": 8, "shape": "f32[]"}


def test_launch_calls_do_not_tell_the_details_that_only_kernels_have() -> None:
    details = {"correlation_id": 1, "kernel_details": "regs:140548216168480"}
    found = traced(
        blueprint.trace(
            [
                ("main", "launch", 0, 5, details),
                (
                    "gpu:0/7(Compute)",
                    "k",
                    9,
                    5,
                    {**details, "kernel_details": "regs:8"},
                ),
            ]
        )
    )
    told_of = {each.name: each.args.get("kernel_details") for each in found.shown}
    assert (told_of["launch"], told_of["k"]) == (None, "regs:8")


def test_copies_tell_their_size_and_rate() -> None:
    copy = {
        "memcpy_details": "kind_src:pinned kind_dst:device size:3000 dest:0 async:1"
    }
    found = traced(blueprint.trace([("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 0, 2, copy)]))
    (shown,) = found.on("Stream #8(MemcpyH2D)")
    assert shown.args["copied_bytes"] == 3000
    # 3000 bytes in 2 µs.
    assert float(shown.args["gigabytes_per_s"]) == 1.5


def at_unix_ns(trace: TraceData, start_ns: int) -> TraceData:
    environment = trace.table("environment")
    assert isinstance(environment, pl.DataFrame)
    clock = pl.lit(start_ns, pl.Int64).alias("start_unix_ns")
    return blueprint.substitute(trace, environment=environment.with_columns(clock))


def test_hosts_stand_on_one_clock_and_in_processes_of_their_own() -> None:
    one = blueprint.trace([("main", "a", 1, 2)], host="one")
    two = blueprint.trace([("main", "b", 1, 2)], host="two")
    found = traced(at_unix_ns(one, 10_000), at_unix_ns(two, 17_000))
    a, b = found.shown
    assert (a.start_ps, b.start_ps) == (1 * US, 8 * US)
    assert [a.place[0], b.place[0]] == [1701, 2701]
    assert list(found.processes.values()) == ["one Host Threads", "two Host Threads"]
    assert (end(a), end(b)) == (3 * US, 10 * US)
