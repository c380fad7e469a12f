"""The headline of a profile: one finding, or what bounds the step.

Definition: docs/definitions/judging.md#the-headline.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.advice.catalogue import catalogue, shared_texts
from stepscope.advice.finding import Place
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.outside_steps import OutsideSteps, outside_steps
from stepscope.derive.facts.slow_steps import HELD_BY_SLOW
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.derive.step_time.owners import BUSY_OWNERS, COMPUTE_OWNERS, IDLE_OWNERS
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import AccountSignals, StepShares

#: Topic of the headline: a failing finding ("finding"); idle time that no rule covers
#: ("idle"); a step bound by its device; work of a host without devices; the largest
#: cause of a step without a clear bottleneck; "nothing" without time to explain.
LeadKind = Literal["finding", "idle", "device", "host", "largest", "nothing"]
#: Causes of time in which a device does not compute: idle time and exposed transfers.
_NOT_COMPUTING: Final = frozenset(IDLE_OWNERS) | (
    frozenset(BUSY_OWNERS) - frozenset(COMPUTE_OWNERS)
)
#: Name of the time of all device work as one cause.
_DEVICE_WORK_OWNER: Final = "busy"
#: Minimum number of judged steps for a single step with lost time to be an exception.
_MIN_JUDGED_STEPS: Final = 3
#: Assumed gain for device work if none is known, as a fraction of the work's time: a
#: change only shortens work, whereas idle time can be removed.
_COST_PART: Final = 1 / 3
#: Minimum ratio of two gains (smaller / larger) that count as about the same: two
#: recordings of one program on a busy machine differ by this much.
MIN_SIMILAR_RATIO: Final = 0.8
#: Minimum ratio of two gains of which the recorded steps do not show the larger one.
_MIN_TIED_RATIO: Final = 1 / 3
#: The shares of their lost time that findings gain differ if they do by more than this.
_PRECISION_UNIT: Final = 0.25
#: Minimum share of the judged time, in percent, of a finding that can be the headline.
_MIN_HEADLINE_PERCENT: Final = 1.0
#: Minimum share of all step time, in percent, of slow steps that are the headline.
_MIN_SLOW_STEPS_PERCENT: Final = 50.0
#: Name of the time spent waiting for other workers.
_PEER_OWNER: Final = "peer"
#: Minimum share of the wait for other workers that a finding on a late worker explains.
_MIN_PART_OF_PEER_WAIT: Final = 1 / 3
#: Owner of the time that recording takes.
_RECORDING_OWNER: Final = "profiler"
#: Findings that lead if they are critical, and findings on a late worker.
_FAILURE_FINDINGS: Final = frozenset(
    name for name, item in catalogue().rules.items() if item.ends_program
)
_LATE_WORKER_FINDINGS: Final = frozenset(
    name for name, item in catalogue().rules.items() if item.of_late_worker
)
_NO_TIME: Final = shared_texts("judging").reason("no_time")


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the headline, before it is written as a sentence.

    Attributes:
        kind: Topic of the sentence.
        owner: What the time is attributed to, "busy" for all work of a device; null if
            the sentence is not about time.
        place: Where the described time is, relative to steps; null if not about time.
        percent: Share of the described time in judged steps; null if not about time.
        finding: Id of the finding; null if the sentence is not about a finding.
        host: Host whose time is described; null if the sentence is not about time.
        device: Ordinal of the device; null for a host without one.
        parts: The described time by name, largest first.
        caller: The program's function that calls most of the time; null if unknown, and
            for findings.
        unavailable: Why there is no headline; null if there is one.
        hosts: Number of hosts whose time was analysed, including the judged host.
        devices: Number of the judged host's devices whose time was analysed.
        has_steps: Whether `percent` is a share of the steps, not of the recording.
        outside: What the recording consists of if its steps are a small part of it.
    """

    kind: LeadKind
    owner: str | None = None
    place: Place | None = None
    percent: float | None = None
    finding: str | None = None
    host: str | None = None
    device: int | None = None
    parts: tuple[Part, ...] = ()
    caller: Part | None = None
    unavailable: Unavailable | None = None
    hosts: int = 1
    devices: int = 1
    has_steps: bool = True
    outside: OutsideSteps | None = None


def costliest_finding(findings: Sequence[Finding]) -> Finding | None:
    """Return the costliest failing finding that need not wait for another finding.

    A failure that ended the program comes first, then a critical flaw of the recording,
    because it may change other findings.
    """
    failure = next(filter(_ends_program, findings), None)
    if failure is not None:
        return failure
    flaws = [flaw for flaw in findings if flaw.status == "fail" and _is_grave(flaw)]
    ranked = findings_by_cost(
        finding
        for finding in findings
        if finding.after_stage is None or _outweighs_flaws(finding, flaws)
    )
    if not ranked or _is_grave(ranked[0]) or not _gain_ms(ranked[0]):
        return ranked[0] if ranked else None
    # Of findings with about equal gains, or of which the steps do not show the largest,
    # take the one whose gain is the largest share of its lost time: its action is the
    # most precise. Among equals the order of the checklist decides, which is the same
    # in all recordings of a program.
    position = {finding.id: place for place, finding in enumerate(findings)}
    largest, without_core_ms = max(ranked, key=_gain_ms), time_without_core(findings)
    similar = sorted(
        (
            finding
            for finding in ranked
            if is_similar_gain(finding, largest)
            or is_tied_gain(finding, largest, without_core_ms)
        ),
        key=lambda finding: position[finding.id],
    )
    return max(
        similar,
        key=lambda finding: round(
            _gain_ms(finding) / (finding.ms_per_step or math.inf) / _PRECISION_UNIT
        ),
    )


def _ends_program(finding: Finding) -> bool:
    return finding.id in _FAILURE_FINDINGS and finding.severity == "critical"


def is_similar_gain(finding: Finding, other: Finding) -> bool:
    """Return whether two gains are about the same."""
    smaller, larger = sorted((_gain_ms(finding), _gain_ms(other)))
    return 0 < MIN_SIMILAR_RATIO * larger <= smaller


def time_without_core(findings: Iterable[Finding]) -> float:
    """Return for how long, in ms a step, the steps needed a core and had none."""
    without_core = (
        finding.ms_per_step or 0.0
        for finding in findings
        if any(share.cause == "no_core" for share in finding.causes)
    )
    return max(without_core, default=0.0)


def is_tied_gain(finding: Finding, other: Finding, without_core_ms: float) -> bool:
    """Return whether the judged steps do not show which of two gains is larger.

    In another recording of the program the order may be the other one.

    Args:
        without_core_ms: `time_without_core`; it fell on one or the other by chance.
    """
    smaller, larger = sorted((finding, other), key=_gain_ms)
    less_ms, most_ms = _gain_ms(smaller), _gain_ms(larger)
    # The interval of a difference: both gains scatter, independently of each other.
    doubt_ms = max(
        math.hypot(
            _gain_range_ms(smaller)[1] - less_ms, most_ms - _gain_range_ms(larger)[0]
        ),
        without_core_ms,
    )
    return 0 < _MIN_TIED_RATIO * most_ms <= less_ms and most_ms - less_ms <= doubt_ms


def _gain_range_ms(finding: Finding) -> tuple[float, float]:
    """Return the 95 % interval of a gain: that of the lost time, in proportion."""
    gain, mean = _gain_ms(finding), finding.pattern and finding.pattern.mean_ms
    if not mean or not finding.ms_per_step:
        return gain, gain
    part = gain / finding.ms_per_step
    return part * mean[0], part * mean[1]


def _outweighs_flaws(finding: Finding, flaws: Sequence[Finding]) -> bool:
    """Return whether a finding explains more time than recording flaws hide."""
    if finding.after_stage != 0 or not _explains_idle_time(finding):
        return False
    share = finding.share_percent or 0.0
    return all(
        flaw.share_percent is not None and flaw.share_percent < share for flaw in flaws
    )


def findings_by_cost(findings: Iterable[Finding]) -> list[Finding]:
    """Return the failing findings that are worth an action, the costliest first.

    Findings that a narrower finding explains are left out. Notes (severity "info") are
    left out too, except notes on large losses in only some steps, and on slow steps in
    which most of the recorded time is spent.
    """
    grave = [
        finding
        for finding in findings
        if finding.status == "fail"
        and not finding.explained_by
        and (
            finding.share_percent is None
            or finding.share_percent >= _MIN_HEADLINE_PERCENT
            or finding.saving_ms is not None
        )
        and (
            finding.severity != "info"
            or _is_large_burst(finding)
            or are_slow_steps(finding)
        )
    ]
    # A critical recording flaw comes first only if it hides at least as much time as
    # any other finding explains.
    known = max(
        (
            finding.share_percent or 0.0
            for finding in grave
            if _explains_idle_time(finding)
        ),
        default=0.0,
    )
    return sorted(grave, key=lambda finding: _cost_rank(finding, known), reverse=True)


def _explains_idle_time(finding: Finding) -> bool:
    """Return whether a finding explains time in which a device computes nothing."""
    owners = set(finding.owners)
    explains = finding.stage != 0 or owners in ({_RECORDING_OWNER}, {"startup"})
    return explains and bool(owners) and owners <= _NOT_COMPUTING


def _is_large_burst(finding: Finding) -> bool:
    share = finding.share_percent or 0.0
    pattern = finding.pattern
    # With so few judged steps, a single step with lost time is not an exception.
    of_few = (
        finding.note == "once"
        and pattern is not None
        and pattern.steps < _MIN_JUDGED_STEPS
    )
    bursts = finding.note in {"noisy", "each_epoch"}
    return (bursts or of_few) and share >= THRESHOLDS.idle_owner.value


def _cost_rank(finding: Finding, known_percent: float) -> tuple[bool, float, float]:
    share = finding.share_percent
    grave = _is_grave(finding) and (share is None or share >= known_percent)
    cost = (share or 0.0) * (_COST_PART if _is_work(finding) else 1)
    return grave, _gain_ms(finding), cost if cost >= _MIN_HEADLINE_PERCENT else 0.0


def _gain_ms(finding: Finding) -> float:
    """Return the gain of a finding in ms per step; for slow steps, the lost time."""
    if finding.saving_ms is not None:
        return finding.saving_ms.high
    return (finding.ms_per_step or 0.0) if are_slow_steps(finding) else 0.0


def are_slow_steps(finding: Finding) -> bool:
    """Return whether a finding is about slow steps with most of the recorded time.

    Slow steps that other programs cause are no property of the program.
    """
    return finding.note not in {"once", "others"} and any(
        fact.name == HELD_BY_SLOW and (fact.value or 0.0) >= _MIN_SLOW_STEPS_PERCENT
        for fact in finding.facts
    )


def _is_work(finding: Finding) -> bool:
    """Return whether the device computes during the time that a finding is about."""
    return not finding.owners or not set(finding.owners) <= _NOT_COMPUTING


def _is_grave(finding: Finding) -> bool:
    return finding.stage == 0 and finding.severity == "critical"


def choose_lead_sentence(findings: Sequence[Finding], signals: Signals) -> Lead:
    """Choose the topic of the headline and its numbers."""
    account = signals.of(account_signals)
    if isinstance(account, Unavailable):
        first = costliest_finding(findings)
        if first is not None:
            return _lead_of_finding(first)
        return Lead(kind="nothing", unavailable=account)
    shares = account.judged()
    first = costliest_finding(
        [check for check in findings if not _is_small_cost(check, shares)]
    )
    plain = signals.of(frameworks_used) == PLAIN
    lead = _choose_lead(findings, account, first, plain=plain)
    labels = [shares.host for shares in account.shares]
    return msgspec.structs.replace(
        lead,
        hosts=len(set(labels)),
        devices=max(labels.count(lead.host or ""), 1),
        has_steps=account.judged().step_source is not None,
        outside=signals.known(outside_steps),
    )


def _is_small_cost(finding: Finding, shares: StepShares) -> bool:
    """Return whether a finding is about recording, and other time is longer.

    The cost of recording disappears when nothing is recorded.
    """
    if set(finding.owners) != {_RECORDING_OWNER} or finding.share_percent is None:
        return False
    others = {*BUSY_OWNERS, *IDLE_OWNERS} - {_RECORDING_OWNER}
    longest = max(shares.percent(*COMPUTE_OWNERS), *map(shares.percent, others))
    return finding.share_percent < longest


def _choose_lead(
    findings: Sequence[Finding],
    account: AccountSignals,
    first: Finding | None,
    *,
    plain: bool,
) -> Lead:
    """Choose topic and numbers of the headline from the breakdown of step time."""
    if first is not None and _ends_program(first):
        return _lead_of_finding(first)
    shares = account.judged()
    idle = _unexplained_idle_lead(findings, shares)
    if idle is not None:
        lead, idle_ms = idle
        outweighed = first is not None and (
            # The idle time is in slow steps; the finding about slow steps shows when.
            are_slow_steps(first)
            or (first.saving_ms is not None and first.saving_ms.high >= idle_ms)
            # If a flaw hides as much as the idle time, the idle time may be wrong.
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
    if first is not None and not _is_minor(first, shares, plain=plain):
        return _lead_of_finding(first, account)
    step = _lead_of_step(shares)
    noted = _largest_idle_note(findings, step.percent or 0.0)
    return step if noted is None else _lead_of_finding(noted, account)


def _largest_idle_note(findings: Sequence[Finding], percent: float) -> Finding | None:
    """Return the note about most idle time, if its share is at least `percent`.

    A recorded warm-up is not a fault, but may be most of the recorded time.
    """
    min_percent = max(percent, THRESHOLDS.idle_owner.value)
    notes = [
        finding
        for finding in findings
        if finding.status == "fail"
        and finding.severity == "info"
        and finding.note != "functions"
        and not finding.explained_by
        and finding.owners
        and set(finding.owners) <= set(IDLE_OWNERS)
        and (finding.share_percent or 0.0) >= min_percent
    ]
    return max(notes, key=lambda finding: finding.share_percent or 0.0, default=None)


def _lead_of_finding(finding: Finding, account: AccountSignals | None = None) -> Lead:
    host, _, device = (
        finding.devices[0].rpartition(":") if finding.devices else ("",) * 3
    )
    on_device = bool(host) and device.isdigit()
    matches = [
        shares
        for shares in (() if account is None else account.shares)
        if shares.label in finding.devices[:1]
    ]
    place = finding.place or "any"
    return Lead(
        kind="finding",
        owner=max(
            finding.owners,
            key=lambda owner: matches[0].percent(owner, place=place) if matches else 0,
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
    findings: Sequence[Finding], shares: StepShares
) -> tuple[Lead, float] | None:
    """Return the cause of most idle time without a finding, and its ms per step."""
    failing = [finding for finding in findings if finding.status == "fail"]
    known_owners = {owner for finding in failing for owner in finding.owners}
    # Only a comparison of workers finds a late one. If such a finding explains enough
    # of a wait for other workers, the remaining wait is the collective itself.
    late = (
        finding.share_percent or 0.0
        for finding in failing
        if finding.id in _LATE_WORKER_FINDINGS
    )
    min_percent = min(
        THRESHOLDS.idle_owner.value,
        _MIN_PART_OF_PEER_WAIT * shares.percent(_PEER_OWNER),
    )
    if 0.0 < min_percent <= max(late, default=0.0):
        known_owners.add(_PEER_OWNER)
    topics = {topic for finding in failing for topic in finding.topics}

    def unclaimed_percent(owner: str) -> float:
        return shares.percent(owner) - shares.held_percent(owner, topics)

    # Without a device, the work of the host is the step itself.
    work = () if shares.device is not None else ("host_compute",)
    owners = [
        idle_owner
        for idle_owner in IDLE_OWNERS
        if idle_owner not in known_owners and idle_owner not in work
    ]
    owner = max(owners, key=unclaimed_percent, default=None)
    if owner is None or unclaimed_percent(owner) < THRESHOLDS.idle_owner.value:
        return None
    mean_ms = shares.mean_ms(sum(shares.times(owner)))
    return _lead_of_owner("idle", owner, shares), mean_ms


def _is_minor(finding: Finding, shares: StepShares, *, plain: bool) -> bool:
    """Return whether a finding gains too little to change what bounds the step.

    The step is bound by its device or, in a program without a framework, by functions
    that no other finding covers. Recording doubts that hide no time are minor.
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
        busy = shares.percent(*COMPUTE_OWNERS)
    return busy >= THRESHOLDS.device_bound.value and gain < THRESHOLDS.minor_gain.value


def _gain_percent(finding: Finding, shares: StepShares) -> float | None:
    """Return the maximum gain of a finding, in percent of a step; None if unknown.

    If a recording has no steps, no gain is estimated, and the idle time is the maximum.
    """
    if finding.saving_ms is None:
        if are_slow_steps(finding):
            return finding.share_percent
        if _is_work(finding):
            share = finding.share_percent
            return None if share is None or finding.owners else _COST_PART * share
        return finding.share_percent if _explains_idle_time(finding) else None
    step_ms = shares.mean_ms(shares.total_ps)
    return 100 * finding.saving_ms.high / step_ms if step_ms else 0.0


def _lead_of_step(shares: StepShares) -> Lead:
    """Return a headline on what bounds the step, used if no finding is the headline."""
    if not shares.total_ps:
        return Lead(kind="nothing", unavailable=_NO_TIME)
    if shares.device is None:
        if shares.percent("host_compute"):
            return _lead_of_owner("host", "host_compute", shares)
        owner = max(IDLE_OWNERS, key=shares.percent)
        return _lead_of_owner("largest", owner, shares)
    busy = shares.percent(*BUSY_OWNERS)
    if (
        shares.percent(*COMPUTE_OWNERS) >= busy / 2
        and busy >= 100 - THRESHOLDS.idle_owner.value
    ):
        return Lead(
            kind="device",
            owner=_DEVICE_WORK_OWNER,
            place="any",
            percent=busy,
            host=shares.host,
            device=shares.device,
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
        parts=shares.parts(owner),
        caller=shares.caller(owner),
    )
