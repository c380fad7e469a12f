"""`SyntheticInput`: how much shorter a step is if its input costs no time.

The decrease is measured with two runs of the same work: one on real data, and one on
synthetic data, such as the same batch in every step.

Definition: docs/compare.md#a-run-on-synthetic-data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from stepscope.advice.finding import Severity
from stepscope.derive.facts.evidence import Limits, Saving
from stepscope.thresholds import Threshold
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.compare.changes import Change, StepTimeChange
    from stepscope.thresholds import Thresholds


class SyntheticInput(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the steps of the run on real data wait for their input.

    Attributes:
        status: "fail" if the steps wait for input, "pass" if they do not, "cannot_tell"
            if the two runs are not comparable.
        severity: Severity of a fail.
        share_percent: Decrease of the step time on synthetic data, as a share of the
            step time on real data; null if the runs are not comparable.
        threshold: Share from which the status is "fail"; null if not comparable.
        saving_ms: Decrease of the step time as measured, or null if it may be chance.
        copies_ms: Exposed copies per step on synthetic data; null if unknown.
        unavailable: Why the runs are not comparable; null if they are.
    """

    status: Literal["fail", "pass", "cannot_tell"]
    severity: Severity = "info"
    share_percent: float | None = None
    threshold: Threshold | None = None
    saving_ms: Saving | None = None
    copies_ms: float | None = None
    unavailable: Unavailable | None = None


def synthetic_input(
    time: StepTimeChange | Unavailable,
    owners: Sequence[Change] | None,
    *,
    thresholds: Thresholds,
) -> SyntheticInput:
    """Judge the change from a run on real data to one on synthetic data."""
    if isinstance(time, Unavailable):
        return SyntheticInput(status="cannot_tell", unavailable=time)
    share = -time.change_percent
    warn, critical = thresholds.input_warn, thresholds.input_critical
    copies = next((change for change in owners or () if change.name == "copy_in"), None)
    failed = share >= warn.value and time.verdict == "faster"
    return SyntheticInput(
        status="fail" if failed else "pass",
        severity=("critical" if share >= critical.value else "warn")
        if failed
        else "info",
        share_percent=share,
        threshold=warn,
        saving_ms=Saving(low=-time.high_ms, high=-time.change_ms).within(
            Limits(-time.change_ms, time.base_ms)
        )
        if time.verdict == "faster"
        else None,
        copies_ms=copies.new_ms if copies else None,
    )
