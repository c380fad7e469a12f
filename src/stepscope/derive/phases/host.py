"""`host_phases`: in which phase of a step each event of the host happened.

There are three kinds of evidence, the strongest first: the ranges of a backward pass
and of an optimizer, to which everything in them belongs; the innermost named op or
range around an event; and a gradient, which makes its op one of the forward pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope._core.nesting import inherit
from stepscope.derive.columns.arrays import handles
from stepscope.derive.host.values import int_values
from stepscope.derive.phases.rules import (
    FIRM,
    PHASES,
    UNKNOWN_PHASE,
    op_phases,
    range_phases,
)
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.reading.nullable import is_true
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.intervals.nesting import Nesting


class HostPhases(Frozen, frozen=True):
    """The phase of each row of events, uint8 positions in `PHASES`.

    Attributes:
        firm: The phase of the range around an event whose contents all belong to it.
        loose: The phase of the innermost op or range around it that has one.
        ops: The phase by row of `ops` of `host_op_events`, from the names alone.
    """

    firm: NDArray[np.uint8]
    loose: NDArray[np.uint8]
    ops: NDArray[np.uint8]

    def of_ops(self, host_ops: HostOpEvents) -> NDArray[np.uint8]:
        """Return the phase of each execution of an op."""
        return self.refined(host_ops.event, self.ops[host_ops.op])

    def refined(
        self, event: NDArray[np.integer], named: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Return the phases of work whose own names give evidence too.

        Args:
            event: The events in which the work was done or launched; -1 for none.
            named: The phases that its names alone give.
        """
        firm = by_row(self.firm, event, none=UNKNOWN_PHASE)
        loose = by_row(self.loose, event, none=UNKNOWN_PHASE)
        weak = np.where(named != UNKNOWN_PHASE, named, loose)
        return np.where(firm != UNKNOWN_PHASE, firm, weak)


def host_phases(
    *,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_nesting: Nesting,
    host_op_events: HostOpEvents,
    host_values: Mapping[str, StatRows] | Unavailable,
) -> HostPhases:
    """Find the phase of every event by ranges, names of ops and gradients."""
    named = _op_names(host_op_events)
    firm_codes = [PHASES.index(phase) for phase in FIRM]
    of_type = range_phases(event_types["name"]).astype(np.int32)
    types = handles(events, "type")
    own = by_row(_labels(of_type), types)
    is_firm = np.isin(of_type, firm_codes)
    # Most recordings have no such ranges: nothing is written for each event then.
    firm: NDArray[np.int32] = np.broadcast_to(np.int32(-1), types.shape)
    if is_firm.any():
        firm = by_row(np.where(is_firm, of_type, np.int32(-1)), types)
        _hand_down(event_nesting, firm)
    # Calls of functions hold ops of all phases.
    calls = is_true(host_op_events.ops["call"])
    of_op = np.where(calls, UNKNOWN_PHASE, named).astype(np.int32)
    op_label = by_row(_labels(of_op), host_op_events.op)
    at = host_op_events.event
    own[at] = np.where(op_label >= 0, op_label, by_row(own, at))
    _hand_down(event_nesting, own)
    # Most recordings have no links between passes.
    if not isinstance(host_values, Unavailable) and len(
        host_values[StatKey.FORWARD_BACKWARD].owner
    ):
        linked = _with_gradients(host_values, firm, rows=len(own))
        _hand_down(event_nesting, linked)
        own = np.where(own >= 0, own, linked)
    return HostPhases(_codes(firm), _codes(own), named)


def _op_names(host_ops: HostOpEvents) -> NDArray[np.uint8]:
    return op_phases(host_ops.ops["name"], host_ops.ops["type"])


def _with_gradients(
    values: Mapping[str, StatRows], firm: NDArray[np.int32], *, rows: int
) -> NDArray[np.int32]:
    """Label the forward end of every link whose other end is in a backward pass."""
    event, link = int_values(values[StatKey.FORWARD_BACKWARD])
    label = np.full(rows, -1, np.int32)
    backward = firm[event] == PHASES.index("backward")
    forward = ~backward & np.isin(link, link[backward])
    label[event[forward]] = PHASES.index("forward")
    return label


def _labels(phase: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the phases as labels, -1 for the unknown phase."""
    return np.where(phase == UNKNOWN_PHASE, np.int32(-1), phase)


def _codes(label: NDArray[np.int32]) -> NDArray[np.uint8]:
    code = label.astype(np.uint8)
    np.copyto(code, UNKNOWN_PHASE, where=label < 0)
    return code


def _hand_down(nesting: Nesting, label: NDArray[np.int32]) -> None:
    answer = inherit(nesting.parent, label, 0, len(label))
    if answer < 0:
        raise ValueError(f"the kernel refused its arrays ({answer})")
