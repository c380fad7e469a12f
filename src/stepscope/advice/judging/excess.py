"""What the worker with most work does more of than the others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.several.workers import HOST_WORK
from stepscope.derive.step_time.owners import OWNERS
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.signals.shares import AccountSignals, StepShares

__all__ = ["most_of_excess"]

_OWNERS: Final = frozenset(one.name for one in OWNERS if one.category in HOST_WORK)
#: The part of the excess that a name has to hold.
_MOST: Final = 0.5


def most_of_excess(
    accounted: AccountSignals, busiest: str, excess_ms: float
) -> str | None:
    """Return the name that takes most of a worker's excess; None where none does.

    Only workers without devices are compared: the account does not name the work of a
    device.

    Args:
        accounted: The account of all workers.
        busiest: Label of the worker.
        excess_ms: What it has to do beyond the median of the others, in a step.
    """
    by_worker = {
        one.label: _named_ms(one) for one in accounted.shares if one.device is None
    }
    others = [named for label, named in by_worker.items() if label != busiest]
    if busiest not in by_worker or not others:
        return None
    beyond = {
        name: ms - float(np.median([other.get(name, 0.0) for other in others]))
        for name, ms in by_worker[busiest].items()
    }
    most = max(beyond, key=beyond.__getitem__, default=None)
    return most if most is not None and beyond[most] >= _MOST * excess_ms else None


def _named_ms(shares: StepShares) -> dict[str, float]:
    """Return the named parts of a host's own work in a step, in milliseconds."""
    found: Counter[str] = Counter()
    for one in shares.names:
        if one.owner in _OWNERS and one.name is not None and not one.loop:
            found[one.name] += one.time_ps
    steps = len(shares.window_ps)
    return {name: ps / PS_PER_MS / steps for name, ps in found.items()}
