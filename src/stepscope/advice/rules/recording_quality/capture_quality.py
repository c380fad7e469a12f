"""`capture.quality`: whether the recorded data can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import SEVERITIES
from stepscope.advice.item import rule
from stepscope.advice.judging.program_facts import program_facts
from stepscope.derive.facts.evidence import CauseShare, Fact
from stepscope.derive.facts.judged_steps import unexplained_outside
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import capture_signals, record_grade
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.verdicts.effect_status import percent_of
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.advice.finding import Finding, Place, Severity
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.recording import CaptureSignals
    from stepscope.derive.facts.step_shares import AccountSignals, StepShares
    from stepscope.derive.verdicts.recorded_devices import DeviceSignals

_ITEM: Final = rule_item("capture.quality")


class _Flaw(Frozen, frozen=True, eq=True):
    """A flaw of the recording.

    Attributes:
        word: Identifier of the flaw.
        severity: How serious the flaw is.
        percent: Share of the time that the flaw hides; 0 if it hides none.
        owner: Cause to which the hidden time is attributed; None for no attribution.
    """

    word: str
    severity: Severity
    percent: float = 0.0
    owner: str | None = None


#: Maximum gap, in ps, between queued kernels of a stream that hides no missing kernel.
_MAX_PAUSE_PS: Final = 50 * PS_PER_US
#: Minimum fraction of the unexplained time that counts as most of it.
_MIN_MAIN_PART: Final = 0.5
#: Fraction of a recording that counts as its beginning.
_BEGIN: Final = 0.05
#: Minimum share of the time, in percent, of a host's work that is told next to a device
#: without records.
_MIN_HOST_PERCENT: Final = 5.0
#: Flaws that make all step times useless; they are more serious than other flaws.
_INVALIDATING: Final = frozenset({"silent", "in_doubt", "unread", "devices", "clocks"})
#: Causes of time that must be measured before unexplained time is a recording flaw.
_NEEDED_HOST_OWNERS: Final = ("host_compute", "profiler")
_NEEDED_DEVICE_OWNERS: Final = ("queued", "launch", "profiler")


@rule(
    _ITEM,
    account_signals,
    capture_signals,
    device_signals,
    program_traits,
    record_grade,
    unexplained_outside,
)
def evaluate(signals: Signals) -> Finding:
    account = signals.needed(account_signals)
    capture = signals.of(capture_signals)
    flaws = [
        *_flaws_by_owner(account, capture),
        *_flaws_by_count(signals, capture, account),
    ]
    if any(flaw.word == "clocks" and flaw.severity == "critical" for flaw in flaws):
        # If clocks differ, work may seem queued although it is not.
        flaws = [flaw for flaw in flaws if flaw.owner != "queued"]
    shares = account.judged()
    needed = _NEEDED_HOST_OWNERS if shares.device is None else _NEEDED_DEVICE_OWNERS
    why_missing = next(
        (shares.missing[owner] for owner in needed if owner in shares.missing), None
    )
    if not flaws and why_missing is not None:
        return _ITEM.cannot_tell(why_missing)
    flaws.sort(
        key=lambda flaw: (
            SEVERITIES.index(flaw.severity),
            flaw.word not in _INVALIDATING,
            -flaw.percent,
        )
    )
    return _finding_of_flaws(signals, account, capture, flaws)


def _flaws_by_owner(account: AccountSignals, capture: CaptureSignals) -> list[_Flaw]:
    """Return the recording flaws behind queued time and behind unexplained time."""
    shares = account.judged()
    grave = THRESHOLDS.unexplained_warn.value
    flaws = []
    queued, unexplained = shares.percent("queued"), shares.percent("unexplained")
    longest = [span.end_ps - span.start_ps for span in shares.evidence("queued")]
    # Short gaps between kernels hide no work: unrecorded graphs leave longer ones.
    pauses = bool(longest) and max(longest) < _MAX_PAUSE_PS
    if queued >= THRESHOLDS.queued_warn.value and not pauses:
        # Work launched before the recording is missing; nodes of graphs may be, too.
        missing = capture.replays or _begins_with_queued_work(shares)
        severity: Severity = "critical" if queued >= grave else "warn"
        word = "queued" if missing else "waiting"
        flaws.append(_Flaw(word, severity, queued, "queued"))
    if unexplained >= grave:
        word = "damaged" if capture.damaged else "unexplained"
        flaws.append(_Flaw(word, "critical", unexplained, "unexplained"))
    return flaws


def _begins_with_queued_work(shares: StepShares) -> bool:
    """Return whether a recording without steps begins with a wait for queued work."""
    longest = shares.evidence("queued")[:1]
    if shares.step_source is not None or not longest or not shares.bounds:
        return False
    begin, end = shares.bounds[0]
    return longest[0].start_ps - begin < _BEGIN * (end - begin)


def _flaws_by_count(
    signals: Signals, capture: CaptureSignals, account: AccountSignals
) -> list[_Flaw]:
    flaws = []
    device = signals.of(device_signals)
    if device.recorded == "silent":
        unread = device.reason is not None and device.reason.code == "UNKNOWN_DEVICE"
        why_silent = "in_doubt" if device.in_doubt else "silent"
        flaws.append(_Flaw("unread" if unread else why_silent, "critical"))
    if capture.copying and 2 * capture.computing < capture.devices:
        flaws.append(_Flaw("devices", "critical"))
    clocks = _clock_percent(account)
    if clocks >= THRESHOLDS.clock_warn.value:
        grave = clocks >= THRESHOLDS.clock_critical.value
        flaws.append(_Flaw("clocks", "critical" if grave else "warn"))
    lost = _lost_percent(account)
    if lost >= THRESHOLDS.lost_warn.value:
        grave = lost >= THRESHOLDS.lost_critical.value
        flaws.append(_Flaw("lost", "critical" if grave else "warn", lost))
    elif capture.dropped:
        flaws.append(_Flaw("dropped", "warn"))
    untied = capture.without_launch_percent
    if untied is not None and untied >= THRESHOLDS.without_launch.value:
        flaws.append(_Flaw("no_launch", "info"))
    if capture.ranks is not None and capture.hosts < capture.ranks:
        flaws.append(_Flaw("ranks", "info"))
    return flaws


def _clock_percent(account: AccountSignals) -> float:
    shares = account.judged()
    return min(percent_of(shares.clock_doubt_ps, shares.total_ps), 100.0)


def _lost_percent(account: AccountSignals) -> float:
    shares = account.judged()
    return percent_of(shares.lost_ps, shares.total_ps)


def _finding_of_flaws(
    signals: Signals,
    account: AccountSignals,
    capture: CaptureSignals,
    flaws: list[_Flaw],
) -> Finding:
    first = flaws[0] if flaws else None
    shares = account.judged()
    owners = (first.owner,) if first is not None and first.owner else ()
    place: Place | None = "any" if owners else None
    has_steps = bool(owners) and shares.step_source is not None
    # Share of the unexplained time before a device's first work and after its last
    # work; null unless that is most of the unexplained time.
    share = signals.of(unexplained_outside).get(shares.label, 0.0)
    unexplained_percent = shares.percent("unexplained")
    outside = (
        share
        if unexplained_percent and share >= _MIN_MAIN_PART * unexplained_percent
        else None
    )
    unexplained = {"outside"} if outside is not None else set()
    if "several_ops" in program_facts(signals) and not capture.functions:
        unexplained.add("eager")
    effect = shares.mean_ms(sum(shares.times(*owners)))
    parts = shares.parts(*owners)
    # If unexplained time is spread over many names, no name is listed.
    concentrated = parts and parts[0].share_percent >= _MIN_MAIN_PART * shares.percent(
        *owners
    )
    return _ITEM.finding(
        "fail" if first is not None else "pass",
        severity="info" if first is None else first.severity,
        note=None if first is None else first.word,
        confidence=signals.of(record_grade),
        value=shares.percent(*owners) if owners else None,
        share_percent=shares.percent(*owners) if owners else None,
        owners=owners,
        place=place,
        ms_per_step=effect if has_steps else None,
        threshold=THRESHOLDS.unexplained_warn
        if owners == ("unexplained",)
        else THRESHOLDS.queued_warn,
        devices=account.ranked_labels() if owners else (),
        causes=tuple(
            CauseShare(cause=flaw.word, share_percent=flaw.percent)
            for flaw in flaws
            if flaw.owner is not None
        ),
        because=tuple(flaw.word for flaw in flaws if flaw.owner is None),
        facts=(
            *_record_facts(capture, account),
            *_ITEM.facts(outside=outside),
            *_host_facts(shares, device=None if owners else first),
        ),
        parts=parts if concentrated else (),
        evidence=shares.evidence(*owners) if owners else (),
        inputs=("quality", "account", "correlation"),
        actions=tuple(
            action
            for flaw in flaws
            for action in _ITEM.actions_for(
                _cause_to_remove(
                    flaw.word, capture, shares, signals.of(device_signals)
                ),
                *(unexplained if flaw.word == "unexplained" else ()),
            )
        ),
    )


#: Remedy of what the producer reported → cause of the actions that contain it.
_CAUSES_OF_REMEDIES: Final[Mapping[str, str]] = {
    Remedy.ALLOW_PROFILING: "privilege",
    Remedy.STOP_OTHER_PROFILERS: "other_profiler",
    Remedy.FIND_CUPTI: "library",
    Remedy.USE_TRACER_OF_DEVICE: "unseen",
}
#: Flaws about a device without records.
_SILENT: Final = frozenset({"silent", "in_doubt"})
#: Owner of time of a host next to a device without records → name of its fact.
_HOST_FACTS: Final = {"host_compute": "on_host", "sync": "waiting"}


def _host_facts(shares: StepShares, *, device: _Flaw | None) -> Iterator[Fact]:
    """Yield what a host does for most of the time; null unless its device is silent."""
    silent = device is not None and device.word in _SILENT and shares.device is None
    for owner, name in _HOST_FACTS.items():
        percent, note = None, None
        largest = next(iter(shares.parts(owner)), None) if silent else None
        if largest is not None:
            of_largest = owner == "host_compute"
            share = largest.share_percent if of_largest else shares.percent(owner)
            if share >= _MIN_HOST_PERCENT:
                percent, note = share, largest.name
        yield _ITEM.fact(name, percent, note=note)


def _cause_to_remove(
    word: str, capture: CaptureSignals, shares: StepShares, device: DeviceSignals
) -> str:
    """Return the cause whose action fixes a flaw, given the recording's options."""
    reported = "" if device.reason is None else device.reason.remedy
    if word in _SILENT and reported in _CAUSES_OF_REMEDIES:
        return _CAUSES_OF_REMEDIES[reported]
    if word == "queued" and _begins_with_queued_work(shares):
        return "queued_before" if capture.replays else "launched_before"
    if word == "unexplained" and capture.few_looks is not None:
        return "short"
    if word == "unexplained" and capture.functions:
        return "annotate"
    if word == "unexplained" and capture.system_calls:
        return "unblocked"
    same = {"dropped": "lost", "in_doubt": "silent"}
    return same.get(word, word)


def _record_facts(capture: CaptureSignals, account: AccountSignals) -> tuple[Fact, ...]:
    counts = (
        ("computing", capture.computing),
        ("listed", capture.devices),
        ("dropped", capture.dropped),
        ("recorded", capture.hosts),
        ("ranks", capture.ranks),
        ("looks", capture.few_looks),
        ("unblocked", capture.system_calls or None),
    )
    shares = (
        ("lost", _lost_percent(account)),
        ("no_launch", capture.without_launch_percent),
        ("clock_doubt", _clock_percent(account)),
    )
    return (
        *(_ITEM.fact(name, value) for name, value in counts),
        *(_ITEM.fact(name, value) for name, value in shares),
        *_ITEM.facts(clock_error=account.judged().clock_error_ps / PS_PER_US),
    )
