"""What owners of time, ops and kernels gained or lost from one run to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
import polars as pl

from stepscope.advice.bootstrap import difference_interval
from stepscope.derive.step_time.owners import OWNERS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stepscope.analysis.framework_op_stats import FrameworkOpStatsResult
    from stepscope.analysis.kernel_stats import KernelStatsResult
    from stepscope.compare.timing import RunTimes
    from stepscope.unavailable import Missing

__all__ = [
    "Change",
    "StepTimeChange",
    "kernel_changes",
    "op_changes",
    "owner_changes",
    "step_time_change",
]

_US_PER_MS: Final = PS_PER_MS / PS_PER_US


class StepTimeChange(msgspec.Struct, frozen=True, kw_only=True):
    """The mean step before and now.

    Attributes:
        base_ms: Mean step of the base run.
        new_ms: Mean step of the new run.
        change_ms: `new_ms` less `base_ms`: negative where steps became shorter.
        low_ms: Lower end of the change's 95 % interval.
        high_ms: Upper end of it.
        change_percent: The change as a share of `base_ms`.
        verdict: "faster" or "slower" where the interval does not hold 0, else "noise".
    """

    base_ms: float
    new_ms: float
    change_ms: float
    low_ms: float
    high_ms: float
    change_percent: float
    verdict: Literal["faster", "slower", "noise"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one owner, op or kernel takes of a step, before and now.

    Attributes:
        name: The owner, op or kernel.
        side: "host" or "device" of an op; null of owners and kernels.
        base_ms: Time of a step of the base run; null where it does not occur there.
        new_ms: Time of a step of the new run; null likewise.
        change_ms: What it gained (above 0) or lost (below 0).
        low_ms: Lower end of the change's 95 % interval; null of ops and kernels, whose
            time is known for all steps together only.
        high_ms: Upper end of it; null likewise.
        base_runs: Runs in a step of the base run; null of owners.
        new_runs: Runs in a step of the new run; null of owners.
    """

    name: str
    side: Literal["host", "device"] | None = None
    base_ms: float | None
    new_ms: float | None
    change_ms: float
    low_ms: float | None = None
    high_ms: float | None = None
    base_runs: float | None = None
    new_runs: float | None = None

    @property
    def certain(self) -> bool | None:
        """Whether the change is beyond chance; None where that was not estimated."""
        if self.low_ms is None or self.high_ms is None:
            return None
        return self.low_ms > 0 or self.high_ms < 0


def step_time_change(base: RunTimes, new: RunTimes) -> StepTimeChange:
    """Compare the mean steps of two runs that have some."""
    before, after = (sum(one.window_ps) / len(one.window_ps) for one in (base, new))
    low, high = difference_interval(
        base.in_order(base.window_ps), new.in_order(new.window_ps)
    )
    verdict: Literal["faster", "slower", "noise"] = "noise"
    if high < 0 or low > 0:
        verdict = "faster" if high < 0 else "slower"
    return StepTimeChange(
        base_ms=before / PS_PER_MS,
        new_ms=after / PS_PER_MS,
        change_ms=(after - before) / PS_PER_MS,
        low_ms=low / PS_PER_MS,
        high_ms=high / PS_PER_MS,
        change_percent=100 * (after - before) / before if before else 0.0,
        verdict=verdict,
    )


def owner_changes(base: RunTimes, new: RunTimes) -> tuple[Change, ...]:
    """Compare the owners of the step's time, the largest change first.

    An owner that one of the runs could not look at is left out: its time is part of
    `unexplained` there.
    """
    found = []
    for owner in (one.name for one in OWNERS):
        before, after = base.owners_ps.get(owner), new.owners_ps.get(owner)
        if before is None or after is None or not (any(before) or any(after)):
            continue
        means = [sum(times) / len(times) for times in (before, after)]
        low, high = difference_interval(base.in_order(before), new.in_order(after))
        found.append(
            Change(
                name=owner,
                base_ms=means[0] / PS_PER_MS,
                new_ms=means[1] / PS_PER_MS,
                change_ms=(means[1] - means[0]) / PS_PER_MS,
                low_ms=low / PS_PER_MS,
                high_ms=high / PS_PER_MS,
            )
        )
    return _largest_first(found)


def op_changes(
    base: FrameworkOpStatsResult,
    new: FrameworkOpStatsResult,
    batches: tuple[float, float],
) -> tuple[Change, ...] | Unavailable:
    """Compare the self time of ops in a step, the largest change first.

    Args:
        base: Ops of the base run.
        new: Ops of the new run.
        batches: By what to divide the times of a step of the base and of the new run.
    """
    sides = [
        _by_name(one.rows, ("host_or_device", "name"), one.missing, number)
        for one, number in zip((base, new), batches, strict=True)
    ]
    absent = next((one for one in sides if isinstance(one, Unavailable)), None)
    if absent is not None:
        return absent
    before, after = (one for one in sides if not isinstance(one, Unavailable))
    return _largest_first(
        _change(key[1], before.get(key), after.get(key), side=key[0])
        for key in before.keys() | after.keys()
    )


def kernel_changes(
    base: KernelStatsResult,
    new: KernelStatsResult,
    batches: tuple[float, float],
    runs: tuple[Mapping[str, float], Mapping[str, float]],
) -> tuple[Change, ...] | Unavailable:
    """Compare the time of kernels in a step, the largest change first.

    Args:
        base: Kernels of the base run.
        new: Kernels of the new run.
        batches: By what to divide the times of a step of the base and of the new run.
        runs: How often each kernel runs in a step of the base and of the new run.
    """
    sides = [
        _by_name(one.rows, ("kernel_name",), one.missing, number)
        for one, number in zip((base, new), batches, strict=True)
    ]
    absent = next((one for one in sides if isinstance(one, Unavailable)), None)
    if absent is not None:
        return absent
    before, after = (one for one in sides if not isinstance(one, Unavailable))
    return _largest_first(
        msgspec.structs.replace(
            _change(key[0], before.get(key), after.get(key)),
            base_runs=runs[0].get(key[0], 0.0),
            new_runs=runs[1].get(key[0], 0.0),
        )
        for key in before.keys() | after.keys()
    )


def _by_name(
    rows: pl.DataFrame, keys: Sequence[str], missing: Sequence[Missing], batches: float
) -> dict[tuple[str, ...], float] | Unavailable:
    """Return ms of a step by name; unavailable where there is no time per step."""
    name = "kernel_name" if "kernel_name" in keys else "name"
    known = rows.filter(pl.col("per_step_us").is_not_null() & (pl.col(name) != ""))
    if len(rows) and not len(known):
        return next(
            (
                Unavailable(code=one.code, reason=one.reason, remedy=one.remedy)
                for one in missing
                if one.field.endswith("per_step_us")
            ),
            _NO_STEP_TIME,
        )
    summed = known.group_by(keys).agg(pl.col("per_step_us").sum()).sort(keys)
    return {
        tuple(one): time / _US_PER_MS / batches for *one, time in summed.iter_rows()
    }


_NO_STEP_TIME: Final = Unavailable(
    code="NO_STEPS",
    reason="The time of a step is not known for these names.",
    remedy="Mark the steps of both programs.",
)


def _change(
    name: str, before: float | None, after: float | None, *, side: str | None = None
) -> Change:
    sides: dict[str | None, Literal["host", "device"]] = {
        "Host": "host",
        "Device": "device",
    }
    return Change(
        name=name,
        side=sides.get(side),
        base_ms=before,
        new_ms=after,
        change_ms=(after or 0.0) - (before or 0.0),
    )


def _largest_first(found: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(
        sorted(found, key=lambda one: (-abs(one.change_ms), one.name, one.side or ""))
    )
