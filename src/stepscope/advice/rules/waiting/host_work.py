"""`host.work`: the step is work, or waiting, of the program itself, on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.catalogue import rule_item
from stepscope.advice.finding import Finding
from stepscope.advice.item import Rule
from stepscope.advice.judging.host_functions import (
    FUNCTION_READS,
    LIBRARY_KINDS,
    OWNER,
    fault_of,
    has_ops,
    host_functions,
)
from stepscope.advice.judging.ops_of_functions import OPS_READS, rule_of_ops
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.judging.worker_processes import (
    NO_WORKERS,
    WORKER_READS,
    WorkerProcesses,
    sized,
    worker_processes,
)
from stepscope.advice.verdict import pattern_of, promise_of
from stepscope.derive.facts.evidence import CauseShare, Fact, Limits, Part, Saving
from stepscope.derive.facts.hosts.function_ways import function_ways
from stepscope.derive.facts.hosts.own_lines import enclosing_functions
from stepscope.derive.facts.processors import asleep
from stepscope.derive.facts.program_traits import collected_by_hand
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Action
    from stepscope.advice.judging.host_functions import HostFunction
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.hosts.function_runs import FunctionRuns
    from stepscope.derive.facts.hosts.function_ways import Way
    from stepscope.derive.facts.processors import Asleep
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_ITEM: Final = rule_item("host.work")

#: What takes this share of a function, in percent, is what the function does.
_MOSTLY: Final = 50.0
#: A part of this share of the work is what the work is.
_LEADS: Final = 0.5
_OWNED: Final = Owned(
    parts={"functions": (OWNER,)}, place="inside", host=True, seen=(OWNER,)
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    warn = thresholds.host_work_warn
    verdict = judge_shares(
        _OWNED, shares, thresholds, warn=warn, critical=thresholds.host_work_critical
    )
    functions = host_functions(signals, shares)
    runs_a_model = has_ops(signals, shares, thresholds)
    fault = fault_of(functions, thresholds, runs_a_model=runs_a_model)
    waits = _waits(signals, shares, fault, thresholds)
    is_fault = (
        fault is not None or waits is not None
        if shares.device is None
        else not shares.host_ops_lead()
    )
    if verdict.status == "fail" and not is_fault:
        is_model = shares.device is not None or runs_a_model
        note = "ops" if is_model else "functions"
        verdict = msgspec.structs.replace(
            verdict, status="pass", severity="info", note=note
        )
    named = _named(signals, shares, functions, fault)
    found = owned_finding(
        _ITEM,
        _OWNED,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        parts=named,
        facts=_share_facts(named, shares, fault, whole=verdict.share_percent),
    )
    if waits is not None and found.status == "fail":
        processes = worker_processes(signals, shares.host) or NO_WORKERS
        return _of_waiting(
            found, waits, processes, shares=shares, thresholds=thresholds
        )
    if found.status == "fail" and shares.system_calls_lead():
        return msgspec.structs.replace(found, actions=_ITEM.chosen("ask_system_once"))
    if found.status == "fail":
        found = _by_its_way(found, signals, shares, fault)
    if fault is None or found.status != "fail":
        return msgspec.structs.replace(found, actions=sized(found.actions, signals))
    if found.saving_ms is None:
        actions = _actions_for(fault, found.actions, signals, rare=False)
        return msgspec.structs.replace(found, actions=actions)
    return _of_one_function(found, fault, shares, signals, thresholds)


def _of_waiting(
    found: Finding,
    waits: Asleep,
    processes: WorkerProcesses,
    *,
    shares: StepShares,
    thresholds: Thresholds,
) -> Finding:
    """Speak of what the step waits for: to work faster gains nothing."""
    kind = "waits_for_nothing"
    actions = _ITEM.chosen("waits")
    for_processes = _are_for(processes, waits)
    if for_processes:
        kind = "waits_for_processes"
        actions = _ITEM.chosen(kind)
        named = processes.cheaper()
        actions = (
            (*named, *actions)
            if named
            else (*actions, _ITEM.action("make_workers_cheaper"))
        )
    elif waits.works:
        kind, actions = "waits_for_thread", _ITEM.chosen("waits_for_thread")
    other = None if for_processes else waits.other
    told = (waits.function, *((other,) if other else ()))
    same = {one.key for one in told}
    rest = (one for one in found.parts if one.key not in same)
    facts = (
        _ITEM.fact(kind, waits.share_percent),
        *_ITEM.facts(worker_cores=waits.workers),
        *(processes.facts() if for_processes else ()),
    )
    work = max((found.share_percent or 0.0) - waits.share_percent, 0.0)
    causes = (
        CauseShare(cause="waits", share_percent=waits.share_percent),
        CauseShare(cause="functions", share_percent=work),
    )
    saving, pattern, hit = found.saving_ms, found.pattern, found.steps_hit
    if saving is not None and len(waits.times_ps) == len(shares.window_ps):
        saving = promise_of(waits.times_ps, shares.window_ps)
        every = thresholds.steps_share.value
        pattern = pattern_of(waits.times_ps, every_percent=every)
        hit = pattern.steps_hit
    return msgspec.structs.replace(
        found,
        pattern=pattern,
        steps_hit=hit,
        causes=tuple(sorted(causes, key=lambda one: -one.share_percent)),
        parts=(*told, *rest),
        workers=processes.functions if for_processes else (),
        facts=(*found.facts, *facts),
        saving_ms=saving,
        actions=actions,
    )


def _are_for(processes: WorkerProcesses, waits: Asleep) -> bool:
    """Return whether waits are for worker processes, as far as anything shows it.

    What they were found to do says more than what they use of the cores: those that
    wait for a disk or a network use none, and are waited for too.
    """
    if processes.time is None:
        return waits.workers is not None
    return processes.work and (waits.workers is not None or not waits.works)


def _by_its_way(
    found: Finding, signals: Signals, shares: StepShares, fault: HostFunction | None
) -> Finding:
    """Advise what fits the way in which the named function spends its time."""
    part = found.parts[0] if found.parts else None
    ways = signals.of(function_ways).get(shares.host)
    if ways is None or part is None:
        return found
    alone = None if fault is None else fault.alone
    way = ways.of(part, shares.device, only=alone)
    if way is None:
        return found
    fitting = _fitting_ways(way)
    vectorise = _ITEM.action("vectorise_loops")
    actions = (
        one
        for action in found.actions
        for one in (fitting if action == vectorise else (action,))
    )
    facts = _ITEM.facts(
        own_lines=way.own,
        one_by_one=way.elements,
        in_libraries=way.libraries,
        off_core=way.waiting,
    )
    return msgspec.structs.replace(
        found, actions=tuple(dict.fromkeys(actions)), facts=(*found.facts, *facts)
    )


def _fitting_ways(way: Way) -> tuple[Action, ...]:
    """Return what to do in place of advice for any work."""
    if way.waiting is not None and way.waiting >= _MOSTLY:
        return _ITEM.chosen("waits")
    if way.own >= _MOSTLY:
        return _ITEM.chosen("vectorise_own_lines")
    if way.elements >= _MOSTLY:
        return _ITEM.chosen("vectorise_elements")
    in_libraries = way.libraries >= _MOSTLY
    return _ITEM.chosen("call_libraries_less" if in_libraries else "vectorise_loops")


def _share_facts(
    named: tuple[Part, ...],
    shares: StepShares,
    fault: HostFunction | None,
    *,
    whole: float | None,
) -> tuple[Fact, ...]:
    """Return the share of the largest part, and whether it speaks for all of them.

    Without a device it does: the finding is about that function.
    """
    share = named[0].share_percent if named else None
    leads = shares.device is None or (share or 0.0) >= _LEADS * (whole or 0.0)
    beside = None if shares.device is None else whole
    alone = share if fault is not None and fault.alone is not None else None
    return _ITEM.facts(
        named_share=share,
        leading_share=share if leads else None,
        beside_device=beside,
        alone_share=alone,
    )


def _waits(
    signals: Signals,
    shares: StepShares,
    fault: HostFunction | None,
    thresholds: Thresholds,
) -> Asleep | None:
    """Return the waits of a host without devices where they outweigh its work."""
    found = None if shares.device is not None else signals.of(asleep).get(shares.host)
    if found is None or found.share_percent < thresholds.host_function.value:
        return None
    work = 0.0 if fault is None else fault.part.share_percent
    return found if 2 * found.share_percent >= work else None


def _named(
    signals: Signals,
    shares: StepShares,
    functions: tuple[HostFunction, ...],
    fault: HostFunction | None,
) -> tuple[Part, ...]:
    """Return the function that holds most of the work, then the parts themselves.

    Without a device functions stand before the model's ops: these are the step.
    """
    parts = shares.parts(OWNER, place="inside")
    if shares.device is not None:
        around = signals.of(enclosing_functions).get(shares.label)
        if around is None:
            return parts
        # What it does itself is a part of what it holds.
        return (around, *(it for it in parts if it.key != around.key))
    # Of a function around the lines that hold most, these are told.
    own = None if fault is None or fault.part.lines is None else fault.part.key
    called = tuple(
        one.part for one in functions if one is not fault and one.part.key != own
    )
    told = {one.key for one in (*called, *((fault.part,) if fault else ()))}
    rest = tuple(
        part
        for part in parts
        if part.function is None or (part.loop and part.key not in told)
    )
    return (*((fault.part,) if fault else ()), *called, *rest)


def _of_one_function(
    found: Finding,
    work: HostFunction,
    shares: StepShares,
    signals: Signals,
    thresholds: Thresholds,
) -> Finding:
    """Promise no more than the named function, where the work is the step itself.

    All that it calls goes with it. Half of that goes at least, for a function is seldom
    removed as a whole.
    """
    whole = _step_ms(shares) * work.part.share_percent / 100
    saving = Saving(low=whole / 2, high=whole)
    times = work.times_ps()
    if sum(times) and len(times) == len(shares.window_ps):
        saving = promise_of(times, shares.window_ps).within(Limits(whole, None))
    # What most steps do without, such as a validation, is not to be made faster first.
    rare = len(times) >= thresholds.outlier_steps.value and 2 * times.count(0) > len(
        times
    )
    return msgspec.structs.replace(
        found,
        saving_ms=saving,
        explained_by=()
        if work.alone is not None
        else rule_of_ops(signals, shares, whole, thresholds),
        actions=_actions_for(work, found.actions, signals, rare=rare),
    )


def _actions_for(
    work: HostFunction, others: tuple[Action, ...], signals: Signals, *, rare: bool
) -> tuple[Action, ...]:
    """Return what to do about a function: by what it does, and how often."""
    others = sized(others, signals)
    if work.is_called_back:
        return (*_ITEM.chosen("called_back"), *others)
    runs = work.runs
    fitting = None if runs is None else _fitting(runs, work, signals)
    if fitting is not None:
        return fitting
    if (
        work.alone is None
        and runs is not None
        and runs.ops_percent(work.part) >= _MOSTLY
    ):
        if rare:
            return _ITEM.chosen("do_it_rarely", "runs_ops")
        return _ITEM.chosen("runs_ops", "move_into_pipeline", "do_it_rarely")
    if not rare:
        return others
    return tuple(dict.fromkeys((_ITEM.action("do_it_rarely"), *others)))


#: Whether the program asks for collections, None where that is unknown → what fits a
#: function that mostly collects garbage.
_COLLECTING: Final[dict[bool | None, str]] = {
    True: "do_not_collect_by_hand",
    False: "collects",
    None: "collects_perhaps_by_hand",
}


def _fitting(
    runs: FunctionRuns, work: HostFunction, signals: Signals
) -> tuple[Action, ...] | None:
    """Return what fits what half of a function's time goes to; None for nothing known.

    The order is that of certainty: a validation also runs ops. What a function does
    beside the model is no question to the model.
    """
    part = work.part
    if runs.mostly_predicts(part):
        return _ITEM.chosen("predicts")
    if runs.mostly_exchanges(part):
        return _ITEM.chosen("exchanges")
    if runs.mostly_collects(part):
        by_hand = signals.of(collected_by_hand).get(runs.host)
        return _ITEM.chosen(_COLLECTING[by_hand])
    for kind in LIBRARY_KINDS:
        if runs.mostly_in(part, kind.is_done_by):
            return _ITEM.chosen(kind.advice)
    asks = work.alone is None and runs.asks_the_model(part)
    return _ITEM.chosen("asks_the_model") if asks else None


def changes(signals: Signals, thresholds: Thresholds) -> tuple[Change, ...]:
    """Let the named function go with all that it calls, on a host without devices."""
    shares = shares_of(_ITEM, _OWNED, signals, thresholds)
    if isinstance(shares, Finding):
        return ()
    fault = fault_of(
        host_functions(signals, shares),
        thresholds,
        runs_a_model=has_ops(signals, shares, thresholds),
    )
    if fault is None or fault.runs is None:
        return ()
    whole = _step_ms(shares) * fault.part.share_percent / 100
    return (fault.runs.without(fault.part, effect_ms=whole, only=fault.alone),)


def _step_ms(shares: StepShares) -> float:
    return shares.total_ps / max(len(shares.window_ps), 1) / PS_PER_MS


RULE: Final = Rule(
    _ITEM,
    evaluate,
    (
        *(*OWNED_READS, *FUNCTION_READS, enclosing_functions),
        *(*OPS_READS, *WORKER_READS, asleep, collected_by_hand, function_ways),
    ),
    changes,
)
