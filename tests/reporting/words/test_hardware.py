"""What is said of the hardware of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stepscope.reporting.outline.report import hardware_text


def document(peak: float | None, covered: float | None) -> Any:
    device = SimpleNamespace(activities=5, name="NVIDIA H100", type="Nvidia GPU")
    return SimpleNamespace(
        hardware=SimpleNamespace(
            cores=None, peak_percent=peak, peak_covered_percent=covered
        ),
        profile=SimpleNamespace(devices=[device]),
    )


@pytest.mark.parametrize(
    ("peak", "covered", "known"),
    [(47.6, 100.0, ""), (47.6, 25.0, " (known for 25.0 % of the time)")],
)
def test_what_kernels_reach_is_said(peak: float, covered: float, known: str) -> None:
    assert hardware_text(document(peak, covered)) == (
        "On 1 × NVIDIA H100, its kernels reach 47.6 % of the peak of the units that "
        f"they use{known}."
    )


@pytest.mark.parametrize(("peak", "covered"), [(1.2, 24.9), (None, None)])
def test_what_is_known_for_little_of_the_time_is_not_said(
    peak: float | None, covered: float | None
) -> None:
    assert hardware_text(document(peak, covered)) is None
