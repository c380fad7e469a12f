"""Status and severity from the lost time per step, in the same way for all rules.

Each rule itself decides whether it applies and whether its inputs are available.

Definition: docs/definitions/judging.md#status.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Pattern, Severity, Status
from stepscope.derive.facts.evidence import CauseShare, Fact
from stepscope.derive.facts.judged_steps import epoch_starts
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.verdicts.effect_status import (
    is_hit,
    mean_interval_ms,
    pattern_kind,
    percent_of,
    status_of,
)
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.verdicts.effect_status import StepSeries
    from stepscope.thresholds import Threshold

_RECORD_SHORTER: Final = "Record a shorter window, so that no record is dropped."
_USE_ONE_CLOCK: Final = (
    "Record host and device with one profiler in one recording, and do not change the "
    "times in its file."
)
#: Minimum share, in percent, that is not displayed as 0.0 %.
_MIN_DISPLAYED_PERCENT: Final = 0.05


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on the lost time of the steps.

    Attributes:
        status: "fail", "pass" or "cannot_tell".
        severity: How serious a fail is.
        note: Identifier of a qualification of the verdict; None without one.
        share_percent: Lost time as a share of all judged time; determines the status.
        effect_ms: Mean lost time of a step.
        causes: Lost time by cause, largest first, each as a share of all judged time.
        pattern: How the lost time is distributed over the steps.
        resolution_percent: Smallest detectable lost time, as a share of judged time.
        confidence: 0 to 1; the quality of the recording is not included.
        unavailable: Why there is no verdict; None if there is one.
    """

    status: Status
    severity: Severity
    note: str | None
    share_percent: float
    effect_ms: float
    causes: tuple[CauseShare, ...]
    pattern: Pattern
    resolution_percent: float
    confidence: float
    unavailable: Unavailable | None = None


def effect_pattern(effect_ps: Sequence[int], *, every_percent: float) -> Pattern:
    """Describe how lost time is distributed over the steps.

    Args:
        every_percent: Share of hit steps from which on the kind is "every".
    """
    count = len(effect_ps)
    mean = sum(effect_ps) / max(count, 1)
    hit = [step_ps for step_ps in effect_ps if is_hit(step_ps, mean)]
    return Pattern(
        kind=pattern_kind(effect_ps, every_percent=every_percent),
        steps_hit=len(hit),
        steps=count,
        shortest_ms=min(hit) / PS_PER_MS if hit else None,
        longest_ms=max(effect_ps, default=0) / PS_PER_MS,
    )


def _add_mean_interval(
    pattern: Pattern, effect_ps: Sequence[int], window_ps: Sequence[int]
) -> Pattern:
    """Add the 95 % interval of the mean lost time, limited to the mean step."""
    low, high = mean_interval_ms(effect_ps)
    count = max(len(window_ps), 1)
    mean_ms, step_ms = (
        sum(times_ps) / count / PS_PER_MS for times_ps in (effect_ps, window_ps)
    )
    high = max(min(high, step_ms), mean_ms)
    return msgspec.structs.replace(pattern, mean_ms=(low, high))


def judge(series: StepSeries, levels: tuple[Threshold, Threshold]) -> Verdict:
    """Compare the lost time of one or more steps with two thresholds."""
    warn, critical = levels
    effects, windows = series.effect_ps, series.window_ps
    effect, window = sum(effects), sum(windows)
    pattern = effect_pattern(effects, every_percent=THRESHOLDS.steps_share.value)
    share = percent_of(effect, window)
    status, severity, note = status_of(series, warn=warn, critical=critical)
    doubtful = status == "cannot_tell"
    if status == "fail":
        pattern = _add_mean_interval(pattern, effects, windows)
    causes = (
        CauseShare(cause=name, share_percent=percent_of(sum(times), window))
        for name, times in series.parts_ps.items()
        if sum(times)
    )
    confidence = 1 - series.unknown_ps / window if window else 0.0
    if series.step_source is not None:
        confidence = min(confidence, series.step_confidence)
    if len(windows) < THRESHOLDS.few_steps.value or not series.closed:
        confidence = min(confidence, 0.5)
    return Verdict(
        status=status,
        severity=severity,
        note=note,
        share_percent=share,
        effect_ms=effect / max(len(effects), 1) / PS_PER_MS,
        causes=tuple(sorted(causes, key=lambda cause: -cause.share_percent)),
        pattern=pattern,
        resolution_percent=percent_of(series.unknown_ps + series.doubt_ps, window),
        confidence=confidence,
        unavailable=_reason_for_doubt(series, share, window, warn)
        if doubtful
        else None,
    )


def mark_epoch_bursts(finding: Finding, signals: Signals) -> Finding:
    """Mark a burst in the first step of an epoch: it comes back with each epoch.

    If the recording has a whole epoch, the burst is a warning like any other.
    """
    account = signals.of(account_signals)
    if (
        finding.note not in {"once", "noisy"}
        or finding.status != "fail"
        or not (finding.evidence and finding.devices)
        or isinstance(account, Unavailable)
    ):
        return finding
    longest = finding.evidence[0]
    starts = [start for start, _ in account.shares_of_label(finding.devices[0]).bounds]
    # A step that ends with the next fetch contains the beginning of the next epoch.
    begun = sorted(
        {
            bisect_right(starts, time_ps) - 1
            for time_ps in signals.of(epoch_starts).get(longest.host, ())
        }
    )
    first = {row + later for row in begun for later in (0, 1)}
    hit = {
        bisect_right(starts, interval.start_ps) - 1
        for interval in finding.evidence
        if 2 * (interval.end_ps - interval.start_ps)
        >= longest.end_ps - longest.start_ps
    }
    if not hit <= first or 2 * len(first) > len(starts):
        return finding
    lengths = [last - row for row, last in pairwise(begun) if last - row > 1]
    every = Fact(name="epoch_steps", value=min(lengths, default=None), unit="count")
    return msgspec.structs.replace(
        finding,
        note="each_epoch",
        severity="warn" if lengths else finding.severity,
        facts=(*finding.facts, every),
    )


def _reason_for_doubt(
    series: StepSeries, share: float, window: int, warn: Threshold
) -> Unavailable:
    """Return why the verdict may be wrong: unknown time, or lost records."""
    smallest_ps = THRESHOLDS.smallest_effect.value * len(series.window_ps)
    # A share beyond the threshold may still be too short for a finding.
    smallest = percent_of(smallest_ps, window) if share >= warn.value else 0.0
    level = max(warn.value, smallest)
    if share >= level:
        # Clock shifts of many short intervals may add up to more than the whole time.
        doubt_percent = min(
            percent_of(series.doubt_ps + series.excess_ps, window), 100.0
        )
        sources = {
            "lost records": (series.excess_ps, _RECORD_SHORTER),
            "differing clocks": (series.doubt_ps, _USE_ONE_CLOCK),
        }
        at_work = {name: remedy for name, (ps, remedy) in sources.items() if ps}
        return Unavailable(
            code="LOST_EVENTS",
            reason=f"The lost time is {share:.1f} % of the time, but "
            f"{' or '.join(at_work)} may account for up to {doubt_percent:.1f} %, and "
            f"the verdict changes at {warn.value:g} %.",
            remedy=" ".join(at_work.values()),
        )
    unknown = min(percent_of(series.unknown_ps + series.doubt_ps, window), 100.0)
    # A share that is displayed as 0.0 % would suggest that time is lost.
    effect = (
        f"The lost time is {share:.1f} %"
        if share >= _MIN_DISPLAYED_PERCENT
        else "No lost time was seen"
    )
    if series.idle_ps and share + unknown < level:
        idle = percent_of(series.idle_ps, window)
        return Unavailable(
            code="NO_STEPS",
            reason=f"{effect}, but no steps were found, and {idle:.1f} % of the time, "
            "without recorded work, may be outside of the steps.",
            remedy=Remedy.MARK_STEPS,
        )
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"{effect}, but {unknown:.1f} % of the time has no known cause, and the "
        f"verdict changes at {level:.3g} %.",
        remedy=Remedy.RECORD_UNKNOWN_TIME,
    )
