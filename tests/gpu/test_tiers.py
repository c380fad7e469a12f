"""One program under three profilers on an H100: do they, and we, say the same of it?

`tests/data/gpu/tiers` holds what `gpu_tiers.py` recorded of `torch_tiers.py train`: by
PyTorch's profiler (`stepscope run`), by Nsight Systems (`stepscope nsys`), and counters
of Nsight Compute (`stepscope ncu`) of each kernel of a step and of one op.
"""

from __future__ import annotations

import gzip
import sqlite3
from collections import defaultdict
from contextlib import closing
from functools import cache
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import polars as pl
import pytest
from click.testing import CliRunner

import stepscope as ss
from stepscope.advice.engine import evaluate, signals_of
from stepscope.cli.main import main as command_line
from stepscope.derive.device.measured_kernels import name_forms
from stepscope.derive.facts.step_shares import account_signals
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.analysis.tools import ProfileWithTools

FOLDER = Path(__file__).resolve().parents[1] / "data" / "gpu" / "tiers"
RECORDED, TIMELINE = FOLDER / "recorded", FOLDER / "timeline.sqlite.gz"
STEP, OP = FOLDER / "step.csv.gz", FOLDER / "op.csv.gz"
#: Steps that each of the two timelines holds, and launches of kernels in each step.
STEPS = {"recorded": 10, "timeline": 12}
LAUNCHES = 46
#: Kernels of one step, by name and launch shape.
Shape = tuple[str, tuple[int, ...]]


@cache
def opened(path: Path, kernels: Path | None = None) -> ProfileWithTools:
    return ss.open(path, kernels=kernels)


@cache
def findings(path: Path) -> dict[str, Finding]:
    found = evaluate(signals_of(opened(path)))
    return {one.id: one for one in found}


def by_shape(
    rows: list[tuple[str, tuple[int, ...], float]],
) -> dict[Shape, list[float]]:
    """Microseconds of each launch; tools write the names of one kernel differently."""
    found = defaultdict(list)
    for name, shape, microseconds in rows:
        found[name_forms(name).base, shape].append(microseconds)
    return dict(found)


def of_the_framework() -> dict[Shape, list[float]]:
    profile = opened(RECORDED)
    (host,) = profile.hosts
    rows = require_available(profile.table(host, "device_activity"))
    names = require_available(profile.table(host, "event_types"))["name"]
    shapes = require_available(profile.table(host, "geometries"))
    sides = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    kernels = rows.filter(pl.col("kind") == "kernel")
    return by_shape(
        [
            (
                names[row["type"]],
                shapes.select(sides).row(row["geometry"]),
                row["dur_ps"] / 1e6,
            )
            for row in kernels.iter_rows(named=True)
        ]
    )


def of_nsight_systems() -> dict[Shape, list[float]]:
    """By SQL, not by our reader."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(gzip.decompress(TIMELINE.read_bytes()))
        rows = database.execute(
            "SELECT value, gridX, gridY, gridZ, blockX, blockY, blockZ, end - start"
            " FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds"
            " ON StringIds.id = demangledName"
        ).fetchall()
    return by_shape([(name, tuple(shape), ns / 1e3) for name, *shape, ns in rows])


def test_both_timelines_hold_the_same_kernels_of_a_step() -> None:
    ours, theirs = of_the_framework(), of_nsight_systems()
    assert {shape: len(them) / STEPS["recorded"] for shape, them in ours.items()} == {
        shape: len(them) / STEPS["timeline"] for shape, them in theirs.items()
    }
    assert sum(map(len, ours.values())) == LAUNCHES * STEPS["recorded"]


def test_a_kernel_takes_as_long_in_both() -> None:
    """The device's clock has steps of 32 ns, and no two runs are alike."""
    ours, theirs = of_the_framework(), of_nsight_systems()
    for shape, them in ours.items():
        assert mean(them) == pytest.approx(mean(theirs[shape]), rel=0.03, abs=0.25)


def test_our_reader_sees_what_sql_sees() -> None:
    result = opened(TIMELINE).tool("kernel_stats")
    assert not isinstance(result, Unavailable)
    theirs = of_nsight_systems()
    assert result.rows["occurrences"].sum() == sum(map(len, theirs.values()))
    assert result.rows["total_us"].sum() == pytest.approx(
        sum(map(sum, theirs.values())), abs=1e-3
    )


@pytest.mark.slow(seconds=0.4)
@pytest.mark.parametrize("path", [RECORDED, TIMELINE], ids=lambda it: it.name)
def test_counters_of_every_kernel_of_a_step_find_their_launches(path: Path) -> None:
    result = opened(path, STEP).tool("kernel_stats")
    assert not isinstance(result, Unavailable)
    # Launches were counted until the 60th: one step and the begin of the next.
    assert result.measured["launches"].sum() == 60
    assert result.measured["found"].all()
    rows = result.rows.filter(pl.col("match_confidence") > 0.5)
    assert len(rows) >= 28
    for row in rows.iter_rows(named=True):
        # At the base clock and with empty caches, one at a time: never the same time.
        if row["avg_us"] > 30:
            assert 0.8 < row["measured_us"] / row["avg_us"] < 1.35


def test_occupancy_and_registers_are_those_that_were_counted() -> None:
    """We work the occupancy out from the launch; Nsight Compute does by itself."""
    profile = opened(RECORDED, STEP)
    (host,) = profile.hosts
    counted = require_available(profile.table(host, "kernel_metrics"))
    told: dict[Shape, set[tuple[float, int]]] = defaultdict(set)
    sides = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    for row in counted.iter_rows(named=True):
        shape = name_forms(row["kernel_name"]).base, tuple(row[it] for it in sides)
        occupancy = round(row["theoretical_occupancy_percent"], 2)
        told[shape].add((occupancy, row["registers"]))
    result = profile.tool("kernel_stats")
    assert not isinstance(result, Unavailable)
    checked = 0
    for row in result.rows.iter_rows(named=True):
        grid, block = (
            tuple(map(int, row[it].split(","))) for it in ("grid_dim", "block_dim")
        )
        them = told[name_forms(row["kernel_name"]).base, grid + block]
        assert (round(row["occupancy_percent"], 2), row["registers"]) in them
        checked += row["occurrences"]
    assert checked == LAUNCHES * STEPS["recorded"]


def test_the_kernel_that_the_op_launches_reads_rows_thread_by_thread() -> None:
    """32 threads stand in 32 rows: each request touches as many sectors."""
    result = opened(RECORDED, OP).tool("kernel_stats", op="planted::thread_per_row")
    assert not isinstance(result, Unavailable)
    (row,) = result.rows.iter_rows(named=True)
    assert row["load_sectors_per_request"] == 32
    assert row["measured_launches"] == 2
    assert result.measured["found"].all()


@pytest.mark.slow(seconds=0.9)
def test_both_timelines_say_the_same_first() -> None:
    """The batches come late; what is freed in each step comes next."""
    found = [findings(path)["input.bound"] for path in (RECORDED, TIMELINE)]
    shares = [one.value for one in found]
    assert all(one.status == "fail" and one.severity == "critical" for one in found)
    assert shares[0] == pytest.approx(shares[1], abs=2)
    bound, replayed = (one.saving_ms for one in found)
    assert bound is not None
    assert replayed is not None
    # Only the operating system's calls of the second one tell what the steps await.
    assert (bound.basis, bound.low, bound.high < 8) == ("bound", 0.0, True)
    assert (replayed.basis, replayed.low > 2.5, replayed.high < 8) == (
        *("replay", True, True),
    )
    for path in (RECORDED, TIMELINE):
        ran = CliRunner().invoke(command_line, ["report", str(path)])
        assert ran.output.split("\n\n")[1].startswith("Input-bound: waiting for data")


def test_what_frees_the_batch_is_known_by_its_call_and_by_its_function() -> None:
    """`munmap` in one timeline; in the other `step`, which holds the batch.

    It keeps the interpreter's lock: a look that waits for it comes when the next
    function has begun, and was taken for that one's, `OpOverload.__call__`.
    """
    call, function = (findings(it)["host.work"] for it in (TIMELINE, RECORDED))
    assert call.parts[0].name == "munmap"
    assert function.parts[0].name == "train.<locals>.step"
    assert call.value == pytest.approx(function.value, abs=4)


@pytest.mark.parametrize("path", [RECORDED, TIMELINE], ids=lambda it: it.name)
def test_all_time_of_the_steps_has_a_name(path: Path) -> None:
    shares = signals_of(opened(path)).of(account_signals).judged()
    assert shares.percent("unexplained") < 2.5
