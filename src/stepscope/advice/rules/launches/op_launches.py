"""Rules about work in many tiny pieces, and about ops that run one by one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.host_functions import FUNCTION_READS, are_ops_of_function
from stepscope.advice.judging.lost_time import OWNED_READS
from stepscope.advice.judging.program_facts import program_facts
from stepscope.advice.lost_time_verdict import judge
from stepscope.derive.facts.devices.launching import launch_signals
from stepscope.derive.facts.devices.small_work import small_kernels, small_ops
from stepscope.derive.facts.evidence import Part, Saving
from stepscope.derive.facts.hosts.eager_ops import eager_signals
from stepscope.derive.facts.program_traits import program_traits
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.what_if_changes import Joined
from stepscope.derive.facts.step_shares import account_signals
from stepscope.derive.step_time.owners import COMPUTE_OWNERS
from stepscope.derive.verdicts.recorded_devices import NO_KERNELS, device_signals
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.lost_time_verdict import Verdict
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.launching import LaunchSignals
    from stepscope.derive.facts.devices.small_work import SmallOps, WorkGroup
    from stepscope.derive.facts.hosts.eager_ops import EagerOps
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.unavailable import Unavailable

_SMALL_ITEM: Final = rule_item("launch.small")


def joined_kernel_changes(signals: Signals) -> Changes:
    """Return what-if edits that launch consecutive brief kernels as one kernel.

    The kernels keep their durations: whether the joined kernel is faster is unknown.
    """
    label = signals.needed(account_signals).judged("launch", "host_compute").label
    groups = signals.needed(small_kernels).get(label, ())
    small, _ = _brief_kernel_groups(groups, signals.needed(launch_signals))
    classes = [kernel_class for group in small for kernel_class in group.classes]
    return (Joined(classes, _MIN_JOINED_KERNELS),) if classes else ()


@rule(
    _SMALL_ITEM,
    *OWNED_READS,
    eager_signals,
    launch_signals,
    program_traits,
    small_kernels,
    small_ops,
    change=joined_kernel_changes,
)
def judge_small_work(signals: Signals) -> Finding:
    shares = signals.needed(account_signals).judged("launch", "host_compute")
    if shares.device is not None:
        return _judge_device_kernels(signals, shares)
    device = signals.of(device_signals)
    if device.recorded != "host_only":
        return _SMALL_ITEM.cannot_tell(device.reason or NO_KERNELS)
    return _judge_ops(signals, shares)


def _judge_device_kernels(signals: Signals, shares: StepShares) -> Finding:
    groups, launching = signals.needed(small_kernels), signals.needed(launch_signals)
    if shares.step_confidence < THRESHOLDS.medium_confidence.value:
        return _SMALL_ITEM.cannot_tell("no_steps")
    if "launch" in shares.missing:
        return _SMALL_ITEM.cannot_tell(shares.missing["launch"])
    all_groups = groups.get(shares.label, ())
    small, brief_ps = _brief_kernel_groups(all_groups, launching)
    waits = judge(
        shares.series({"launch": ("launch",)}, clocks=True, lost=True),
        _SMALL_ITEM.levels,
    )
    percent = sum(group.percent for group in small)
    launches = sum(group.count_percent for group in small)
    long = percent >= THRESHOLDS.small_share.value
    matters = long or launches >= THRESHOLDS.small_launches.value
    if matters and waits.unavailable is not None:
        return _SMALL_ITEM.cannot_tell(waits.unavailable)
    starved = matters and waits.status == "fail"
    failed = starved or percent >= THRESHOLDS.small_info.value
    return _SMALL_ITEM.finding(
        "fail" if failed else "pass",
        severity="warn" if starved and waits.severity != "info" else "info",
        note="hidden" if failed and not starved else None,
        confidence=min(waits.confidence, signals.of(record_grade)),
        value=percent,
        threshold=THRESHOLDS.small_share if starved else THRESHOLDS.small_info,
        devices=(shares.label,),
        parts=_parts_of_device(small, shares.percent(*COMPUTE_OWNERS)),
        facts=_SMALL_ITEM.facts(
            kernels=_kernels_per_step(small),
            all_kernels=_kernels_per_step(all_groups),
            launches=launches,
            brief_kernel=brief_ps / PS_PER_US,
        ),
        inputs=("kernels", "device_ops", "launch_facts", "account"),
        actions=_SMALL_ITEM.actions_for("device", *program_facts(signals)),
        # If the device waits for launches, `launch.delay` already has this saving.
        explained_by=("launch.delay",) if starved else (),
    )


def _brief_kernel_groups(
    all_groups: tuple[WorkGroup, ...], launching: LaunchSignals
) -> tuple[tuple[WorkGroup, ...], float]:
    """Return the groups with many brief kernels, and their maximum duration in ps.

    The maximum duration of a brief kernel is that of two launches, if measured.
    """
    brief_ps = THRESHOLDS.small_kernel.value
    if launching.latency_samples:
        two = THRESHOLDS.small_op_latencies.value * launching.latency_ps
        brief_ps = min(two, THRESHOLDS.small_kernel_most.value)
    small = tuple(
        group
        for group in all_groups
        if group.per_step >= THRESHOLDS.small_op_runs.value and group.mean_ps < brief_ps
    )
    return small, brief_ps


def _parts_of_device(
    groups: tuple[WorkGroup, ...], compute_percent: float
) -> tuple[Part, ...]:
    """Return the groups with most kernels; groups of one function are merged.

    Kernels of one C++ template differ only in their arguments, which a sentence omits;
    separate groups would repeat the same name.
    """
    alike: dict[tuple[str, bool], list[WorkGroup]] = defaultdict(list)
    for group in groups:
        alike[group.short_name, group.has_op].append(group)
    largest = sorted(alike.items(), key=lambda item: -_kernels_per_step(tuple(item[1])))
    return tuple(
        Part(
            name=same_name[0].name if len(same_name) == 1 else name,
            detail=None if has_op else "kernel",
            share_percent=sum(group.percent for group in same_name)
            * compute_percent
            / 100,
        )
        for (name, has_op), same_name in largest[:_MAX_GROUPS_NAMED]
    )


def _kernels_per_step(groups: tuple[WorkGroup, ...]) -> float:
    return sum(group.per_step for group in groups)


def _judge_ops(signals: Signals, shares: StepShares) -> Finding:
    hosts = signals.needed(small_ops)
    has_steps = shares.step_source is not None
    if has_steps and shares.step_confidence < THRESHOLDS.medium_confidence.value:
        return _SMALL_ITEM.cannot_tell("no_steps")
    ops = hosts.get(shares.host)
    if ops is None:
        return _SMALL_ITEM.cannot_tell("no_ops")
    times = {"dispatch": ops.dispatch_ps}
    dispatching = verdict = judge(shares.lost_time(times), _SMALL_ITEM.levels)
    # Much time between ops shows that they are too small. The time inside such ops is
    # mostly call overhead, so a change would save that time too.
    if dispatching.status == "fail":
        times["ops"] = ops.own_ps
        verdict = judge(shares.lost_time(times), _SMALL_ITEM.levels)
    failed = verdict.status == "fail"
    eager = _run_singly(signals, shares)
    effect = verdict.effect_ms
    return _SMALL_ITEM.finding(
        verdict.status,
        severity=verdict.severity,
        note=verdict.note,
        confidence=min(verdict.confidence, signals.of(record_grade)),
        value=verdict.share_percent,
        threshold=THRESHOLDS.launch_warn,
        devices=(shares.label,),
        pattern=verdict.pattern,
        ms_per_step=effect if has_steps else None,
        steps_hit=verdict.pattern.steps_hit if has_steps else None,
        steps_clean=verdict.pattern.steps if has_steps else None,
        causes=verdict.causes,
        parts=(
            *(_calling_function(shares, dispatching.share_percent) if failed else ()),
            *_parts_of_host(ops, verdict.share_percent),
        ),
        facts=_SMALL_ITEM.facts(
            ops=ops.per_step if has_steps else None,
            recorded_ops=None if has_steps else ops.per_step,
            mean_op=None if ops.mean_ps is None else ops.mean_ps / PS_PER_US,
        ),
        inputs=("host_op_events", "account"),
        actions=_SMALL_ITEM.actions_for("host_only", *program_facts(signals)),
        explained_by=("launch.eager",) if failed and eager else (),
        saving_ms=Saving(high=effect) if failed and has_steps and not eager else None,
        unavailable=verdict.unavailable,
    )


def _run_singly(signals: Signals, shares: StepShares) -> bool:
    """Return whether ops run one by one outside a graph (see `launch.eager`)."""
    eager = signals.known(eager_signals)
    ops = None if eager is None else eager.hosts.get(shares.host)
    return ops is not None and ops.lead(THRESHOLDS)


def _calling_function(shares: StepShares, between_percent: float) -> tuple[Part, ...]:
    """Return the program's function that works between the ops, or calls them.

    The function that calls most ops of a step may not be the caller of the tiny ops.

    Args:
        between_percent: Time between tiny ops, in percent of the judged steps.
    """
    own = (
        Part(
            name=work.function,
            function=work.function,
            file=work.file,
            line=work.line,
            share_percent=100 * work.time_ps / shares.total_ps,
        )
        for work in shares.named("host_compute", place="inside")
        if work.function is not None and not work.loop
    )
    between = next(own, None)
    if between is not None and 2 * between.share_percent >= between_percent:
        return (between,)
    caller = shares.caller("host_compute") or between
    return () if caller is None else (caller,)


def _parts_of_host(ops: SmallOps, share: float) -> tuple[Part, ...]:
    number = sum(count for _, count in ops.names)
    return tuple(
        Part(name=name, share_percent=share * count / number)
        for name, count in ops.names[:_MAX_GROUPS_NAMED]
    )


#: Minimum number of kernels in a run that is launched as one.
_MIN_JOINED_KERNELS: Final = 2
#: Maximum number of groups to name.
_MAX_GROUPS_NAMED: Final = 3


_EAGER_ITEM: Final = rule_item("launch.eager")


@rule(_EAGER_ITEM, *OWNED_READS, *FUNCTION_READS)
def judge_eager_ops(signals: Signals) -> Finding:
    account = signals.needed(account_signals)
    eager = signals.needed(eager_signals)
    shares = account.judged("host_compute")
    ops = eager.hosts.get(shares.host)
    if ops is None:
        return (
            _EAGER_ITEM.not_applicable("torch")
            if eager.torch
            else _EAGER_ITEM.cannot_tell("no_ops")
        )
    why_unknown = _reason_cost_unknown(signals, shares)
    if why_unknown is not None:
        return _EAGER_ITEM.cannot_tell(why_unknown)
    # Lost time of eager ops: late launches, or the time from one op to the next.
    series = (
        shares.lost_time({"dispatch": ops.dispatch_ps})
        if shares.device is None
        else shares.series({"launch": ("launch",)}, clocks=True, lost=True)
    )
    return _finding_of_eager_ops(
        signals, shares, ops, judge(series, _EAGER_ITEM.levels)
    )


def _reason_cost_unknown(signals: Signals, shares: StepShares) -> Unavailable | None:
    """Return why the lost time of the ops is unknown; None if it is known."""
    if shares.step_confidence < THRESHOLDS.medium_confidence.value:
        return _EAGER_ITEM.reason("no_steps")
    device = signals.of(device_signals)
    if shares.device is None and device.recorded != "host_only":
        return device.reason or _EAGER_ITEM.reason("no_ops")
    return shares.missing.get("launch") if shares.device is not None else None


def _finding_of_eager_ops(
    signals: Signals, shares: StepShares, ops: EagerOps, verdict: Verdict
) -> Finding:
    share, eager = ops.percent, ops.lead(THRESHOLDS)
    if eager and verdict.unavailable is not None:
        return _EAGER_ITEM.cannot_tell(verdict.unavailable)
    failed = eager and verdict.status == "fail"
    on_device = shares.device is not None
    caller = None if on_device else shares.caller("host_compute")
    effect = verdict.effect_ms
    fields = {
        "confidence": min(verdict.confidence, signals.of(record_grade)),
        "value": verdict.share_percent,
        "threshold": THRESHOLDS.launch_warn,
        "devices": (shares.label,),
        "parts": (
            *(() if caller is None else (caller,)),
            # If calls enclose their ops, time between the ops has no name.
            *(
                Part(name=name, share_percent=percent * (share or 100.0) / 100)
                for name, percent in ops.names
            ),
        ),
        "facts": _EAGER_ITEM.facts(per_step=ops.per_step, eager=share),
        "inputs": ("host_op_events", "event_kinds", "account"),
    }
    if not failed:
        return _EAGER_ITEM.finding("pass", note="hidden" if eager else None, **fields)
    # The finding `launch.delay` already has this saving.
    explaining = ("launch.delay",) if on_device else ()
    if are_ops_of_function(signals, shares, caller):
        explaining = ("host.work",)
    return _EAGER_ITEM.finding(
        "fail",
        severity=verdict.severity,
        note=verdict.note,
        pattern=verdict.pattern,
        steps_hit=verdict.pattern.steps_hit,
        steps_clean=verdict.pattern.steps,
        causes=verdict.causes,
        ms_per_step=effect,
        explained_by=explaining,
        saving_ms=None if on_device else Saving(high=effect, open_above=True),
        **fields,
    )
