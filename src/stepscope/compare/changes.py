"""What owners, categories, ops and kernels gained or lost between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from stepscope.compare.measured import KernelTime
from stepscope.derive.judging.effect_status import difference_interval
from stepscope.derive.step_time.host_time import CATEGORIES, OWNERS, owners_of
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.compare.measured import KernelTimes, OpTimes
    from stepscope.compare.timing import RunTimes

_CATEGORY_OF: Final = {one.name: one.category for one in OWNERS}

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
    known = [one.name for one in OWNERS if _both_know(one.name, base, new)]
    return _largest_first(
        _change_of_steps(name, base, new, base.owners_ps[name], new.owners_ps[name])
        for name in known
        if any(base.owners_ps[name]) or any(new.owners_ps[name])
    )


def breakdown_changes(base: RunTimes, new: RunTimes) -> tuple[Change, ...]:
    """Compare the categories of the step's time, in their order.

    A category is left out if one of the runs could not look at an owner of it that the
    other knows.
    """
    found = []
    for category in CATEGORIES:
        owners = [
            one
            for one in owners_of(category)
            if one in base.owners_ps or one in new.owners_ps
        ]
        if not owners or not all(_both_know(one, base, new) for one in owners):
            continue
        sums = [
            tuple(
                map(sum, zip(*(one.owners_ps[owner] for owner in owners), strict=True))
            )
            for one in (base, new)
        ]
        found.append(_change_of_steps(category, base, new, *sums))
    return tuple(found)


def _both_know(owner: str, base: RunTimes, new: RunTimes) -> bool:
    return owner in base.owners_ps and owner in new.owners_ps


def _change_of_steps(
    name: str,
    base: RunTimes,
    new: RunTimes,
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> Change:
    """Compare what is known for each step."""
    means = [sum(times) / len(times) for times in (before, after)]
    low, high = difference_interval(base.in_order(before), new.in_order(after))
    kind: Kind = "same"
    if low > 0 or high < 0:
        kind = "slowed" if low > 0 else "quickened"
    return Change(
        name=name,
        category=_CATEGORY_OF.get(name, name),
        kind=kind,
        base_ms=means[0] / PS_PER_MS,
        new_ms=means[1] / PS_PER_MS,
        change_ms=(means[1] - means[0]) / PS_PER_MS,
        low_ms=low / PS_PER_MS,
        high_ms=high / PS_PER_MS,
    )


def op_changes(
    base: OpTimes, new: OpTimes, batches: tuple[float, float]
) -> tuple[Change, ...]:
    """Compare the self time of ops in a step, the largest change first.

    Args:
        base: Ops of the base run.
        new: Ops of the new run.
        batches: By what to divide the times of a step of the base and of the new run.
    """
    return _largest_first(
        _change_of_name(
            key.name,
            _divide_or_none(base.get(key), batches[0]),
            _divide_or_none(new.get(key), batches[1]),
            side=key.side,
        )
        for key in base.keys() | new.keys()
    )


def kernel_changes(
    base: KernelTimes, new: KernelTimes, batches: tuple[float, float]
) -> tuple[Change, ...]:
    """Compare the time of kernels in a step, the largest change first.

    A kernel is distinguished by the op that launched it where both runs have the kernel
    under a common op; else, as where one of them recorded no ops, by its name alone.

    Args:
        base: Kernels of the base run.
        new: Kernels of the new run.
        batches: By what to divide the times of a step of the base and of the new run.
    """
    alone = _without_common_op(base, new)
    before, after = (_merge_kernel_times(one, alone) for one in (base, new))
    found = []
    for key in before.keys() | after.keys():
        old, other = before.get(key), after.get(key)
        change = _change_of_name(
            key.name,
            None if old is None else old.ms / batches[0],
            None if other is None else other.ms / batches[1],
            scope=key.op,
        )
        found.append(
            msgspec.structs.replace(
                change,
                base_runs=0.0 if old is None else old.runs / batches[0],
                new_runs=0.0 if other is None else other.runs / batches[1],
            )
        )
    return _largest_first(found)


def _without_common_op(base: KernelTimes, new: KernelTimes) -> set[str]:
    """Return the kernels of both runs that no op launches in both."""
    names = [{key.name for key in one} for one in (base, new)]
    common = {key.name for key in base.keys() & new.keys()}
    return (names[0] & names[1]) - common


def _merge_kernel_times(times: KernelTimes, alone: set[str]) -> KernelTimes:
    """Return the times by kernel, some of them whatever op launched them."""
    found: KernelTimes = {}
    for key, one in times.items():
        place = msgspec.structs.replace(key, op=None) if key.name in alone else key
        held = found.get(place, KernelTime(0.0, 0.0))
        found[place] = KernelTime(held.ms + one.ms, held.runs + one.runs)
    return found


def with_shares(
    changes: tuple[Change, ...], step: StepTimeChange
) -> tuple[Change, ...]:
    """Return the changes with their shares of the step's change, if there is one."""
    if step.verdict == "noise":
        return changes
    return tuple(
        msgspec.structs.replace(one, share_percent=100 * one.change_ms / step.change_ms)
        for one in changes
    )


def _divide_or_none(value: float | None, by: float) -> float | None:
    return None if value is None else value / by


def _change_of_name(
    name: str,
    before: float | None,
    after: float | None,
    *,
    scope: str | None = None,
    side: Literal["host", "device"] | None = None,
) -> Change:
    kind: Kind = "same"
    if before is None or after is None:
        kind = "appeared" if before is None else "vanished"
    elif before != after:
        kind = "slowed" if after > before else "quickened"
    return Change(
        name=name,
        scope=scope,
        side=side,
        kind=kind,
        base_ms=before,
        new_ms=after,
        change_ms=(after or 0.0) - (before or 0.0),
    )


def _largest_first(found: Iterable[Change]) -> tuple[Change, ...]:
    return tuple(
        sorted(
            found,
            key=lambda one: (
                -abs(one.change_ms),
                one.name,
                one.side or "",
                one.scope or "",
            ),
        )
    )
