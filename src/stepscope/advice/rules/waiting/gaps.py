"""Rules about time in which a device or a host waits between steps, by its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Rule
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.verdict import judge
from stepscope.derive.facts.evidence import Saving
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.facts.program_traits import collected_by_hand
from stepscope.derive.facts.replaying.edits import NotAwaited
from stepscope.derive.host.function_frames import FEW_LOOKS
from stepscope.derive.judging.recorded_devices import device_signals
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.units import PS_PER_MS, PS_PER_S

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds
    from stepscope.unavailable import Unavailable

_BETWEEN_ITEM: Final = rule_item("gaps.between")

#: Waiting for batches, compiling, and what the recording hides are other findings.
_OTHERS: Final = frozenset({"input", "compile", "profiler", "queued", "switch"})
_BETWEEN_OWNED: Final = Owned(
    parts={owner: (owner,) for owner in IDLE_OWNERS if owner not in _OTHERS},
    place="between",
    device=True,
    steps=True,
    seen=("launch",),
    # What lies between the steps is the effect, whoever owns it.
    unknown=False,
    lost=True,
)


def judge_between(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_BETWEEN_ITEM, _BETWEEN_OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.between_warn
    verdict = judge_shares(
        _BETWEEN_OWNED,
        shares,
        thresholds,
        warn=warn,
        critical=thresholds.between_critical,
    )
    at_end = len(shares.window_ps) == 1 and not shares.closed
    ms_at_end = verdict.effect_ms if at_end else None
    finding = owned_finding(
        _BETWEEN_ITEM,
        _BETWEEN_OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        facts=_BETWEEN_ITEM.facts(ms_at_end=ms_at_end),
        actions=_BETWEEN_ITEM.actions if at_end else _BETWEEN_ITEM.actions_for("any"),
    )
    if finding.status != "fail" or ms_at_end is None:
        return finding
    # Nothing shows that other steps have it too.
    return msgspec.structs.replace(
        finding, note="at_end", saving_ms=Saving(low=0.0, high=ms_at_end)
    )


BETWEEN: Final = Rule(_BETWEEN_ITEM, judge_between, OWNED_READS)


_CALLBACKS_ITEM: Final = rule_item("gap.callbacks")

_CALLBACKS_OWNED: Final = Owned(
    parts={"callbacks": ("callback",)},
    place="between",
    steps=True,
    seen=("callback",),
    host=True,
    lost=True,
)


def judge_callbacks(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_CALLBACKS_ITEM, _CALLBACKS_OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    series = _CALLBACKS_OWNED.series(shares, thresholds)
    # What nothing names may be callbacks too.
    unnamed = sum(shares.times("unnamed", "unexplained", place="between"))
    series = msgspec.structs.replace(series, unknown_ps=unnamed)
    warn = thresholds.callbacks_warn
    verdict = judge(
        series, warn=warn, critical=thresholds.callbacks_critical, thresholds=thresholds
    )
    if verdict.status == "cannot_tell" and verdict.share_percent < warn.value:
        why = _CALLBACKS_ITEM.reason(
            "unnamed", resolution_percent=verdict.resolution_percent
        )
        verdict = msgspec.structs.replace(verdict, unavailable=why)
    blurred = _blurred(signals, shares) if verdict.status == "fail" else None
    if blurred is not None:
        return _CALLBACKS_ITEM.cannot_tell(blurred)
    return owned_finding(
        _CALLBACKS_ITEM,
        _CALLBACKS_OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
    )


def _blurred(signals: Signals, shares: StepShares) -> Unavailable | None:
    """Return why samples do not say what ran between steps; None where they do."""
    runs = signals.of(function_runs).get(shares.host)
    named = shares.named("callback", place="between")
    if runs is None or runs.frames.hz is None:
        return None
    if any(part.function is None for part in named):
        # Ranges are exact.
        return None
    time_ps = sum(shares.times("callback", place="between"))
    # A function of the step seems to last until halfway to the next look.
    if time_ps >= FEW_LOOKS * PS_PER_S / runs.frames.hz:
        return None
    return _CALLBACKS_ITEM.reason(
        "blurred", ms=time_ps / PS_PER_MS, every_ms=1000 / runs.frames.hz
    )


CALLBACKS: Final = Rule(_CALLBACKS_ITEM, judge_callbacks, (*OWNED_READS, function_runs))


_READBACK_ITEM: Final = rule_item("gap.readback")

_READBACK_ON_HOST: Final = Owned(
    parts={"read_back": ("read_back",)},
    host=True,
    steps=True,
    seen=("read_back", "sync"),
)
_READBACK_ON_DEVICE: Final = msgspec.structs.replace(
    _READBACK_ON_HOST, seen=("read_back", "launch", "output", "sync"), lost=True
)


def judge_readback(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_READBACK_ITEM, _READBACK_ON_HOST, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    owned = _READBACK_ON_HOST
    if shares.device is not None:
        owned = _READBACK_ON_DEVICE
        checked = shares_of(_READBACK_ITEM, owned, signals, thresholds)
        if isinstance(checked, Finding):
            return checked
    warn = thresholds.readback_warn
    verdict = judge_shares(
        owned, shares, thresholds, warn=warn, critical=thresholds.readback_critical
    )
    return owned_finding(
        _READBACK_ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
    )


def readback_changes(signals: Signals, _: Thresholds) -> tuple[Change, ...]:
    """Let calls no longer wait for a result: it is read a step late, or not at all."""
    if signals.of(device_signals).recorded == "host_only":
        return ()
    return (NotAwaited("read_back"),)


READBACK: Final = Rule(_READBACK_ITEM, judge_readback, OWNED_READS, readback_changes)


_OUTPUT_ITEM: Final = rule_item("gap.output")

_OUTPUT_ON_HOST: Final = Owned(
    parts={"writing": ("writing",)}, host=True, steps=True, seen=("writing", "output")
)
_OUTPUT_ON_DEVICE: Final = msgspec.structs.replace(
    _OUTPUT_ON_HOST, parts={**_OUTPUT_ON_HOST.parts, "copies": ("copy_out",)}, lost=True
)
#: Written on another thread, what is written must still be copied.
_LEAST: Final = 0.7


def judge_output(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_OUTPUT_ITEM, _OUTPUT_ON_HOST, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    owned = _OUTPUT_ON_HOST
    if shares.device is not None:
        owned = _OUTPUT_ON_DEVICE
        if "copy_out" in shares.missing:
            return _OUTPUT_ITEM.cannot_tell(shares.missing["copy_out"])
    series = owned.series(shares, thresholds)
    # What nothing names may be the writing of a file.
    unnamed = sum(shares.times("unnamed", "unexplained", place="between"))
    series = msgspec.structs.replace(series, unknown_ps=unnamed)
    warn = thresholds.output_warn
    verdict = judge(
        series, warn=warn, critical=thresholds.output_critical, thresholds=thresholds
    )
    if verdict.status == "cannot_tell" and verdict.share_percent < warn.value:
        verdict = msgspec.structs.replace(
            verdict,
            unavailable=_OUTPUT_ITEM.reason(
                "unnamed", resolution_percent=verdict.resolution_percent
            ),
        )
    nothing = verdict.status == "pass" and not sum(series.effect_ps)
    found = owned_finding(
        _OUTPUT_ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        note="none" if nothing else None,
        actions=_output_actions(verdict),
    )
    if found.saving_ms is None or found.ms_per_step is None:
        return found
    saving = found.saving_ms
    low = max(saving.low, _LEAST * found.ms_per_step)
    return msgspec.structs.replace(
        found, saving_ms=msgspec.structs.replace(saving, low=low)
    )


def _output_actions(verdict: Verdict) -> tuple[Action, ...]:
    """Return what removes the larger cause."""
    if verdict.status != "fail":
        return ()
    largest = verdict.causes[0].cause
    return _OUTPUT_ITEM.actions_for(largest)


OUTPUT: Final = Rule(_OUTPUT_ITEM, judge_output, OWNED_READS)


_GARBAGE_ITEM: Final = rule_item("gap.gc")

_GARBAGE_OWNED: Final = Owned(
    parts={"collections": ("garbage",)},
    host=True,
    seen=("garbage",),
    unknown=False,
    lost=True,
)


def judge_garbage(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_GARBAGE_ITEM, _GARBAGE_OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.collections_warn
    verdict = judge_shares(
        _GARBAGE_OWNED,
        shares,
        thresholds,
        warn=warn,
        critical=thresholds.collections_critical,
    )
    return owned_finding(
        _GARBAGE_ITEM,
        _GARBAGE_OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        parts=_parts(signals, shares, verdict),
        actions=_garbage_actions(signals, shares) if verdict.status == "fail" else (),
    )


def _garbage_actions(signals: Signals, shares: StepShares) -> tuple[Action, ...]:
    by_hand = signals.of(collected_by_hand).get(shares.host)
    return (
        (_GARBAGE_ITEM.action("do_not_collect_by_hand"), *_GARBAGE_ITEM.actions)
        if by_hand
        else _GARBAGE_ITEM.actions
    )


def _parts(signals: Signals, shares: StepShares, verdict: Verdict) -> tuple[Part, ...]:
    """Return the time by name, after the function in which most of it passes."""
    parts = shares.parts(*_GARBAGE_OWNED.owners)
    if verdict.status != "fail" or shares.device is not None:
        return parts
    runs = signals.of(function_runs).get(shares.host)
    function = None if runs is None else runs.collector
    return parts if function is None else (function, *parts)


GARBAGE: Final = Rule(
    _GARBAGE_ITEM, judge_garbage, (*OWNED_READS, collected_by_hand, function_runs)
)
