"""Programs that were recorded on an H100 in each way there is, all at the same time.

`gpu_ways.py` recorded them; each program wrote what it knows beside. A step of both
programs multiplies eleven times, so the products tell how many steps of work were
recorded. As all used one device, it took turns: work waits although none is missing.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.programs.frameworks import check_every_tool

import stepscope as ss
from stepscope.advice.engine import evaluate, signals_of
from stepscope.derive.facts.recording import capture_signals
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.tools import ProfileWithTools

pytestmark = pytest.mark.slow(seconds=0.1)

FOLDER = Path(__file__).resolve().parents[1] / "data" / "gpu" / "ways"
#: Four layers: forward, the gradient of each weight, and of each input but the first.
PRODUCTS = 4 + 4 + 3
#: Way → how many steps it was asked to record; None for a time, or as many as come.
WAYS = {
    "schedule": 10,
    "run_torch": None,
    "run_jax": None,
    "attach_torch": 10,
    "attach_jax": 10,
    "server_ours_jax": None,
    "server_theirs_jax": None,
}
JAX = [name for name in WAYS if name.endswith("jax")]


@cache
def opened(way: str) -> tuple[ProfileWithTools, dict[str, Any]]:
    truth = json.loads((FOLDER / way / "truth.json").read_text("utf-8"))
    return ss.open(FOLDER / way), truth


def steps_of(profile: ProfileWithTools) -> Sequence[Any]:
    result = profile.tool("overview_page")
    assert not isinstance(result, Unavailable)
    steps: Sequence[Any] = result.steps
    return steps


@pytest.mark.parametrize("way", WAYS)
def test_steps_and_the_work_of_the_device_are_there(way: str) -> None:
    profile, _ = opened(way)
    asked, shown = WAYS[way], len(steps_of(profile))
    assert shown >= 40 if asked is None else shown in {asked, asked + 1}
    (host,) = profile.hosts
    result = profile.tool("kernel_stats")
    assert not isinstance(result, Unavailable)
    name = pl.col("kernel_name")
    products = result.rows.filter(name.str.contains("gemm|cutlass|nvjet"))
    worked, rest = divmod(products["occurrences"].sum(), PRODUCTS)
    # Work of one more step may be recorded than is marked as a whole.
    assert rest == 0
    assert worked - shown in {0, 1}
    assert (
        require_available(profile.table(host, "devices"))["name"][0]
        == "NVIDIA H100 80GB HBM3"
    )


@pytest.mark.parametrize("way", WAYS)
def test_every_tool_answers_or_says_why_not(way: str) -> None:
    check_every_tool(opened(way)[0])


def test_steps_of_a_schedule_are_those_that_the_program_timed() -> None:
    profile, truth = opened("schedule")
    ours = [step.duration_ms for step in steps_of(profile)]
    # The first one waits for the profiler; its mark lies within what was timed.
    assert ours[1:] == pytest.approx(truth["step_ms"][1:], rel=0.05, abs=0.15)


def test_steps_that_are_recorded_from_outside_take_what_steps_take() -> None:
    profile, truth = opened("attach_torch")
    ours = median(step.duration_ms for step in steps_of(profile))
    assert ours == pytest.approx(median(truth["last_step_ms"]), rel=0.2)


@pytest.mark.parametrize("way", JAX)
def test_work_that_waits_for_its_turn_is_not_called_missing(way: str) -> None:
    """JAX replays graphs here, and each of their nodes was recorded."""
    signals = signals_of(opened(way)[0])
    assert not signals.of(capture_signals).replays
    found = {one.id: one for one in evaluate(signals)}["capture.quality"]
    assert (found.status, found.causes[0].cause) == ("fail", "waiting")


def test_the_flight_recorder_wrote_the_slow_step_and_its_reason() -> None:
    profile, truth = opened("flight")
    (written,) = truth["written"]
    assert written["why"] == "slow step"
    assert f"train {truth['slow_step']} took" in written["text"]
    assert "in save_checkpoint" in written["text"]
    slow = {step.step: step.duration_ms for step in steps_of(profile)}
    assert max(slow, key=lambda it: slow[it]) == truth["slow_step"]
    assert slow[truth["slow_step"]] == pytest.approx(
        1000 * truth["slow_s"] + median(slow.values()), abs=2
    )


def test_a_snapshot_of_the_allocator_holds_what_it_says_itself() -> None:
    truth = json.loads((FOLDER / "torch_memory" / "truth.json").read_text("utf-8"))
    result = ss.open(FOLDER / "torch_memory" / "snapshot.pickle").tool("memory_profile")
    assert not isinstance(result, Unavailable)
    (memory,) = result.memories.values()
    # The allocator rounds up what it is asked for, and the history does not say how.
    peak = truth["peak_allocated_bytes"]
    assert memory.peak.heap_bytes == pytest.approx(peak, rel=1e-5)
    last = memory.timeline.row(-1, named=True)
    assert last["heap_bytes"] == truth["allocated_bytes"]
    assert last["reserved_bytes"] == truth["reserved_bytes"]


def test_a_profile_of_jaxs_memory_holds_the_arrays_that_are_alive() -> None:
    truth = json.loads((FOLDER / "jax_memory" / "truth.json").read_text("utf-8"))
    result = ss.open(FOLDER / "jax_memory" / "memory.prof").tool("memory_profile")
    assert not isinstance(result, Unavailable)
    (memory,) = result.memories.values()
    assert memory.peak.heap_bytes == truth["bytes"] == truth["bytes_in_use"]
