"""`mem.oom`: an allocation failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.rule import Rule
from stepscope.derive.facts.evidence import Evidence, Fact
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.recording import record_grade

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.memory_use import Failure
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("mem.oom")

_GIB: Final = 2**30


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    del thresholds
    found = signals.of(memory_signals)
    if not found.failures:
        if not found.tells_failures:
            return _ITEM.cannot_tell("not_told")
        return _ITEM.finding("pass", facts=_facts(None), inputs=("events",))
    last = found.failures[-1]
    because = "pieces" if last.fits_in_pieces else "capacity"
    return _ITEM.finding(
        "fail",
        severity="info" if last.recovered else "critical",
        note="recovered" if last.recovered else None,
        confidence=signals.of(record_grade),
        value=len(found.failures),
        unit="count",
        devices=(last.label,),
        because=(because,),
        facts=_facts(last),
        evidence=(
            Evidence(
                host=last.host,
                device=last.device,
                track=None,
                start_ps=last.time_ps,
                end_ps=last.time_ps,
            ),
        ),
        inputs=("events",),
        actions=_ITEM.actions_for(because),
    )


def _facts(failure: Failure | None) -> tuple[Fact, ...]:
    names = ("asked_gib", "allocated_gib", "kept_gib")
    sizes: tuple[int | None, ...] = (None, None, None)
    if failure is not None:
        sizes = (failure.asked_bytes, failure.allocated_bytes, failure.kept_bytes)
    return tuple(
        _ITEM.fact(name, None if size is None else float(f"{size / _GIB:.3g}"))
        for name, size in zip(names, sizes, strict=True)
    )


RULE: Final = Rule(_ITEM, evaluate, (memory_signals, record_grade))
