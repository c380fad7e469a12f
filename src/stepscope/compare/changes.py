"""What owners, categories, ops and kernels gained or lost between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from stepscope.compare.measured import KernelTime
from stepscope.derive.judging.effect_status import difference_interval
from stepscope.derive.step_time.host_time import CATEGORIES, OWNERS, category_owners
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.compare.measured import KernelTimes, OpTimes
    from stepscope.compare.timing import RunTimes

_CATEGORY_OF: Final = {owner.name: owner.category for owner in OWNERS}

Kind: TypeAlias = Literal["appeared", "vanished", "slowed", "quickened", "same"]


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
    """What one owner, category, op or kernel takes of a step, before and now.

    Attributes:
        name: The owner, category, op or kernel.
        category: Category that it is, or that the time of an owner is part of; null of
            ops and kernels.
        scope: Op that launched a kernel, where both runs have the kernel under it;
            null otherwise, and of what is no kernel.
        side: "host" or "device" of an op; null of all others.
        kind: "appeared" or "vanished" where it occurs in one of the runs only; "slowed"
            or "quickened" where it takes more or less of a step; "same" where it takes
            as much, or the interval of the change holds 0.
        base_ms: Time of a step of the base run; null where it does not occur there.
        new_ms: Time of a step of the new run; null likewise.
        change_ms: What it gained (above 0) or lost (below 0).
        share_percent: `change_ms` as a share of the step's change: below 0 where it
            works against it. Null where the step did not change beyond chance.
        low_ms: Lower end of the change's 95 % interval; null of ops and kernels, whose
            time is known for all steps together only.
        high_ms: Upper end of it; null likewise.
        base_runs: Runs in a step of the base run; null of what is no kernel.
        new_runs: Runs in a step of the new run; null of what is no kernel.
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
        """Whether the change is beyond chance; None where that was not estimated."""
        if self.low_ms is None or self.high_ms is None:
            return None
        return self.low_ms > 0 or self.high_ms < 0


def step_time_change(base: RunTimes, new: RunTimes) -> StepTimeChange:
    """Compare the mean steps of two runs that have some."""
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
    """Compare the owners of the step's time, the largest change first.

    An owner that one of the runs could not look at is left out: its time is part of
    `unexplained` there.
    """
    known = [
        (owner.name, base.owners_ps[owner.name], new.owners_ps[owner.name])
        for owner in OWNERS
        if owner.name in base.owners_ps and owner.name in new.owners_ps
    ]
    return _largest_first(
        _change_of_steps(name, base, new, before, after)
        for name, before, after in known
        if any(before) or any(after)
    )


def breakdown_changes(base: RunTimes, new: RunTimes) -> tuple[Change, ...]:
    """Compare the categories of the step's time, in their order.

    A category is left out if one of the runs could not look at an owner of it that the
    other knows.
    """
    changes = []
    for category in CATEGORIES:
        owners, others = (
            [owner for owner in category_owners(category) if owner in times.owners_ps]
            for times in (base, new)
        )
        if owners and owners == others:
            columns = ([run.owners_ps[one] for one in owners] for run in (base, new))
            before, after = (
                tuple(map(sum, zip(*times, strict=True))) for times in columns
            )
            changes.append(_change_of_steps(category, base, new, before, after))
    return tuple(changes)


def _change_of_steps(
    name: str,
    base: RunTimes,
    new: RunTimes,
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> Change:
    """Compare what is known for each step."""
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
    """Compare the self time of ops in a step, the largest change first.

    The times are divided by `batches`, those of the base and of the new run.
    """
    if isinstance(base, Unavailable):
        return base
    if isinstance(new, Unavailable):
        return new
    return _largest_first(
        _change_of_totals(
            key.name, (base.get(key), new.get(key)), batches, side=key.side
        )
        for key in base.keys() | new.keys()
    )


def kernel_changes(
    base: KernelTimes | Unavailable,
    new: KernelTimes | Unavailable,
    batches: tuple[float, float],
) -> tuple[Change, ...] | Unavailable:
    """Compare the time of kernels in a step, the largest change first.

    A kernel is distinguished by the op that launched it where both runs have the kernel
    under a common op; else, as where one of them recorded no ops, by its name alone.
    The times are divided by `batches`, those of the base and of the new run.
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
        _change_of_totals(
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
    """Return the times by kernel, those of some names whatever op launched them."""
    summed: KernelTimes = {}
    for key, time in times.items():
        place = msgspec.structs.replace(key, op=None) if key.name in names else key
        held = summed.get(place, KernelTime(0.0, 0.0))
        summed[place] = KernelTime(held.ms + time.ms, held.runs + time.runs)
    return summed


def changes_with_shares(
    changes: tuple[Change, ...] | Unavailable, step: StepTimeChange
) -> tuple[Change, ...] | Unavailable:
    """Return the changes with their shares of the step's change, if there is one."""
    if isinstance(changes, Unavailable) or step.verdict == "noise":
        return changes
    return tuple(
        msgspec.structs.replace(
            change, share_percent=100 * change.change_ms / step.change_ms
        )
        for change in changes
    )


def _change_of_totals(
    name: str,
    times: tuple[float | None, float | None],
    batches: tuple[float, float],
    **fields: Any,
) -> Change:
    """Compare what is known for all steps together."""
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
