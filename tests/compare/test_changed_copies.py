"""A copy of a recording that lost a known time must be said to have lost just that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.xspace.cutting import message_of, middles, without

from stepscope.compare.comparison import compare_runs
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.compare.comparison import Comparison
    from stepscope.compare.measured import MeasuredSteps

MS = 1_000_000_000
US = 1_000_000


def compared(
    run_of: Callable[[str], MeasuredSteps], base: Path, copy: Path
) -> Comparison:
    return compare_runs(run_of(str(base)), run_of(str(copy)), thresholds=THRESHOLDS)


def changed(
    repository: Path,
    folder: Path,
    name: str,
    chosen: Callable[[str, str], bool],
    *,
    least_ps: int,
    lost_ps: int,
) -> tuple[Path, Path, int]:
    """Cut time out of the middle of the chosen events of a recorded profile."""
    (original,) = (repository / "tests" / "data" / name).rglob("*.xplane.pb.gz")
    message = message_of(original)
    begins = [
        one - lost_ps // 2 for one in middles(message, chosen, at_least_ps=least_ps)
    ]
    copy = folder / "logs" / "plugins" / "profile" / "copy" / "host.xplane.pb"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(without(message, begins, lost_ps))
    return original, copy, len(begins)


def test_a_shorter_wait_for_input_is_all_that_changed(
    repository: Path, tmp_path: Path, run_of: Callable[[str], MeasuredSteps]
) -> None:
    original, copy, count = changed(
        repository,
        tmp_path,
        "tf_cpu/sequential_map",
        lambda _, name: name == "IteratorGetNextOp::DoCompute",
        least_ps=20 * MS,
        lost_ps=3 * MS,
    )
    assert count >= 15
    found = compared(run_of, original, copy)
    assert found.parity.comparable
    steps = found.base.steps
    assert found.new.steps == steps
    assert found.step_time is not None
    lost = -found.step_time.change_ms
    # Each step lost 3 ms, save those without a long wait; one wait may lie outside, and
    # one in the first step, a cold start, which is left out.
    assert lost * steps / 3 == pytest.approx(round(lost * steps / 3), abs=1e-6)
    assert count - 2 <= round(lost * steps / 3) <= count
    changes = {one.name: one.change_ms for one in found.owners or ()}
    assert changes.pop("input") == pytest.approx(-lost, abs=1e-6)
    assert changes == pytest.approx(dict.fromkeys(changes, 0.0), abs=1e-6)
    # A tenth of the wait is gone: nobody has changed its cause.
    assert {one.verdict for one in found.promises} == {"untried"}


def test_shorter_kernels_are_all_that_changed(
    repository: Path, tmp_path: Path, run_of: Callable[[str], MeasuredSteps]
) -> None:
    original, copy, count = changed(
        repository,
        tmp_path,
        "gpu/torch_healthy",
        lambda plane, name: plane.startswith("/device:GPU") and name.endswith("_NTT"),
        least_ps=100 * US,
        lost_ps=20 * US,
    )
    # Eight steps of two such kernels; seven are measured.
    assert count == 16
    found = compared(run_of, original, copy)
    changes = {
        one.name: one for one in found.kernels or () if abs(one.change_ms) > 1e-9
    }
    (name,) = changes
    assert name.endswith("_NTT")
    assert changes[name].change_ms == pytest.approx(-2 * 0.020, abs=1e-9)
    assert (changes[name].base_runs, changes[name].new_runs) == (2.0, 2.0)
    owners = {one.name: one.change_ms for one in found.owners or ()}
    assert owners.pop("compute_16") == pytest.approx(-2 * 0.020, abs=1e-6)
    assert owners == pytest.approx(dict.fromkeys(owners, 0.0), abs=1e-6)
