"""What else a step gains where the time of a cause goes: its other work runs faster.

Definition: docs/definitions/judging.md#gain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.signals.loading.busy_threads import slowed_by_input
from stepscope.advice.signals.shares import account_signals
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.signals.shares import StepShares
    from stepscope.advice.signals.signal import Signals

__all__ = ["READS", "with_rest_of_step"]

READS: Final = (account_signals, slowed_by_input)
#: Ops that run on the cores of the cause are slower beside it: a wait leaves caches
#: cold and threads asleep. Undoing faults gained by so much more than their own time,
#: but for a few, where the work of the steps was on the host (docs/findings.md).
_MORE: Final = 0.2
#: The part of the rest of a step that goes at most: what it does is still done.
_MOST: Final = 0.75
#: What has just been compiled runs for the first time. That took 5 to 10 times as long
#: as later runs, and besides up to a quarter of what compiling took
#: (docs/decisions/0022-the-whole-effect.md).
_FIRST_RUN: Final = 0.2
_MOST_OF_FIRST_RUN: Final = 0.95


def with_rest_of_step(finding: Finding, signals: Signals) -> Finding:
    """Promise what the rest of the step gains as well, where it runs on the host.

    A device's work does not depend on what the host's caches hold, so that a finding
    about a device stays as it is. The rest itself does not go.
    """
    saving = finding.saving_ms
    shares = _host_of(finding, signals)
    if saving is None or shares is None or saving.high <= 0:
        return finding
    step_ms = shares.total_ps / len(shares.window_ps) / PS_PER_MS
    more, most, slowed = _MORE, _MOST, None
    if finding.owners == ("compile",):
        more, most = more + _FIRST_RUN, _MOST_OF_FIRST_RUN
    if "input" in finding.owners:
        slowed = signals.of(slowed_by_input).get(shares.host)
    rest_ms = max(step_ms - saving.high, 0.0)
    gained = more * saving.high + (slowed.most_ms if slowed else 0.0)
    high = saving.high + min(gained, most * rest_ms)
    least = saving.low * (1 + more) + (slowed.full_ms / 2 if slowed else 0.0)
    # A low end that is half of the high one stays so; a higher one is no less certain.
    low = max(min(least, high / 2), saving.low)
    return msgspec.structs.replace(
        finding, saving_ms=msgspec.structs.replace(saving, low=low, high=high)
    )


def _host_of(finding: Finding, signals: Signals) -> StepShares | None:
    """Return the host whose steps a finding is about; None for a device's."""
    found = signals.of(account_signals)
    if isinstance(found, Unavailable) or not finding.devices:
        return None
    return next(
        (
            one
            for one in found.shares
            if one.label == finding.devices[0] and one.device is None and one.window_ps
        ),
        None,
    )
