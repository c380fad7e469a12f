"""The trace viewer: what there is to see, and its complete export."""

from __future__ import annotations

import gc
import gzip
import io
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from click.testing import CliRunner
from tests.support.traces import blueprint
from tests.support.traces.chrome import broken_nesting, counted, read_trace

import stepscope as ss
from stepscope.analysis.tools import analyse, find_tool
from stepscope.analysis.trace_viewer import TraceViewerResult
from stepscope.analysis.trace_viewer.events import PIECE_SPANS, trace_spans
from stepscope.analysis.trace_viewer.viewer import TRACE_TRACKS, host_traces
from stepscope.cli.main import main
from stepscope.reporting.envelope import describe_profile, recording_doubts
from stepscope.reporting.to_json import make_envelope
from stepscope.reporting.to_trace_json import write_trace
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData

REAL = (
    "gpu_tf/t4_healthy",
    "gpu_tf/v100_large",
    "gpu_tf/xprof_gpu_multi_worker",
    "gpu_jax_amd/jax08_conv",
    "tf_cpu/keras_fit",
    "tf_cpu/xla",
    "jax_cpu/python_tracer",
    "tpu/tpu_inference_2",
    "torch_cpu/schedule_dataloader",
    "kineto/dlrm_8rank_v100",
    "kineto/tracelens_qwen1.5_0.5b_mi300",
    "corrupt/truncated_60",
)


def result_of(profile: ProfileData) -> TraceViewerResult:
    result = analyse(profile, "trace_viewer", {})
    assert isinstance(result, TraceViewerResult)
    return result


def export(
    profile: ProfileData,
    write: Callable[[bytes], object],
    *,
    piece_spans: int = PIECE_SPANS,
) -> None:
    answer = make_envelope(
        "trace_viewer",
        result_of(profile),
        profile=describe_profile(profile),
        quality=recording_doubts(profile),
    )
    spans = trace_spans(profile, piece_spans=piece_spans)
    write_trace(answer, host_traces(profile)[0], spans, write)


def test_short_names_find_it() -> None:
    assert find_tool("trace").name == find_tool("trace_viewer@").name == "trace_viewer"


def test_the_acceptance_vector_is_listed_track_by_track() -> None:
    result = result_of(blueprint.profile(blueprint.a1()))
    assert result.tracks.columns == list(TRACE_TRACKS.dtypes())
    listed = result.tracks.select("section", "name", "spans", "recorded").rows()
    assert listed[:4] == [
        ("/device:GPU:0", "Steps", 8, False),
        ("/device:GPU:0", "Launch Stats", 8, False),
        # Three ops a step, of which two have the scopes `model` and one below.
        ("/device:GPU:0", "Framework Name Scope", 24, False),
        ("/device:GPU:0", "Framework Ops", 24, False),
    ]
    # Eight steps: a marker, six calls, three kernels, three copies.
    assert (result.events, result.drawn, result.folded, result.hidden) == (
        104,
        104,
        0,
        0,
    )
    assert result.flows == 48
    assert result.missing == ()
    assert (result.start_ms, result.end_ms) == (0.0, 7.9)


def test_drawn_folded_and_hidden_events_are_all_events() -> None:
    trace = blueprint.trace(
        [
            ("main", "op:Op", 0, 100),
            ("main", "MemoryAllocation", 5, 0),
            ("main", "MemoryDeallocation", 6, 0),
            ("pool", "ThreadpoolListener::Record", 1, 0),
            ("gpu:0/7(Compute)", "k", 10, 5, {"tf_op": "a/Op:Op"}),
            ("gpu:0/Framework Ops", "a/Op", 10, 5),
        ]
    )
    result = result_of(blueprint.profile(trace))
    # The stored line of ops is derived anew, and folded with what it holds.
    seen = result.events, result.drawn, result.folded, result.hidden
    assert seen == (6, 2, 2, 2)
    drawn = dict(result.tracks.select("name", "drawn").rows())
    assert drawn["main"] == 1
    assert drawn["Framework Ops (stored)"] == 0


def test_without_launch_calls_arrows_are_unknown_and_not_none() -> None:
    why = Unavailable(code="NOT_RECORDED", reason="Taken away.", remedy="None.")
    result = result_of(blueprint.profile(blueprint.a1().without("launches", why)))
    assert result.flows is None
    assert [(each.field, each.code) for each in result.missing] == [
        ("flows", "NOT_RECORDED")
    ]


def test_without_a_device_its_tracks_are_missing_with_the_reason() -> None:
    result = result_of(blueprint.profile(blueprint.a2()))
    assert result.flows is None
    assert {each.field: each.code for each in result.missing} == {
        "flows": "NO_DEVICE_PLANE",
        "tracks.framework_ops": "NO_DEVICE_PLANE",
    }


def test_without_steps_the_line_of_steps_is_missing_with_the_reason() -> None:
    trace = blueprint.trace([("main", "a", 0, 5), ("main", "b", 9, 5)])
    result = result_of(blueprint.profile(trace))
    assert "tracks.steps" in {each.field for each in result.missing}


def test_hosts_without_a_clock_are_not_said_to_be_aligned() -> None:
    one = blueprint.trace([("main", "a", 0, 5)], host="one")
    two = blueprint.trace([("main", "a", 0, 5)], host="two")
    environment = one.table("environment")
    assert isinstance(environment, pl.DataFrame)
    clock = pl.lit(5, pl.Int64).alias("start_unix_ns")
    timed = blueprint.substitute(one, environment=environment.with_columns(clock))
    result = result_of(blueprint.profile(timed, two))
    assert result.one_clock is None
    assert [each.code for each in result.missing if each.field == "one_clock"] == [
        "NO_CLOCK"
    ]
    found = result.tracks.select("host", "process").rows()
    assert found == [("one", 1701), ("two", 2701)]


def test_a_profile_without_events_has_no_trace() -> None:
    why = Unavailable(code="CORRUPT", reason="Taken away.", remedy="None.")
    profile = blueprint.profile(blueprint.a1().without("events", why))
    assert analyse(profile, "trace_viewer", {}) == why
    empty = blueprint.profile(blueprint.trace([]))
    assert isinstance(analyse(empty, "trace_viewer", {}), Unavailable)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.sweep(every=4)
def test_every_event_of_a_real_profile_is_in_its_export(
    shared_profile: Callable[[str], Path], name: str
) -> None:
    profile = ss.open(shared_profile(name))
    file = io.BytesIO()
    export(profile, file.write)
    found = read_trace(file.getvalue())
    expected: Counter[tuple[int, int, str]] = Counter()
    for host in profile.hosts:
        events, types = (
            profile.table(host, "events"),
            profile.table(host, "event_types"),
        )
        assert isinstance(events, pl.DataFrame)
        assert isinstance(types, pl.DataFrame)
        shown = types.select(pl.coalesce("display_name", "name")).to_series()
        offset = _offset(profile, host)
        expected.update(
            zip(
                (events["start_ps"] + offset).to_list(),
                events["dur_ps"].to_list(),
                shown.gather(events["type"]).to_list(),
                strict=True,
            )
        )
    result = result_of(profile)
    actual = counted(found.shown)
    assert expected - actual == Counter()
    assert actual.total() - expected.total() == result.derived_spans
    assert expected.total() == result.events
    assert result.events == result.drawn + result.folded + result.hidden
    assert broken_nesting(found) == []
    assert len(found.arrows) == (result.flows or 0)
    begins = {(each.place, each.start_ps) for each in found.shown}
    assert all(start in begins and stop in begins for start, stop in found.arrows)


def _offset(profile: ProfileData, host: str) -> int:
    """Nanoseconds after the earliest host, as picoseconds; 0 where one has no clock."""
    starts = {}
    for each in profile.hosts:
        environment = profile.table(each, "environment")
        assert isinstance(environment, pl.DataFrame)
        starts[each] = environment["start_unix_ns"][0]
    if None in starts.values():
        return 0
    return int(starts[host] - min(starts.values())) * 1000


@pytest.mark.parametrize(
    ("name", "kernels", "kernel_us"),
    [
        # Counted straight from the files (see the notes that come with them).
        ("gpu_tf/t4_healthy", 193, 132_874.768),
        ("gpu_tf/v100_large", 1158, 363_659.396),
        ("kineto/tracelens_qwen1.5_0.5b_h100", 1465, 45_432.698),
        ("gpu_jax_amd/jax08_gemm", 54, 3_475.484),
    ],
)
def test_every_kernel_is_still_there(
    shared_profile: Callable[[str], Path], name: str, kernels: int, kernel_us: float
) -> None:
    profile = ss.open(shared_profile(name))
    file = io.BytesIO()
    export(profile, file.write)
    found = read_trace(file.getvalue())
    streams = {
        place
        for place, thread in found.threads.items()
        if thread.lower().startswith("stream") and "GPU" in found.processes[place[0]]
    }
    of_kernels = [
        each
        for each in found.shown
        if each.place in streams and {"kernel_details", "grid"} & each.args.keys()
    ]
    assert len(of_kernels) == kernels
    total_ps = sum(each.dur_ps for each in of_kernels)
    assert total_ps == pytest.approx(kernel_us * 1_000_000, abs=500_000)


def test_a_compressed_export_is_the_same_trace(
    tmp_path: Path, shared_profile: Callable[[str], Path]
) -> None:
    path = str(shared_profile("gpu/torch_healthy"))
    plain, packed = tmp_path / "trace.json", tmp_path / "trace.json.gz"
    for file in (plain, packed):
        arguments = ["show", "trace", path, "--format", "json", "-o", str(file)]
        assert CliRunner().invoke(main, arguments).exit_code == 0
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.stat().st_size < plain.stat().st_size / 4
    assert [each.name for each in tmp_path.iterdir() if each.name[0] == "."] == []


def test_the_export_goes_to_standard_output_too(
    shared_profile: Callable[[str], Path],
) -> None:
    path = str(shared_profile("gpu/torch_healthy"))
    done = CliRunner().invoke(main, ["show", "trace", path, "--format", "json"])
    assert done.exit_code == 0
    assert read_trace(done.stdout_bytes).head["tool"] == "trace_viewer"


def test_a_failed_export_leaves_no_file(
    tmp_path: Path, shared_profile: Callable[[str], Path], monkeypatch: Any
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("stepscope.reporting.to_trace_json.render_piece", broken)
    path, file = str(shared_profile("gpu/torch_healthy")), tmp_path / "trace.json"
    arguments = ["show", "trace", path, "--format", "json", "-o", str(file)]
    assert CliRunner().invoke(main, arguments).exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_the_table_lists_tracks_and_says_where_the_rest_is(
    shared_profile: Callable[[str], Path],
) -> None:
    path = str(shared_profile("gpu/torch_healthy"))
    done = CliRunner().invoke(main, ["show", "trace", path])
    assert done.exit_code == 0
    assert "Framework Ops" in done.output
    assert "sections" in done.output


def many_kernels(count: int) -> ProfileData:
    """A launch call and a kernel, again and again."""
    lines = []
    for at in range(count):
        ids = {"correlation_id": at, "group_id": at // 100}
        lines.append(("main", "cuLaunchKernel", 10 * at, 2, ids))
        lines.append(
            (
                "gpu:0/7(Compute)",
                f"kernel_{at % 50}",
                10 * at + 3,
                5,
                {**ids, "tf_op": f"m/layer_{at % 20}/Op:Op", "kernel_details": f"{at}"},
            )
        )
    return blueprint.profile(blueprint.trace(lines))


@pytest.fixture(name="traces", scope="module")
def _traces() -> list[ProfileData]:
    """A short one and a long one; both were exported: what that needs is there."""
    profiles = [many_kernels(4_000), many_kernels(16_000)]
    for profile in profiles:
        export(profile, lambda _: None)
    return profiles


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trace(traces: list[ProfileData]) -> None:
    peaks, sizes = [], []
    for profile in traces:
        length = [0]

        def measure(data: bytes, length: list[int] = length) -> None:
            length[0] += len(data)

        tracemalloc.start()
        export(profile, measure, piece_spans=1024)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        sizes.append(length[0])
    assert sizes[1] > 3.9 * sizes[0]
    # What is held per event (an order of the arrows) is a fraction of what is written.
    assert peaks[1] - peaks[0] < 0.1 * (sizes[1] - sizes[0])
    assert peaks[1] < sizes[1] / 4


def held_bytes() -> int:
    """Bytes of Python and NumPy, since `tracemalloc` runs, and of all Polars frames.

    What the process has resident says less: allocators keep what was given back.
    """
    gc.collect()
    frames = [it for it in gc.get_objects() if type(it) in (pl.DataFrame, pl.Series)]
    traced, _ = tracemalloc.get_traced_memory()
    return traced + sum(frame.estimated_size() for frame in frames)


def growth(profile: ProfileData, keep: Callable[[bytes], object]) -> float:
    """What is held more at the end than after the first pieces, per byte written."""
    written, held = [0], []

    def measure(data: bytes) -> None:
        keep(data)
        before, written[0] = written[0], written[0] + len(data)
        # It takes as long as some pieces, so one looks once in a megabyte.
        if before // 1_000_000 < written[0] // 1_000_000:
            held.append((written[0], held_bytes()))

    tracemalloc.start()
    try:
        export(profile, measure, piece_spans=1024)
    finally:
        tracemalloc.stop()
    (first, before), *later = held
    assert later
    return (max(bytes_ for _, bytes_ in later) - before) / (later[-1][0] - first)


@pytest.mark.slow
def test_the_last_piece_finds_no_more_held_than_the_first_ones(
    traces: list[ProfileData],
) -> None:
    short, long = traces
    assert growth(long, lambda _: None) < 0.05
    kept: list[object] = []
    assert growth(short, kept.append) > 0.5
    # Nor in frames, of which `tracemalloc` knows nothing.
    kept.clear()
    assert growth(short, lambda data: kept.append(pl.Series([data]))) > 0.5
