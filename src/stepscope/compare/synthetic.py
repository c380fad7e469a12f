"""`SyntheticInput`: what a step takes less where its input costs nothing.

Two runs of the same work tell it by measurement: one on real data, and one on synthetic
data, such as one batch again and again.

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
        status: "fail" where they do, "pass" where they do not, "cannot_tell" where the
            two runs are not comparable.
        severity: How much a fail matters.
        share_percent: What a step takes less on synthetic data, as a share of the step
            on real data; null where it cannot be told.
        threshold: The share that it is compared with; null likewise.
        saving_ms: What that is a step, at most as measured; null where it is no more
            than chance.
        copies_ms: Copies to the device that are left of a step on synthetic data and
            that nothing hides; null where they are not known.
        unavailable: Why it cannot be told; null where it can.
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
    copies = next((one for one in owners or () if one.name == "copy_in"), None)
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
