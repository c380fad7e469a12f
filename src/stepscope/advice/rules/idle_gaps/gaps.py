"""Rules about time in which a device or a host waits, by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    OwnedTime,
    judge_owned,
    owned_shares,
)
from stepscope.advice.judging.worker_processes import (
    NO_WORKERS,
    WORKER_READS,
    worker_processes,
)
from stepscope.advice.signals import CannotTell
from stepscope.derive.facts.devices.contention import contention_signals
from stepscope.derive.facts.evidence import Fact, Saving
from stepscope.derive.facts.hosts.function_runs import function_runs
from stepscope.derive.facts.processors import asleep
from stepscope.derive.facts.program_traits import collected_by_hand
from stepscope.derive.facts.savings.what_if_changes import NotAwaited
from stepscope.derive.host.function_frames import MIN_INTERVAL_SAMPLES
from stepscope.derive.step_time.owners import IDLE_OWNERS
from stepscope.derive.verdicts.recorded_devices import device_signals
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS, PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.contention import Contention
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.facts.step_shares import StepShares

_BETWEEN_ITEM: Final = rule_item("gaps.between")

#: Causes of gaps that have separate findings: batches, compiling, recording flaws.
_OTHERS: Final = frozenset({"input", "compile", "profiler", "queued", "switch"})
_BETWEEN_OWNED: Final = Owned(
    parts={owner: (owner,) for owner in IDLE_OWNERS if owner not in _OTHERS},
    place="between",
    device=True,
    steps=True,
    seen=("launch",),
    # All time between steps counts as lost, whatever its cause.
    unknown=False,
    lost=True,
)


@rule(_BETWEEN_ITEM, *OWNED_READS)
def judge_between(signals: Signals) -> Finding:
    judged = judge_owned(_BETWEEN_ITEM, _BETWEEN_OWNED, signals)
    shares = judged.shares
    at_end = len(shares.window_ps) == 1 and not shares.closed
    ms_at_end = judged.verdict.effect_ms if at_end else None
    return judged.finding(
        note="at_end" if at_end and judged.failed else None,
        facts=_BETWEEN_ITEM.facts(ms_at_end=ms_at_end),
        actions=_BETWEEN_ITEM.actions_for("at_end" if at_end else None),
    )


_WAITS_ITEM: Final = rule_item("host.wait")

_WAITS_OWNED: Final = Owned(parts={"waits": ("wait",)}, host=True, seen=("wait",))


@rule(_WAITS_ITEM, *OWNED_READS, *WORKER_READS, asleep)
def judge_waits(signals: Signals) -> Finding:
    judged = judge_owned(_WAITS_ITEM, _WAITS_OWNED, signals)
    waits = signals.of(asleep).get(judged.shares.host, {}).get("wait")
    finding = judged.finding(actions=_WAITS_ITEM.chosen("default"))
    if finding.status != "fail" or waits is None:
        return finding
    processes = worker_processes(signals, judged.shares.host) or NO_WORKERS
    alone = None if processes.time is None else processes.time.alone_percent
    is_uneven, for_processes = processes.is_one_alone, processes.are_awaited(waits)
    kind = {True: "waits_for_thread", False: "waits_for_nothing", None: "waits_only"}[
        waits.works
    ]
    # A wait for something outside of the program has actions of its own.
    outside = () if waits.work is None else (waits.work,)
    actions = _WAITS_ITEM.chosen(
        *(("waits_for_thread",) if waits.works else (*outside, "default"))
    )
    if for_processes:
        kind = "waits_for_one" if is_uneven else "waits_for_processes"
        cheaper, actions = processes.cheaper_actions(), _WAITS_ITEM.chosen(kind)
        actions = (
            (*cheaper, *actions)
            if cheaper and not is_uneven
            else (*actions, _WAITS_ITEM.action("make_workers_cheaper"))
        )
    return replace(
        finding,
        parts=waits.named_parts(finding.parts, for_processes=for_processes),
        workers=processes.functions if for_processes else (),
        facts=(
            *finding.facts,
            _WAITS_ITEM.fact(kind, finding.share_percent),
            *_WAITS_ITEM.facts(worker_cores=waits.workers, one_works=alone),
            *(processes.facts() if for_processes else ()),
        ),
        actions=actions,
    )


_CALLBACKS_ITEM: Final = rule_item("gap.callbacks")

_CALLBACKS_OWNED: Final = Owned(
    parts={"callbacks": ("callback",)},
    place="between",
    steps=True,
    seen=("callback",),
    host=True,
    lost=True,
)


@rule(_CALLBACKS_ITEM, *OWNED_READS, function_runs)
def judge_callbacks(signals: Signals) -> Finding:
    shares = owned_shares(_CALLBACKS_OWNED, signals)
    judged = _judge_named_time(_CALLBACKS_ITEM, _CALLBACKS_OWNED, signals, shares)
    if judged.failed:
        _require_sharp_samples(signals, shares)
    return judged.finding()


def _judge_named_time(
    item: Item, owned: Owned, signals: Signals, shares: StepShares
) -> OwnedTime:
    """Judge a cause's time between steps; unnamed time may belong to this cause."""
    unnamed_ps = sum(shares.times("unnamed", "unexplained", place="between"))
    series = replace(owned.series(shares), unknown_ps=unnamed_ps)
    judged = judge_owned(item, owned, signals, shares=shares, series=series)
    verdict, (warn, _) = judged.verdict, item.levels
    if verdict.status != "cannot_tell" or verdict.share_percent >= warn.value:
        return judged
    return judged.with_verdict(
        unavailable=item.reason(
            "unnamed", resolution_percent=verdict.resolution_percent
        )
    )


def _require_sharp_samples(signals: Signals, shares: StepShares) -> None:
    """Check that stack samples show what ran between steps; named ranges are exact.

    Raises:
        CannotTell: There are too few samples.
    """
    runs = signals.of(function_runs).get(shares.host)
    named = shares.named("callback", place="between")
    if runs is None or runs.frames.hz is None:
        return
    if any(part.function is None for part in named):
        return
    time_ps = sum(shares.times("callback", place="between"))
    # A function sampled in a step seems to last until halfway to the next sample.
    if time_ps < MIN_INTERVAL_SAMPLES * PS_PER_S / runs.frames.hz:
        ms, every_ms = time_ps / PS_PER_MS, 1000 / runs.frames.hz
        raise CannotTell(_CALLBACKS_ITEM.reason("blurred", ms=ms, every_ms=every_ms))


_READBACK_ITEM: Final = rule_item("gap.readback")

_READBACK_ON_HOST: Final = Owned(
    parts={"read_back": ("read_back",)}, host=True, seen=("read_back", "sync")
)
_READBACK_ON_DEVICE: Final = replace(
    _READBACK_ON_HOST, seen=("read_back", "launch", "output", "sync"), lost=True
)


def readback_changes(signals: Signals) -> Changes:
    """Return what-if edits: results are read later, so that no call waits for them."""
    if signals.of(device_signals).recorded == "host_only":
        return ()
    return (NotAwaited("read_back"),)


@rule(_READBACK_ITEM, *OWNED_READS, change=readback_changes)
def judge_readback(signals: Signals) -> Finding:
    shares = owned_shares(_READBACK_ON_HOST, signals)
    owned = _READBACK_ON_HOST if shares.device is None else _READBACK_ON_DEVICE
    return judge_owned(_READBACK_ITEM, owned, signals).finding()


_OUTPUT_ITEM: Final = rule_item("gap.output")

_OUTPUT_ON_HOST: Final = Owned(
    parts={"writing": ("writing",)}, host=True, seen=("writing", "output")
)
_OUTPUT_ON_DEVICE: Final = replace(
    _OUTPUT_ON_HOST, parts={**_OUTPUT_ON_HOST.parts, "copies": ("copy_out",)}, lost=True
)


@rule(_OUTPUT_ITEM, *OWNED_READS)
def judge_output(signals: Signals) -> Finding:
    shares = owned_shares(_OUTPUT_ON_HOST, signals)
    owned = _OUTPUT_ON_HOST if shares.device is None else _OUTPUT_ON_DEVICE
    if shares.device is not None and "copy_out" in shares.missing:
        raise CannotTell(shares.missing["copy_out"])
    judged = _judge_named_time(_OUTPUT_ITEM, owned, signals, shares)
    nothing = judged.verdict.status == "pass" and not sum(shares.times(*owned.owners))
    largest = judged.verdict.causes[0].cause if judged.failed else None
    return judged.finding(
        note="none" if nothing else None, actions=_OUTPUT_ITEM.actions_for(largest)
    )


_GARBAGE_ITEM: Final = rule_item("gap.gc")

_GARBAGE_OWNED: Final = Owned(
    parts={"collections": ("garbage",)},
    host=True,
    seen=("garbage",),
    unknown=False,
    lost=True,
)


@rule(_GARBAGE_ITEM, *OWNED_READS, collected_by_hand, function_runs)
def judge_garbage(signals: Signals) -> Finding:
    judged = judge_owned(_GARBAGE_ITEM, _GARBAGE_OWNED, signals)
    shares = judged.shares
    if not judged.failed:
        return judged.finding()
    parts = shares.parts(*_GARBAGE_OWNED.owners)
    runs = signals.of(function_runs).get(shares.host)
    if runs is not None and shares.device is None and runs.collector is not None:
        # The function with most of the garbage collection time comes first.
        parts = (runs.collector, *parts)
    by_hand = signals.of(collected_by_hand).get(shares.host)
    return judged.finding(
        parts=parts, actions=_GARBAGE_ITEM.actions_for("by_hand" if by_hand else None)
    )


_CONTENTION_ITEM: Final = rule_item("gap.contention")

_CONTENTION_OWNED: Final = Owned(
    parts={"launch": ("launch",)}, device=True, seen=("launch",), clocks=True, lost=True
)


@rule(_CONTENTION_ITEM, *OWNED_READS, contention_signals)
def judge_contention(signals: Signals) -> Finding:
    judged = judge_owned(_CONTENTION_ITEM, _CONTENTION_OWNED, signals)
    fields: dict[str, Any] = {
        "inputs": ("account", "host_classes", "launches"),
        "owners": (),
    }
    if not judged.failed:
        # The device hardly waits for launches, so the lack of cores does not matter.
        return judged.finding(**fields)
    shares = judged.shares
    contention = signals.needed(contention_signals)[shares.label]
    series = msgspec.structs.replace(
        _CONTENTION_OWNED.series(shares),
        parts_ps={"contended": contention.contended_ps},
    )
    judged = judge_owned(
        _CONTENTION_ITEM, _CONTENTION_OWNED, signals, shares=shares, series=series
    )
    fields["facts"] = _facts_of_pace(contention)
    if not judged.failed:
        return judged.finding(**fields)
    min_samples = THRESHOLDS.contended_samples.value
    if min(contention.busy_launches, contention.quiet_launches) < min_samples:
        return _CONTENTION_ITEM.cannot_tell("few")
    pace, chance = contention.pace, contention.chance
    if (
        pace is None
        or chance is None
        or pace < THRESHOLDS.contended_pace.value
        or chance >= THRESHOLDS.contended_chance.value
    ):
        return judged.finding(severity="info", note="pace", saving_ms=None, **fields)
    high = judged.verdict.effect_ms * (1 - 1 / max(pace, 1.0))
    return judged.finding(saving_ms=Saving(high=high), **fields)


def _facts_of_pace(contention: Contention) -> tuple[Fact, ...]:
    busy, quiet = contention.busy_pace_ps, contention.quiet_pace_ps
    return (
        *_CONTENTION_ITEM.facts(cores=contention.cores),
        _CONTENTION_ITEM.fact(
            "busy_pace",
            None if busy is None else busy / PS_PER_US,
            busy_launches=contention.busy_launches,
        ),
        _CONTENTION_ITEM.fact(
            "quiet_pace",
            None if quiet is None else quiet / PS_PER_US,
            quiet_launches=contention.quiet_launches,
        ),
        *_CONTENTION_ITEM.facts(
            pace=None if contention.pace is None else round(contention.pace, 1)
        ),
    )
