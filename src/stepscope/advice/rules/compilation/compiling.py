"""Rules about programs that compile nothing, or the same functions repeatedly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.host_functions import FUNCTION_READS, host_functions
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    judge_owned,
    owned_shares,
)
from stepscope.advice.judging.program_facts import headroom_fact
from stepscope.advice.rules.kernels.needless_kernels import judge_fusable_runs
from stepscope.advice.rules.launches import launch_delay, op_launches
from stepscope.derive.facts.devices.device_fill import compiled_percent
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.facts.evidence import Fact, Part, Saving
from stepscope.derive.facts.hosts.compilations import FIRST_STEPS, compile_signals
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.predicted_savings import replay_signals
from stepscope.patterns import Pattern
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.lost_time_verdict import Verdict
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.hosts.compilations import CompiledFunction
    from stepscope.derive.facts.step_shares import StepShares

_UNCOMPILED_ITEM: Final = rule_item("xla.off")

_LAUNCH_OWNED: Final = Owned(
    parts={"launch": ("launch",)},
    device=True,
    seen=("launch",),
    unknown=False,
    clocks=True,
    lost=True,
)


@rule(
    _UNCOMPILED_ITEM,
    *(*OWNED_READS, compiled_percent, memory_signals, set_up_signals),
    *(*judge_fusable_runs.reads, *op_launches.judge_small_work.reads),
    replay_signals,
)
def judge_uncompiled(signals: Signals) -> Finding:
    shares = owned_shares(_LAUNCH_OWNED, signals)
    compiled = signals.needed(compiled_percent).get(shares.label)
    if compiled is None:
        return _UNCOMPILED_ITEM.cannot_tell("untold")
    if compiled >= THRESHOLDS.compiled_most.value:
        return _UNCOMPILED_ITEM.not_applicable("compiled")
    return _finding_of_compilation(signals, shares, compiled)


def _finding_of_compilation(
    signals: Signals, shares: StepShares, compiled: float
) -> Finding:
    verdict = judge_owned(
        _UNCOMPILED_ITEM, _LAUNCH_OWNED, signals, shares=shares
    ).verdict
    mostly_uncompiled = compiled < THRESHOLDS.compiled_few.value
    if verdict.unavailable is not None and mostly_uncompiled:
        return _UNCOMPILED_ITEM.cannot_tell(verdict.unavailable)
    waits = verdict.status == "fail"
    outside = waits and launch_delay.work_outside_steps(signals, shares) is not None
    late = waits and not outside
    runs = judge_fusable_runs(signals) if mostly_uncompiled else None
    if runs is not None and runs.unavailable is not None and not late:
        return _UNCOMPILED_ITEM.cannot_tell(runs.unavailable)
    fusable = runs is not None and runs.status == "fail" and runs.severity != "info"
    missing = (late or fusable) and mostly_uncompiled
    compiling_ps = sum(shares.times("compile")[FIRST_STEPS:])
    late_percent = 100 * compiling_ps / max(sum(shares.window_ps[FIRST_STEPS:]), 1)
    recompiles = late_percent >= THRESHOLDS.recompile_warn.value
    failed = missing and not recompiles
    joint = _joint_percent(signals, shares, verdict, runs) if failed else 0
    if missing:
        note = "shapes" if recompiles else None if late else "fusable"
    else:
        note = "outside" if outside else None
    used = signals.of(memory_signals).fullest_device
    # The finding on late launches, or on fusable kernels, already has this saving.
    owner = launch_delay.evaluate if late else judge_fusable_runs
    return _UNCOMPILED_ITEM.finding(
        "fail" if failed else "pass",
        severity="warn" if joint >= THRESHOLDS.compiling_gain.value else "info",
        note=note,
        confidence=min(verdict.confidence, signals.of(record_grade)),
        value=verdict.share_percent,
        threshold=THRESHOLDS.launch_warn,
        devices=(shares.label,),
        facts=_UNCOMPILED_ITEM.facts(
            compiled=compiled,
            fusable=None if runs is None else runs.value,
            joint=joint if failed else None,
            # A compiled program may need more memory than the fullest memory has free.
            memory_used=None if used is None else 100 * used,
        ),
        inputs=("account", "device_activity", "kernels"),
        explained_by=(owner.item.id,) if failed else (),
        actions=_UNCOMPILED_ITEM.actions_for(headroom_fact(signals)),
    )


def _joint_percent(
    signals: Signals, shares: StepShares, verdict: Verdict, runs: Finding | None
) -> float:
    """Return the percentage of a step that fewer launches and fused kernels may save.

    Without a replay both savings are added: launches take idle time, kernels busy time.
    """
    step_ms = max(shares.mean_ms(shares.total_ps), 1e-9)
    compiled = (
        *op_launches.judge_small_work.changes(signals),
        *judge_fusable_runs.changes(signals),
    )
    replayed = signals.of(replay_signals).saving_of_changes(compiled, shares.label)
    if replayed is not None:
        return 100 * replayed.high / step_ms
    small = op_launches.judge_small_work(signals)
    fewer = min(_highest_saving_ms(small) / step_ms * 100, verdict.share_percent)
    return fewer + 100 * _highest_saving_ms(runs) / step_ms


def _highest_saving_ms(finding: Finding | None) -> float:
    saving = None if finding is None else finding.saving_ms
    return 0.0 if saving is None else saving.high


_RECOMPILED_ITEM: Final = rule_item("xla.recompile")

_COMPILE_OWNED: Final = Owned(
    parts={"compile": ("compile",)}, host=True, seen=("compile",)
)
_SHAPES: Final = Pattern(r"(?i)\bsizes?\b|shape|stride|\bdim")


@rule(_RECOMPILED_ITEM, *OWNED_READS, *FUNCTION_READS, compile_signals)
def judge_recompiled(signals: Signals) -> Finding:
    judged = judge_owned(_RECOMPILED_ITEM, _COMPILE_OWNED, signals)
    shares, share = judged.shares, judged.verdict.share_percent
    times = shares.times("compile")
    late, whole = (sum(column[FIRST_STEPS:]) for column in (times, shares.window_ps))
    late_percent = 100 * late / whole if whole else 0.0
    functions = signals.of(compile_signals).get(shares.host, ())
    if judged.failed and late_percent < THRESHOLDS.recompile_warn.value:
        if not whole:
            steps = len(shares.window_ps) if shares.step_source is not None else 0
            key = "too_few_steps" if steps else "no_steps"
            return _RECOMPILED_ITEM.cannot_tell(key, percent=share, steps=steps)
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
        actions=_RECOMPILED_ITEM.actions_for(*because),
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
        _RECOMPILED_ITEM.fact("late", late_percent, later=later, first=FIRST_STEPS),
        *_RECOMPILED_ITEM.facts(later_steps=later),
        _RECOMPILED_ITEM.fact(
            "in_steps", functions[0].steps if functions else repeated, note=why
        ),
        *_RECOMPILED_ITEM.facts(functions=len(functions)),
    )


#: Maximum number of functions to name.
_MAX_FUNCTIONS_NAMED: Final = 3
