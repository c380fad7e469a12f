"""`cpu.threads`: threads wait for a core while the host has work of the steps."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    judge_series,
    owned_shares,
)
from stepscope.derive.facts.hosts.busy_threads import busiest_threads
from stepscope.derive.facts.processors import processor_signals, time_without_core
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding, Severity
    from stepscope.advice.signals import Signals

_ITEM: Final = rule_item("cpu.threads")

#: Cause of the lack of cores → note of the finding, where the names differ.
_NOTES: Final[dict[str | None, str | None]] = {None: "unsure", "own": None}
#: Time of work of the host that would end sooner if a core were free.
_OWNED: Final = Owned(
    parts={"waiting": ("host_compute", "launch", "input", "output", "compile")},
    host=True,
    seen=("host_compute",),
)


@rule(_ITEM, *OWNED_READS, processor_signals, time_without_core, busiest_threads)
def evaluate(signals: Signals) -> Finding:
    shares = owned_shares(_OWNED, signals)
    processor = signals.needed(processor_signals).get(shares.host)
    if processor is None:
        return _ITEM.cannot_tell("elsewhere")
    work = shares.times(*_OWNED.owners)
    waiting = tuple(
        round(time * percent / 100)
        for time, percent in zip(work, processor.waiting_percent, strict=True)
    )
    judged = judge_series(_ITEM, signals, shares.lost_time({"waiting": waiting}))
    cause: str | None = processor.whose_threads_crowd(THRESHOLDS)
    own, busiest = processor.own, signals.of(busiest_threads).get(shares.host)
    if (
        busiest is not None
        and processor.are_full(THRESHOLDS)
        and busiest.share_percent >= THRESHOLDS.busy_thread.value
    ):
        cause = "thread"
    lost = (signals.known(time_without_core) or {}).get(shares.host)
    ready_ps = (0,) * len(work) if lost is None else lost.thread_ps
    if lost is not None and cause not in {None, "own"}:
        # Threads of the program's own pools that wait for each other lose no time.
        ready_ps = tuple(map(add, lost.thread_ps, lost.pool_ps))
    without_core = shares.lost_time({"no_core": tuple(map(min, work, ready_ps))})
    of_steps = judge_series(_ITEM, signals, without_core)
    others = None if own is None else max(processor.machine - own, 0.0)
    note = _NOTES.get(cause, cause)
    severity: Severity = "warn" if cause == "thread" else "info"
    fields: dict[str, Any] = {"severity": severity, "saving_ms": None}
    if of_steps.failed:
        judged = of_steps
        if cause == "own" and 100 * (others or 0.0) >= of_steps.verdict.share_percent:
            # The cores that other programs use would be enough for the steps.
            cause = "others"
        if cause != "thread":
            note = "ready" if cause is None else f"ready_{cause}"
        if cause not in {None, "others"}:
            fields = {}
    return judged.finding(
        note=note if judged.failed else None,
        devices=(shares.label,),
        parts=(busiest,) if busiest is not None and cause == "thread" else (),
        because=() if cause is None or not judged.failed else (cause,),
        facts=_ITEM.facts(
            cores=processor.cores,
            threads=processor.threads,
            busy_cores=processor.machine,
            children=processor.children,
            others=others,
            thread_busy=None if busiest is None else busiest.share_percent,
        ),
        inputs=("account", "events"),
        actions=_ITEM.actions_for(cause),
        **fields,
    )
