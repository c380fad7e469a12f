"""Functions that rules about the time of kernels share: selection and judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.signals import NotApplicable
from stepscope.derive.facts.devices.kernel_work import kernel_work
from stepscope.derive.facts.evidence import MAX_RANGES_SHOWN, Part, Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import Faster
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Finding, Severity, Status
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.kernel_work import KernelWork
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Threshold
    from stepscope.unavailable import Unavailable

_TEXTS: Final = shared_texts("worked")

#: Signals that the functions of this module read.
WORKED_READS: Final[tuple[RunDerivation[Any], ...]] = (
    account_signals,
    device_signals,
    kernel_work,
    record_grade,
)


class Worked(Frozen, frozen=True, eq=True):
    """The kernels that a rule is about.

    Attributes:
        rows: Rows of these kernels in `KernelWork.rows`.
        gain: Minimum and maximum share of their time that the change would save.
        unknown: Rows that may belong to these kernels; None without such rows.
        narrowed: Whether the change replaces these kernels by 16-bit or matrix unit
            kernels. If so, the saving uses recorded times of such kernels. If no such
            kernel has a similar shape, the change may save more than `gain`.
    """

    rows: pl.DataFrame
    gain: tuple[float, float]
    unknown: pl.DataFrame | None = None
    narrowed: bool = False

    @property
    def measured(self) -> pl.DataFrame:
        """The rows for which the speed of replacement kernels was measured."""
        if not self.narrowed:
            return self.rows.clear()
        return self.rows.filter(pl.col("speedup").is_not_null())

    @property
    def predicted(self) -> pl.DataFrame:
        """The rows for which the speed of replacement kernels is unknown."""
        if not self.narrowed:
            return self.rows
        return self.rows.filter(pl.col("speedup").is_null())


def judged_kernels(signals: Signals, *, matrix_units: bool = False) -> KernelWork:
    """Return the kernels of the judged device.

    Args:
        matrix_units: Whether the rule applies only to devices with matrix units.

    Raises:
        NoVerdict: There are no kernels to judge.
    """
    device = signals.of(device_signals)
    if device.recorded == "host_only":
        raise NotApplicable(_TEXTS.reason("no_device"))
    first = THRESHOLDS.tensor_core_generation.value
    known = [version for version in device.compute_capability if version is not None]
    if matrix_units and known and all(version[0] < first for version in known):
        raise NotApplicable(_TEXTS.reason("no_units"))
    return signals.needed(kernel_work)


def undecided_kernels(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels for which it is unknown whether they are matrix products."""
    return rows.filter(
        pl.col("eligible").is_null() & ~pl.col("plain") & ~pl.col("collective")
    )


def judge_kernels(
    item: Item,
    signals: Signals,
    work: KernelWork,
    worked: Worked,
    *,
    warn: Threshold | None = None,
    why_unknown: Unavailable | None = None,
    **fields: Any,
) -> Finding:
    """Judge the share of some kernels in the time of all kernels.

    The verdict is "cannot_tell" if kernels of unknown kind could change it. A fail
    becomes a note if the device idles most of the step. `fields` go to the finding.
    """
    usual, critical = item.levels
    warn = warn or usual
    share = work.share(worked.rows)
    time = int(worked.rows["time_ps"].sum())
    unknown = 0.0 if worked.unknown is None else work.share(worked.unknown)
    if share < warn.value <= share + unknown:
        rows = worked.rows if worked.unknown is None else worked.unknown
        return item.cannot_tell(
            why_unknown or _unknown_kernels_reason(share, unknown, warn, rows)
        )
    short = work.has_steps and time < THRESHOLDS.smallest_effect.value
    status: Status = "pass" if share < warn.value or short else "fail"
    # Kernels that were measured one at a time wait for nothing.
    idle = 0.0 if work.is_alone else idle_percent(signals)
    of_time = 100 * time / work.step_ps if work.step_ps else 0.0
    # Even most of the kernel time may be little compared with waits and collectives.
    enough_steps = work.steps >= THRESHOLDS.few_steps.value
    grave = enough_steps and min(share, of_time) >= critical.value
    severity: Severity = "critical" if grave else "warn"
    if idle >= THRESHOLDS.starved_device.value:
        severity = "info"
    ms = time / PS_PER_MS if work.has_steps else None
    own = {
        "severity": severity if status == "fail" else "info",
        "note": "short" if short and share >= warn.value else None,
        "confidence": min(signals.of(record_grade), 1 - unknown / 100),
        "value": share,
        "share_percent": of_time if work.step_ps else None,
        "ms_per_step": ms,
        "threshold": warn,
        "steps_clean": work.steps if work.has_steps else None,
        "devices": (work.label,),
        "parts": _largest_ops(work, worked.rows),
        "evidence": work.evidence(worked.rows, MAX_RANGES_SHOWN),
        "inputs": ("kernels",),
        "saving_ms": None
        if ms is None or status != "fail"
        else _saving_of_kernels(worked),
    }
    if status != "fail":
        fields.pop("actions", None)
    return item.finding(status, **(own | fields))


def idle_percent(signals: Signals) -> float:
    """Return the share of the step in which the device idles; 100 if unknown."""
    account = signals.known(account_signals)
    return 100.0 if account is None else account.judged().percent(*IDLE_OWNERS)


def _saving_of_kernels(worked: Worked) -> Saving:
    known = measured_gain_ms(worked.measured)
    predicted_ps = int(worked.predicted["time_ps"].sum())
    low, high = (known + part * predicted_ps / PS_PER_MS for part in worked.gain)
    return Saving(
        low=low,
        high=high,
        open_above=worked.narrowed and predicted_ps > 0,
    )


def measured_gain_ms(rows: pl.DataFrame) -> float:
    """Return the ms saved if kernels were as fast as similar 16-bit kernels."""
    saved = rows["time_ps"] * (1 - 1 / rows["speedup"])
    return float(saved.sum()) / PS_PER_MS


def measured_speed_changes(rows: pl.DataFrame) -> tuple[Faster, ...]:
    """Return what-if edits that make kernels as fast as similar 16-bit kernels."""
    return tuple(
        Faster([kind], (1 / speedup, 1 / speedup))
        for kind, speedup in rows.select("class", "speedup").iter_rows()
    )


def faster_kernels_change(
    worked_of: Callable[[KernelWork], Worked],
) -> Callable[[Signals], Changes]:
    """Return a function that returns the speed-up of a rule's kernels as what-if edits.

    Args:
        worked_of: Finds the kernels, and how much of their time the change saves.
    """

    def changes(signals: Signals) -> Changes:
        worked = worked_of(signals.needed(kernel_work))
        low, high = worked.gain
        classes = worked.predicted["class"].to_list()
        predicted = (Faster(classes, (1 - low, 1 - high)),) if classes else ()
        return (*predicted, *measured_speed_changes(worked.measured))

    return changes


def _largest_ops(work: KernelWork, rows: pl.DataFrame) -> tuple[Part, ...]:
    """Return the ops with most of the kernels' time, each with its longest kernel."""
    if not len(rows):
        return ()
    largest = (
        rows.with_columns(name=pl.coalesce("op", "kernel"))
        .group_by("name", maintain_order=True)
        .agg(pl.col("time_ps").sum(), pl.col("kernel").first(), pl.col("op").first())
        .sort("time_ps", "name", descending=[True, False])
        .head(MAX_RANGES_SHOWN)
    )
    total_ps = work.step_ps if work.has_steps else max(work.device_ps, 1)
    return tuple(
        Part(
            name=row["name"],
            detail=None if row["op"] is None else row["kernel"],
            share_percent=100 * row["time_ps"] / total_ps,
        )
        for row in largest.iter_rows(named=True)
        if row["time_ps"]
    )


def _unknown_kernels_reason(
    share: float, unknown: float, warn: Threshold, rows: pl.DataFrame
) -> Unavailable:
    with_op = rows.filter(pl.col("op").is_not_null())["time_ps"].sum()
    ops_known = 2 * with_op > rows["time_ps"].sum()
    return _TEXTS.reason(
        "unknown",
        remedy=Remedy.LOOK_AT_OWN_OPS if ops_known else Remedy.RECORD_KERNEL_OPS,
        unknown=unknown,
        share=share,
        warn=warn.value,
    )
