"""Changes of step time by cause, category, op and kernel between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from stepscope.compare.measured import KernelTime
from stepscope.derive.step_time.owners import CATEGORIES, OWNERS, category_owners
from stepscope.derive.verdicts.effect_status import difference_interval
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.compare.measured import KernelTimes, OpTimes
    from stepscope.compare.timing import RunTimes

_CATEGORY_OF: Final = {owner.name: owner.category for owner in OWNERS}

Kind: TypeAlias = Literal["appeared", "vanished", "slowed", "quickened", "same"]


class StepTimeChange(msgspec.Struct, frozen=True, kw_only=True):
    """The mean step time of both runs, and its change.

    Attributes:
        base_ms: Mean step time of the base run.
        new_ms: Mean step time of the new run.
        change_ms: `new_ms` minus `base_ms`: negative if steps became shorter.
        low_ms: Lower end of the change's 95 % interval.
        high_ms: Upper end of the change's 95 % interval.
        change_percent: The change as a share of `base_ms`.
        verdict: "faster" or "slower" if the interval does not contain 0, else "noise".
    """

    base_ms: float
    new_ms: float
    change_ms: float
    low_ms: float
    high_ms: float
    change_percent: float
    verdict: Literal["faster", "slower", "noise"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Time per step of one cause (owner), category, op or kernel in both runs.

    Attributes:
        name: Name of the owner, category, op or kernel.
        category: The category itself, or the category that an owner belongs to; null
            for ops and kernels.
        scope: Op that launched the kernel, if both runs have the kernel under that op;
            null otherwise, and for owners, categories and ops.
        side: "host" or "device" for an op; null for owners, categories and kernels.
        kind: "appeared" or "vanished" if it occurs in only one run; "slowed" or
            "quickened" if its time per step grew or shrank; "same" if the time is
            equal, or the interval of the change contains 0.
        base_ms: Time per step of the base run; null if it does not occur there.
        new_ms: Time per step of the new run; null if it does not occur there.
        change_ms: `new_ms` minus `base_ms`; a null counts as 0.
        share_percent: `change_ms` as a share of the step's change; negative if the
            signs differ. Null if the step's change may be chance.
        low_ms: Lower end of the change's 95 % interval; null for ops and kernels, whose
            time is known only for all steps together.
        high_ms: Upper end of the change's 95 % interval; null for ops and kernels.
        base_runs: Executions per step of the base run; null except for kernels.
        new_runs: Executions per step of the new run; null except for kernels.
    """

    name: str
    category: str | None = None
    scope: str | None = None
    side: Literal["host", "device"] | None = None
    kind: Kind
    base_ms: float | None
    new_ms: float | None
    change_ms: float
    share_percent: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    base_runs: float | None = None
    new_runs: float | None = None

    @property
    def certain(self) -> bool | None:
        """Whether the change exceeds chance; None if chance was not estimated."""
        if self.low_ms is None or self.high_ms is None:
            return None
        return self.low_ms > 0 or self.high_ms < 0


def step_time_change(base: RunTimes, new: RunTimes) -> StepTimeChange:
    """Compare the mean step times of two runs with steps."""
    before, after = (
        sum(times.window_ps) / len(times.window_ps) for times in (base, new)
    )
    low, high = difference_interval(
        base.values_by_step(base.window_ps), new.values_by_step(new.window_ps)
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
    """Compare the step time by cause (owner), largest change first.

    A cause that could not be measured in one of the runs is left out: in that run, its
    time is part of `unexplained`.
    """
    known = [
        (owner.name, base.owners_ps[owner.name], new.owners_ps[owner.name])
        for owner in OWNERS
        if owner.name in base.owners_ps and owner.name in new.owners_ps
    ]
    return _largest_first(
        _compare_steps(name, base, new, before, after)
        for name, before, after in known
        if any(before) or any(after)
    )


def breakdown_changes(base: RunTimes, new: RunTimes) -> tuple[Change, ...]:
    """Compare the categories of the step time, in their order.

    A category is left out if the two runs measured different causes of it.
    """
    changes = []
    for category in CATEGORIES:
        owners, new_owners = (
            [owner for owner in category_owners(category) if owner in times.owners_ps]
            for times in (base, new)
        )
        if owners and owners == new_owners:
            columns = ([run.owners_ps[name] for name in owners] for run in (base, new))
            before, after = (
                tuple(map(sum, zip(*times, strict=True))) for times in columns
            )
            changes.append(_compare_steps(category, base, new, before, after))
    return tuple(changes)


def _compare_steps(
    name: str,
    base: RunTimes,
    new: RunTimes,
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> Change:
    """Compare times that are known for each step."""
    old_mean, new_mean = (sum(times) / len(times) for times in (before, after))
    low, high = difference_interval(
        base.values_by_step(before), new.values_by_step(after)
    )
    kind: Kind = "same"
    if low > 0 or high < 0:
        kind = "slowed" if low > 0 else "quickened"
    return Change(
        name=name,
        category=_CATEGORY_OF.get(name, name),
        kind=kind,
        base_ms=old_mean / PS_PER_MS,
        new_ms=new_mean / PS_PER_MS,
        change_ms=(new_mean - old_mean) / PS_PER_MS,
        low_ms=low / PS_PER_MS,
        high_ms=high / PS_PER_MS,
    )


def op_changes(
    base: OpTimes | Unavailable,
    new: OpTimes | Unavailable,
    batches: tuple[float, float],
) -> tuple[Change, ...] | Unavailable:
    """Compare the self time of ops per step, largest change first.

    The times are divided by `batches`: batches per step of the base and the new run.
    """
    if isinstance(base, Unavailable):
        return base
    if isinstance(new, Unavailable):
        return new
    return _largest_first(
        _compare_totals(key.name, (base.get(key), new.get(key)), batches, side=key.side)
        for key in base.keys() | new.keys()
    )


def kernel_changes(
    base: KernelTimes | Unavailable,
    new: KernelTimes | Unavailable,
    batches: tuple[float, float],
) -> tuple[Change, ...] | Unavailable:
    """Compare the time of kernels per step, largest change first.

    If both runs have a kernel under a common op, the kernel's times are compared op by
    op. Otherwise, for example if a run recorded no ops, the kernel's times are summed.

    The times are divided by `batches`: batches per step of the base and the new run.
    """
    if isinstance(base, Unavailable):
        return base
    if isinstance(new, Unavailable):
        return new
    in_both = {key.name for key in base} & {key.name for key in new}
    without_op = in_both - {key.name for key in base.keys() & new.keys()}
    before, after = (_sum_over_ops(times, without_op) for times in (base, new))
    absent = KernelTime(0.0, 0.0)
    return _largest_first(
        _compare_totals(
            key.name,
            (
                before[key].ms if key in before else None,
                after[key].ms if key in after else None,
            ),
            batches,
            scope=key.op,
            base_runs=before.get(key, absent).runs / batches[0],
            new_runs=after.get(key, absent).runs / batches[1],
        )
        for key in before.keys() | after.keys()
    )


def _sum_over_ops(times: KernelTimes, names: set[str]) -> KernelTimes:
    """Return the times by kernel, with the kernels in `names` summed over ops."""
    summed: KernelTimes = {}
    for key, time in times.items():
        place = msgspec.structs.replace(key, op=None) if key.name in names else key
        held = summed.get(place, KernelTime(0.0, 0.0))
        summed[place] = KernelTime(held.ms + time.ms, held.runs + time.runs)
    return summed


def changes_with_shares(
    changes: tuple[Change, ...] | Unavailable, step: StepTimeChange
) -> tuple[Change, ...] | Unavailable:
    """Add to each change its share of the step's change, unless that may be chance."""
    if isinstance(changes, Unavailable) or step.verdict == "noise":
        return changes
    return tuple(
        msgspec.structs.replace(
            change, share_percent=100 * change.change_ms / step.change_ms
        )
        for change in changes
    )


def _compare_totals(
    name: str,
    times: tuple[float | None, float | None],
    batches: tuple[float, float],
    **fields: Any,
) -> Change:
    """Compare times that are known only for all steps together."""
    before, after = (
        None if time is None else time / count
        for time, count in zip(times, batches, strict=True)
    )
    kind: Kind = "same"
    if before is None or after is None:
        kind = "appeared" if before is None else "vanished"
    elif before != after:
        kind = "slowed" if after > before else "quickened"
    return Change(
        name=name,
        kind=kind,
        base_ms=before,
        new_ms=after,
        change_ms=(after or 0.0) - (before or 0.0),
        **fields,
    )


def _largest_first(changes: Iterable[Change]) -> tuple[Change, ...]:
    def sort_key(change: Change) -> tuple[float, str, str, str]:
        size = -abs(change.change_ms)
        return size, change.name, change.side or "", change.scope or ""

    return tuple(sorted(changes, key=sort_key))
