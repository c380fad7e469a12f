"""Which op's gradient an op of the backward pass computes, by arrows and by numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from tests.support.traces.kineto import PID, check_all, complete, frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import TraceData

    Build = Callable[..., TraceData]

ENGINE = "autograd::engine::evaluate_function: "


def op(name: str, ts: float, dur: float, number: int, **fields: Any) -> dict[str, Any]:
    """An op of the forward pass with its sequence number."""
    args = {"Sequence number": number, "Fwd thread id": 0}
    return complete(name, ts, dur, args=args, **fields)


def node(name: str, ts: float, number: int, *, maker: int = 1) -> list[dict[str, Any]]:
    """A node of the backward pass on a thread of its own, 10 long."""
    args = {"Sequence number": number, "Fwd thread id": maker}
    return [
        complete(ENGINE + name, ts, 10, tid=99, args=args),
        complete(name, ts + 1, 8, tid=99, args=args),
    ]


def pairs(trace: TraceData) -> set[tuple[str, ...]]:
    """Names of the events that share a link, in order of time."""
    check_all(trace)
    key = trace.strings.index("fwdbwd") if "fwdbwd" in trace.strings else -1
    ends = frame(trace, "stats").filter(pl.col("key") == key)
    events = frame(trace, "events")
    names = frame(trace, "event_types")["name"].gather(events["type"])
    table = ends.select(
        link="value",
        start=events["start_ps"].gather(ends["event"]),
        name=names.gather(ends["event"]),
    )
    joined = table.sort("start").group_by("link").agg("name")
    return {tuple(listed) for listed in joined["name"]}


def test_equal_numbers_link_an_op_with_its_gradient(trace_of: Build) -> None:
    trace = trace_of(
        [
            op("aten::linear", 0, 20, 5),
            op("aten::addmm", 5, 10, 5),
            op("aten::relu", 25, 5, 6),
            *node("ReluBackward0", 50, 6),
            *node("AddmmBackward0", 70, 5),
        ]
    )
    # Of ops with one number the last to begin has made the node.
    assert pairs(trace) == {
        ("aten::addmm", ENGINE + "AddmmBackward0"),
        ("aten::relu", ENGINE + "ReluBackward0"),
    }


def test_ops_without_a_gradient_and_nodes_without_an_op_have_no_link(
    trace_of: Build,
) -> None:
    trace = trace_of(
        [
            op("aten::empty", 0, 5, 3),
            complete("aten::zeros", 6, 2),
            op("aten::unrecorded", 8, 2, -1),
            *node("TBackward0", 50, 2),
            complete("torch::autograd::AccumulateGrad", 70, 5, tid=99),
        ]
    )
    assert pairs(trace) == set()


def test_numbers_of_several_threads_are_kept_apart(trace_of: Build) -> None:
    trace = trace_of(
        [
            op("first a", 0, 5, 1, tid=PID),
            op("first b", 10, 5, 2, tid=PID),
            op("second a", 0, 5, 2, tid=7),
            op("second b", 10, 5, 3, tid=7),
            op("second c", 20, 5, 4, tid=7),
            *node("FirstABackward", 40, 1, maker=1),
            *node("FirstBBackward", 60, 2, maker=1),
            *node("SecondBBackward", 80, 3, maker=2),
            *node("SecondCBackward", 100, 4, maker=2),
        ]
    )
    assert pairs(trace) == {
        ("first a", ENGINE + "FirstABackward"),
        ("first b", ENGINE + "FirstBBackward"),
        ("second b", ENGINE + "SecondBBackward"),
        ("second c", ENGINE + "SecondCBackward"),
    }


def test_arrows_go_before_numbers(trace_of: Build) -> None:
    arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 12, "pid": PID}
    trace = trace_of(
        [
            op("aten::mm", 0, 5, 1),
            op("aten::add", 10, 5, 1),
            *node("MmBackward0", 50, 1),
            {**arrow, "ph": "s", "tid": PID, "ts": 0},
            {**arrow, "ph": "f", "tid": 99, "ts": 50, "bp": "e"},
        ]
    )
    assert pairs(trace) == {("aten::mm", ENGINE + "MmBackward0")}


def test_numbers_of_any_type_link_nothing_or_something(trace_of: Build) -> None:
    for number in ("5", 2.5, None, True, [1], 2**63, 2**70, -(2**63)):
        args = {"Sequence number": number, "Fwd thread id": number}
        events = [complete("a", 0, 5, args=args), complete("b", 9, 5, args=args)]
        assert pairs(trace_of(events)) == set()
