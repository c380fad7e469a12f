"""`launch.delay`: the host does not launch work in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    judge_owned,
    owned_shares,
)
from stepscope.advice.judging.program_facts import program_facts
from stepscope.derive.facts.devices.launching import launch_signals, queue_signals
from stepscope.derive.facts.devices.op_sides import placement_signals
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.facts.program_traits import program_traits
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.launching import LaunchSignals
    from stepscope.derive.facts.devices.set_up import SetUp
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.step_shares import StepShares

_ITEM: Final = rule_item("launch.delay")

_LAUNCH: Final = Owned(
    parts={"launch": ("launch",)}, device=True, seen=("launch",), clocks=True, lost=True
)
#: Time of `_LAUNCH`, and waits for host ops: used if ops are most of the host's work.
_LAUNCH_OR_HOST_OPS: Final = msgspec.structs.replace(
    _LAUNCH, parts={**_LAUNCH.parts, "host_ops": ("host_compute",)}
)
#: Maximum share of device time in replayed graphs, in percent; beyond it the rule
#: cannot judge, because nodes of a graph have no launch calls.
_MAX_GRAPH_PERCENT: Final = 50.0

#: The finding is about work outside steps if that work causes this share of the wait.
_MIN_WAIT_PART: Final = 0.5
#: Kinds of work outside steps; without such work, steps are not shorter.
_OUTSIDE_STEPS: Final = ("set_up", "first_runs", "captured", "over")
#: Minimum share of the step, in percent, of a host op that is reported.
_MIN_OPS_PERCENT: Final = 0.5


@rule(
    _ITEM,
    *OWNED_READS,
    launch_signals,
    placement_signals,
    program_traits,
    queue_signals,
    set_up_signals,
)
def evaluate(signals: Signals) -> Finding:
    shares = owned_shares(_LAUNCH, signals)
    launching = signals.needed(launch_signals)
    if launching.graph_percent >= _MAX_GRAPH_PERCENT:
        return _ITEM.cannot_tell("replayed", graph_percent=launching.graph_percent)
    owned = _owned_launch_time(shares)
    judged = judge_owned(_ITEM, owned, signals)
    first_use = work_outside_steps(signals, shares)
    one_op = None
    call = launching.median_call_ps
    tests = (
        ("slow_host", call is not None and call > THRESHOLDS.slow_launch_call.value),
        ("small_work", launching.median_kernel_ps < 2 * launching.latency_ps),
        ("one_program", launching.one_program is True),
    )
    if first_use is None:
        one_op = _largest_op_percent(signals, shares, owned)
        because = (
            *(() if one_op is None else ("host_op",)),
            *(name for name, holds in tests if holds),
        )
    else:
        because = (first_use.kind,)
    decisive = [reason for reason in because if reason in (*_OUTSIDE_STEPS, "host_op")]
    ops = shares.percent("host_compute")
    ops_matter = owned is _LAUNCH_OR_HOST_OPS and ops >= _MIN_OPS_PERCENT
    return judged.finding(
        because=because,
        note=first_use.kind if first_use and judged.failed else None,
        facts=(
            *_ITEM.facts(
                launching=shares.percent("launch"), host_ops=ops if ops_matter else None
            ),
            *_facts_of_launches(launching),
            *(_facts_of_queue(signals, shares) if judged.failed else ()),
            *_ITEM.facts(one_op=one_op),
            *(
                _ITEM.fact(
                    kind,
                    first_use.percent if first_use and first_use.kind == kind else None,
                )
                for kind in _OUTSIDE_STEPS
            ),
        ),
        # A recording of later steps lacks this wait, but no step becomes shorter.
        **({} if first_use is None else {"parts": first_use.calls, "saving_ms": None}),
        inputs=("account", "launches"),
        actions=_ITEM.actions_for(
            *(
                decisive[:1]
                or (
                    *(*because, "late_launches"),
                    *(() if "one_program" in because else ("several_calls",)),
                    # Leave out advice to compile a compiled program again.
                    *program_facts(signals),
                )
            )
        ),
    )


def _owned_launch_time(shares: StepShares) -> Owned:
    return _LAUNCH_OR_HOST_OPS if shares.host_ops_lead() else _LAUNCH


def work_outside_steps(signals: Signals, shares: StepShares) -> SetUp | None:
    """Return work outside of steps that causes most of the wait; None if none does.

    Outside of steps the host sets up the device or captures a graph, or ends.
    """
    set_up = (signals.known(set_up_signals) or {}).get(shares.label)
    min_percent = _MIN_WAIT_PART * shares.percent(*_owned_launch_time(shares).owners)
    return None if set_up is None or set_up.percent < min_percent else set_up


def _largest_op_percent(
    signals: Signals, shares: StepShares, owned: Owned
) -> float | None:
    """Return the share of the host's longest op if it is most of the wait, else None.

    Ops that launch work already run on the device, and ranges are not ops.
    """
    if owned is not _LAUNCH_OR_HOST_OPS:
        return None
    placed = (signals.known(placement_signals) or {}).get(shares.label, ())
    on_host = {op.name for op in placed}
    ops = (
        part.share_percent
        for part in shares.parts("host_compute")
        if part.function is None and part.name in on_host
    )
    largest = max(ops, default=0.0)
    min_percent = max(_MIN_WAIT_PART * shares.percent(*owned.owners), _MIN_OPS_PERCENT)
    return largest if largest >= min_percent else None


def _facts_of_launches(launching: LaunchSignals) -> tuple[Fact, ...]:
    samples = launching.latency_samples
    call = launching.median_call_ps
    return (
        _ITEM.fact(
            "launch_latency",
            launching.latency_ps / PS_PER_US,
            note=_ITEM.note("latency_measured", samples=samples)
            if samples
            else _ITEM.note("latency_assumed"),
        ),
        *_ITEM.facts(
            median_kernel=launching.median_kernel_ps / PS_PER_US,
            median_launch_call=None if call is None else call / PS_PER_US,
            kernels_per_step=launching.kernels_per_step,
        ),
    )


def _facts_of_queue(signals: Signals, shares: StepShares) -> tuple[Fact, ...]:
    """Return facts on the length of the launch queue, and on unusual launches."""
    queue = (signals.known(queue_signals) or {}).get(shares.label)
    if queue is None:
        return ()
    parts = " ".join(f"{length:.1f}" for length in queue.lengths)
    return (
        _ITEM.fact(
            "queue_length", sum(queue.lengths) / len(queue.lengths), parts=parts
        ),
        *_ITEM.facts(
            longest_queue=queue.longest,
            slow_launch_calls=queue.slow_calls,
            late_starts=queue.late_starts,
        ),
    )
