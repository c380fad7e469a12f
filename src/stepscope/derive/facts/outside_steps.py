"""`outside_steps`: what a recording consists of if its steps are a small part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.derive.account.time_by_cause import account
from stepscope.derive.columns.arrays import ints
from stepscope.derive.facts.step_shares import AccountSignals, account_signals
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_run
from stepscope.derive.step_time.owners import OWNERS
from stepscope.derive.step_windows.windows import windows
from stepscope.derive.verdicts.effect_status import NO_JUDGED_STEPS
from stepscope.frozen import Frozen
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable, require_available

if TYPE_CHECKING:
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.judged_steps import HostSteps
    from stepscope.derive.profile_data import ProfileData

#: Causes that say nothing about the program, for example after its last step.
_NOT_TOLD: Final = ("profiler", "switch", "queued", "between", "unexplained")
_SHARES: Final = account_signals
_OWNER_NAMES: Final = tuple(
    owner.name for owner in OWNERS if owner.name not in _NOT_TOLD
)


class OutsideSteps(Frozen, frozen=True):
    """The largest cause of the time outside the steps; shares are of the recording.

    Attributes:
        steps_percent: Share of the time from the first step to the end of the last.
        owner: Cause of most of the time outside the steps.
        percent: Share of the owner's time outside the steps.
        part: Largest named part of the owner's time in the recording; None if unknown.
    """

    steps_percent: float
    owner: str
    percent: float
    part: Part | None


@of_run
def outside_steps(
    *,
    profile: ProfileData,
    account_signals: AccountSignals,
    step_signals: dict[str, HostSteps | Unavailable],
) -> OutsideSteps | None:
    """Return what most of the time outside the steps is spent on.

    The result is None if the recording has no steps, if they are no small part of it,
    or if no known cause has much of the time. The judged device is described.
    """
    shares = account_signals.judged()
    placed = profile.derived(shares.host, windows)
    events = profile.table(shares.host, "events")
    steps = step_signals[shares.host]
    if isinstance(placed, Unavailable) or isinstance(events, Unavailable):
        return None
    if isinstance(steps, Unavailable):
        return None
    recorded_ps = steps.recorded_ps
    steps_ps = int(placed.rows["end_ps"][-1] - placed.rows["start_ps"][0])
    is_minor = 100 * steps_ps < THRESHOLDS.minor_steps.value * recorded_ps
    if not placed.has_steps or not is_minor:
        return None
    # Most programs end after their last step, and nothing else was recorded.
    known = Spans.from_events(ints(events, "start_ps"), ints(events, "dur_ps"))
    min_ps = THRESHOLDS.idle_owner.value / 100 * recorded_ps
    if known.length_ps - steps_ps < min_ps:
        return None
    run = profile.select([shares.host]).replace_value("steps", NO_JUDGED_STEPS)
    own = pl.col("device").eq_missing(pl.lit(shares.device, pl.Int32))
    rows, whole = (
        require_available(each.derived(shares.host, account)).rows.filter(own)
        for each in (profile, run)
    )
    times = {
        name: int(whole[f"{name}_ps"].sum()) - int(rows[f"{name}_ps"].sum())
        for name in _OWNER_NAMES
    }
    owner = max(times, key=times.__getitem__)
    if times[owner] < min_ps:
        return None
    return OutsideSteps(
        steps_percent=100 * steps_ps / recorded_ps,
        owner=owner,
        percent=100 * times[owner] / recorded_ps,
        part=_largest_part(run.of_run(_SHARES), shares.label, owner),
    )


def _largest_part(
    signals: AccountSignals | Unavailable, label: str, owner: str
) -> Part | None:
    if isinstance(signals, Unavailable):
        return None
    same = (each for each in signals.shares if each.label == label)
    return next((part for each in same for part in each.parts(owner)), None)
