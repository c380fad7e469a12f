"""Whether a function's time is that of its ops, or ops are those of a function.

One of two rules speaks of that time then, and names what the other would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.advice.judging.host_functions import (
    FUNCTION_READS,
    fault_of,
    has_ops,
    host_functions,
)
from stepscope.derive.facts.devices.small_work import small_ops
from stepscope.derive.facts.hosts.eager_ops import eager_signals
from stepscope.derive.facts.processors import asleep
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.evidence import Part
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Thresholds

#: Signals that `rule_of_ops` reads.
OPS_READS: Final[tuple[RunDerivation[Any], ...]] = (eager_signals, small_ops)
#: Signals that `are_of_a_function` reads.
OF_FUNCTION_READS: Final[tuple[RunDerivation[Any], ...]] = (
    *(*OPS_READS, *FUNCTION_READS, asleep),
)


def rule_of_ops(
    signals: Signals, shares: StepShares, whole_ms: float, thresholds: Thresholds
) -> tuple[str, ...]:
    """Return the rule about many ops or tiny ones, where these are a function's time.

    Such a function works between its ops, and that rule says what to change.

    Args:
        whole_ms: Time of the function in a step, with all that it calls.
    """
    least_ps = thresholds.explained_share.value / 100 * whole_ms * PS_PER_MS
    steps = max(len(shares.window_ps), 1)
    found = signals.of(eager_signals)
    ops = None if isinstance(found, Unavailable) else found.hosts.get(shares.host)
    if ops is not None and ops.lead(thresholds):
        eager = sum(ops.dispatch_ps) / steps >= least_ps
        return ("launch.eager",) if eager else ()
    hosts = signals.of(small_ops)
    tiny = None if isinstance(hosts, Unavailable) else hosts.get(shares.host)
    if tiny is None:
        return ()
    ways_ps, own_ps = sum(tiny.dispatch_ps), sum(tiny.own_ps)
    if 100 * ways_ps < thresholds.launch_warn.value * shares.total_ps:
        return ()
    return ("launch.small",) if (ways_ps + own_ps) / steps >= least_ps else ()


def are_of_a_function(
    signals: Signals, shares: StepShares, caller: Part | None, thresholds: Thresholds
) -> bool:
    """Return whether ops are called by the function that `host.work` is about.

    What it does beside the model is to go or to be done otherwise, and its ops with it:
    to compile the step would not mend it.

    Args:
        caller: The function that calls the ops; None where none is known.
    """
    if caller is None or signals.of(asleep).get(shares.host) is not None:
        return False
    fault = fault_of(
        host_functions(signals, shares),
        thresholds,
        runs_a_model=has_ops(signals, shares, thresholds),
    )
    if fault is None:
        return False
    named = fault.part
    same = (named.function, named.file, named.line) == (
        *(caller.function, caller.file, caller.line),
    )
    step_ms = shares.total_ps / max(len(shares.window_ps), 1) / PS_PER_MS
    whole_ms = step_ms * named.share_percent / 100
    return same and not rule_of_ops(signals, shares, whole_ms, thresholds)
