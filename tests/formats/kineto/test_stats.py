"""Arguments of events as typed values."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.traces.kineto import PID, complete, frame

from stepscope.trace.tables import DOUBLE, INT, REF, UINT

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trace.model import TraceData

    Build = Callable[..., TraceData]


def values_of(trace: TraceData) -> dict[str, dict[str, Any]]:
    """Name of each event → key → value, read back by kind."""
    events, names = frame(trace, "events"), frame(trace, "event_types")["name"]
    found: dict[str, dict[str, Any]] = {}
    for row in frame(trace, "stats").iter_rows(named=True):
        value: Any = row["value"]
        if row["kind"] == DOUBLE:
            (value,) = struct.unpack("<d", struct.pack("<q", value))
        elif row["kind"] == REF:
            value = trace.strings[value]
        elif row["kind"] == UINT:
            value %= 2**64
        else:
            assert row["kind"] == INT
        event = names[events["type"][row["event"]]]
        found.setdefault(event, {})[trace.strings[row["key"]]] = value
    return found


def test_every_argument_is_a_value_of_its_event(trace_of: Build) -> None:
    trace = trace_of(
        [
            complete("aten::mm", 10, 5, args={
                "External id": 3, "Sequence number": 7, "Fwd thread id": 0,
                "Input Dims": [[8, 4], [4, 2]], "Input type": ["float", "float"],
                "Call stack": "a.py(3): f;b.py(4): g", "finished": True,
                "Python parent id": None, "kernel_hash": 'x"y'}),
            complete("k", 0, 5, cat="kernel", args={
                "device": 0, "blocks per SM": 0.8, "queued": 0}),
            complete("j", 9, 5, cat="kernel", args={
                "device": 0, "blocks per SM": 1}),
        ]
    )  # fmt: skip
    assert values_of(trace) == {
        "aten::mm": {
            "External id": 3,
            "Sequence number": 7,
            "Fwd thread id": 0,
            "Input Dims": "[[8, 4], [4, 2]]",
            "Input type": '["float", "float"]',
            "Call stack": "a.py(3): f;b.py(4): g",
            "finished": 1,
            "kernel_hash": 'x"y',
        },
        "k": {"device": 0, "blocks per SM": 0.8, "queued": 0},
        "j": {"device": 0, "blocks per SM": 1},
    }
    assert frame(trace, "stats")["event"].is_sorted()


_VALUES = (
    st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
)
_ARGS = st.dictionaries(st.sampled_from(["a", "b", "External id"]), _VALUES)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_ARGS, min_size=1, max_size=6))
def test_values_of_mixed_types_come_back_as_they_were(
    trace_of: Build, arguments: list[dict[str, Any]]
) -> None:
    cats = ("cpu_op", "python_function", "user_annotation")
    events = [
        complete(f"event {at}", 10 - at, 1, args=args, cat=cats[at % 3])
        for at, args in enumerate(arguments)
    ]
    found = values_of(trace_of(events))
    assert found == {f"event {at}": args for at, args in enumerate(arguments) if args}


def test_values_follow_their_events_past_refused_ones(trace_of: Build) -> None:
    trace = trace_of(
        [
            complete("late", 90, 1, args={"n": 1}),
            complete("refused", 80, -1, args={"n": 2}),
            {"ph": "s", "cat": "ac2g", "id": 1, "pid": 0, "tid": 0, "ts": 3,
             "args": {"n": 3}},
            complete("far", -(10**13), 1, args={"n": 4}),
            complete("early", 5, 1, args={"n": 5}),
            complete("middle", 50, 1, args={"n": 6}),
        ]
    )  # fmt: skip
    assert values_of(trace) == {"early": {"n": 5}, "middle": {"n": 6}, "late": {"n": 1}}


def test_an_op_and_the_op_of_its_gradient_carry_one_id(trace_of: Build) -> None:
    arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 12, "pid": PID}
    trace = trace_of(
        [
            complete("aten::linear", 10, 30),
            complete("aten::addmm", 10, 20),
            complete("AddmmBackward0", 70, 9, tid=9),
            {**arrow, "ph": "s", "tid": PID, "ts": 10},
            {**arrow, "ph": "f", "tid": 9, "ts": 70, "bp": "e"},
        ]
    )
    assert values_of(trace) == {
        "aten::addmm": {"fwdbwd": 12},
        "AddmmBackward0": {"fwdbwd": 12},
    }


def test_equal_texts_are_one_text(trace_of: Build) -> None:
    trace = trace_of(
        [complete(f"op {at}", at, 1, args={"Call stack": "a;b"}) for at in range(5)]
    )
    stats = frame(trace, "stats").filter(pl.col("kind") == REF)
    assert stats["value"].n_unique() == 1
    assert trace.strings.count("a;b") == 1
