"""Whether a function's time is that of its ops, of which another rule speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stepscope.advice.signals.launches.eager import eager_signals
from stepscope.advice.signals.launches.small import small_ops
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signal, Signals
    from stepscope.thresholds import Thresholds

__all__ = ["OPS_READS", "rule_of_ops"]

#: Signals that `rule_of_ops` reads.
OPS_READS: Final[tuple[Signal[Any], ...]] = (eager_signals, small_ops)


def rule_of_ops(
    signals: Signals, shares: StepShares, whole_ms: float, thresholds: Thresholds
) -> tuple[str, ...]:
    """Return the rule about many ops or tiny ones, where these are a function's time.

    Such a function works between its ops, and that rule says what to change.

    Args:
        signals: Numbers of the profile.
        shares: The account of the host.
        whole_ms: Time of the function in a step, with all that it calls.
        thresholds: The thresholds.
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
