"""Functions of the program on a host without devices: which function blocks steps.

Without devices the ops of a model are work of the host too. Functions that call ops are
therefore distinguished from functions that block the model. The purpose of a function
is derived from the library functions that it calls, never from its own name.

Definition: docs/advice/host_work.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepscope.derive.facts.devices.small_work import small_ops
from stepscope.derive.facts.hosts.callbacks import CalledBack, called_back
from stepscope.derive.facts.hosts.eager_ops import eager_signals
from stepscope.derive.facts.hosts.function_runs import MIN_MAIN_PERCENT, function_runs
from stepscope.derive.facts.processors import asleep
from stepscope.derive.frameworks import PLAIN, frameworks_used
from stepscope.derive.host.function_frames import MIN_INTERVAL_SAMPLES
from stepscope.frozen import Frozen
from stepscope.patterns import COLLECTIONS
from stepscope.thresholds import THRESHOLDS
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.hosts.function_runs import FunctionRuns, FunctionTime
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.intervals.spans import Spans
    from stepscope.derive.run_derivation import RunDerivation

#: The cause (owner) that the functions' time is attributed to.
OWNER: Final = "host_compute"
#: Signals that the functions of this module read.
FUNCTION_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *(function_runs, frameworks_used, called_back, asleep, eager_signals, small_ops),
)
#: Kinds of host work that are never the purpose of a program, so they can be removed.
_WASTE: Final = ("copies", "compiles_patterns", "reports", "works_on_rows")


class HostFunction(Frozen, frozen=True, eq=True):
    """A function that the steps of a host without devices call.

    Attributes:
        part: The function and its share of the steps, in total time.
        own_percent: The function's share of the steps in self time.
        time: When the function ran; None if only its self time is known.
        calls_model: Whether the function calls the ops of the model.
        is_step: Whether the model runs during the function: only its self time counts.
        is_called_back: Whether an op of the compiled step calls the function.
        is_seen: Whether its share of the steps is based on calls, or on enough samples.
        alone: When the function works while no op runs; then only this time counts. Set
            only if the model also runs during the function, or seems to.
        scale: Factor for the time of `alone`, if samples are too rare for single steps.
    """

    part: Part
    own_percent: float
    time: FunctionTime | None = None
    calls_model: bool = False
    is_step: bool = True
    is_called_back: bool = False
    is_seen: bool = True
    alone: Spans | None = None
    scale: float = 1.0

    def times_ps(self) -> tuple[int, ...]:
        """Return the function's time in each judged step; () if unknown."""
        if self.time is None or self.alone is None:
            return () if self.time is None else self.time.times_ps
        starts, ends = self.time.runs.starts_ps, self.time.runs.ends_ps
        times = self.scale * self.alone.within(starts, ends)
        return tuple(np.minimum(times, ends - starts).astype(np.int64).tolist())

    def holds_up(self) -> bool:
        """Return whether the function takes much of the step and is not the model.

        The function's self time counts; its total time counts only if the model does
        not run inside. A function with too few samples has no known duration.
        """
        if self.calls_model or not self.is_seen:
            return False
        total_percent = 0.0 if self.is_step else self.part.share_percent
        return max(self.own_percent, total_percent) >= THRESHOLDS.host_function.value

    def does_waste(self) -> bool:
        """Return whether the function takes much of the step for avoidable work.

        Avoidable work leaves much garbage (a sign of work on single Python objects), or
        takes half of the function's time and is of the kinds in `_WASTE`. A function
        that was called once is the program itself.
        """
        time = self.time
        if time is None or not self.holds_up() or not time.repeats:
            return False
        if time.percent_within(time.runs.collecting) >= MIN_MAIN_PERCENT:
            return False
        litters = time.collects_percent >= THRESHOLDS.host_work_warn.value
        return litters or any(
            time.percent_of_work(work) >= MIN_MAIN_PERCENT for work in _WASTE
        )


class HostFunctions(Frozen, frozen=True):
    """The functions that do most of the work of the judged host.

    Attributes:
        every: All functions that do most of the work.
        has_model: Whether there is a model; if not, the functions are the step.
        blocking: The function that blocks the steps; None if no function does.
    """

    every: tuple[HostFunction, ...]
    has_model: bool
    blocking: HostFunction | None


def host_functions(signals: Signals, shares: StepShares) -> HostFunctions:
    """Return the functions of a host without devices; empty if the host has devices."""
    functions = () if shares.device is not None else _busy_functions(signals, shares)
    has_model = _has_model(signals, shares)
    blamed = HostFunction.holds_up if has_model else HostFunction.does_waste
    large = sorted(
        (function for function in functions if blamed(function)),
        key=lambda function: -function.part.share_percent,
    )
    blocking = large[0] if large else None
    # If the model runs during a function, only the function's self time is work.
    nested = [
        (one, one.time)
        for one in large
        if one.time is not None
        and one.alone is None
        and not (has_model and one.is_step)
    ]
    if nested and nested[0][0] is blocking:
        innermost = nested[0][1].runs.innermost_called([time for _, time in nested])
        blocking = nested[innermost][0]
    return HostFunctions(functions, has_model, blocking)


def _busy_functions(signals: Signals, shares: StepShares) -> tuple[HostFunction, ...]:
    """Return the functions that do most of the host's work in steps.

    The step consists of the self time of the training loop, of libraries that run the
    loop, and of functions that call the model. Lines whose work is separate from the
    model are returned too.
    """
    runs = signals.of(function_runs).get(shares.host)
    accounted = shares.parts(OWNER, place="inside")
    parts = {
        part.key: part
        for part in accounted
        if part.function is not None and not part.loop
    }
    if runs is not None:
        caller = shares.caller(OWNER, place="inside")
        if caller is not None:
            # The caller's self time may be too small to be among the listed functions.
            caller = msgspec.structs.replace(caller, share_percent=0.0)
            parts.setdefault(caller.key, caller)
        if signals.of(frameworks_used) not in ((), PLAIN):
            # If all work of a function is framework ops, the function has no self time.
            for part in runs.own_functions():
                parts.setdefault(part.key, part)
    called = signals.of(called_back).get(shares.host, CalledBack())
    of_ops = {part.key for part in (*called.working, *called.looking)}
    functions = [
        _judged_function(part, runs, shares)
        for key, part in parts.items()
        if key not in of_ops
    ]
    if runs is not None:
        around = {part.key: part for part in accounted if part.loop}
        for function in functions:
            if function.calls_model:
                around.setdefault(function.part.key, function.part)
        for part in around.values():
            functions += _working_lines(part, runs, shares)
    # A callback of an op is not the training step, even if the model runs in parallel.
    # A callback that only inspects the program belongs to `debug.print`.
    functions += [
        HostFunction(part, part.share_percent, is_called_back=True)
        for part in called.working
    ]
    return tuple(functions)


def _judged_function(
    part: Part, runs: FunctionRuns | None, shares: StepShares
) -> HostFunction:
    own = part.share_percent
    if runs is None:
        return HostFunction(part, own)
    time = runs.time_of_function(part)
    total_percent = 100 * sum(time.times_ps) / max(shares.total_ps, 1)
    # A model that only predicts is not being trained during this function.
    trains = not time.mostly_predicts
    samples = time.looks
    function = HostFunction(
        msgspec.structs.replace(
            part, share_percent=max(own, total_percent), inclusive=total_percent > own
        ),
        own,
        time,
        calls_model=trains and time.calls_the_model,
        is_step=trains and (time.is_in_the_model or time.is_the_step),
        is_seen=samples is None or samples >= MIN_INTERVAL_SAMPLES,
    )
    if not function.calls_model or not len(time.alone):
        return function
    # If samples are late, a function seems to call the ops that run after it. A
    # function that really calls the model may also work between the model's ops.
    share = 100 * time.alone.length_ps / max(shares.total_ps, 1)
    return msgspec.structs.replace(
        function,
        part=msgspec.structs.replace(part, share_percent=share, inclusive=False),
        own_percent=share,
        calls_model=False,
        is_step=True,
        alone=time.alone,
    )


def _working_lines(
    part: Part, runs: FunctionRuns, shares: StepShares
) -> Iterator[HostFunction]:
    """Yield lines around the model whose work is separate from the model."""
    for lines in runs.time_of_function(part).own_lines:
        time_ps, scale = lines.working.length_ps, 1.0
        if runs.is_blurred and time_ps:
            # The interval that a sample stands for includes other lines too.
            scale = max(lines.sampled_ps / time_ps, 1.0)
        share = 100 * time_ps * scale / max(shares.total_ps, 1)
        of_lines = lines.part_of_function(part, share)
        yield HostFunction(
            of_lines,
            share,
            runs.time_of_function(of_lines),
            is_seen=lines.looks >= MIN_INTERVAL_SAMPLES,
            alone=lines.working,
            scale=scale,
        )


def _has_model(signals: Signals, shares: StepShares) -> bool:
    """Return whether there is a model; if not, the functions are the step.

    In a framework's program any op indicates a model, even if ops take little time.
    """
    ops_ps = sum(
        work.time_ps
        for work in shares.named(OWNER, place="inside")
        if work.function is None
        and work.name is not None
        and work.name not in COLLECTIONS
    )
    of_framework = signals.of(frameworks_used) not in ((), PLAIN)
    limit = 0.0 if of_framework else THRESHOLDS.host_work_warn.value * shares.total_ps
    return 100 * ops_ps >= max(limit, 1)


def rule_of_ops(
    signals: Signals, shares: StepShares, whole_ms: float
) -> tuple[str, ...]:
    """Return the rule on many or tiny ops, if a function's time is in such ops.

    A function with such ops works between the ops, and the actions of that rule fit.

    Args:
        whole_ms: Total time of the function in a step.
    """
    least_ps = THRESHOLDS.explained_share.value / 100 * whole_ms * PS_PER_MS
    steps = max(len(shares.window_ps), 1)
    eager = signals.known(eager_signals)
    ops = None if eager is None else eager.hosts.get(shares.host)
    if ops is not None and ops.lead(THRESHOLDS):
        return ("launch.eager",) if sum(ops.dispatch_ps) / steps >= least_ps else ()
    tiny = (signals.known(small_ops) or {}).get(shares.host)
    if tiny is None:
        return ()
    ways_ps, own_ps = sum(tiny.dispatch_ps), sum(tiny.own_ps)
    if 100 * ways_ps < THRESHOLDS.launch_warn.value * shares.total_ps:
        return ()
    return ("launch.small",) if (ways_ps + own_ps) / steps >= least_ps else ()


def are_ops_of_function(
    signals: Signals, shares: StepShares, caller: Part | None
) -> bool:
    """Return whether the function that `host.work` is about calls the ops.

    If so, removing the function also removes the ops, and compiling would not help.

    Args:
        caller: The function that calls the ops; None if unknown.
    """
    if caller is None or "wait" in signals.of(asleep).get(shares.host, {}):
        return False
    blocking = host_functions(signals, shares).blocking
    if blocking is None or blocking.part.key != caller.key:
        return False
    whole_ms = shares.mean_ms(shares.total_ps) * blocking.part.share_percent / 100
    return not rule_of_ops(signals, shares, whole_ms)
