"""`xla.off`: the program uses no compiler, which could reduce kernel launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.owned import OWNED_READS, Owned, judge_owned, owned_shares
from stepscope.advice.rules.kernels.needless_kernels import judge_fusable_runs
from stepscope.advice.rules.launches import launch_delay, launch_small
from stepscope.derive.facts.devices.device_fill import compiled_percent
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.facts.hosts.compilations import FIRST_STEPS
from stepscope.derive.facts.memory_use import memory_signals
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.predicted_savings import replay_signals
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.lost_time_verdict import Verdict
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.step_shares import StepShares

_ITEM: Final = rule_item("xla.off")

_OWNED: Final = Owned(
    parts={"launch": ("launch",)},
    device=True,
    seen=("launch",),
    unknown=False,
    clocks=True,
    lost=True,
)


@rule(
    _ITEM,
    *tuple(
        dict.fromkeys(
            (
                *(*OWNED_READS, compiled_percent, memory_signals),
                set_up_signals,
                *(*judge_fusable_runs.reads, *launch_small.evaluate.reads),
                replay_signals,
            )
        )
    ),
)
def evaluate(signals: Signals) -> Finding:
    shares = owned_shares(_OWNED, signals)
    compiled = signals.needed(compiled_percent).get(shares.label)
    if compiled is None:
        return _ITEM.cannot_tell("untold")
    if compiled >= THRESHOLDS.compiled_most.value:
        return _ITEM.not_applicable("compiled")
    return _finding_of_compilation(signals, shares, compiled)


def _finding_of_compilation(
    signals: Signals, shares: StepShares, compiled: float
) -> Finding:
    verdict = judge_owned(_ITEM, _OWNED, signals, shares=shares).verdict
    mostly_uncompiled = compiled < THRESHOLDS.compiled_few.value
    if verdict.unavailable is not None and mostly_uncompiled:
        return _ITEM.cannot_tell(verdict.unavailable)
    waits = verdict.status == "fail"
    outside = waits and launch_delay.waits_outside_steps(signals, shares)
    late = waits and not outside
    runs = judge_fusable_runs(signals) if mostly_uncompiled else None
    if runs is not None and runs.unavailable is not None and not late:
        return _ITEM.cannot_tell(runs.unavailable)
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
    used = [
        memory.used
        for memory in signals.of(memory_signals).memories
        if memory.of_device and memory.counted and memory.used is not None
    ]
    # The finding on late launches, or on fusable kernels, already has this saving.
    owner = launch_delay.evaluate if late else judge_fusable_runs
    return _ITEM.finding(
        "fail" if failed else "pass",
        severity="warn" if joint >= THRESHOLDS.compiling_gain.value else "info",
        note=note,
        confidence=min(verdict.confidence, signals.of(record_grade)),
        value=verdict.share_percent,
        threshold=THRESHOLDS.launch_warn,
        devices=(shares.label,),
        facts=_ITEM.facts(
            compiled=compiled,
            fusable=None if runs is None else runs.value,
            joint=joint if failed else None,
            # A compiled program may need more memory than the fullest memory has free.
            memory_used=100 * max(used) if used else None,
        ),
        inputs=("account", "device_activity", "kernels"),
        explained_by=(owner.item.id,) if failed else (),
    )


def _joint_percent(
    signals: Signals, shares: StepShares, verdict: Verdict, runs: Finding | None
) -> float:
    """Return the percentage of a step that fewer launches and fused kernels may save.

    Without a replay both savings are added: launches take idle time, kernels busy time.
    """
    step_ms = max(shares.mean_ms(shares.total_ps), 1e-9)
    compiled = (
        *launch_small.evaluate.changes(signals),
        *judge_fusable_runs.changes(signals),
    )
    replayed = signals.of(replay_signals).saving_of_changes(compiled, shares.label)
    if replayed is not None:
        return 100 * replayed.high / step_ms
    small = launch_small.evaluate(signals)
    fewer = min(_highest_saving_ms(small) / step_ms * 100, verdict.share_percent)
    return fewer + 100 * _highest_saving_ms(runs) / step_ms


def _highest_saving_ms(finding: Finding | None) -> float:
    saving = None if finding is None else finding.saving_ms
    return 0.0 if saving is None else saving.high
