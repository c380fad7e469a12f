"""What is said first of a profile: one finding, or what the step is.

Definition: docs/definitions/judging.md#the-headline.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.advice.catalogue import shared_texts
from stepscope.advice.finding import Place
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.slow_steps import HELD_BY_SLOW
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.derive.step_time.host_time import BUSY_OWNERS, IDLE_OWNERS
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import AccountSignals, StepShares
    from stepscope.thresholds import Thresholds

#: What the first sentence is about: a failing finding; idle time that no rule finds;
#: a step that its device bounds; the work of a host without devices; the largest owner
#: of a step that nothing bounds; nothing, where there is no time to explain.
LeadKind = Literal["finding", "idle", "device", "host", "largest", "nothing"]
_COMPUTE: Final = tuple(owner for owner in BUSY_OWNERS if owner.startswith("compute"))
#: Time in which a device computes nothing: idle, or moving what nothing hides.
_NOT_COMPUTING: Final = frozenset(IDLE_OWNERS) | (
    frozenset(BUSY_OWNERS) - frozenset(_COMPUTE)
)
#: Device work as one owner.
_BUSY: Final = "busy"
#: Fewer judged steps do not show what is usual.
_FEW: Final = 3
#: So much of its share counts of work where no gain is known: a change makes work
#: shorter, and takes idle time away.
_OF_WORK: Final = 1 / 3
#: Gains that differ by less are about the same.
ABOUT: Final = 0.9
#: What costs less of the recording, in percent, is nothing to begin with.
_LEAST: Final = 1.0
#: From this share of the time on, in percent, slow steps hold most of it.
_MOST_OF_TIME: Final = 50.0
#: Waiting for other workers, and the findings that say for which.
_PEER: Final = "peer"
_LATE: Final = ("allreduce.arrival", "multi.stagger", "multi.input")
#: They speak of the wait where they hold this much of it.
_OF_PEER: Final = 1 / 3


_NO_TIME: Final = shared_texts("judging").reason("no_time")


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """What is said first, before it becomes a sentence.

    Attributes:
        kind: What the sentence is about.
        owner: Owner of the time in the account, "busy" for all work of a device; null
            where no time is spoken of.
        place: Where that time lies; null where no time is spoken of.
        percent: Its share of the judged steps, in percent; null likewise.
        finding: Id of the finding; null where it is about none.
        host: Host of the account; null where no time is spoken of.
        device: Ordinal of the device; null for a host without one.
        steps: Whether the share is of steps; without any it is of the whole recording.
        parts: The time by name, largest first.
        caller: The program's function that calls most of that time; null where there
            is none, and for findings.
        unavailable: Why there is nothing to say; null where there is.
        hosts: Number of hosts in the account, of which this is the judged one.
        devices: Number of the judged host's devices in the account.
        stepped: Whether the share is of steps; else it is of the whole recording.
    """

    kind: LeadKind
    owner: str | None = None
    place: Place | None = None
    percent: float | None = None
    finding: str | None = None
    host: str | None = None
    device: int | None = None
    steps: bool = True
    parts: tuple[Part, ...] = ()
    caller: Part | None = None
    unavailable: Unavailable | None = None
    hosts: int = 1
    devices: int = 1
    stepped: bool = True


def costliest_finding(findings: Sequence[Finding]) -> Finding | None:
    """Return the failing finding that costs most and need not wait for another.

    A grave flaw of the recording costs more than all others: it may undo them.
    """
    flaws = [one for one in findings if one.status == "fail" and _is_grave(one)]
    ranked = findings_by_cost(
        one
        for one in findings
        if one.after_stage is None or _outweighs_flaws(one, flaws)
    )
    if not ranked or _is_grave(ranked[0]) or not _gain_ms(ranked[0]):
        return ranked[0] if ranked else None
    # Which of two that promise about as much promises more is chance: the one says more
    # exactly what to change of whose time that is the larger part.
    near = [one for one in ranked if _gain_ms(one) >= ABOUT * _gain_ms(ranked[0])]
    return max(near, key=lambda one: _gain_ms(one) / (one.ms_per_step or math.inf))


def _outweighs_flaws(finding: Finding, flaws: Sequence[Finding]) -> bool:
    """Return whether a finding explains more time than flaws of the recording hide."""
    if finding.after_stage != 0 or not _explains_idle_time(finding):
        return False
    share = finding.share_percent or 0.0
    return all(
        one.share_percent is not None and one.share_percent < share for one in flaws
    )


def findings_by_cost(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that are worth doing something about, the costliest first.

    Those that a narrower finding explains are left out. Time that is lost in some
    steps, or in one of two, and named counts from the share on from which idle time is
    said first, also where it is not sure that other steps would lose as much; so does
    what a few steps lose that hold most of the time.
    """
    grave = [
        one
        for one in findings
        if one.status == "fail"
        and not one.explained_by
        and (
            one.share_percent is None
            or one.share_percent >= _LEAST
            or one.saving_ms is not None
        )
        and (one.severity != "info" or _is_large_burst(one) or are_slow_steps(one))
    ]
    # Time that nobody explains is a grave flaw of a recording that explains less.
    known = max(
        (one.share_percent or 0.0 for one in grave if _explains_idle_time(one)),
        default=0.0,
    )
    return sorted(grave, key=lambda one: _cost_rank(one, known), reverse=True)


def _explains_idle_time(finding: Finding) -> bool:
    """Return whether a finding says why a device computes nothing in its time."""
    owners = set(finding.owners)
    explains = finding.stage != 0 or owners == {"profiler"}
    return explains and bool(owners) and owners <= _NOT_COMPUTING


def _is_large_burst(finding: Finding) -> bool:
    share = finding.share_percent or 0.0
    pattern = finding.pattern
    # One of so few steps is no exception.
    of_few = finding.note == "once" and pattern is not None and pattern.steps < _FEW
    return (finding.note == "noisy" or of_few) and share >= THRESHOLDS.idle_owner.value


def _cost_rank(finding: Finding, known_percent: float) -> tuple[bool, float, float]:
    share = finding.share_percent
    grave = _is_grave(finding) and (share is None or share >= known_percent)
    cost = (share or 0.0) * (_OF_WORK if _is_work(finding) else 1)
    return grave, _gain_ms(finding), cost if cost >= _LEAST else 0.0


def _gain_ms(finding: Finding) -> float:
    """Return what a finding may gain; of slow steps what they lose, in ms per step."""
    if finding.saving_ms is not None:
        return finding.saving_ms.high
    return (finding.ms_per_step or 0.0) if are_slow_steps(finding) else 0.0


def are_slow_steps(finding: Finding) -> bool:
    """Return whether a finding is about a few steps that hold most of the time."""
    held = (one.value or 0.0 for one in finding.facts if one.name == HELD_BY_SLOW)
    return max(held, default=0.0) >= _MOST_OF_TIME and finding.note != "once"


def _is_work(finding: Finding) -> bool:
    """Return whether a device computes in a finding's time."""
    return not finding.owners or not set(finding.owners) <= _NOT_COMPUTING


def _is_grave(finding: Finding) -> bool:
    return finding.stage == 0 and finding.severity == "critical"


def choose_lead_sentence(
    findings: Sequence[Finding], signals: Signals, thresholds: Thresholds
) -> Lead:
    """Choose what is said first."""
    found = signals.of(account_signals)
    first = costliest_finding(findings)
    if isinstance(found, Unavailable):
        if first is not None:
            return _lead_of_finding(first)
        return Lead(kind="nothing", unavailable=found)
    plain = signals.of(frameworks_used) == PLAIN
    said = _choose_lead(findings, found, first, thresholds, plain=plain)
    labels = [one.host for one in found.shares]
    return msgspec.structs.replace(
        said,
        hosts=len(set(labels)),
        devices=max(labels.count(said.host or ""), 1),
        stepped=found.judged().step_source is not None,
    )


def _choose_lead(
    findings: Sequence[Finding],
    found: AccountSignals,
    first: Finding | None,
    thresholds: Thresholds,
    *,
    plain: bool,
) -> Lead:
    """Choose what is said first of an account."""
    shares = found.judged()
    idle = _unexplained_idle_lead(findings, shares, thresholds)
    if idle is not None:
        lead, idle_ms = idle
        outweighed = first is not None and (
            # The loss of slow steps is part of the idle time, and says when it comes.
            are_slow_steps(first)
            or (first.saving_ms is not None and first.saving_ms.high >= idle_ms)
            # A flaw of the recording may undo idle time, where it hides as much.
            or (
                _is_grave(first)
                and (
                    first.share_percent is None
                    or first.share_percent >= (lead.percent or 0.0)
                )
            )
        )
        if not outweighed:
            return lead
    if first is not None and not _is_minor(first, shares, thresholds, plain=plain):
        return _lead_of_finding(first, found)
    step = _lead_of_step(shares, thresholds)
    noted = _largest_idle_note(findings, step.percent or 0.0, thresholds)
    return step if noted is None else _lead_of_finding(noted, found)


def _largest_idle_note(
    findings: Sequence[Finding], percent: float, thresholds: Thresholds
) -> Finding | None:
    """Return the note about most idle time, where that is more than so much.

    Warm-up that was recorded is no fault, and yet most of what the recording holds.
    """
    least = max(percent, thresholds.idle_owner.value)
    notes = [
        one
        for one in findings
        if one.status == "fail"
        and one.severity == "info"
        and not one.explained_by
        and one.owners
        and set(one.owners) <= set(IDLE_OWNERS)
        and (one.share_percent or 0.0) >= least
    ]
    return max(notes, key=lambda one: one.share_percent or 0.0, default=None)


def _lead_of_finding(finding: Finding, found: AccountSignals | None = None) -> Lead:
    host, _, device = (
        finding.devices[0].rpartition(":") if finding.devices else ("",) * 3
    )
    on_device = bool(host) and device.isdigit()
    accounted = [
        one
        for one in (() if found is None else found.shares)
        if finding.owners and one.label == finding.devices[0]
    ]
    place = finding.place or "any"
    return Lead(
        kind="finding",
        owner=max(
            finding.owners,
            key=lambda owner: (
                accounted[0].percent(owner, place=place) if accounted else 0
            ),
            default=None,
        ),
        place=finding.place,
        percent=finding.share_percent,
        finding=finding.id,
        host=(host if on_device else finding.devices[0]) if finding.devices else None,
        device=int(device) if on_device else None,
        parts=finding.parts,
    )


def _unexplained_idle_lead(
    findings: Sequence[Finding], shares: StepShares, thresholds: Thresholds
) -> tuple[Lead, float] | None:
    """Return the largest idle owner that no finding is about, with its ms per step."""
    failing = [one for one in findings if one.status == "fail"]
    told = {owner for one in failing for owner in one.owners}
    # Who comes late is worked out across workers, not in the account of one of them.
    # The rest of such a wait is the exchange itself.
    late = (one.share_percent or 0.0 for one in failing if one.id in _LATE)
    least = min(thresholds.idle_owner.value, _OF_PEER * shares.percent(_PEER))
    if 0.0 < least <= max(late, default=0.0):
        told.add(_PEER)
    topics = {topic for one in failing for topic in one.topics}

    def untold(owner: str) -> float:
        return shares.percent(owner) - shares.held_percent(owner, topics)

    # Without a device the host's own work is the step itself.
    work = () if shares.device is not None else ("host_compute",)
    owners = [one for one in IDLE_OWNERS if one not in told and one not in work]
    owner = max(owners, key=untold, default=None)
    if owner is None or untold(owner) < thresholds.idle_owner.value:
        return None
    mean_ps = sum(shares.times(owner)) / max(len(shares.window_ps), 1)
    return _lead_of_owner("idle", owner, shares), mean_ps / 1e9


def _is_minor(
    finding: Finding, shares: StepShares, thresholds: Thresholds, *, plain: bool
) -> bool:
    """Return whether the step stays what it is, whatever the finding gains.

    It stays bound by its device, or by the functions of a program without a framework,
    of which no other finding speaks. A doubt about the recording that hides no time
    says less than what the step is.
    """
    if finding.stage == 0 and finding.share_percent is None:
        return finding.severity != "critical"
    gain = _gain_percent(finding, shares)
    if plain and shares.device is None:
        gain = max(finding.share_percent or 0.0, gain or 0.0)
        busy = shares.percent("host_compute")
    elif gain is None or shares.device is None:
        return False
    else:
        busy = shares.percent(*_COMPUTE)
    return busy >= thresholds.device_bound.value and gain < thresholds.minor_gain.value


def _gain_percent(finding: Finding, shares: StepShares) -> float | None:
    """Return the most that a finding can gain, in percent; None where it is unknown.

    Without steps no gain is promised: it is idle time at most.
    """
    if finding.saving_ms is None:
        if are_slow_steps(finding):
            return finding.share_percent
        if _is_work(finding):
            share = finding.share_percent
            return None if share is None or finding.owners else _OF_WORK * share
        return finding.share_percent if _explains_idle_time(finding) else None
    step_ms = shares.total_ps / max(len(shares.window_ps), 1) / 1e9
    return 100 * finding.saving_ms.high / step_ms if step_ms else 0.0


def _lead_of_step(shares: StepShares, thresholds: Thresholds) -> Lead:
    """Say what the step is where nothing has to be changed first."""
    if not shares.total_ps:
        return Lead(kind="nothing", unavailable=_NO_TIME)
    if shares.device is None:
        if shares.percent("host_compute"):
            return _lead_of_owner("host", "host_compute", shares)
        owner = max(IDLE_OWNERS, key=shares.percent)
        return _lead_of_owner("largest", owner, shares)
    busy = shares.percent(*BUSY_OWNERS)
    if (
        shares.percent(*_COMPUTE) >= busy / 2
        and busy >= 100 - thresholds.idle_owner.value
    ):
        return Lead(
            kind="device",
            owner=_BUSY,
            place="any",
            percent=busy,
            host=shares.host,
            device=shares.device,
            steps=shares.step_source is not None,
        )
    owner = max((*BUSY_OWNERS, *IDLE_OWNERS), key=shares.percent)
    return _lead_of_owner("largest", owner, shares)


def _lead_of_owner(kind: LeadKind, owner: str, shares: StepShares) -> Lead:
    return Lead(
        kind=kind,
        owner=owner,
        place="any",
        percent=shares.percent(owner),
        host=shares.host,
        device=shares.device,
        steps=shares.step_source is not None,
        parts=shares.parts(owner),
        caller=shares.caller(owner),
    )
