"""FLOPs and bytes of calls, against a plain walk over executions and activities."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, Derived

from stepscope.analysis.framework_op_stats.shapes import call_costs
from stepscope.analysis.framework_op_stats.work import CALLS, OpWork
from stepscope.derive.device.activity_classes import device_executions
from stepscope.derive.device.attribution import activity_ops
from stepscope.derive.host.op_events import host_op_events
from stepscope.derive.ops.execution_costs import execution_costs, run_costs

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN = -1
#: `aten::dropout` only calls other ops.
TYPES = ("aten::mm", "aten::dropout", None)


def work_of(
    types: Sequence[str | None],
    events: Sequence[int],
    of_devices: int = 0,
    activity: Sequence[tuple[int, int]] = (),
    *,
    absent: Sequence[str] = (),
) -> OpWork:
    """Calls that host events show, then some of devices; activities and their calls."""
    nothing = np.empty(0, np.int64)
    rows, calls = (np.array([pair[at] for pair in activity], np.int64) for at in (0, 1))
    table = pl.DataFrame(
        [
            {"op": "op", "type": op_type, "event": event}
            for op_type, event in zip(types, events, strict=True)
        ]
        + [{"op": "op", "type": None, "event": None}] * of_devices,
        schema={name: CALLS[name] for name in ("op", "type", "event")},
    )
    reasons = dict.fromkeys(absent, ABSENT)
    return OpWork("vm", table, len(types), rows, calls, nothing, nothing, reasons)


def costs_of(run: Derived, work: OpWork) -> list[tuple[int | None, int | None]]:
    frame = call_costs(run, work)  # type: ignore[arg-type]
    assert frame.columns == ["flops", "accessed_bytes"]
    return frame.rows()


class Drawn:
    """Executions in each other, of which some are calls of the op."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - no secret
        count = 12
        self.parent = [
            chance.choice([UNKNOWN, *range(max(0, row - 3), row)])
            for row in range(count)
        ]
        self.depth = [
            self.parent[row] >= 0 and self.depth_of(row) for row in range(count)
        ]
        of_cost = [UNKNOWN, UNKNOWN, 0, 10, 200, 3000]
        self.flops = [chance.choice(of_cost) for _ in range(count)]
        self.accessed = [chance.choice(of_cost) for _ in range(count)]
        self.launched = [chance.random() < 0.6 for _ in range(count)]
        self.called = [row for row in range(count) if chance.random() < 0.4]
        self.types = [chance.choice(TYPES) for _ in self.called]
        self.has_devices = chance.random() < 0.7

    def depth_of(self, row: int) -> int:
        above = self.parent[row]
        return 0 if above < 0 else 1 + self.depth_of(above)

    def call_of(self, row: int) -> int:
        """The innermost execution of the op that is or holds this execution."""
        while row >= 0 and row not in self.called:
            row = self.parent[row]
        return row

    def costs(self) -> list[tuple[int | None, int | None]]:
        found = []
        for call, op_type in zip(self.called, self.types, strict=True):
            inside = [row for row in range(12) if self.call_of(row) == call]
            known = [self.flops[row] for row in inside if self.flops[row] >= 0]
            lost = [
                row
                for row in inside
                if self.flops[row] < 0 and (self.launched[row] or not self.has_devices)
            ]
            has_own = self.flops[call] >= 0 and op_type != "aten::dropout"
            flops = sum(known) if known and (has_own or not lost) else None
            found.append((flops, self.bytes_of(call, inside)))
        return found

    def bytes_of(self, call: int, inside: list[int]) -> int | None:
        around = any(
            self.parent[row] >= 0 and self.call_of(self.parent[row]) == call
            for row in self.called
        )
        if around:
            return None
        if self.accessed[call] >= 0:
            return self.accessed[call]
        worked = [row for row in inside if self.launched[row] or not self.has_devices]
        values = [self.accessed[row] for row in worked]
        return sum(values) if values and min(values) >= 0 else None


@pytest.mark.parametrize("seed", range(40))
def test_the_cost_of_a_call_is_that_of_the_executions_inside(seed: int) -> None:
    drawn = Drawn(seed)
    # The events of ops have gaps between them.
    events = [3 * row + 5 for row in range(12)]
    costs = SimpleNamespace(
        flops=np.array(drawn.flops),
        accessed_bytes=np.array(drawn.accessed),
        parent=np.array(drawn.parent, np.int32),
        depth=np.array(drawn.depth, np.int32),
    )
    run = Derived(
        {
            execution_costs: costs,
            host_op_events: SimpleNamespace(event=np.array(events, np.int32)),
            device_executions: SimpleNamespace(launched=np.array(drawn.launched)),
        }
    )
    absent = () if drawn.has_devices else ("device_activity",)
    work = work_of(drawn.types, [events[row] for row in drawn.called], absent=absent)
    assert costs_of(run, work) == drawn.costs()


#: Row of the instruction by activity, and cost of one execution by instruction.
OP_OF_ACTIVITY = (0, 1, 1, 2, 3, 2)
COSTS = {"flops": (None, 100, 0, 7), "accessed_bytes": (None, 40, 6, None)}


def of_devices(activity: Sequence[tuple[int, int]], **values: Any) -> list[Any]:
    run = Derived(
        {
            activity_ops: SimpleNamespace(op=np.array(OP_OF_ACTIVITY, np.int32)),
            run_costs: pl.DataFrame(COSTS),
            **values,
        }
    )
    return costs_of(run, work_of(["aten::mm"], [0], 3, activity))


def test_an_instruction_counts_once_in_each_call_of_a_device() -> None:
    """The first call is that of a host event, whose cost is not known."""
    found = of_devices([(0, 2), (1, 1), (2, 1), (3, 1), (4, 3), (5, 3)])
    assert found == [(None, None), (100, 46), (None, None), (7, None)]


def test_calls_of_devices_share_no_instruction() -> None:
    found = of_devices([(1, 1), (2, 2), (3, 3), (5, 0)])
    assert found == [(None, None), (100, 40), (100, 40), (0, 6)]


def test_calls_of_devices_have_no_cost_where_none_is_known() -> None:
    run = Derived({activity_ops: SimpleNamespace(op=np.zeros(1, np.int32))})
    assert costs_of(run, work_of([], [], 2, [(0, 1)])) == [(None, None)] * 2
    assert costs_of(run, work_of([], [])) == []
