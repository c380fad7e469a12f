"""Real recordings: what is known of them, and what protobuf counts in them."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.kept_promises import check_frame
from tests.support.xspace.proto import XSpaceMessage

from stepscope.formats.opening import read
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

#: Folder, part of the file name where it holds several → events.
EVENTS = {
    ("tf_cpu/keras_fit", ""): 12_768,
    ("tf_cpu/healthy", ""): 34_521,
    ("tf_cpu/input_bound", ""): 29_312,
    ("tf_cpu/sequential_map", ""): 29_417,
    ("tf_cpu/no_step_markers", ""): 49_400,
    ("tf_cpu/xla", ""): 18_059,
    ("tf_cpu/mirrored", ""): 22_190,
    ("tf_cpu/two_workers", "6009"): 202_846,
    ("tf_cpu/two_workers", "6010"): 92_410,
    ("tf_cpu/inference", ""): 14_500,
    ("tf_cpu/tf215_python_tracer", ""): 33_252,
    ("tf_cpu/eager_1m", ""): 1_116_441,
    ("jax_cpu/steps", ""): 6_328,
    ("jax_cpu/nosteps", ""): 6_257,
    ("jax_cpu/annotations", ""): 2_392,
    ("jax_cpu/python_tracer", ""): 14_125,
    ("gpu_tf/t4_healthy", ""): 1_192,
    ("gpu_tf/t4_starved", ""): 2_799,
    ("gpu_tf/v100_large", ""): 7_043,
    ("gpu_tf/turing_launch_bound", ""): 944,
    ("gpu_tf/xprof_gpu_multi_worker", "179"): 23_128,
    ("gpu_jax_amd/jax08_gemm", ""): 3_782,
    ("gpu_jax_amd/jax08_conv", ""): 3_650,
    ("tpu/tpu_inference_2", ""): 26_723,
    ("corrupt/truncated_25", ""): 4_202,
    ("corrupt/truncated_60", ""): 8_569,
    ("corrupt/truncated_99", ""): 14_467,
}
_PS_PER_US = 1_000_000


@pytest.fixture(scope="module")
def trace_of(shared_profile: Callable[[str], Path]) -> Any:
    """`trace_of(folder, part of the file's name)`; the last ones are kept."""

    @lru_cache(maxsize=4)
    def opened(folder: str, file: str = "") -> TraceData:
        paths = sorted(shared_profile(folder).rglob("*.xplane.pb*"))
        (path,) = (path for path in paths if file in path.name)
        return read(path)

    return opened


@pytest.fixture(scope="module")
def message_of(shared_profile: Callable[[str], Path]) -> Any:
    """`message_of(folder)`: its first file as protobuf reads it."""

    def parsed(folder: str) -> Any:
        path, *_ = sorted(shared_profile(folder).rglob("*.xplane.pb*"))
        return XSpaceMessage.FromString(path.read_bytes())

    return parsed


@pytest.mark.parametrize(("folder", "file"), sorted(EVENTS))
def test_tables_are_as_declared_and_events_complete_and_in_order(
    trace_of: Any, folder: str, file: str
) -> None:
    trace = trace_of(folder, file)
    for name, schema in TABLES.items():
        table = trace.table(name)
        assert isinstance(table, Unavailable) or check_frame(schema, table) == []
    events = trace.table("events")
    assert events.height == EVENTS[folder, file]
    tracks = trace.table("tracks")
    edges = [0, *tracks["event_end"].to_list()]
    assert tracks["event_begin"].to_list() == edges[:-1]
    assert edges[-1] == events.height
    order = events.select("track", "start_ps", -pl.col("dur_ps"))
    assert order.equals(order.sort(order.columns, maintain_order=True))
    assert {note.kind for note in trace.quality_notes()} & {
        "unordered_tracks",
        "negative_durations",
        "impossible_times",
    } == set()


def plane_events(message: Any) -> Any:
    """(Plane, line, event, name, stats by name) of every event, by protobuf."""
    for plane in message.planes:
        names = {key: it.name.decode() for key, it in plane.stat_metadata.items()}
        types = {key: it.name.decode() for key, it in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                stats = {}
                for stat in event.stats:
                    which = stat.WhichOneof("value")
                    value = getattr(stat, which)
                    if which == "ref_value":
                        value = names[value]
                    elif which == "str_value":
                        value = value.decode()
                    stats[names[stat.metadata_id]] = value
                yield plane, line, event, types[event.metadata_id], stats


@pytest.mark.parametrize(
    "folder",
    ["gpu_tf/t4_starved", "gpu_tf/xprof_gpu_multi_worker", "gpu_jax_amd/jax08_conv"],
)
def test_activity_and_launches_are_those_that_protobuf_lists(
    trace_of: Any, message_of: Any, folder: str
) -> None:
    expected: Counter[tuple[object, ...]] = Counter()
    calls: Counter[tuple[object, ...]] = Counter()
    for plane, line, event, name, stats in plane_events(message_of(folder)):
        start = line.timestamp_ns * 1000 + event.offset_ps
        correlation = stats.get("correlation_id")
        if plane.name.startswith(b"/device:GPU") and line.name.startswith(b"Stream"):
            op = stats.get("tf_op", stats.get("level 0"))
            op = None if op in {"", "XlaModule:"} else op
            device = int(plane.name.rsplit(b":", 1)[1])
            described = (op, stats.get("hlo_op"), stats.get("group_id"))
            expected[
                device, line.id, name, start, event.duration_ps, correlation, *described
            ] += 1
        elif correlation is not None:
            calls[line.id, name, start, event.duration_ps, correlation] += 1
    trace = trace_of(folder, "179" if "multi_worker" in folder else "")
    names = trace.table("event_types")["name"]
    texts = dict(enumerate(trace.strings))
    rows = trace.table("device_activity").iter_rows(named=True)
    found = Counter(
        (
            row["device"],
            row["stream"],
            names[row["type"]],
            row["start_ps"],
            row["dur_ps"],
            row["correlation"],
            texts.get(row["op"]),
            texts.get(row["hlo_op"]),
            row["group"],
        )
        for row in rows
    )
    ids = trace.table("tracks")["id"]
    launched = Counter(
        (
            ids[row["track"]],
            names[row["type"]],
            row["start_ps"],
            row["dur_ps"],
            row["correlation"],
        )
        for row in trace.table("launches").iter_rows(named=True)
    )
    assert found == expected
    assert launched == calls


@pytest.mark.parametrize(
    ("folder", "kernels", "kernel_us", "h2d"),
    [
        ("gpu_tf/t4_healthy", 193, 132_874.768, (8, 25_023.133, 100_666_396)),
        ("gpu_tf/t4_starved", 735, 1_299_021.149, (6, 28_163.31, 100_667_916)),
        ("gpu_tf/v100_large", 1158, 363_659.396, (5, 28_666.518, 100_667_404)),
        ("gpu_tf/turing_launch_bound", 155, 906.562, (8, 24.544, 98_712)),
    ],
)
def test_kernels_and_copies_of_the_runs_with_known_sums(
    trace_of: Any,
    folder: str,
    kernels: int,
    kernel_us: float,
    h2d: tuple[int, float, int],
) -> None:
    activity = trace_of(folder).table("device_activity")
    found = activity.filter(pl.col("kind") == "kernel")
    assert found.height == kernels
    assert found["dur_ps"].sum() == round(kernel_us * _PS_PER_US)
    # Launch details of every kernel, and plausible ones.
    assert found["geometry"].null_count() == 0
    copies = activity.filter(pl.col("kind") == "h2d")
    count, microseconds, size = h2d
    assert copies.height == count
    assert copies["dur_ps"].sum() == round(microseconds * _PS_PER_US)
    assert copies["bytes"].sum() == size


@pytest.mark.profiles
def test_geometries_are_what_the_details_say(trace_of: Any, message_of: Any) -> None:
    trace = trace_of("gpu_tf/t4_healthy")
    shapes = trace.table("geometries").to_dicts()
    found = Counter(
        (it["registers"], it["grid_x"], it["block_x"], it["shared_memory_bytes"])
        for row in trace.table("device_activity").iter_rows(named=True)
        if row["geometry"] is not None
        for it in [shapes[row["geometry"]]]
    )
    expected: Counter[tuple[int, ...]] = Counter()
    for plane, _, _, _, stats in plane_events(message_of("gpu_tf/t4_healthy")):
        if plane.name.startswith(b"/device") and "kernel_details" in stats:
            pairs = dict(part.split(":") for part in stats["kernel_details"].split())
            grid, block = (int(pairs[key].split(",")[0]) for key in ("grid", "block"))
            expected[int(pairs["regs"]), grid, block, int(pairs["shm"])] += 1
    assert found == expected


@pytest.mark.profiles
def test_only_the_gpus_that_computed_have_activity(trace_of: Any) -> None:
    trace = trace_of("gpu_tf/xprof_gpu_multi_worker", "179")
    found = (
        trace.table("device_activity")
        .group_by("device", kernel=pl.col("kind") == "kernel")
        .agg(pl.len().alias("count"), pl.col("dur_ps").sum())
        .sort("device", "kernel")
    )
    assert found.rows() == [
        (1, False, 19, 33_792_000),
        (4, False, 94, 198_429_000),
        (4, True, 665, 14_825_385_000),
        (6, False, 113, 239_136_000),
        (6, True, 665, 14_865_363_000),
    ]
    devices = trace.table("devices")
    assert devices["activities"].to_list() == [0, 19, 0, 0, 759, 0, 778, 0]
    assert set(devices["vendor"]) == {"Nvidia"}
    kinds = {note.kind for note in trace.quality_notes()}
    assert {"idle_devices", "vendor_inferred", "no_clock"} <= kinds


@pytest.mark.parametrize(
    ("folder", "activity_us"),
    [
        ("gpu_jax_amd/jax08_gemm", [(0, 54, 3_475.484)]),
        (
            "gpu_jax_amd/jax08_conv",
            [
                (0, 60, 4_000.165),
                (1, 25, 3_345.845),
                (2, 25, 3_524.285),
                (3, 25, 3_403.364),
                (4, 25, 3_493.365),
                (5, 25, 3_464.884),
                (6, 25, 3_403.004),
                (7, 25, 3_502.165),
            ],
        ),
    ],
)
def test_amd_devices_and_their_grammar(
    trace_of: Any, folder: str, activity_us: list[tuple[int, int, float]]
) -> None:
    trace = trace_of(folder)
    found = (
        trace.table("device_activity")
        .group_by("device")
        .agg(pl.len(), pl.col("dur_ps").sum())
        .sort("device")
    )
    assert found.rows() == [
        (device, count, round(us * _PS_PER_US)) for device, count, us in activity_us
    ]
    shapes = trace.table("geometries")
    # Zero stands for unknown there; blocks and grids are known.
    assert shapes["registers"].null_count() == shapes.height
    assert shapes["occupancy_percent"].null_count() == shapes.height
    assert shapes["block_x"].null_count() == 0
    assert trace.table("device_activity")["op"].null_count() == found["len"].sum()
    assert set(trace.table("devices")["vendor"]) == {"AMD"}
    assert trace.table("devices")["cores"].to_list() == [304] * 8


@pytest.mark.profiles
def test_the_device_s_own_clock_tells_equal_steps_and_what_only_waits(
    trace_of: Any, message_of: Any
) -> None:
    trace = trace_of("tpu/tpu_inference_2")
    own: dict[str, list[tuple[int, int]]] = {}
    waited = total = 0
    for plane, line, _, name, stats in plane_events(message_of("tpu/tpu_inference_2")):
        if line.name != b"XLA Ops":
            continue
        start, dur = stats["device_offset_ps"], stats["device_duration_ps"]
        if plane.name == b"/device:TPU:0":
            own.setdefault(name.partition(" = ")[0], []).append((start, dur))
        total += dur
        waited += dur if "-done" in name.partition(" = ")[0] else 0
    # The first instruction of each of the hundred calls of the program.
    calls = np.array(sorted(start for start, _ in own["%copy-start"]))
    periods = np.diff(calls) / 1e9
    assert round(float(np.median(periods)), 2) == 784.13
    assert periods.std(ddof=1) < 0.04
    activity = trace.table("device_activity")
    begins = (
        activity.filter(pl.col("device") == 0)
        .filter(pl.Series([trace.strings[it] == "copy-start" for it in _of(activity)]))
        .get_column("start_ps")
    )
    assert np.array_equal(np.diff(begins.to_numpy()), np.diff(calls))
    waits = activity.filter(pl.col("kind") == "transfer_wait")["dur_ps"].sum()
    assert (waits, activity["dur_ps"].sum()) == (waited, total)
    assert round(100 * waited / total, 1) == 96.5
    assert "device_clock" in {note.kind for note in trace.quality_notes()}


def _of(activity: pl.DataFrame) -> list[int]:
    return activity.filter(pl.col("device") == 0)["hlo_op"].to_list()


@pytest.mark.profiles
def test_tpu_runs_come_from_the_calls_that_the_runtime_s_contexts_tell(
    trace_of: Any, message_of: Any
) -> None:
    """Runs are matched by their ids; contexts, which are not read for it, agree."""
    runs: dict[str, list[tuple[int, int]]] = {}
    begins: dict[int, int] = {}
    for plane, line, event, name, stats in plane_events(
        message_of("tpu/tpu_inference_2")
    ):
        start = line.timestamp_ns * 1000 + event.offset_ps
        if line.name == b"XLA Modules":
            runs.setdefault(plane.name.decode()[-1], []).append((start, stats["_c"]))
        elif name == "DoEnqueueProgram":
            begins[stats["_p"]] = start
    expected = {
        int(device): [begins[context] for _, context in sorted(of_device)]
        for device, of_device in runs.items()
    }
    trace = trace_of("tpu/tpu_inference_2")
    launches = trace.table("launches")
    assert len(launches) == len(begins) == sum(map(len, expected.values())) == 414
    # The first run lasts 1 µs, and no op of it was recorded.
    del expected[0][0]
    called = launches.select("correlation", called="start_ps")
    activity = trace.table("device_activity")
    assert activity["correlation"].null_count() == 0
    found = (
        activity.group_by("device", "correlation")
        .agg(pl.col("start_ps").min())
        .sort("device", "start_ps")
        .join(called, on="correlation", how="left", maintain_order="left")
    )
    origin = min(begins.values()) - launches["start_ps"].min()
    assert {
        device: [origin + at for at in part["called"]]
        for (device,), part in found.partition_by("device", as_dict=True).items()
    } == expected


@pytest.mark.profiles
def test_tpu_ops_lose_no_time_though_only_innermost_ones_count(trace_of: Any) -> None:
    trace = trace_of("tpu/tpu_inference_2")
    tracks = trace.table("tracks")
    counts = (tracks["event_end"] - tracks["event_begin"]).alias("count")
    on_devices = tracks.with_columns(counts).filter(pl.col("device").is_not_null())
    assert on_devices.filter(name="Async XLA Ops")["count"].to_list() == [600, 0, 0, 0]
    assert on_devices.filter(name="XLA Ops")["count"].to_list() == [
        1504,
        1503,
        1503,
        1503,
    ]
    activity = trace.table("device_activity")
    seconds = (
        activity.group_by("device").agg(pl.col("dur_ps").sum() / 1e12).sort("device")
    )
    assert [round(it, 3) for it in seconds["dur_ps"]] == [
        78.784,
        78.788,
        78.781,
        78.765,
    ]
    collectives = activity.filter(pl.col("kind") == "collective")
    assert {trace.strings[it] for it in collectives["hlo_op"]} == {"all-reduce"}
    assert {trace.strings[it] for it in collectives["hlo_module"]} == {"jit__psum"}
    devices = trace.table("devices")
    assert set(devices["name"]) == {"TPU v6 Lite"}
    assert set(devices["peak_flops"]) == {918e12}
    assert trace.table("geometries").code == "NO_KERNEL_DETAILS"


@pytest.mark.parametrize(
    ("folder", "allocations", "deallocations", "peak"),
    [
        ("tf_cpu/keras_fit", 70, 70, 15_466_496),
        ("tf_cpu/healthy", 210, 209, 15_442_944),
        ("tf_cpu/input_bound", 2_085, 2_081, 6_291_456),
        ("tf_cpu/sequential_map", 2_020, 2_019, 3_709_440),
        ("tf_cpu/no_step_markers", 400, 400, 786_432),
        ("tf_cpu/xla", 30, 29, 69_206_016),
        ("tf_cpu/mirrored", 195, 194, 17_755_136),
        ("tf_cpu/inference", 202, 202, 4_686_336),
        ("tf_cpu/eager_1m", 2_107, 2_099, 5_047_296),
    ],
)
def test_allocations_on_cpu(
    trace_of: Any, folder: str, allocations: int, deallocations: int, peak: int
) -> None:
    table = trace_of(folder).table("allocations")
    counts = dict(table["kind"].cast(pl.String).value_counts().rows())
    assert counts == {"allocate": allocations, "deallocate": deallocations}
    mklcpu = table.filter(allocator="mklcpu")
    assert mklcpu["heap_bytes"].max() == peak
    assert table["start_ps"].is_sorted()


@pytest.mark.parametrize(
    ("folder", "count", "lifetime", "window"),
    [
        ("gpu_tf/t4_healthy", 153, 3_001_455_872, 1_573_133_568),
        ("gpu_tf/t4_starved", 222, 2_819_471_616, 2_819_471_616),
        ("gpu_tf/v100_large", 1026, 15_399_812_096, 13_955_346_688),
        ("gpu_tf/turing_launch_bound", 103, 103_798_272, 3_487_488),
    ],
)
def test_allocations_on_gpus(
    trace_of: Any, folder: str, count: int, lifetime: int, window: int
) -> None:
    table = trace_of(folder).table("allocations").filter(allocator="GPU_0_bfc")
    counts = dict(table["kind"].cast(pl.String).value_counts().rows())
    assert counts == {"allocate": count, "deallocate": count}
    assert table["peak_bytes"].max() == lifetime
    in_use = table.select(pl.col("heap_bytes") + pl.col("stack_bytes")).to_series()
    assert in_use.max() == window


@pytest.mark.parametrize(
    ("folder", "file", "count"),
    [
        ("tf_cpu/keras_fit", "", 830),
        ("tf_cpu/healthy", "", 2_498),
        ("tf_cpu/input_bound", "", 1_455),
        ("tf_cpu/sequential_map", "", 1_640),
        ("tf_cpu/xla", "", 1_150),
        ("tf_cpu/mirrored", "", 1_187),
        ("tf_cpu/two_workers", "6009", 16_418),
        ("tf_cpu/two_workers", "6010", 16_178),
        ("tf_cpu/tf215_python_tracer", "", 830),
        ("tf_cpu/eager_1m", "", 30_466),
    ],
)
def test_input_iterators(trace_of: Any, folder: str, file: str, count: int) -> None:
    table = trace_of(folder, file).table("iterators")
    assert table.height == count
    assert table["id"].null_count() == 0
    known = set(table["id"])
    # Every parent that is named was recorded itself.
    assert set(table["parent_id"].drop_nulls()) - known == set()


def test_cpu_profiles_say_that_no_device_was_recorded(trace_of: Any) -> None:
    for folder in ("tf_cpu/keras_fit", "jax_cpu/steps"):
        trace = trace_of(folder)
        assert trace.table("device_activity").code == "NO_DEVICE_PLANE"
        assert trace.table("launches").code == "NO_DEVICE_PLANE"


def test_partner_events_of_thunks_keep_their_names(trace_of: Any) -> None:
    trace = trace_of("jax_cpu/steps")
    names = trace.table("event_types")["name"].to_numpy()
    types = trace.table("events")["type"].to_numpy()
    ends = np.char.startswith(names.astype(str), "end: ")
    # Almost each of the 1,400 has one.
    assert 1_398 <= int(ends[types].sum()) <= 1_400


@pytest.mark.parametrize(
    ("folder", "clock", "levels"),
    [
        ("tf_cpu/keras_fit", 1_795_166_549_737_043_149, (2, 1, 0)),
        ("tf_cpu/tf215_python_tracer", None, (None, None, None)),
        ("gpu_tf/t4_healthy", None, (None, None, None)),
        ("tpu/tpu_inference_2", 1_741_722_099_081_044_120, (None, None, None)),
    ],
)
def test_clock_and_options(
    trace_of: Any, folder: str, clock: int | None, levels: tuple[int | None, ...]
) -> None:
    row = trace_of(folder).table("environment").row(0, named=True)
    assert row["start_unix_ns"] == clock
    found = (
        row["host_tracer_level"],
        row["device_tracer_level"],
        row["python_tracer_level"],
    )
    assert found == levels


@pytest.mark.profiles
@pytest.mark.parametrize(
    ("share", "size"), [(25, 90_374), (60, 216_898), (99, 357_882)]
)
def test_a_cut_file_says_where_it_was_cut_and_keeps_what_stands_before(
    trace_of: Any, share: int, size: int
) -> None:
    trace = trace_of(f"corrupt/truncated_{share}")
    (damage,) = (it for it in trace.quality_notes() if it.kind == "damaged_file")
    assert damage.severity == "error"
    assert len(trace.data) == size
    whole = trace_of("tf_cpu/inference").table("events")
    kept = trace.table("events")
    columns = ["start_ps", "dur_ps"]
    assert kept.select(columns).equals(whole.select(columns).head(kept.height))
    assert not trace.table("event_types")["known"].any()
