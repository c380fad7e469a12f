"""A run on real data against one on synthetic data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import DETAILS, together

from stepscope.compare.comparison import compare_runs
from stepscope.compare.measured import measure_run
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.comparison import comparison_outline
from stepscope.reporting.page import plain_text
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.compare.comparison import Comparison


def of(lines: list[Any]) -> Any:
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    return measure_run(blueprint.profile(trace), ())


def other_grids(lines: list[Any]) -> list[Any]:
    """The same kernels over half of the blocks: another batch."""
    details = DETAILS.replace("grid:864", "grid:432")
    return [
        (*line[:4], line[4] | {"kernel_details": details})
        if line[0].startswith("gpu")
        else line
        for line in lines
    ]


def against_real(real: list[Any], made: list[Any], **more: Any) -> Comparison:
    more = {"synthetic": True} | more
    return compare_runs(of(real), of(made), thresholds=THRESHOLDS, **more)


def said(found: Comparison) -> str:
    text = plain_text(as_text.render(comparison_outline(found), width=100))
    return " ".join(text.split())


@pytest.mark.slow(seconds=0.4)
def test_steps_that_wait_for_their_input_are_found_by_measurement() -> None:
    # Batches take 3 ms of a step of 12.96 ms.
    comparison = against_real(together(fetch_us=3_000.0), together(fetch_us=40.0))
    found = comparison.synthetic_input
    assert found is not None
    assert (found.status, found.severity) == ("fail", "critical")
    assert found.share_percent == pytest.approx(100 * 2_960 / 12_960, abs=0.3)
    assert found.saving_ms is not None
    assert found.saving_ms.low <= 2.96 <= found.saving_ms.high + 1e-6
    assert "The base run waits for its input: its steps take 22.8 % less" in said(
        comparison
    )


def test_steps_that_take_as_long_do_not_wait() -> None:
    comparison = against_real(together(fetch_us=140.0), together(fetch_us=40.0))
    found = comparison.synthetic_input
    assert found is not None
    assert (found.status, found.severity) == ("pass", "info")
    assert found.share_percent == pytest.approx(1.0, abs=0.1)
    assert "does not wait for its input" in said(comparison)


def test_another_batch_proves_nothing() -> None:
    real, made = together(fetch_us=3_000.0), other_grids(together())
    comparison = against_real(real, made)
    found = comparison.synthetic_input
    assert found is not None
    assert (found.status, found.share_percent) == ("cannot_tell", None)
    assert found.unavailable is not None
    assert found.unavailable.code == "OTHER_WORK"
    assert "Cannot tell whether the base run waits" in said(comparison)


def test_nothing_is_said_of_runs_that_nobody_calls_so() -> None:
    comparison = against_real(together(fetch_us=3_000.0), together(), synthetic=False)
    assert comparison.synthetic_input is None
    assert "synthetic" not in said(comparison)
