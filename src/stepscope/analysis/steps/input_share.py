"""The share of input in the step time: the known part, and an upper bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.analysis.results.statistics import percent_of
from stepscope.analysis.results.tables import package_reasons
from stepscope.analysis.steps.rows import NO_DEVICE
from stepscope.derive.verdicts.input_verdict import HIGHLY, MODERATELY, NOT, UNKNOWN
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import polars as pl

    from stepscope.unavailable import Unavailable

_WHY: Final = package_reasons("steps")


def verdict_on_share(input_percent: float | None) -> str:
    """Return the verdict on a share of input that another producer measured.

    Definition: docs/definitions/compatibility.md#its-input-analysis.
    """
    if input_percent is None:
        return UNKNOWN
    if input_percent >= THRESHOLDS.input_critical.value:
        return HIGHLY
    return MODERATELY if input_percent >= THRESHOLDS.input_warn.value else NOT


class InputShare(Frozen, frozen=True, eq=True):
    """Input time of some windows, over all of their devices.

    Attributes:
        window_ps: Total length of the windows, once per device.
        wait_ps: Input wait on an idle device, including `starved_ps`; None if unknown.
        starved_ps: Idle time before a batch is copied, if no fetch was recorded.
        transfer_ps: Input transfers that do not overlap with other device work; None if
            unknown or without a device.
        at_most_ps: Upper bound of waiting and transfers together.
        why_no_wait: Why `wait_ps` is None.
        why_no_transfer: Why `transfer_ps` is None.
    """

    window_ps: int
    wait_ps: int | None
    starved_ps: int
    transfer_ps: int | None
    at_most_ps: int
    why_no_wait: Unavailable | None
    why_no_transfer: Unavailable | None

    @classmethod
    def sum_shares(cls, shares: Collection[InputShare]) -> InputShare:
        """Add up several shares; a sum of partly unknown values is a lower bound.

        A time that is unknown in some shares and zero in the other shares is unknown.
        """
        wait, no_wait = _add_parts(
            [(share.wait_ps, share.why_no_wait) for share in shares]
        )
        transfer, no_transfer = _add_parts(
            [(share.transfer_ps, share.why_no_transfer) for share in shares]
        )
        return cls(
            window_ps=sum(share.window_ps for share in shares),
            wait_ps=wait,
            starved_ps=sum(share.starved_ps for share in shares),
            transfer_ps=transfer,
            at_most_ps=sum(share.at_most_ps for share in shares),
            why_no_wait=no_wait,
            why_no_transfer=no_transfer,
        )

    @property
    def input_ps(self) -> int | None:
        """Waiting and transfers together; a lower bound if one of them is unknown."""
        known = [part for part in (self.wait_ps, self.transfer_ps) if part is not None]
        lost = self.why_no_wait is not None or (
            self.why_no_transfer is not None and self.why_no_transfer.code != NO_DEVICE
        )
        total = sum(known)
        return None if not known or (lost and not total) else total

    def percents(self) -> dict[str, float | None]:
        """Return the parts in percent of the windows, by field of a result."""
        parts_ps = {
            "input_percent": self.input_ps,
            "input_at_most_percent": self.at_most_ps,
            "input_wait_percent": self.wait_ps,
            "input_transfer_percent": self.transfer_ps,
        }
        return {name: percent_of(ps, self.window_ps) for name, ps in parts_ps.items()}

    @property
    def why_no_input(self) -> Unavailable | None:
        """Why the share of input is fully or partly unknown; None if it is known."""
        if not self.window_ps:
            return _WHY["no_time"]
        return self.why_no_wait or self.why_no_transfer


def _add_parts(
    parts: Sequence[tuple[int | None, Unavailable | None]],
) -> tuple[int | None, Unavailable | None]:
    total = sum(part for part, _ in parts if part is not None)
    lost = next((why for part, why in parts if part is None), None)
    return (total, None) if total or lost is None else (None, lost)


def share_of_rows(
    rows: pl.DataFrame, why: Mapping[str, Unavailable], *, unknown_ps: int
) -> InputShare:
    """Return the share of input in some rows (host, device, step).

    Args:
        rows: Rows with columns of time by cause, and `starved_ps`.
        why: Cause → why its time could not be measured.
        unknown_ps: Time that may also be input, judging by device activity alone.
    """
    window_ps = int(rows["window_ps"].sum())
    waits, copies = rows["input_ps"], rows["copy_in_ps"]
    starved_ps = int(rows["starved_ps"].sum())
    known_ps = int(waits.sum()) + starved_ps
    no_wait: Unavailable | None = None
    if waits.null_count():
        no_wait = why.get("input", _WHY["not_seen"])
    elif not known_ps:
        no_wait = why.get("input")
    wait_ps = None if no_wait is not None else known_ps
    no_transfer = why.get("copy_in", _WHY["not_seen"]) if copies.null_count() else None
    transfer_ps = None if copies.null_count() else int(copies.sum())
    known = (wait_ps or 0) + (transfer_ps or 0)
    if no_transfer is not None and no_transfer.code != NO_DEVICE:
        # A copy may run during any host work, but not during known device activity.
        busy = rows["device_busy_ps"]
        unknown_ps = window_ps - known - (0 if busy.null_count() else int(busy.sum()))
    return InputShare(
        window_ps=window_ps,
        wait_ps=wait_ps,
        starved_ps=starved_ps,
        transfer_ps=transfer_ps,
        at_most_ps=known + unknown_ps,
        why_no_wait=no_wait,
        why_no_transfer=no_transfer,
    )
