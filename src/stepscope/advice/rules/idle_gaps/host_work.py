"""`host.work`: most of the step is work of the program on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stepscope.advice.catalogue import rule_item
from stepscope.advice.item import rule
from stepscope.advice.judging.host_functions import (
    FUNCTION_READS,
    OWNER,
    host_functions,
    rule_of_ops,
)
from stepscope.advice.judging.lost_time import (
    OWNED_READS,
    Owned,
    judge_owned,
    owned_shares,
)
from stepscope.advice.judging.worker_processes import fit_worker_numbers
from stepscope.derive.facts.evidence import Limits, Part, Saving
from stepscope.derive.facts.hosts.function_divisions import function_divisions
from stepscope.derive.facts.hosts.function_runs import MIN_MAIN_PERCENT
from stepscope.derive.facts.hosts.own_lines import enclosing_functions
from stepscope.derive.facts.program_traits import collected_by_hand
from stepscope.derive.verdicts.effect_status import mean_interval_ms
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.advice.finding import Action, Finding
    from stepscope.advice.judging.host_functions import HostFunction, HostFunctions
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.facts.step_shares import StepShares

_ITEM: Final = rule_item("host.work")

#: The longest function is named if it has at least this share of the host's work.
_MIN_LEADING_PART: Final = 0.5
#: Kinds of work with their own actions, if a function spends half of its time on them;
#: most certain kinds first.
_WORKS: Final = (
    *("flushes", "asks_the_network", "copies", "compiles_patterns", "unpacks"),
    *("parses", "writes", "reports", "works_on_rows"),
    *("decodes_images", "starts_processes"),
    *("grows_arrays", "summarises", "sorts", "factorises", "multiplies"),
    *("draws_numbers",),
)
#: Whether the program calls garbage collections (None: unknown) → action against them.
_COLLECTING: Final[dict[bool | None, str]] = {
    True: "do_not_collect_by_hand",
    False: "collects",
    None: "collects_perhaps_by_hand",
}
_OWNED: Final = Owned(
    parts={"functions": (OWNER,)}, place="inside", host=True, seen=(OWNER,)
)


def change_without_function(signals: Signals) -> Changes:
    """Return what-if edits that remove the blocking function; () if none blocks."""
    shares = owned_shares(_OWNED, signals)
    blocking = host_functions(signals, shares).blocking
    if blocking is None or blocking.time is None:
        return ()
    effect_ms = shares.mean_ms(shares.total_ps) * blocking.part.share_percent / 100
    return (blocking.time.removal_change(effect_ms=effect_ms, only=blocking.alone),)


@rule(
    _ITEM,
    *(*OWNED_READS, *FUNCTION_READS),
    *(enclosing_functions, collected_by_hand, function_divisions),
    change=change_without_function,
)
def evaluate(signals: Signals) -> Finding:
    judged = judge_owned(_ITEM, _OWNED, signals)
    shares, work_percent = judged.shares, judged.verdict.share_percent
    on_device = shares.device is not None
    functions = host_functions(signals, shares)
    blocking = functions.blocking
    is_fault = not shares.host_ops_lead() if on_device else blocking is not None
    if judged.failed and not is_fault:
        # Functions are no fault of a program that consists of them, but a note.
        are_ops = on_device or functions.has_model or not functions.every
        status, note = ("pass", "ops") if are_ops else ("fail", "functions")
        judged = judged.with_verdict(status=status, severity="info", note=note)
    named = _named_parts(signals, shares, functions)
    first = named[0] if named else None
    share = None if first is None else first.share_percent
    # Without a device the finding is always about the first function. With a device, a
    # training loop is not named, because it contains the steps.
    leads = not on_device or (
        first is not None
        and not first.loop
        and first.share_percent >= _MIN_LEADING_PART * (work_percent or 0.0)
    )
    is_alone = blocking is not None and blocking.alone is not None
    finding = judged.finding(
        parts=named,
        facts=_ITEM.facts(
            named_share=share,
            leading_share=share if leads else None,
            beside_device=work_percent if on_device else None,
            alone_share=share if is_alone else None,
        ),
    )
    if finding.status != "fail":
        return finding
    if shares.system_calls_lead():
        return replace(finding, actions=_ITEM.chosen("ask_system_once"))
    if finding.note == "functions":
        finding = replace(finding, saving_ms=None, actions=_ITEM.chosen("plain"))
    finding = _advise_by_time_use(finding, signals, shares, blocking)
    if blocking is None:
        return replace(finding, actions=fit_worker_numbers(finding.actions, signals))
    return _finding_of_function(finding, blocking, signals, shares)


def _named_parts(
    signals: Signals, shares: StepShares, functions: HostFunctions
) -> tuple[Part, ...]:
    """Return the function with most of the work, then the other parts.

    Without a device, functions come before the model's ops, because ops are the step.
    """
    parts, blocking = shares.parts(OWNER, place="inside"), functions.blocking
    if shares.device is not None:
        around = signals.of(enclosing_functions).get(shares.label)
        # The loop around the steps holds all of them, so its own line says more.
        if around is None or around.key in {part.key for part in parts if part.loop}:
            return parts
        # The self time of this function is included in its total time.
        return (around, *(part for part in parts if part.key != around.key))
    first = () if blocking is None else (blocking.part,)
    # If only some lines of a function block, leave out the function as a whole.
    lines_of = {part.key for part in first if part.lines is not None}
    called = tuple(
        function.part
        for function in functions.every
        if function is not blocking and function.part.key not in lines_of
    )
    named = {part.key for part in (*first, *called)}
    remaining = (
        part
        for part in parts
        if part.function is None or (part.loop and part.key not in named)
    )
    return (*first, *called, *remaining)


def _advise_by_time_use(
    finding: Finding, signals: Signals, shares: StepShares, blocker: HostFunction | None
) -> Finding:
    """Choose actions by how the named function spends its time."""
    time_uses = signals.of(function_divisions).get(shares.host)
    if time_uses is None or not finding.parts:
        return finding
    only_in = None if blocker is None else blocker.alone
    time_use = time_uses.division_of_function(
        finding.parts[0], shares.device, only=only_in
    )
    if time_use is None:
        return finding
    keys = {
        "waits": time_use.waiting or 0.0,
        "vectorise_own_lines": time_use.own,
        "vectorise_elements": time_use.elements,
        "call_libraries_less": time_use.libraries,
    }
    mostly = (key for key, percent in keys.items() if percent >= MIN_MAIN_PERCENT)
    key = next(mostly, "vectorise_loops")
    vectorise = _ITEM.action("vectorise_loops")
    actions: Iterable[Action] = (
        fitting
        for action in finding.actions
        for fitting in (_ITEM.chosen(key) if action == vectorise else [action])
    )
    if works := [work for work in _WORKS if work in time_use.works]:
        actions = _ITEM.chosen(works[0])
    facts = _ITEM.facts(
        own_lines=time_use.own,
        one_by_one=time_use.elements,
        in_libraries=time_use.libraries,
        off_core=time_use.waiting,
    )
    named, *others = finding.parts
    return replace(
        finding,
        actions=tuple(dict.fromkeys(actions)),
        facts=(*finding.facts, *facts),
        parts=(replace(named, detail=time_use.called or named.detail), *others),
    )


def _finding_of_function(
    finding: Finding, blocking: HostFunction, signals: Signals, shares: StepShares
) -> Finding:
    """Limit the saving to the time of the blocking function, including its callees."""
    actions, rare = fit_worker_numbers(finding.actions, signals), False
    if finding.saving_ms is not None:
        function_ms = (
            shares.mean_ms(shares.total_ps) * blocking.part.share_percent / 100
        )
        saving = Saving.of_part(function_ms, function_ms)
        times = blocking.times_ps()
        if sum(times) and len(times) == len(shares.window_ps):
            effect_ms = sum(times) / len(times) / PS_PER_MS
            saving = Saving.of_part(effect_ms, mean_interval_ms(times)[0])
        # Work that a minority of steps does, such as a validation, should be rarer.
        enough_steps = len(times) >= THRESHOLDS.outlier_steps.value
        rare = enough_steps and 2 * times.count(0) > len(times)
        by_ops = rule_of_ops(signals, shares, function_ms)
        finding = replace(
            finding,
            saving_ms=saving.within(Limits(function_ms, None)),
            explained_by=() if blocking.alone is not None else by_ops,
        )
    if rare:
        actions = tuple(dict.fromkeys((_ITEM.action("do_it_rarely"), *actions)))
    fitting = _fitting_groups(blocking, signals, rare=rare)
    if blocking.is_called_back:
        return replace(finding, actions=(*_ITEM.chosen("called_back"), *actions))
    return replace(finding, actions=_ITEM.chosen(*fitting) if fitting else actions)


def _fitting_groups(
    blocking: HostFunction, signals: Signals, *, rare: bool
) -> tuple[str, ...]:
    """Return actions against the work on which a function spends half of its time.

    The most certain kind of work comes first: a validation, for example, also runs ops.
    Work of a function outside the model's calls is not a call of the model.
    """
    time = blocking.time
    if time is None:
        return ()
    runs = time.runs
    percents: dict[str, float] = {
        "exchanges": time.percent_within(runs.exchanging),
        _COLLECTING[signals.of(collected_by_hand).get(runs.host)]: time.percent_within(
            runs.collecting
        ),
        **{work: time.percent_of_work(work) for work in _WORKS},
    }
    does = (group for group, percent in percents.items() if percent >= MIN_MAIN_PERCENT)
    group = "predicts" if time.mostly_predicts else next(does, None)
    if group is not None or blocking.alone is not None:
        return () if group is None else (group,)
    if time.asks_the_model:
        return ("asks_the_model",)
    if time.ops_percent < MIN_MAIN_PERCENT:
        return ()
    runs_ops = "runs_ops_and_numpy" if time.calls_numpy else "runs_ops"
    if rare:
        return ("do_it_rarely", runs_ops)
    return (runs_ops, "move_into_pipeline", "do_it_rarely")
