"""`xla.recompile`: functions are compiled repeatedly while the program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.host_functions import FUNCTION_READS, host_functions
from stepscope.advice.judging.owned import OWNED_READS, Owned, judge_owned
from stepscope.derive.facts.evidence import Fact, Part, Saving
from stepscope.derive.facts.hosts.compilations import FIRST_STEPS, compile_signals
from stepscope.patterns import Pattern
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.hosts.compilations import CompiledFunction
    from stepscope.derive.facts.step_shares import StepShares

_ITEM: Final = rule_item("xla.recompile")

_OWNED: Final = Owned(parts={"compile": ("compile",)}, host=True, seen=("compile",))
_SHAPES: Final = Pattern(r"(?i)\bsizes?\b|shape|stride|\bdim")


@rule(_ITEM, *OWNED_READS, *FUNCTION_READS, compile_signals)
def evaluate(signals: Signals) -> Finding:
    judged = judge_owned(_ITEM, _OWNED, signals)
    shares, share = judged.shares, judged.verdict.share_percent
    times = shares.times("compile")
    late, whole = (sum(column[FIRST_STEPS:]) for column in (times, shares.window_ps))
    late_percent = 100 * late / whole if whole else 0.0
    functions = signals.of(compile_signals).get(shares.host, ())
    if judged.failed and late_percent < THRESHOLDS.recompile_warn.value:
        if not whole:
            steps = len(shares.window_ps) if shares.step_source is not None else 0
            key = "too_few_steps" if steps else "no_steps"
            return _ITEM.cannot_tell(key, percent=share, steps=steps)
        judged = judged.with_verdict(status="pass", severity="info", note="warm_up")
    repeated = max((function.steps for function in functions), default=0)
    tests = {
        "shapes": any(
            function.reason and _SHAPES.search(function.reason)
            for function in functions
        ),
        "repeats": repeated >= THRESHOLDS.variable_shapes.value,
    }
    because = tuple(name for name, holds in tests.items() if late and holds)
    verdict = judged.verdict
    if verdict.status == "pass" and verdict.note is None and "repeats" in because:
        judged = judged.with_verdict(note="repeats")
    caller = shares.caller("compile") if judged.failed else None
    finding = judged.finding(
        because=because,
        parts=(*((caller,) if caller else ()), *_compiled_parts(shares, functions)),
        facts=_facts_of_compiling(shares, functions, late_percent, repeated),
        inputs=("account", "event_kinds", "host_values"),
        actions=_ITEM.actions_for(*because),
    )
    if finding.saving_ms is None:
        return finding
    saving = Saving(high=late / len(times) / PS_PER_MS)
    # Compilations in each call of Keras's `predict` come from the calls, which are a
    # separate finding, and not from the shapes of batches.
    host_work = host_functions(signals, shares)
    calls = None if host_work.blocking is None else host_work.blocking.time
    predicts = calls is not None and host_work.has_model and calls.mostly_predicts
    explaining = ("host.work",) if predicts else ()
    return msgspec.structs.replace(finding, saving_ms=saving, explained_by=explaining)


def _compiled_parts(
    shares: StepShares, functions: tuple[CompiledFunction, ...]
) -> tuple[Part, ...]:
    """Divide the share among the functions in proportion to their compile times."""
    total = sum(function.time_ps for function in functions)
    if not total:
        return shares.parts("compile")
    share = shares.percent("compile")
    return tuple(
        Part(
            name=function.name,
            detail=function.reason,
            share_percent=share * function.time_ps / total,
        )
        for function in functions[:_MAX_FUNCTIONS_NAMED]
    )


def _facts_of_compiling(
    shares: StepShares,
    functions: tuple[CompiledFunction, ...],
    late_percent: float,
    repeated: int,
) -> tuple[Fact, ...]:
    why = next((function.reason for function in functions if function.reason), None)
    later = max(len(shares.window_ps) - FIRST_STEPS, 0)
    return (
        _ITEM.fact("late", late_percent, later=later, first=FIRST_STEPS),
        *_ITEM.facts(later_steps=later),
        _ITEM.fact("in_steps", functions[0].steps if functions else repeated, note=why),
        *_ITEM.facts(functions=len(functions)),
    )


#: Maximum number of functions to name.
_MAX_FUNCTIONS_NAMED: Final = 3
