"""Rules about all-reduces: what all of them ask before they judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.advice.catalogue import shared_texts
from stepscope.derive.facts.devices.exchanges import (
    communication_signals,
    exchange_signals,
)
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.replaying.edits import Carried
from stepscope.derive.judging.recorded_devices import device_signals
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding
    from stepscope.advice.item import Item
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.exchanges import ExchangeSignals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.run_derivation import RunDerivation

_TEXTS: Final = shared_texts("exchanged")

#: The signals that a rule about all-reduces asks for.
EXCHANGE_READS: Final[tuple[RunDerivation[Any], ...]] = (
    communication_signals,
    device_signals,
    exchange_signals,
    record_grade,
)
_REDUCING: Final = "all-reduce"
#: Kinds of exchange of programs that divide the model, or its state, among devices.
_DIVIDING: Final = frozenset({"reduce-scatter", "all-gather", "all-to-all"})


def exchanges_of(item: Item, signals: Signals) -> ExchangeSignals | Finding:
    """Return the all-reduces that are judged, or the finding that says why none are."""
    if signals.of(device_signals).recorded == "host_only":
        return item.not_applicable(_TEXTS.reason("no_device"))
    exchanged = signals.of(communication_signals)
    if isinstance(exchanged, Unavailable):
        return item.cannot_tell(exchanged)
    if not any(exchanged.count.values()):
        return item.not_applicable(_TEXTS.reason("no_exchange"))
    found = signals.of(exchange_signals)
    if isinstance(found, Unavailable):
        return item.cannot_tell(found)
    if found.count and not found.kinds & _DIVIDING:
        return found
    return _left_out(item, found)


def at_rate(calls: pl.DataFrame, needed_ps: pl.Expr) -> tuple[Change, ...]:
    """Return the change that some all-reduces take what they need.

    Args:
        calls: Rows of `ExchangeSignals.calls`.
        needed_ps: What each needs, without waiting for other workers.
    """
    # What a worker waits for the others stays as it was.
    lost = (pl.col("least_ps") - needed_ps).clip(lower_bound=0)
    left = calls.select("activity", left=(pl.col("dur_ps") - lost).cast(pl.Int64))
    needed = dict(left.iter_rows())
    return (Carried(needed),) if needed else ()


def _left_out(item: Item, found: ExchangeSignals) -> Finding:
    """Say why exchanges are not judged that were recorded."""
    if found.kinds & _DIVIDING:
        return item.not_applicable(_TEXTS.reason("divided"))
    if _REDUCING in found.kinds:
        return item.cannot_tell(_TEXTS.reason("in_no_step"))
    return item.not_applicable(_TEXTS.reason("no_exchange"))


def without_sizes(found: ExchangeSignals) -> Unavailable:
    """Return why all-reduces without sizes are not judged, and how much it is about."""
    share = 100 * sum(found.exposed_ps) / max(sum(found.window_ps), 1)
    return _TEXTS.reason("without_sizes", share=share)
