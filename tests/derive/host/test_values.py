"""The values of host events that say what they are, from every place they stand in."""

from __future__ import annotations

import numpy as np
import polars as pl
from tests.support.traces import blueprint

from stepscope.derive.columns.stat_values import StatRows
from stepscope.derive.host.values import (
    host_values,
    int_values,
    profiler_work,
    text_codes,
)
from stepscope.derive.intervals.spans import Spans
from stepscope.patterns import RECORDING_CALL
from stepscope.trace.model import TraceData
from stepscope.trace.tables import PLACE_TEXT, REF, TYPE_STATS


def values_of(trace: TraceData) -> dict[str, StatRows]:
    names = ("tracks", "events", "stats", "type_stats")
    return host_values(trace=trace, **{name: trace.table(name) for name in names})


def test_values_of_host_events_are_found_and_those_of_devices_are_not() -> None:
    trace = blueprint.trace(
        [
            ("main", "a", 0, 5, {"is_func": 1, "unrelated": 9}),
            ("main", "b", 9, 5, {"is_func": 0}),
            ("gpu:0/7", "k", 0, 5, {"is_func": 1}),
        ]
    )
    owner, value = int_values(values_of(trace)["is_func"])
    assert (owner.tolist(), value.tolist()) == ([0, 1], [1, 0])


def test_numbers_are_read_whatever_their_kind() -> None:
    trace = blueprint.trace([("main", "a", 0, 5, {"tracing_count": 2.0})])
    _, value = int_values(values_of(trace)["tracing_count"])
    assert value.tolist() == [2]


def test_a_value_of_the_type_stands_for_events_without_their_own() -> None:
    trace = blueprint.trace(
        [("main", "dot", 0, 5), ("main", "dot", 9, 5, {"hlo_op": "own"})]
    )
    key = trace.strings.index("hlo_op")
    shared = {"type": 0, "key": key, "kind": REF, "value": key, "length": 0}
    trace = blueprint.substitute(
        trace, type_stats=pl.DataFrame([shared], schema=TYPE_STATS.dtypes())
    )
    owner, code, texts = text_codes(trace, values_of(trace)["hlo_op"])
    assert owner.tolist() == [0, 1]
    assert [texts[number] for number in code] == ["hlo_op", "own"]


def test_texts_are_told_apart_wherever_they_stand() -> None:
    data = np.frombuffer(b"MulAddMul", np.uint8)
    trace = blueprint.trace([("main", "a", 0, 5)])
    trace = TraceData("vm", trace._builders, strings=("Interned",), data=data)
    interned = 0
    rows = StatRows(
        owner=np.array([4, 1, 2, 3, 5], np.int32),
        key=np.zeros(5, np.int32),
        kind=np.array([PLACE_TEXT, PLACE_TEXT, PLACE_TEXT, REF, 4], np.uint8),
        value=np.array([0, 3, 6, interned, 7]),
        length=np.array([3, 3, 3, 0, 0], np.int32),
    )
    owner, code, texts = text_codes(trace, rows)
    assert owner.tolist() == [1, 2, 3, 4]
    assert [texts[number] for number in code] == ["Add", "Mul", "Interned", "Mul"]
    assert code[1] == code[3]


def test_a_profiler_works_in_its_events_and_in_lines_that_call_the_recorder() -> None:
    trace = blueprint.trace(
        [
            ("main", "train.py:7", 0, 5, {"called": RECORDING_CALL}),
            ("main", "train.py:8", 10, 5, {"called": "np.sum"}),
            ("main", "Activity Buffer Request", 20, 5),
            ("other", "Activity Buffer Request", 24, 5),
            ("gpu:0/7", "Activity Buffer Request", 40, 5),
        ]
    )
    spans = blueprint.profile(trace).derived("vm", profiler_work)
    assert isinstance(spans, Spans)
    begin_us = (spans.start_ps - spans.start_ps[0]) // 10**6
    length_us = (spans.end_ps - spans.start_ps) // 10**6
    assert (begin_us.tolist(), length_us.tolist()) == ([0, 20], [5, 9])
