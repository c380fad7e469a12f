"""Gains of findings by a replay: of each finding, and of several together.

Definition: docs/replay.md#what-if-edits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.headline import findings_by_cost
from stepscope.advice.registry import RULES
from stepscope.derive.facts.evidence import Limits, Saving
from stepscope.derive.facts.savings.predicted_savings import replay_signals
from stepscope.derive.facts.savings.what_if_changes import Gone
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import BUSY_OWNERS, IDLE_OWNERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.unavailable import Unavailable

#: Maximum number of findings that are replayed together.
MAX_REPLAYED_FINDINGS: Final = 3
#: Causes of time that a what-if edit can remove: all idle time, and copies of input.
_REMOVABLE_OWNERS: Final = frozenset({*IDLE_OWNERS, "copy_in"})
#: A gain below this, in ms, counts as no gain.
_MIN_GAIN_MS: Final = 1e-3
_NOT_KNOWN: Final = shared_texts("judging").reason("gain_not_known")
_NO_CHANGE: Final = shared_texts("judging").reason("gain_not_replayed")
#: Note of a finding whose lost time may not recur in later steps.
_NOT_RECURRING: Final = "at_end"
_CHANGES: Final = {rule.item.id: rule.changes for rule in RULES}


def saving_limits(finding: Finding, signals: Signals) -> Limits:
    """Return the upper bounds of a finding's saving that step times show.

    A saving cannot remove device work, except the work that the finding is about. A
    finding without `owners` may be about any work of the device.
    """
    shares = _breakdown_of_finding(finding, signals)
    if shares is None or not shares.window_ps:
        return Limits(finding.ms_per_step, None)
    step_ms = shares.mean_ms(shares.total_ps)
    staying = set(BUSY_OWNERS).difference(finding.owners)
    percent = shares.percent(*staying) if finding.owners or finding.topics else 0.0
    return Limits(finding.ms_per_step, step_ms, step_ms * percent / 100)


def _breakdown_of_finding(finding: Finding, signals: Signals) -> StepShares | None:
    account = signals.known(account_signals)
    shares = () if account is None else account.shares
    return next((one for one in shares if (one.label,) == finding.devices[:1]), None)


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """The gain of a step if the costliest findings are all fixed.

    Attributes:
        findings: Ids of the findings that were replayed together, the costliest first;
            empty if no finding can be replayed.
        left_out: Ids of costly findings that were not replayed: they gain nothing,
            their gains are only upper bounds, or they belong to another host.
        saving_ms: Milliseconds per step that fixing all of `findings` would save, at
            most the sum of the single savings; null with fewer than two findings.
        next_owner: Next bottleneck: cause of most time on the critical path of the
            steps once the first of `findings` is fixed. Null if unknown, and if a
            finding that was not replayed is listed first.
        next_percent: Share of `next_owner` in that path, in percent; null if unknown.
        next_hidden: Whether other work hides most of that time before the fix: the
            first finding is about the same cause, or the cause's share of the step time
            is far smaller than its share of the path.
    """

    findings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    saving_ms: Saving | None = None
    next_owner: str | None = None
    next_percent: float | None = None
    next_hidden: bool = False


#: Minimum share of the critical path, in percent, of a cause that counts as all of it.
_MIN_WHOLE_PATH_PERCENT: Final = 99.0
#: A cause of time is hidden if its share of step time is below this fraction of its
#: share of the critical path.
_MAX_VISIBLE_PART: Final = 0.5


def _changes_of_finding(finding: Finding, signals: Signals) -> Changes:
    """Return the what-if edits of a failing finding; () if unknown.

    Edits remove idle time, but not device work. A rule that predicts a saving of less
    than all of its lost time declares its edits.
    """
    if finding.status != "fail" or not finding.devices:
        return ()
    own = _CHANGES.get(finding.id)
    changes = () if own is None else own(signals)
    # A replay can remove all time with one cause, but not a topic within it.
    if changes or finding.place is None or not finding.owners or finding.topics:
        return changes
    goes = finding.pattern is not None and finding.note != _NOT_RECURRING
    goes = goes and _REMOVABLE_OWNERS.issuperset(finding.owners)
    return (Gone(finding.owners, finding.place),) if goes else ()


def predict_gain(finding: Finding, signals: Signals) -> Finding:
    """Set the saving of a failing finding to the gain of a replay, or to its bound.

    Without a replay only an upper bound remains: fixed factors and shares of the lost
    time do not show that a change saves anything.
    """
    if finding.status != "fail":
        return finding
    limits = saving_limits(finding, signals)
    bound = None if finding.saving_ms is None else finding.saving_ms.within(limits)
    saving = _replayed_saving(finding, bound, limits, signals)
    if bound is not None:
        # A replay cannot know how fast replacement kernels are.
        saving = msgspec.structs.replace(
            saving or msgspec.structs.replace(bound, low=0.0),
            open_above=bound.open_above,
        )
    return msgspec.structs.replace(finding, saving_ms=saving)


def _replayed_saving(
    finding: Finding, bound: Saving | None, limits: Limits, signals: Signals
) -> Saving | None:
    """Return the gain of a replay without the lost time; None if it is unknown."""
    changes = _changes_of_finding(finding, signals)
    if changes and isinstance(changes[0], Gone):
        # A replay removes all time with these causes, so the bound must cover it.
        if bound is None or finding.ms_per_step is None:
            return None
        if bound.high != Saving(high=finding.ms_per_step).within(limits).high:
            return None
    if not changes:
        return None
    saving = signals.of(replay_signals).saving_of_changes(
        changes, finding.devices[0], limits=limits, bound=bound
    )
    is_too_small = saving is not None and bound is None and saving.high < _MIN_GAIN_MS
    return None if is_too_small else saving


def why_not_replayed(finding: Finding, signals: Signals) -> Unavailable | None:
    """Return why a gain is only an upper bound; None if a replay computed it."""
    if finding.saving_ms is None or finding.saving_ms.basis == "replay":
        return None
    if not finding.devices:
        return _NO_CHANGE
    why = signals.of(replay_signals).reason(finding.devices[0])
    if why is not None:
        return why
    goes = bool(finding.owners) and _REMOVABLE_OWNERS.issuperset(finding.owners)
    return _NOT_KNOWN if goes or finding.id in _CHANGES else _NO_CHANGE


def replay_together(
    findings: Sequence[Finding], signals: Signals, *, first: str | None = None
) -> Together:
    """Replay the costliest findings together, and the first one alone.

    Args:
        first: Id of the finding that is shown first; None for the costliest.
    """
    ranked = sorted(
        findings_by_cost(findings), key=lambda finding: finding.id != first
    )[:MAX_REPLAYED_FINDINGS]
    replays = signals.of(replay_signals)
    replayed = [
        (finding, changes, finding.saving_ms)
        for finding in ranked
        if finding.saving_ms is not None and finding.saving_ms.basis == "replay"
        if finding.saving_ms.high >= _MIN_GAIN_MS
        if (changes := _changes_of_finding(finding, signals))
    ]
    if not replayed:
        return Together(left_out=tuple(finding.id for finding in ranked))
    foremost, changes, _ = replayed[0]
    host = replays.host_of_label(foremost.devices[0])
    own = [row for row in replayed if replays.host_of_label(row[0].devices[0]) == host]
    ids = tuple(finding.id for finding, _, _ in own)
    after = (
        replays.next_bottleneck(changes, foremost.devices[0])
        if foremost is ranked[0]
        else None
    )
    if (
        after is not None
        and after[0] in foremost.owners
        and after[1] >= _MIN_WHOLE_PATH_PERCENT
    ):
        # Other work that hid the cause's time would be on the critical path too.
        after = None
    return Together(
        findings=ids,
        left_out=tuple(finding.id for finding in ranked if finding.id not in ids),
        saving_ms=replays.together(
            [(changes, finding.devices[0], saving) for finding, changes, saving in own],
            Limits(None, saving_limits(foremost, signals).step_ms),
        )
        if len(own) > 1
        else None,
        next_owner=None if after is None else after[0],
        next_percent=None if after is None else after[1],
        next_hidden=after is not None and _is_hidden_work(*after, foremost, signals),
    )


def _is_hidden_work(
    owner: str, path_percent: float, gone: Finding, signals: Signals
) -> bool:
    """Return whether other work hides most of the next bottleneck before the fix."""
    if owner in gone.owners:
        return True
    shares = _breakdown_of_finding(gone, signals)
    if shares is None:
        return False
    remaining_percent = 100 - shares.percent(*gone.owners)
    return (
        shares.percent(owner)
        < path_percent / 100 * remaining_percent * _MAX_VISIBLE_PART
    )
