"""Whatever the bytes are: the readable part, or one plain line, never a traceback."""

from __future__ import annotations

import gzip
import json
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.traces.kineto import (
    PID,
    call,
    check_all,
    complete,
    frame,
    kernel,
    outcome,
    read_file,
)

import stepscope
from stepscope.derive.ops.execution_costs import ExecutionCosts, execution_costs
from stepscope.errors import BadInput
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

    Build = Callable[[bytes], TraceData]

pytestmark = pytest.mark.slow(seconds=0.1)

SHAPE = {"grid": [1, 2, 3], "block": [32, 1, 1], "registers per thread": 9}


def program() -> list[dict[str, Any]]:
    """Two steps; each event's name repeats its argument `Ev Idx`."""
    events: list[dict[str, Any]] = []
    for step in range(2):
        begin = 1000 * step
        events += [
            complete("step", begin, 900, cat="user_annotation"),
            complete("aten::mm", begin + 10, 200, args={
                "External id": step, "Input Dims": [[4, 2], [2, 4]],
                "Input type": ["float", "float"]}),
            call("cudaLaunchKernel", begin + 50, 9, correlation=step),
            kernel("sgemm<float, 4>", begin + 300, 50, correlation=step, **SHAPE),
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": PID,
             "tid": PID, "ts": begin + 20,
             "args": {"Device Type": 1, "Device Id": 0, "Addr": 64 + step, "Bytes": 8}},
        ]  # fmt: skip
    for index, event in enumerate(events):
        event["args"]["Ev Idx"] = index
        event["name"] = f"{event['name']}" if event["ph"] == "i" else (
            f"{event['name']} {index}"
        )  # fmt: skip
    return events


def text_of(events: list[str]) -> str:
    """The file as PyTorch writes it: an event on lines of its own."""
    listed = ",\n  ".join(events)
    return (
        '{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0}],\n'
        f'  "traceEvents": [\n  {listed}\n  ],\n  "traceName": "x.json"\n}}\n'
    )


EVENTS = program()
TEXTS = [json.dumps(event) for event in EVENTS]
WHOLE = text_of(TEXTS).encode()
#: Where each event ends in the file.
ENDS = [WHOLE.index(text.encode()) + len(text) for text in TEXTS]


def stat_of_events(trace: TraceData, key: str) -> dict[str, int]:
    """Name of each event → its value of a stat."""
    stats = frame(trace, "stats")
    if key not in trace.strings:
        return {}
    chosen = stats.filter(pl.col("key") == trace.strings.index(key))
    events = frame(trace, "events")
    names = frame(trace, "event_types")["name"]
    types = events["type"].gather(chosen["event"])
    return dict(zip(names.gather(types), chosen["value"], strict=True))


def check_values_stand_with_their_events(trace: TraceData) -> None:
    for name, index in stat_of_events(trace, "Ev Idx").items():
        if name != "[memory]":
            assert name.endswith(f" {index}")


@pytest.mark.parametrize("length", range(0, len(WHOLE) - 2, 10))
@pytest.mark.sweep(every=7)
def test_a_cut_file_gives_every_whole_event_before_the_cut(
    length: int, trace_of_bytes: Build
) -> None:
    whole_events = sum(end <= length for end in ENDS)
    begins = WHOLE.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    if length < begins:
        with pytest.raises(BadInput) as error:
            trace_of_bytes(WHOLE[:length])
        assert "\n" not in str(error.value)
        return
    trace = trace_of_bytes(WHOLE[:length])
    check_all(trace)
    assert frame(trace, "events").height == whole_events
    check_values_stand_with_their_events(trace)
    kinds = frame(trace, "quality")["kind"].to_list()
    assert "truncated_file" in kinds


def test_what_a_cut_took_away_was_lost_not_absent(trace_of_bytes: Build) -> None:
    trace = trace_of_bytes(WHOLE[: ENDS[0] + 3])
    absent = trace.table("allocations")
    assert isinstance(absent, Unavailable)
    assert absent.code == "CORRUPT"


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.sweep(every=4)
def test_flipped_bits_never_raise_anything_but_one_line(
    seed: int, trace_of_bytes: Build
) -> None:
    random_ = random.Random(seed)  # noqa: S311 - the same bytes in every run
    data = bytearray(WHOLE)
    for _ in range(random_.choice((1, 1, 1, 5, 50))):
        data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    said = outcome(lambda: trace_of_bytes(bytes(data)))
    assert len(said.splitlines()) <= 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused_in_one_line(data: bytes, trace_of_bytes: Build) -> None:
    for content in (data, b"{" + data, b'{"traceEvents": [' + data, b"[" + data):
        said = outcome(partial(trace_of_bytes, content))
        assert len(said.splitlines()) <= 1


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.text(max_size=8)
    | st.sampled_from(["X", "i", "M", "kernel", "cpu_op", "[memory]", "7", "stream 7"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["External id", "device", "Bytes", "grid", "name"]),
        inner, max_size=4,
    ),
    max_leaves=6,
)  # fmt: skip
_EVENT = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(["X", "X", "X", "i", "M", "s", "f", "C", 3, None]),
        "cat": st.sampled_from(
            ["cpu_op", "kernel", "Operator", "gpu_memcpy", "gpu_memset", "cuda_sync",
             "cuda_runtime", "Trace", "overhead", "cuda_profiler_range", "fwdbwd",
             "python_function", "gpu_user_annotation", "what", None, 4]
        ),
        "name": st.sampled_from(["[memory]", "aten::mm", "thread_name", None, 7]),
        "pid": st.integers(-1, 3) | _JSON,
        "tid": st.integers(-1, 3) | _JSON,
        "ts": st.integers(0, 10**4) | st.floats(0, 10**4) | _JSON,
        "dur": st.integers(0, 10**4) | st.floats(0, 10**4) | _JSON,
        "id": _JSON,
        "args": st.dictionaries(
            st.sampled_from(
                ["External id", "external id", "correlation", "device", "stream",
                 "grid", "block", "bytes", "Bytes", "Addr", "Device Type", "Device Id",
                 "kind", "Total Allocated", "Input Dims", "Input type", "name",
                 "shared memory",
                 "registers per thread", "est. achieved occupancy %"]
            ),
            st.integers(0, 3) | _JSON,
            max_size=8,
        ) | _JSON,
    },
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(_EVENT | _JSON, max_size=8), top=_JSON)
def test_fields_of_any_type_never_raise(
    events: list[Any], top: object, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    document = {
        "deviceProperties": top, "distributedInfo": top, "baseTimeNanoseconds": top,
        "host_name": top, "traceEvents": events,
    }  # fmt: skip
    path.write_text(json.dumps(document))
    check_all(read_file(path))


ODD = {
    "NaN": '{"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 1, "tid": 1, "ts": 5,'
    ' "dur": 2, "args": {"rate": NaN, "other": -Infinity}}',
    "comma": '{"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 1, "tid": 1, "ts": 5,'
    ' "dur": 2, "args": {"a": [1, 2,],},}',
    "escape": '{"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 1, "tid": 1, "ts": 5,'
    ' "dur": 2, "args": {"text": "\\ud800"}}',
    "newline": '{"ph": "X", "cat": "cpu_op", "name": "odd", "pid": 1, "tid": 1,'
    ' "ts": 5, "dur": 2, "args": {"text": "one\ntwo"}}',
}


#: What the lenient decoder reads and could not hand on: 129 bits, an exponent beyond
#: those of decimals, more containers within one another than can be written.
UNWRITABLE = {
    "integer": str(2**128 + 1),
    "exponent": "1e99999999999999999999",
    **{f"{depth} lists": "[" * depth + "]" * depth for depth in range(880, 1000, 8)},
    "objects": '{"a":' * 900 + "1" + "}" * 900,
}


@pytest.mark.parametrize("what", UNWRITABLE)
def test_values_that_cannot_be_written_again_are_unknown(
    what: str, trace_of_bytes: Build
) -> None:
    value = UNWRITABLE[what]
    # What is no number lets the strict decoder refuse the event.
    arguments = f'{{"NaN": NaN, "a": {value}, "Input Dims": {value}}}'
    odd = json.dumps(complete("odd", 5, 2)).replace(
        '"args": {}', f'"args": {arguments}'
    )
    assert value in odd
    text = text_of([*TEXTS, odd]).replace('[{"id": 0}]', f'[{{"id": {value}}}, NaN]')
    trace = trace_of_bytes(text.encode())
    check_all(trace)
    assert frame(trace, "events").height >= len(TEXTS)


@pytest.mark.parametrize("what", ODD)
def test_an_event_that_breaks_a_rule_of_json_is_read(
    what: str, trace_of_bytes: Build
) -> None:
    trace = trace_of_bytes(text_of([*TEXTS[:3], ODD[what], *TEXTS[3:]]).encode())
    check_all(trace)
    assert frame(trace, "events").height == len(TEXTS) + 1
    check_values_stand_with_their_events(
        trace_of_bytes(text_of([ODD[what], *TEXTS]).encode())
    )
    notes = dict(frame(trace, "quality").select("kind", "count").rows())
    assert notes["invalid_json"] == 1
    assert "damaged_file" not in notes


def test_names_that_are_no_utf8_are_shown_with_replacements(
    trace_of_bytes: Build,
) -> None:
    data = WHOLE.replace(b"aten::mm 1", b"aten::\xff\xfe 1")
    trace = trace_of_bytes(data)
    check_all(trace)
    assert "aten::\ufffd\ufffd 1" in frame(trace, "event_types")["name"].to_list()
    assert frame(trace, "events").height == len(TEXTS)


def test_a_comma_behind_the_last_event_loses_nothing(trace_of_bytes: Build) -> None:
    data = WHOLE.replace(b"}\n  ],", b"},\n  ],")
    assert data != WHOLE
    trace = trace_of_bytes(data)
    assert frame(trace, "events").height == len(TEXTS)
    assert not {"truncated_file", "damaged_file"} & set(frame(trace, "quality")["kind"])
    # What comes after the events is found even so.
    assert frame(trace, "devices")["device"].to_list() == [0]


def test_a_broken_event_costs_itself_alone(trace_of_bytes: Build) -> None:
    texts = [*TEXTS[:5], '{"ph": "X", "name": oops, "ts": 3}', *TEXTS[5:]]
    trace = trace_of_bytes(text_of(texts).encode())
    check_all(trace)
    check_values_stand_with_their_events(trace)
    assert frame(trace, "events").height == len(TEXTS)
    note = frame(trace, "quality").filter(pl.col("kind") == "refused_events")
    assert note["count"].to_list() == [1]
    assert "oops" in note["message"][0]


def test_numbers_as_text_are_numbers(trace_of_bytes: Build) -> None:
    events = program()
    for event in events:
        event.update({key: str(event[key]) for key in ("ts", "dur", "pid", "tid")
                      if key in event})  # fmt: skip
        event["args"] = {
            key: str(value) if isinstance(value, int) else value
            for key, value in event["args"].items()
        }
    ours = trace_of_bytes(text_of([json.dumps(event) for event in events]).encode())
    tables = ("events", "device_activity", "launches", "allocations", "geometries")
    found = [frame(ours, name) for name in tables]
    plain = trace_of_bytes(WHOLE)
    for name, table in zip(tables, found, strict=True):
        assert table.equals(frame(plain, name)), name


def test_integers_beyond_64_bits_keep_what_fits(trace_of_bytes: Build) -> None:
    numbers = {
        "Comms Id": 2**63 + 1,
        "More": 2**80,
        "Most": 10**400,
        "Least": -(10**400),
    }
    huge = complete("huge", 5, 2, args=numbers)
    trace = trace_of_bytes(text_of([json.dumps(huge)]).encode())
    check_all(trace)
    stats = {
        trace.strings[row["key"]]: (row["kind"], row["value"])
        for row in frame(trace, "stats").iter_rows(named=True)
    }
    assert stats["Comms Id"] == (3, 2**63 + 1 - 2**64)
    assert stats["More"][0] == 2
    # Too large for a real number, too.
    as_reals = [stats[name][1] for name in ("Most", "Least")]
    assert np.array(as_reals).view(np.float64).tolist() == [np.inf, -np.inf]


def test_sizes_that_no_tensor_has_give_no_cost(tmp_path: Path) -> None:
    """Their product is beyond 64 bits: an OverflowError ended the report."""
    big = 2**40
    products = ([[big, big], [big, big]], [[-big, big], [big, big]], [[4, 2], [2, 3]])
    types = {"Input type": ["float", "float"]}
    events = [
        complete("aten::mm", 10 * at, 5, args={"Input Dims": sizes, **types})
        for at, sizes in enumerate(products)
    ]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    profile = stepscope.open(path)
    costs = profile.derived(profile.hosts[0], execution_costs)
    assert isinstance(costs, ExecutionCosts)
    # Unknown, and 2 x 4 x 2 x 3 of the product that a tensor can have.
    assert costs.flops.tolist() == [-1, -1, 48]


def test_numbers_that_no_device_has_are_unknown(trace_of_bytes: Build) -> None:
    wrong = {"id": 0, "totalGlobalMem": 2**63, "computeMajor": -1, "numSms": 2**31}
    lost = {"id": 2**31, "name": "lost"}
    data = WHOLE.replace(b'[{"id": 0}]', json.dumps([wrong, lost]).encode())
    assert data != WHOLE
    trace = trace_of_bytes(data)
    check_all(trace)
    columns = ["device", "memory_bytes", "cc_major", "cores"]
    assert frame(trace, "devices").select(columns).rows() == [(0, None, None, None)]


def test_deep_nesting_is_refused_or_passed_over(trace_of_bytes: Build) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    for text in (deep, text_of([*TEXTS, f'{{"ph": "X", "args": {{"a": {deep}}}}}'])):
        said = outcome(partial(trace_of_bytes, text.encode()))
        assert len(said.splitlines()) <= 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b'{"schemaVersion": 1}', b'{"traceEvents": 7}', b"hello", b"\x1f\x8b",
     b'{"schemaVersion": 1, "deviceProp', b"7", b"null", gzip.compress(b"")],
    ids=["empty", "no field", "no events", "number of events", "text", "bare gzip",
         "cut head", "number", "null", "gzip of nothing"],
)  # fmt: skip
def test_what_holds_no_events_is_one_line_with_a_way_out(
    content: bytes, trace_of_bytes: Build
) -> None:
    with pytest.raises(BadInput) as error:
        trace_of_bytes(content)
    message = str(error.value)
    assert message.endswith(".")
    assert len(message.splitlines()) == 1
    assert "trace.json" in message


def test_an_empty_list_of_events_is_an_empty_trace(trace_of_bytes: Build) -> None:
    for content in (b'{"traceEvents": []}', b"[]", b'{"traceEvents": [], "x": NaN}'):
        trace = trace_of_bytes(content)
        check_all(trace)
        assert frame(trace, "events").height == 0


def test_cut_gzip_gives_what_could_be_unpacked(trace_of_bytes: Build) -> None:
    noise = random.Random(1)  # noqa: S311 - the same bytes in every run
    events = [
        json.dumps(complete(f"op {at}", at, 1, args={"x": noise.random()}))
        for at in range(4000)
    ]
    packed = gzip.compress(text_of(events).encode())
    trace = trace_of_bytes(packed[: len(packed) // 2])
    check_all(trace)
    assert 1000 < frame(trace, "events").height < 4000
    assert "truncated_file" in frame(trace, "quality")["kind"].to_list()


def test_a_great_many_threads_cost_no_more_than_a_sort(trace_of_bytes: Build) -> None:
    events = [
        json.dumps(complete("op", at, 1, tid=at, cat=cat))
        for at in range(3000)
        for cat in ("cpu_op", "kernel")
    ]
    trace = trace_of_bytes(text_of(events).encode())
    check_all(trace)
    assert frame(trace, "events").height >= 3000
