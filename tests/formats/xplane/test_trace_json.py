"""Timelines in JSON that were made from profiles, read as the profiles themselves."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.kineto import check_all, frame, outcome

from stepscope.errors import BadInput
from stepscope.formats.opening import read
from stepscope.rundir import find_runs
from stepscope.trace.tables import INT, PLACE_TEXT, UINT
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData

HOST, GPU = 701, 1
#: Lines that are derived from others have negative ids, here as 32 bits without sign.
STEPS = 2**32 - 559038737


def named(pid: int, name: str, tid: int | None = None) -> dict[str, Any]:
    kind = "process_name" if tid is None else "thread_name"
    thread = {} if tid is None else {"tid": tid}
    return {"ph": "M", "pid": pid, **thread, "name": kind, "args": {"name": name}}


def shown(
    pid: int, tid: int, name: str, ts: float, dur: float, **args: str
) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


NAMES = [
    named(HOST, "/host:CPU"),
    named(HOST, "python", 5),
    named(GPU, "/device:GPU:0"),
    named(GPU, "Stream #19(MemcpyH2D,Compute)", 19),
    named(GPU, "Steps", STEPS),
]


def trace_of(tmp_path: Path, *events: dict[str, Any]) -> TraceData:
    path = tmp_path / "vm.trace.json.gz"
    # Writers close the list with an empty event.
    whole = {"displayTimeUnit": "ns", "traceEvents": [*NAMES, *events, {}]}
    path.write_bytes(gzip.compress(json.dumps(whole).encode(), mtime=0))
    trace = read(path)
    check_all(trace)
    return trace


def rows(trace: TraceData) -> list[tuple[Any, ...]]:
    """Line, name, start and duration in ps of each event."""
    tracks, types = frame(trace, "tracks"), frame(trace, "event_types")
    return sorted(
        (tracks["name"][track], types["name"][type_], start, dur)
        for track, type_, start, dur in frame(trace, "events")
        .select("track", "type", "start_ps", "dur_ps")
        .rows()
    )


def test_processes_are_planes_and_microseconds_become_picoseconds(
    tmp_path: Path,
) -> None:
    trace = trace_of(
        tmp_path,
        shown(HOST, 5, "train", 39.65, 5284.43, step_num="3"),
        # A viewer shows no event without a duration: it was an instant.
        shown(HOST, 5, "mark", 40.001, 1e-06),
        shown(GPU, 19, "k", 41.5, 0.25, correlation_id="7"),
    )
    planes = frame(trace, "tracks").select("plane", "name").rows()
    assert ("/host:CPU", "python") in planes
    assert ("/device:GPU:0", "Stream #19(MemcpyH2D,Compute)") in planes
    assert rows(trace) == [
        ("Stream #19(MemcpyH2D,Compute)", "k", 41_500_000, 250_000),
        ("python", "mark", 40_001_000, 0),
        ("python", "train", 39_650_000, 5_284_430_000),
    ]
    # Numbers are written as texts.
    keys = frame(trace, "stats")["key"].to_list()
    numbers = dict(
        zip(
            map(trace.strings.__getitem__, keys),
            frame(trace, "stats")["value"],
            strict=True,
        )
    )
    assert numbers == {"step_num": 3, "correlation_id": 7}


def test_device_work_calls_and_steps_are_found_as_in_a_profile(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        shown(HOST, 5, "cuLaunchKernel", 10, 2, correlation_id="7"),
        shown(HOST, 5, "cuMemcpyHtoDAsync", 13, 2, correlation_id="8"),
        shown(GPU, 19, "sgemm", 20, 5, correlation_id="7"),
        shown(
            GPU,
            19,
            "MemcpyH2D",
            26,
            4,
            correlation_id="8",
            memcpy_details="size:64 dest:0 async:1",
        ),
        # Derived lines repeat what the streams hold.
        shown(GPU, STEPS, "0", 20, 10, step_name="0", group_id="0"),
    )
    work = frame(trace, "device_activity")
    assert work.select("kind", "start_ps", "dur_ps", "correlation", "bytes").rows() == [
        ("kernel", 20_000_000, 5_000_000, 7, None),
        ("h2d", 26_000_000, 4_000_000, 8, 64),
    ]
    calls = frame(trace, "launches")
    assert calls["correlation"].to_list() == [7, 8]
    assert isinstance(trace.table("hlo_ops"), Unavailable)


def test_times_since_1970_count_from_the_first(tmp_path: Path) -> None:
    """Some writers also give numbers as texts."""
    at = 1_600_000_000_000_000
    late = shown(HOST, 5, "b", at + 10, 1) | {"ts": str(at + 10), "args": None}
    trace = trace_of(tmp_path, shown(HOST, 5, "a", at, 2), late)
    assert [it[1:] for it in rows(trace)] == [
        ("a", 0, 2_000_000),
        ("b", 10_000_000, 1_000_000),
    ]


def test_the_long_name_is_the_name_and_the_short_one_is_shown(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, shown(HOST, 5, "MatMul", 1, 2, long_name="a/MatMul:MatMul")
    )
    kinds = frame(trace, "event_types").select("name", "display_name").rows()
    assert ("a/MatMul:MatMul", "MatMul") in kinds


def test_what_the_file_lacks_is_said(tmp_path: Path) -> None:
    whole = shown(HOST, 5, "a", 1, 2)
    trace = trace_of(
        tmp_path,
        whole,
        {"ph": "b", "pid": HOST, "tid": 5, "name": "asynchronous", "ts": 3},
        {"ph": "X", "pid": HOST, "tid": 5, "name": "no start"},
        shown(HOST, 5, "backwards", 9, -1),
    )
    assert [name for _, name, _, _ in rows(trace)] == ["a"]
    texts = " ".join(frame(trace, "quality")["message"])
    assert "made for a viewer" in texts
    assert "dropped 1 events: of kinds that are not read" in texts
    assert "dropped 2 events: broken" in texts


@pytest.mark.parametrize(
    ("ts", "dur"), [(1e300, 5), (-1e300, 5), (1, 1e300), (1, -1), (-2e12, 5)]
)
def test_an_event_at_no_possible_time_is_counted_and_the_others_stay(
    tmp_path: Path, ts: float, dur: float
) -> None:
    good = [shown(HOST, 5, "good", at, 2) for at in (10, 20)]
    trace = trace_of(tmp_path, *good, shown(HOST, 5, "bad", ts, dur))
    assert rows(trace) == [
        ("python", "good", 10_000_000, 2_000_000),
        ("python", "good", 20_000_000, 2_000_000),
    ]
    assert "dropped 1 events: broken" in " ".join(frame(trace, "quality")["message"])


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (10**30, str(10**30)),
        (-(10**30), str(-(10**30))),
        ("-9999999999999999999", "-9999999999999999999"),
        (2**64 - 1, 2**64 - 1),
        (str(2**64 - 1), 2**64 - 1),
        (-(2**63) + 1, -(2**63) + 1),
    ],
)
def test_a_number_beyond_64_bits_stays_a_text(
    tmp_path: Path, value: object, kept: object
) -> None:
    event = {**shown(HOST, 5, "a", 1, 2), "args": {"given": value}}
    trace = trace_of(tmp_path, event)
    (row,) = frame(trace, "stats").rows(named=True)
    if isinstance(kept, int):
        assert row["kind"] == (INT if kept < 2**63 else UINT)
        assert row["value"] % 2**64 == kept % 2**64
    else:
        assert row["kind"] == PLACE_TEXT
        assert trace.text(row["value"], len(str(kept))) == kept


def test_a_cut_timeline_is_refused_in_a_line(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [*NAMES, shown(HOST, 5, "a", 1, 2)]})
    path = tmp_path / "vm.trace.json"
    path.write_text(text[:-30])
    with pytest.raises(BadInput, match=r"broken or cut: .*\.xplane\.pb next to it"):
        read(path)


def is_nested_too_deeply(depth: int) -> bool:
    """Whether this Python refuses such a list; the depth differs between versions."""
    try:
        json.loads("[" * depth + "]" * depth)
    except RecursionError:
        return True
    return False


def test_values_within_one_another_are_texts_or_refused_in_a_line(
    tmp_path: Path,
) -> None:
    """Where the nesting was just not too deep to be read, it was to be written."""
    whole = json.dumps({"traceEvents": [*NAMES, shown(HOST, 5, "a", 1, 2, b="@")]})
    path = tmp_path / "vm.trace.json"
    said = set()
    deepest = bisect_left(range(500_000), 1, key=is_nested_too_deeply)
    for depth in (5, *range(deepest - 200, deepest + 200, 10)):
        path.write_text(whole.replace('"@"', "[" * depth + "]" * depth))
        said.add(outcome(partial(read, path)))
    assert "" in said
    assert len(said) == 2
    assert "nested too deeply" in max(said)
    assert "\n" not in max(said)


def test_a_device_of_which_nothing_was_recorded_is_listed(tmp_path: Path) -> None:
    """The program was taken for one of a CPU: the GPU that it used was dropped."""
    host = shown(HOST, 5, "IteratorGetNext/_3:_Send", 10, 5)
    trace = trace_of(tmp_path, host)
    assert len(frame(trace, "devices")) == 1
    assert isinstance(trace.table("device_activity"), Unavailable)


def number(field: int, value: int) -> bytes:
    """A field that is a number, as protobuf writes it."""
    parts = [field << 3]
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def sized(field: int, content: bytes | str) -> bytes:
    packed = content if isinstance(content, bytes) else content.encode()
    assert len(packed) < 128
    return bytes([field << 3 | 2, len(packed)]) + packed


#: A process 1 "/host:CPU" with thread 9 "pool", and an op on it from 3 to 5 µs.
OLD_TIMELINE = sized(
    1,
    number(1, 1)
    + sized(
        2,
        sized(1, "/host:CPU")
        + number(2, 1)
        + sized(3, number(1, 9) + sized(2, sized(1, "pool"))),
    ),
) + sized(
    4,
    number(1, 1)
    + number(2, 9)
    + sized(3, "MatMul")
    + number(9, 3_000_000)
    + number(10, 2_000_000)
    + sized(11, sized(1, "long name") + sized(2, "a/b:MatMul"))
    + sized(11, sized(1, "id") + sized(2, "7")),
)


def test_a_timeline_of_an_older_release_is_read_like_one_in_json(
    tmp_path: Path,
) -> None:
    """`local.trace` of TensorFlow 2.1 was of no known format."""
    path = tmp_path / "plugins" / "profile" / "2020-03-26_22-11-29" / "local.trace"
    path.parent.mkdir(parents=True)
    path.write_bytes(OLD_TIMELINE)
    trace = read(path)
    check_all(trace)
    assert rows(trace) == [("pool", "a/b:MatMul", 3_000_000, 2_000_000)]
    (run,) = find_runs(tmp_path)
    assert (run.name, run.hosts[0].host) == ("2020-03-26_22-11-29", "local")
    assert run.unix_s == datetime(2020, 3, 26, 22, 11, 29).timestamp()  # noqa: DTZ001 - names carry local time


def test_an_older_timeline_cut_anywhere_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "local.trace"
    for end in range(20, len(OLD_TIMELINE)):
        path.write_bytes(OLD_TIMELINE[:end])
        try:
            check_all(read(path))
        except BadInput as error:
            assert "\n" not in str(error)  # noqa: PT017 - some cuts leave a whole message
