"""How input-bound a program is: shares of the step time, and the verdict on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.steps.asking import UNTOLD
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import polars as pl

__all__ = [
    "HIGHLY",
    "MODERATELY",
    "NOT",
    "UNKNOWN",
    "InputShare",
    "share_of_rows",
    "verdict_of",
]

HIGHLY: Final = "highly_input_bound"
MODERATELY: Final = "moderately_input_bound"
NOT: Final = "not_input_bound"
UNKNOWN: Final = "unknown"

#: A run without any device has nothing to transfer to, and loses nothing.
_NO_DEVICE: Final = "NO_DEVICE_PLANE"
_NO_TIME: Final = Unavailable(
    code="ZERO_DENOMINATOR",
    reason="The counted steps take no time at all, so nothing is a share of them.",
    remedy="Record some complete steps.",
)
_NOT_SEEN: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Not every host of this run could look at it.",
    remedy="Look at one host at a time (option host).",
)


def verdict_of(
    input_percent: float | None, *, at_most_percent: float | None = None
) -> str:
    """Return the verdict on a share of the step time.

    What was seen suffices to call a program input-bound. To clear it, even the most
    that input may have taken must stay below the threshold.

    Definition: docs/tools/input_pipeline_analyzer.md#the-verdict.

    Args:
        input_percent: Share that is known to be input; None where nothing is.
        at_most_percent: The largest share that input may have; `input_percent` where it
            is left out.
    """
    least = 0.0 if input_percent is None else input_percent
    most = input_percent if at_most_percent is None else at_most_percent
    if least >= THRESHOLDS.input_critical.value:
        return HIGHLY
    if least >= THRESHOLDS.input_warn.value:
        return MODERATELY
    if most is None or most >= THRESHOLDS.input_warn.value:
        return UNKNOWN
    return NOT


class InputShare(Frozen, frozen=True, eq=True):
    """Input time of some windows, over all of their devices.

    Attributes:
        window_ps: All windows, once per device.
        wait_ps: Waiting for input while the device idles; None where unknown.
        transfer_ps: Transfers that nothing hides; None where unknown or where there
            is nothing to transfer to.
        at_most_ps: The most that both may be.
        why_no_wait: Why `wait_ps` is None.
        why_no_transfer: Why `transfer_ps` is None.
    """

    window_ps: int
    wait_ps: int | None
    transfer_ps: int | None
    at_most_ps: int
    why_no_wait: Unavailable | None
    why_no_transfer: Unavailable | None

    @classmethod
    def together(cls, shares: Collection[InputShare]) -> InputShare:
        """Add up several shares; a part is at least what is known of it.

        A part that some did not know and that is zero for the others is unknown.
        """
        wait, no_wait = _added(
            [(one.wait_ps, one.why_no_wait) for one in shares],
        )
        transfer, no_transfer = _added(
            [(one.transfer_ps, one.why_no_transfer) for one in shares]
        )
        return cls(
            window_ps=sum(one.window_ps for one in shares),
            wait_ps=wait,
            transfer_ps=transfer,
            at_most_ps=sum(one.at_most_ps for one in shares),
            why_no_wait=no_wait,
            why_no_transfer=no_transfer,
        )

    @property
    def input_ps(self) -> int | None:
        """Waiting and transfers together: at least so much where one was lost."""
        known = [part for part in (self.wait_ps, self.transfer_ps) if part is not None]
        lost = self.why_no_wait is not None or (
            self.why_no_transfer is not None and self.why_no_transfer.code != _NO_DEVICE
        )
        total = sum(known)
        return None if not known or (lost and not total) else total

    def percent(self, part_ps: int | None) -> float | None:
        """Return a part in percent of the windows; None where either is unknown."""
        if part_ps is None or not self.window_ps:
            return None
        return 100.0 * part_ps / self.window_ps

    @property
    def why_no_input(self) -> Unavailable | None:
        """Why the share of input is unknown as a whole, or a part of it is."""
        if not self.window_ps:
            return _NO_TIME
        return self.why_no_wait or self.why_no_transfer

    @property
    def verdict(self) -> str:
        """The verdict on these windows."""
        if not self.window_ps:
            return UNKNOWN
        return verdict_of(
            self.percent(self.input_ps),
            at_most_percent=self.percent(self.at_most_ps),
        )


def _added(
    parts: Sequence[tuple[int | None, Unavailable | None]],
) -> tuple[int | None, Unavailable | None]:
    total = sum(part for part, _ in parts if part is not None)
    lost = next((why for part, why in parts if part is None), None)
    return (total, None) if total or lost is None else (None, lost)


def share_of_rows(rows: pl.DataFrame, missing: Mapping[str, Unavailable]) -> InputShare:
    """Add up what is known about input in some rows (host, device, step).

    Args:
        rows: Rows with the columns of the owners.
        missing: Bucket → why it could not be looked at.
    """
    window_ps = int(rows["window_ps"].sum())
    waits, copies = rows["input_ps"], rows["copy_in_ps"]
    if waits.null_count():
        no_wait: Unavailable | None = missing.get("input", _NOT_SEEN)
    else:
        no_wait = None if waits.sum() else missing.get("input")
    wait_ps = None if no_wait is not None else int(waits.sum())
    untold = sum(int(rows[name].sum()) for name in UNTOLD)
    doubt = 0 if no_wait is None else untold
    no_transfer = missing.get("copy_in", _NOT_SEEN) if copies.null_count() else None
    transfer_ps = None if copies.null_count() else int(copies.sum())
    known = (wait_ps or 0) + (transfer_ps or 0)
    if no_transfer is not None and no_transfer.code != _NO_DEVICE:
        # Whatever the host did may hide a copy; what the device did, where that is
        # known, does not.
        busy = rows["device_busy_ps"]
        doubt = window_ps - known - (0 if busy.null_count() else int(busy.sum()))
    return InputShare(
        window_ps=window_ps,
        wait_ps=wait_ps,
        transfer_ps=transfer_ps,
        at_most_ps=known + doubt,
        why_no_wait=no_wait,
        why_no_transfer=no_transfer,
    )
