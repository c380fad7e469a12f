"""What findings promise by a replay: one by one, and together.

Definition: docs/replay.md#what-if-edits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.headline import findings_by_cost
from stepscope.advice.registry import RULES
from stepscope.derive.facts.evidence import Limits, Saving
from stepscope.derive.facts.replaying.edits import Gone
from stepscope.derive.facts.replaying.replays import replay_signals
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.host_time import BUSY_OWNERS, IDLE_OWNERS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.thresholds import Thresholds

#: Findings that are looked at together.
MOST: Final = 3
#: Owners whose time can go: all idle time, and copies of input.
_GO: Final = frozenset({*IDLE_OWNERS, "copy_in"})
#: A gain in ms that is none.
_NOTHING: Final = 1e-3
_NOT_KNOWN: Final = shared_texts("judging").reason("gain_not_known")
_NO_CHANGE: Final = shared_texts("judging").reason("gain_not_replayed")
_CHANGES: Final = {
    rule.item.id: rule.changes for rule in RULES if rule.changes is not None
}


def limit_saving(finding: Finding, signals: Signals) -> Finding:
    """Return a finding whose saving is within its limits."""
    if finding.saving_ms is None:
        return finding
    saving = finding.saving_ms.within(saving_limits(finding, signals))
    return msgspec.structs.replace(finding, saving_ms=saving)


def saving_limits(finding: Finding, signals: Signals) -> Limits:
    """Return what limits the saving of a finding, as far as the account knows it.

    What a device does stays, except for the owners that the finding is about. A finding
    that names no owner may be about any of its work.
    """
    account, label = signals.known(account_signals), finding.devices[:1]
    shares = next(
        (
            one
            for one in (() if account is None else account.shares)
            if (one.label,) == label and one.window_ps
        ),
        None,
    )
    if shares is None:
        return Limits(finding.ms_per_step, None)
    step_ms = shares.total_ps / len(shares.window_ps) / PS_PER_MS
    staying = set(BUSY_OWNERS).difference(finding.owners)
    percent = shares.percent(*staying) if finding.owners or finding.topics else 0.0
    return Limits(finding.ms_per_step, step_ms, step_ms * percent / 100)


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """What a step gains where the findings that cost most are all mended.

    Attributes:
        findings: Ids of the findings that were replayed together, the one that costs
            most first; empty where none can be replayed.
        left_out: Ids of those among the costliest that were not: they gain nothing,
            their gains are limits, or they belong to another host.
        saving_ms: Milliseconds per step that mending all of `findings` would save, at
            most the sum of what each would; null with fewer than two.
        next_owner: Owner of most of the steps' critical path once the first of
            `findings` is mended: the next bottleneck. Null where it is not known.
        next_percent: Its share of that path, in percent; null likewise.
        next_hidden: Whether most of it is time that other work hides so far: that
            finding is about this owner's time as well, or the account gives the owner
            far less of what remains.
    """

    findings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    saving_ms: Saving | None = None
    next_owner: str | None = None
    next_percent: float | None = None
    next_hidden: bool = False


#: From this share of the critical path on, in percent, nothing else is on it.
_ALL: Final = 99.0
#: Less of an owner's time on the path than this is in the account: the rest is hidden.
_SEEN: Final = 0.5


def _changes_of_finding(
    finding: Finding, signals: Signals, thresholds: Thresholds
) -> tuple[Change, ...]:
    """Return what a failing finding would change about a step; none if not known.

    Idle time goes. Work that a device does itself does not, and a rule that promises
    less than all of its time knows better.
    """
    if finding.status != "fail" or not finding.devices:
        return ()
    own = _CHANGES.get(finding.id)
    found = () if own is None else own(signals, thresholds)
    # The replay knows owners, not which part of their time is a topic's.
    if found or finding.place is None or not finding.owners or finding.topics:
        return found
    goes = finding.pattern is not None and _GO.issuperset(finding.owners)
    return (Gone(finding.owners, finding.place),) if goes else ()


def promise_by_replay(
    finding: Finding, signals: Signals, thresholds: Thresholds
) -> Finding:
    """Promise what the replay of the steps without the finding's cause gains.

    Where it cannot tell, the limits stay that follow from the account.
    """
    bound = finding.saving_ms
    if bound is None and finding.id not in _CHANGES:
        return finding
    changes = _changes_of_finding(finding, signals, thresholds)
    limits = saving_limits(finding, signals)
    if not changes:
        return finding
    if isinstance(changes[0], Gone):
        # The limit has to cover all the time that the finding is about.
        pattern, effect_ms = finding.pattern, finding.ms_per_step
        if pattern is None or effect_ms is None:
            return finding
        if bound != pattern.promise(effect_ms).within(limits):
            return finding
    saving = signals.of(replay_signals).saving_of_changes(
        changes, finding.devices[0], limits=limits, bound=bound
    )
    if saving is None or (bound is None and saving.high < _NOTHING):
        return finding
    if bound is not None:
        # How fast other kernels are no replay knows either.
        saving = msgspec.structs.replace(saving, open_above=bound.open_above)
    return msgspec.structs.replace(finding, saving_ms=saving)


def why_not_replayed(finding: Finding, signals: Signals) -> Unavailable | None:
    """Return why a gain is a limit that follows from the account; None if it is not."""
    if finding.saving_ms is None or finding.saving_ms.basis == "replay":
        return None
    if not finding.devices:
        return _NO_CHANGE
    why = signals.of(replay_signals).reason(finding.devices[0])
    if why is not None:
        return why
    goes = bool(finding.owners) and _GO.issuperset(finding.owners)
    return _NOT_KNOWN if goes or finding.id in _CHANGES else _NO_CHANGE


def replay_together(
    findings: Sequence[Finding],
    signals: Signals,
    thresholds: Thresholds,
    *,
    first: str | None = None,
) -> Together:
    """Replay the costliest findings together, and the first one by itself.

    Args:
        first: Id of the finding that is shown first; null for the costliest.
    """
    ranked = sorted(findings_by_cost(findings), key=lambda one: one.id != first)[:MOST]
    replays = signals.of(replay_signals)
    told = [
        (one, changes, one.saving_ms)
        for one in ranked
        if one.saving_ms is not None and one.saving_ms.basis == "replay"
        if one.saving_ms.high >= _NOTHING
        if (changes := _changes_of_finding(one, signals, thresholds))
    ]
    if not told:
        return Together(left_out=tuple(one.id for one in ranked))
    foremost, changes, _ = told[0]
    host = replays.host_of_label(foremost.devices[0])
    mine = [it for it in told if replays.host_of_label(it[0].devices[0]) == host]
    ids = tuple(one.id for one, _, _ in mine)
    after = replays.next_bottleneck(changes, foremost.devices[0])
    if after is not None and after[0] in foremost.owners and after[1] >= _ALL:
        # Work that hid that time would hold a part of the path itself.
        after = None
    return Together(
        findings=ids,
        left_out=tuple(one.id for one in ranked if one.id not in ids),
        saving_ms=replays.together(
            [(changes, one.devices[0], saving) for one, changes, saving in mine],
            Limits(None, saving_limits(foremost, signals).step_ms),
        )
        if len(mine) > 1
        else None,
        next_owner=None if after is None else after[0],
        next_percent=None if after is None else after[1],
        next_hidden=after is not None and _is_hidden_work(*after, foremost, signals),
    )


def _is_hidden_work(
    owner: str, path_percent: float, gone: Finding, signals: Signals
) -> bool:
    """Return whether other work hides most of an owner's time on the path so far."""
    if owner in gone.owners:
        return True
    account = signals.of(account_signals)
    if isinstance(account, Unavailable):
        return False
    mine = next((one for one in account.shares if one.label == gone.devices[0]), None)
    if mine is None:
        return False
    rest = 100 - mine.percent(*gone.owners)
    return mine.percent(owner) < path_percent / 100 * rest * _SEEN
