"""`launch.delay`: the host does not launch work in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Rule
from stepscope.advice.judging.fitting_actions import traits_of
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.derive.facts.devices.launching import launch_signals, queue_signals
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.facts.program_traits import annotation_names, program_traits
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.launching import LaunchSignals
    from stepscope.derive.facts.devices.set_up import SetUp
    from stepscope.derive.facts.evidence import Fact
    from stepscope.derive.facts.program_traits import ProgramTraits
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("launch.delay")

_LAUNCH: Final = Owned(
    parts={"launch": ("launch",)},
    device=True,
    seen=("launch",),
    clocks=True,
    lost=True,
)
#: Where the host's own work is ops, the device waits for these as for launches.
_OPS_TOO: Final = msgspec.structs.replace(
    _LAUNCH, parts={**_LAUNCH.parts, "host_ops": ("host_compute",)}
)
#: Replayed graphs show no launch per node: beyond this share of the device's time the
#: rule cannot judge.
_GRAPH_SHARE: Final = 50.0

#: What no step has is the finding where it holds this share of it.
_MOST: Final = 0.5
#: A smaller share of the host's ops is not worth a word.
_WORTH_TELLING: Final = 0.5


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _LAUNCH, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    launching = signals.of(launch_signals)
    if isinstance(launching, Unavailable):
        return _ITEM.cannot_tell(launching)
    if launching.graph_percent >= _GRAPH_SHARE:
        return _ITEM.cannot_tell("replayed", graph_percent=launching.graph_percent)
    owned = _OPS_TOO if shares.host_ops_lead() else _LAUNCH
    warn = thresholds.launch_warn
    verdict = judge_shares(
        owned, shares, thresholds, warn=warn, critical=thresholds.launch_critical
    )
    first_use = _first_use(signals, shares, owned)
    one_op = None
    if first_use is None:
        one_op = _one_op(shares, owned, signals.of(annotation_names))
        because = (
            *(() if one_op is None else ("host_op",)),
            *_because(launching, thresholds),
        )
    else:
        because = (first_use.kind,)
    return owned_finding(
        _ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        because=because,
        note=first_use.kind if first_use and verdict.status == "fail" else None,
        facts=(
            *_shares(owned, shares),
            *_facts(launching),
            *(_queued(signals, shares) if verdict.status == "fail" else ()),
            *_ITEM.facts(one_op=one_op),
            *_outside_steps(first_use),
        ),
        # To record another part of the program makes no step shorter.
        **({} if first_use is None else {"parts": first_use.calls, "saving_ms": None}),
        inputs=("account", "launches"),
        actions=_actions(because, traits_of(signals))
        if verdict.status == "fail"
        else (),
    )


def waits_outside_steps(signals: Signals, shares: StepShares) -> bool:
    """Return whether a device waits for launches mostly where no step is.

    The host sets the device up, captures a graph, or is at its end.
    """
    owned = _OPS_TOO if shares.host_ops_lead() else _LAUNCH
    return _first_use(signals, shares, owned) is not None


def _first_use(signals: Signals, shares: StepShares, owned: Owned) -> SetUp | None:
    """Return what no step has, where it is most of what is judged."""
    found = signals.of(set_up_signals)
    if isinstance(found, Unavailable):
        return None
    first_use = found.get(shares.label)
    if first_use is None or first_use.percent < _MOST * shares.percent(*owned.owners):
        return None
    return first_use


def _outside_steps(found: SetUp | None) -> tuple[Fact, ...]:
    kinds = ("set_up", "first_runs", "captured", "over")
    return tuple(
        _ITEM.fact(
            kind, found.percent if found is not None and found.kind == kind else None
        )
        for kind in kinds
    )


def _one_op(
    shares: StepShares, owned: Owned, ranges: frozenset[str] | Unavailable
) -> float | None:
    """Return the share of one op that works on the host, where it is most of it all.

    A range of the program is no op, and stands for all that runs in it.
    """
    if owned is not _OPS_TOO:
        return None
    known = frozenset() if isinstance(ranges, Unavailable) else ranges
    ops = [
        one
        for one in shares.parts("host_compute")
        if one.function is None and one.name not in known
    ]
    largest = max((one.share_percent for one in ops), default=0.0)
    least = max(_MOST * shares.percent(*owned.owners), _WORTH_TELLING)
    return largest if largest >= least else None


def _shares(owned: Owned, shares: StepShares) -> tuple[Fact, ...]:
    ops = shares.percent("host_compute")
    told = owned is _OPS_TOO and ops >= _WORTH_TELLING
    return _ITEM.facts(
        launching=shares.percent("launch"), host_ops=ops if told else None
    )


def _because(found: LaunchSignals, thresholds: Thresholds) -> tuple[str, ...]:
    """Return why launches come late, as far as the numbers show it."""
    call = found.median_call_ps
    tests = (
        ("slow_host", call is not None and call > thresholds.slow_launch_call.value),
        ("small_work", found.median_kernel_ps < 2 * found.latency_ps),
        ("one_program", found.one_program is True),
    )
    return tuple(name for name, holds in tests if holds)


def _actions(because: tuple[str, ...], traits: ProgramTraits) -> tuple[Action, ...]:
    """Return what to change; what is compiled need not be compiled once more."""
    for alone in ("set_up", "first_runs", "captured", "over", "host_op"):
        if alone in because:
            return _ITEM.actions_for(alone)
    causes = {"any", *because}
    if "one_program" not in because:
        of_torch = "compiled" if traits.compiled else "uncompiled"
        # An engine compiles and captures by itself, as far as its options let it.
        causes |= {"several_calls", "engine" if traits.engine else of_torch}
        causes.add("one_graph" if traits.graphed else "several_ops")
    return _ITEM.actions_for(*causes)


def _facts(found: LaunchSignals) -> tuple[Fact, ...]:
    samples = found.latency_samples
    call = found.median_call_ps
    return (
        _ITEM.fact(
            "launch_latency",
            found.latency_ps / PS_PER_US,
            note=_ITEM.note("latency_measured", samples=samples)
            if samples
            else _ITEM.note("latency_assumed"),
        ),
        *_ITEM.facts(
            median_kernel=found.median_kernel_ps / PS_PER_US,
            median_launch_call=None if call is None else call / PS_PER_US,
            kernels_per_step=found.kernels_per_step,
        ),
    )


def _queued(signals: Signals, shares: StepShares) -> tuple[Fact, ...]:
    """Return how long the queue is over a step, and which launches are unusual."""
    hosts = signals.of(queue_signals)
    found = None if isinstance(hosts, Unavailable) else hosts.get(shares.label)
    if found is None:
        return ()
    parts = " ".join(f"{length:.1f}" for length in found.lengths)
    return (
        _ITEM.fact(
            "queue_length", sum(found.lengths) / len(found.lengths), parts=parts
        ),
        *_ITEM.facts(
            longest_queue=found.longest,
            slow_launch_calls=found.slow_calls,
            late_starts=found.late_starts,
        ),
    )


RULE: Final = Rule(
    _ITEM,
    evaluate,
    (
        *(*OWNED_READS, annotation_names, launch_signals, program_traits),
        *(queue_signals, set_up_signals),
    ),
)
