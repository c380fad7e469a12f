"""`host.work`: the step is work, or waiting, of the program itself, on the host.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.host_functions import (
    FUNCTION_READS,
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
from stepscope.advice.judging.waited import (
    WAITING_ACTIONS,
    WAITING_LEAD,
    of_waiting,
)
from stepscope.advice.judging.work_actions import (
    ACTIONS,
    ASKS,
    CALLED_BACK,
    COLLECTING,
    ELEMENTS,
    EXCHANGES,
    IN_LIBRARIES,
    LIBRARY_KINDS,
    ONCE,
    OWN_LINES,
    PIPELINE,
    PREDICTS,
    RARELY,
    RUNS_OPS,
    VECTORISE,
    WAITS,
)
from stepscope.advice.judging.worker_processes import (
    NO_WORKERS,
    WORKER_READS,
    sized,
    worker_processes,
)
from stepscope.advice.rule import Rule
from stepscope.advice.verdict import promise_of
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.evidence import Fact, Limits, Part, Saving
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

#: What takes this share of a function, in percent, is what the function does.
_MOSTLY: Final = 50.0
#: A part of this share of the work is what the work is.
_LEADS: Final = 0.5
_OWNED: Final = Owned(
    parts={"functions": (OWNER,)}, place="inside", host=True, seen=(OWNER,)
)
_NAMED: Final = (
    *WAITING_LEAD,
    (
        "{subject} holds {named_share} of the step; work on the host takes "
        "{beside_device} in all, {ms_per_step} a step."
    ),
    "{subject} takes {alone_share} of the step, in which no op of a model runs.",
    "{subject} holds {leading_share} of the step, with all that it calls.",
    "{title}: {share_percent} of the time, {ms_per_step} a step.",
    "{title}: {share_percent} of the time.",
)
_WORDS: Final = Words(
    passed="no work of the program itself holds the step up",
    lead=(
        *WAITING_LEAD,
        (
            "Work on the host: {function} takes {alone_share} of the step, in which no "
            "op of a model runs."
        ),
        (
            "Work on the host: {function} holds {leading_share} of the step, with all "
            "that it calls."
        ),
        (
            "Work on the host holds {share_percent} of the step: {named}, "
            "{leading_share} with all that it calls."
        ),
        (
            "Work on the host holds {share_percent} of the step, the largest part of "
            "it in {named}: {named_share}."
        ),
        "Work on the host holds {share_percent} of the step.",
    ),
    texts={
        **WAITING,
        ("fail", None): (_NAMED, ("{pattern}",)),
        ("pass", "ops"): (
            ("The host's work is the ops of the model: {share_percent} of the time.",),
        ),
        ("pass", "functions"): (
            (
                (
                    "Without ops of a model the program's functions are the step: "
                    "{named}, {named_share} of the time."
                ),
                (
                    "Without ops of a model the program's functions are the step: "
                    "{share_percent} of the time."
                ),
            ),
        ),
    },
    causes={
        "functions": "work of the program on the host",
        "waits": "waiting of the program's own thread",
    },
)
_ITEM: Final = Item(
    id="host.work",
    stage=2,
    title="work on the host holds the step",
    words=_WORDS,
    pages=("overview_page", "framework_op_stats"),
    confirm="Look at the ranges: the named function runs, and nothing else does.",
    refute="Replace the named function by a stored result: if the step takes as long, "
    "it is not what it waits for.",
    actions=ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time inside steps in which the host works for itself."""
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
        return of_waiting(found, waits, processes, shares, thresholds)
    if found.status == "fail" and shares.system_calls_lead():
        return msgspec.structs.replace(found, actions=(ONCE,))
    if found.status == "fail":
        found = _by_its_way(found, signals, shares, fault)
    if fault is None or found.status != "fail":
        return msgspec.structs.replace(found, actions=sized(found.actions, signals))
    if found.saving_ms is None:
        actions = _actions_for(fault, found.actions, signals, rare=False)
        return msgspec.structs.replace(found, actions=actions)
    return _of_one_function(found, fault, shares, signals, thresholds)


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
    actions = (
        one
        for action in found.actions
        for one in (fitting if action == VECTORISE else (action,))
    )
    facts = (
        Fact(name="own_lines", value=way.own, unit="percent"),
        Fact(name="one_by_one", value=way.elements, unit="percent"),
        Fact(name="in_libraries", value=way.libraries, unit="percent"),
        Fact(name="off_core", value=way.waiting, unit="percent"),
    )
    return msgspec.structs.replace(
        found, actions=tuple(dict.fromkeys(actions)), facts=(*found.facts, *facts)
    )


def _fitting_ways(way: Way) -> tuple[Action, ...]:
    """Return what to do in place of advice for any work."""
    if way.waiting is not None and way.waiting >= _MOSTLY:
        return WAITS
    if way.own >= _MOSTLY:
        return (OWN_LINES,)
    if way.elements >= _MOSTLY:
        return (ELEMENTS,)
    return (IN_LIBRARIES,) if way.libraries >= _MOSTLY else (VECTORISE,)


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
    return (
        Fact(name="named_share", value=share, unit="percent"),
        Fact(name="leading_share", value=share if leads else None, unit="percent"),
        Fact(name="beside_device", value=beside, unit="percent"),
        Fact(name="alone_share", value=alone, unit="percent"),
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
        return (*CALLED_BACK, *others)
    runs = work.runs
    fitting = None if runs is None else _fitting(runs, work, signals)
    if fitting is not None:
        return fitting
    if (
        work.alone is None
        and runs is not None
        and runs.ops_percent(work.part) >= _MOSTLY
    ):
        return (RARELY, *RUNS_OPS) if rare else (*RUNS_OPS, PIPELINE, RARELY)
    return tuple(dict.fromkeys((RARELY, *others))) if rare else others


def _fitting(
    runs: FunctionRuns, work: HostFunction, signals: Signals
) -> tuple[Action, ...] | None:
    """Return what fits what half of a function's time goes to; None for nothing known.

    The order is that of certainty: a validation also runs ops. What a function does
    beside the model is no question to the model.
    """
    part = work.part
    for does_it, actions in (
        (runs.mostly_predicts, PREDICTS),
        (runs.mostly_exchanges, EXCHANGES),
    ):
        if does_it(part):
            return actions
    if runs.mostly_collects(part):
        by_hand = signals.of(collected_by_hand).get(runs.host)
        return COLLECTING[by_hand]
    for kind in LIBRARY_KINDS:
        if runs.mostly_in(part, kind.is_done_by):
            return kind.actions
    return ASKS if work.alone is None and runs.asks_the_model(part) else None


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
    advises=WAITING_ACTIONS,
)
