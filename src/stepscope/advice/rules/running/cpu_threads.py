"""`cpu.threads`: threads wait for a core while the host has work of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.item import Rule
from stepscope.advice.judging.owned import OWNED_READS, Owned, shares_of
from stepscope.advice.verdict import judge
from stepscope.derive.facts.processors import processor_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.judging.effect_status import StepSeries
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.processors import Processors
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("cpu.threads")

#: What the host itself does: with a core of its own it would be done sooner.
_OWNED: Final = Owned(
    parts={"waiting": ("host_compute", "launch", "input", "output", "compile")},
    host=True,
    seen=("host_compute",),
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    hosts = signals.of(processor_signals)
    if isinstance(hosts, Unavailable):
        return _ITEM.cannot_tell(hosts)
    found = hosts.get(shares.host)
    if found is None:
        return _ITEM.cannot_tell("elsewhere")
    work = shares.times(*_OWNED.owners)
    waiting = tuple(
        round(time * percent / 100)
        for time, percent in zip(work, found.waiting_percent, strict=True)
    )
    warn = thresholds.waiting_threads_warn
    verdict = judge(
        StepSeries(
            step_source=shares.step_source,
            step_confidence=shares.step_confidence,
            closed=shares.closed,
            window_ps=shares.window_ps,
            parts_ps={"waiting": waiting},
        ),
        warn=warn,
        critical=thresholds.waiting_threads_critical,
        thresholds=thresholds,
    )
    cause = found.crowded_by(thresholds)
    failed = verdict.status == "fail"
    made = _ITEM.judged(
        verdict,
        grade=signals.of(record_grade),
        threshold=warn,
        smallest=thresholds.smallest_effect,
        stepped=shares.step_source is not None,
        note=_note(cause) if failed else verdict.note,
        # What comes together need not be lost: any thread may be the one that waits,
        # and it need not be one of the steps'. So it leads no report.
        severity="info",
        devices=(shares.label,),
        because=() if cause is None or not failed else (cause,),
        facts=_facts(found),
        inputs=("account", "events"),
        actions=_ITEM.actions_for(cause) if failed else (),
    )
    return msgspec.structs.replace(made, saving_ms=None)


def _note(cause: str | None) -> str | None:
    return {"own": None, "others": "others"}.get(cause or "", "unsure")


def _facts(found: Processors) -> tuple[Fact, ...]:
    own = found.own
    return _ITEM.facts(
        cores=found.cores,
        threads=found.threads,
        busy_cores=found.machine,
        others=None if own is None else max(found.machine - own, 0.0),
    )


RULE: Final = Rule(_ITEM, evaluate, (*OWNED_READS, processor_signals))
