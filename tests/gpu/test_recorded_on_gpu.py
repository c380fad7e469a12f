"""Training loops that stepscope recorded on an H100, against what their programs know.

The profiles under tests/data/gpu are those of `gpu_scenes.py`, with the truth that each
program wrote beside: its own clocks, the device's, and what it computed and copied. The
profile that `stepscope demo` shows lies in the package.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.programs.frameworks import check_every_tool, steps_of, xprof_events

import stepscope as ss
from stepscope.advice.engine import evaluate, signals_of
from stepscope.cli.demo import RECORDED
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.steps.chosen import steps
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

DATA = Path(__file__).resolve().parents[1] / "data" / "gpu"
SCENES = sorted(
    path.parent.name for path in DATA.glob("*/truth.json") if path.parent.is_dir()
)
MARKED = [name for name in SCENES if name != "jax_unmarked"]
#: The trouble that some scenes were given; JAX's input is plain NumPy, of which its
#: profiler says nothing.
TROUBLES = {
    "torch_launch_bound": "launch.delay",
    "torch_input_bound": "input.bound",
    "torch_copies": "input.bound",
    "torch_memory": "amp.share",
}
#: Nothing was built into these; what fails all the same is there to be measured. The
#: loops read the loss back in every step, so that the device has nothing queued while
#: the next call is launched, and the first of eight steps takes 1.5 to 3.3 times as
#: long as the others. In `torch_graph` the profiler's request of a buffer takes 3.37 of
#: the 17.2 ms that the steps last, and its kernels are those of the eager loop: a graph
#: saves launches, and fuses nothing.
SLOW_START = ("gap.readback", "step.outlier")
WITHOUT_TROUBLE = {
    # The models are small: a larger batch would fill the memory and the device.
    "jax_healthy": {*SLOW_START, "launch.delay", "multi.batch"},
    "jax_healthy_without_graphs": {*SLOW_START, "launch.delay", "multi.batch"},
    "torch_graph": {
        *(*SLOW_START, "recording.cost", "launch.delay", "fuse.runs", "xla.off"),
    },
}
STEPS = 8


@cache
def opened(scene: str) -> tuple[ProfileData, dict[str, Any]]:
    folder = DATA / scene
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text("utf-8"))
    return ss.open(RECORDED if scene == RECORDED.name else folder), truth


def table(profile: ProfileData, name: str) -> pl.DataFrame:
    (host,) = profile.hosts
    return profile.table(host, name)


def activity(profile: ProfileData) -> pl.DataFrame:
    """What ran on the device, with its name."""
    rows = table(profile, "device_activity")
    names = table(profile, "event_types")["name"]
    return rows.with_columns(names.gather(rows["type"]).alias("name"))


def kernels(profile: ProfileData) -> pl.DataFrame:
    rows: pl.DataFrame = profile.tool("kernel_stats").rows
    return rows


def test_all_scenes_are_here() -> None:
    assert len(SCENES) == 13
    assert set(TROUBLES) < set(SCENES)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.sweep(every=4)
def test_every_tool_answers(scene: str) -> None:
    profile, _ = opened(scene)
    if scene == RECORDED.name:  # others: test_every_tool_on_every_profile.py
        check_every_tool(profile)
    for tool in ("overview_page", "kernel_stats", "trace_viewer", "framework_op_stats"):
        assert not isinstance(profile.tool(tool), Unavailable), tool


@pytest.mark.parametrize("scene", MARKED)
def test_steps_are_those_that_the_program_timed(scene: str) -> None:
    profile, truth = opened(scene)
    assert steps_of(profile) == [("train", number) for number in range(STEPS)]
    (host,) = profile.hosts
    rows = profile.derived(host, steps).rows
    # A step ends where the next one begins; the marker is its own event.
    ours = (table(profile, "events")["dur_ps"].gather(rows["event"]) / 1e9).to_list()
    for mine, theirs in zip(ours, truth["step_ms"], strict=True):
        # The program's clock stands around the marker; it reads the device's events
        # inside of it.
        assert theirs - 0.4 < mine <= theirs


def test_unmarked_steps_are_found_by_the_launches() -> None:
    profile, truth = opened("jax_unmarked")
    (host,) = profile.hosts
    found = profile.derived(host, steps)
    assert found.source == "launch"
    assert len(found.rows) == truth["steps"]
    begins = (found.rows["start_ps"].diff().drop_nulls() / 1e9).to_list()
    for mine, theirs in zip(begins, truth["begin_to_begin_ms"], strict=True):
        assert mine == pytest.approx(theirs, abs=0.1)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.sweep(every=4)
def test_the_parts_of_a_step_add_up(scene: str) -> None:
    profile, _ = opened(scene)
    overview = profile.tool("overview_page")
    parts = [it for it in overview.breakdown_ms.values() if it is not None]
    assert sum(parts) == pytest.approx(overview.step_time_ms.mean, rel=1e-9)


@pytest.mark.parametrize("scene", ["torch_copies", "jax_copies", "torch_overlap"])
def test_copies_have_the_size_of_what_was_copied(scene: str) -> None:
    profile, truth = opened(scene)
    rows = activity(profile)
    for kind in ("h2d", "d2h"):
        if f"{kind}_bytes_per_step" in truth:
            copied = rows.filter(pl.col("kind").cast(pl.String) == kind)["bytes"]
            assert copied.to_list() == [truth[f"{kind}_bytes_per_step"]] * STEPS


def test_a_copy_beside_kernels_is_mostly_hidden() -> None:
    profile, truth = opened("torch_overlap")
    rows = activity(profile)
    products = rows.filter(pl.col("kind").cast(pl.String) == "kernel")
    assert len(products) == STEPS * truth["products_per_step"]
    copied = rows.filter(pl.col("kind").cast(pl.String) == "h2d")["dur_ps"].sum() / 1e9
    exposed = profile.tool("overview_page").breakdown_ms["input"] * (STEPS - 1)
    assert 0 < exposed < copied / 4


def test_every_launch_of_a_launch_bound_loop_is_counted() -> None:
    profile, truth = opened("torch_launch_bound")
    of_op = kernels(profile).filter(pl.col("op_name") == "aten::mul_")
    assert of_op["occurrences"].sum() == STEPS * truth["multiplications_per_step"]


@pytest.mark.parametrize("scene", [*TROUBLES, *WITHOUT_TROUBLE])
@pytest.mark.sweep(every=3)
def test_findings_name_the_trouble_that_was_built_in(scene: str) -> None:
    profile, _ = opened(scene)
    findings = evaluate(signals_of(profile))
    failed = {found.id for found in findings if found.status == "fail"}
    if scene in TROUBLES:
        assert TROUBLES[scene] in failed
    else:
        assert failed == WITHOUT_TROUBLE[scene]


def test_the_buffers_of_the_recording_are_its_own_time() -> None:
    """One request of a buffer lies in the measured steps, with the device idle."""
    profile, _ = opened("torch_graph")
    (host,) = profile.hosts
    found = profile.derived(host, account)
    names = table(profile, "event_types")["name"]
    events = table(profile, "events")
    requests = events.filter(names.gather(events["type"]) == "Activity Buffer Request")
    assert len(requests) == 1
    assert found.rows["profiler_ps"].sum() == requests["dur_ps"].sum()


def test_the_wait_for_input_is_as_long_as_making_it() -> None:
    profile, truth = opened("torch_input_bound")
    waited = profile.tool("overview_page").breakdown_ms["input"]
    assert truth["input_ms_per_step"] < waited < min(truth["step_ms"])


@pytest.mark.parametrize(
    "scene", ["torch_healthy", "jax_healthy", "jax_healthy_without_graphs"]
)
def test_products_have_the_work_that_the_program_asked_for(scene: str) -> None:
    """Products alone: what is computed beside them is less than a hundredth."""
    profile, truth = opened(scene)
    rows = profile.tool("framework_op_stats").rows
    rows = rows.filter(pl.col("tensor_core_eligible") & (pl.col("exposed_time_us") > 0))
    done = (rows["measured_flop_rate"] * rows["total_self_time_us"] * 1e3).sum()
    assert done / STEPS == pytest.approx(truth["flops_per_step"], rel=0.01)


def test_products_of_half_precision_use_the_matrix_units() -> None:
    for scene in ("torch_healthy", "torch_graph", "jax_healthy"):
        profile, _ = opened(scene)
        rows = kernels(profile).filter(pl.col("kernel_name").str.contains("nvjet"))
        assert rows["occurrences"].sum() >= 3 * STEPS
        assert rows["uses_tensor_core"].to_list() == [True] * len(rows)
        assert set(rows["precision"]) == {"16"}


def test_cut_operands_are_told_from_whole_ones() -> None:
    """The operands of both are recorded as 32 bits wide."""
    rows = kernels(ss.open(DATA / "kernels"))
    products = rows.filter(pl.col("op_name") == "aten::mm")
    cut = products["kernel_name"].str.contains("tf32f32")
    assert set(products.filter(cut)["precision"]) == {"tf32"}
    whole = products["kernel_name"].str.contains("_ffma_")
    assert set(products.filter(whole)["precision"]) == {"32"}


def test_a_replayed_graph_runs_the_products_of_its_step() -> None:
    counts = [
        kernels(opened(scene)[0])
        .filter(pl.col("kernel_name").str.contains("nvjet"))["occurrences"]
        .sum()
        for scene in ("torch_healthy", "torch_graph")
    ]
    assert counts == [STEPS * 5] * 2


@pytest.mark.parametrize("scene", ["jax_healthy", "jax_input_bound"])
def test_kernels_of_a_graph_have_the_ops_that_they_have_without_it(scene: str) -> None:
    """XLA names the instruction of each kernel where it launches it by itself."""

    def ops_of(name: str) -> list[tuple[str, str, int]]:
        rows = kernels(opened(name)[0])
        return sorted(rows.select("kernel_name", "op_name", "occurrences").iter_rows())

    with_graphs, without = ops_of(scene), ops_of(f"{scene}_without_graphs")
    assert with_graphs == without
    assert all(op for _, op, _ in with_graphs)


def test_memory_is_what_the_allocators_say() -> None:
    for scene, memory in (("torch_memory", "cuda:0"), ("jax_healthy", "GPU_0_bfc")):
        profile, truth = opened(scene)
        found = profile.tool("memory_profile").memories[memory]
        assert found.peak.heap_bytes == truth["peak_allocated_bytes"], scene


def test_counters_agree_on_the_launches_of_every_kernel() -> None:
    """Nsight Compute counted the same program's kernels, in the same order."""
    folder = DATA / "kernels"
    counted = json.loads(gzip.decompress((folder / "counters.json.gz").read_bytes()))
    profile = ss.open(folder)
    ran = activity(profile).filter(pl.col("kind").cast(pl.String) == "kernel")
    ran = ran.sort("start_ps")
    assert len(ran) == len(counted["kernels"]) > 200
    rows = kernels(profile)
    shown = {
        (row["kernel_name"], row["block_dim"], row["grid_dim"]): row
        for row in rows.iter_rows(named=True)
    }
    shapes = table(profile, "geometries")
    verdicts: dict[bool, int] = {True: 0, False: 0}
    for name, at, theirs in zip(
        ran["name"], ran["geometry"], counted["kernels"], strict=True
    ):
        shape = shapes.row(at, named=True)
        block, grid = (
            [shape[f"{what}_{axis}"] for axis in "xyz"] for what in ("block", "grid")
        )
        assert (block, grid) == (theirs["block"], theirs["grid"])
        ours = shown[name, ",".join(map(str, block)), ",".join(map(str, grid))]
        assert ours["registers"] == theirs["registers"]
        shared = theirs["static_shared_bytes"] + theirs["dynamic_shared_bytes"]
        assert ours["shared_memory_bytes"] == shared
        assert ours["occupancy_percent"] == pytest.approx(
            theirs["occupancy_percent"], abs=0.01
        ), name
        assert ours["occupancy_limiter"] in limiters(theirs), name
        matrix = theirs["dmma"] + theirs["gmma"] + theirs["imma"] + theirs["hmma"]
        uses = matrix > theirs["hmma_type_hfma2"]
        if ours["uses_tensor_core"] is None:
            assert name.startswith("triton")
        else:
            assert ours["uses_tensor_core"] == uses, name
            assert ours["tensor_core_evidence"] == "name"
            verdicts[uses] += 1
    assert verdicts[True] > 25
    assert verdicts[False] > 100


def limiters(counted: dict[str, Any]) -> set[str]:
    """What keeps more blocks from fitting; several where they say the same."""
    blocks = {
        "registers": counted["blocks_by_registers"],
        "shared_memory": counted["blocks_by_shared_memory"],
        "threads": counted["blocks_by_threads"],
        "blocks": counted["blocks_at_most"],
    }
    return {name for name, count in blocks.items() if count == min(blocks.values())}


def test_the_device_is_described_as_its_driver_does() -> None:
    counted = json.loads(
        gzip.decompress((DATA / "kernels" / "counters.json.gz").read_bytes())
    )["device"]
    number = {
        name: int(text.replace(",", ""))
        for name, text in counted.items()
        if name != "display_name"
    }
    transfers = 2 * number["memory_clock_rate"] * 1000
    for scene in ("torch_healthy", "jax_healthy"):
        (row,) = table(opened(scene)[0], "devices").iter_rows(named=True)
        assert row["name"] == counted["display_name"]
        assert (row["cc_major"], row["cc_minor"]) == (9, 0)
        assert row["cores"] == number["multiprocessor_count"]
        assert row["clock_hz"] == number["clock_rate"] * 1000
        assert row["memory_bandwidth"] == (
            transfers * number["global_memory_bus_width"] // 8
        )


@pytest.mark.framework
@pytest.mark.parametrize("scene", ["torch_healthy", "jax_healthy"])
def test_xprof_shows_the_same_kernels(scene: str, tmp_path: Path) -> None:
    (stored,) = (DATA / scene).rglob("*.xplane.pb.gz")
    path = tmp_path / "localhost.xplane.pb"
    path.write_bytes(gzip.decompress(stored.read_bytes()))
    profile, _ = opened(scene)
    rows = activity(profile).filter(pl.col("kind").cast(pl.String) == "kernel")
    ran = rows["name"].value_counts()
    theirs: dict[str, int] = {}
    for event in xprof_events(path):
        if event.get("ph") == "X":
            theirs[event["name"]] = theirs.get(event["name"], 0) + 1
    assert len(ran) >= 10
    for name, count in ran.iter_rows():
        assert theirs.get(name) == count, name
