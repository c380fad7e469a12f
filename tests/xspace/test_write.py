"""Writing profile messages: the rules that make files open elsewhere, and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.support.xspace.proto import values_of_message, values_of_space

from stepscope.xspace.fields import DOUBLE, INT, REF, TEXT, UINT
from stepscope.xspace.reading.decode import decode_bytes, decode_file
from stepscope.xspace.writing import builders
from stepscope.xspace.writing.builders import Unsigned
from stepscope.xspace.writing.encode import StatColumn
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.xspace.writing.builders import PlaneBuilder


def builder(**clock: Any) -> XSpaceBuilder:
    return XSpaceBuilder("host", **({"start_ns": 10, "stop_ns": 20} | clock))


def test_the_clock_is_always_described_and_there_is_one_host() -> None:
    space = builder()
    space.plane("/host:CPU")
    values = values_of_message(space.to_bytes())
    assert values["hostnames"] == ["host"]
    assert [plane["name"] for plane in values["planes"]] == [
        "/host:CPU",
        "Task Environment",
    ]
    assert values["planes"][1]["stats"] == [
        ("profile_start_time", 3, 10),
        ("profile_stop_time", 3, 20),
    ]
    # Encoding again changes nothing.
    assert space.to_bytes() == space.to_bytes()


def test_an_unfinished_recording_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="stop_ns"):
        builder(stop_ns=None).to_bytes()
    assert values_of_message(builder(start_ns=None).to_bytes())["planes"] == []


def test_one_plane_per_name_and_ids_from_one_that_equal_their_keys() -> None:
    space = builder(start_ns=None)
    for name in ("a", "b", "a"):
        assert space.plane("/host:CPU").event_type(name) == "ab".index(name) + 1
    plane = space.plane("/host:CPU")
    assert plane.event_type("module(7)", type_id=3) == 3
    assert plane.event_type("c") == 4
    (read,) = values_of_message(space.to_bytes())["planes"]
    assert {key: one["name"] for key, one in read["types"].items()} == {
        1: "a",
        2: "b",
        3: "module(7)",
        4: "c",
    }
    for taken in (1, 0, -1):
        with pytest.raises(ValueError, match="taken or not above 0"):
            plane.event_type("other", type_id=taken)


def test_kinds_of_one_name_are_declared_again_by_their_ids() -> None:
    """Functions of one name in two files, found in turn, ended a recording of them."""
    plane = builder(start_ns=None).plane("/host:CPU")
    name = "$__init__.py:1 <module>"
    for _ in range(2):
        for number, path in ((1, "a/__init__.py"), (2, "b/__init__.py")):
            stats = {"file_path": path}
            assert plane.event_type(name, type_id=number, stats=stats) == number


def test_texts_used_more_than_once_become_references() -> None:
    space = builder(start_ns=None)
    plane = space.plane("p")
    line = plane.line(1)
    line.event("e", stats={"shape": "[2,3]", "only": "once"})
    line.event("e", stats={"shape": "[2,3]"})
    (read,) = values_of_message(space.to_bytes())["planes"]
    first, second = read["lines"][0]["events"]
    assert first[4] == [("shape", REF, "[2,3]"), ("only", TEXT, "once")]
    assert second[4] == [("shape", REF, "[2,3]")]


def test_numbers_keep_their_kind_and_all_64_bits() -> None:
    values: dict[str, Any] = {
        "flag": True,
        "least": -(2**63),
        "beyond int64": 2**64 - 1,
        "unsigned": Unsigned(5),
        "real": 0.1,
        "raw": b"\xff\x00",
    }
    space = builder(start_ns=None)
    space.plane("p").line(1).event("e", stats=values)
    decoded = decode_bytes(space.to_bytes())
    assert [int(kind) for kind in decoded.stats.kind] == [4, 4, 3, 3, 2, 6]
    assert decoded.stats.value[:4].tolist() == [1, -(2**63), -1, 5]
    space.plane("p").stat("too large", 2**64)
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        space.to_bytes()


def test_events_are_sorted_by_start_then_longest_first_over_all_batches() -> None:
    space = builder(start_ns=None)
    plane = space.plane("p")
    kind = plane.event_type("e")
    line = plane.line(1)
    line.events([kind] * 3, [50, 10, 10], [1, 1, 9], stats=[numbered(plane, 3)])
    line.event(kind, offset_ps=10, dur_ps=5, stats={"n": 99})
    line.events([kind], [0], [7], stats=[numbered(plane, 1)])
    line.event(kind, occurrences=4, dur_ps=2)
    (read,) = values_of_message(space.to_bytes())["planes"]
    assert [
        (offset, dur, many, [value for _, _, value in stats])
        for _, offset, dur, many, stats in read["lines"][0]["events"]
    ] == [
        (0, 7, None, [0]),
        (0, 2, 4, []),
        (10, 9, None, [2]),
        (10, 5, None, [99]),
        (10, 1, None, [1]),
        (50, 1, None, [0]),
    ]


def numbered(plane: PlaneBuilder, count: int) -> StatColumn:
    return StatColumn(plane.stat_id("n"), INT, np.arange(count))


def test_columns_of_every_kind_are_written_where_they_are_present() -> None:
    space = builder(start_ns=None)
    plane = space.plane("p")
    kind = plane.event_type("e")
    name = plane.stat_id
    odd = np.array([False, True, False, True])
    plane.line(1).events(
        np.full(4, kind),
        np.arange(4) * 10,
        np.ones(4),
        stats=[
            StatColumn(name("i"), INT, [-1, 2, -3, 4], odd),
            StatColumn(
                name("u"), UINT, np.array([2**64 - 1, 0, 0, 0], np.uint64), ~odd
            ),
            StatColumn(name("d"), DOUBLE, [0.5, 1, 2, 3]),
            StatColumn(name("r"), REF, np.full(4, name("value")), odd),
            StatColumn(name("t"), TEXT, [0, 1, 0, 1], texts=[b"zero", b"one"]),
            StatColumn(name("b"), 6, [-9, 0, -9, 0], odd, texts=[b"\xff"]),
        ],
    )
    decoded = decode_bytes(space.to_bytes())
    read = values_of_message(space.to_bytes())
    assert read == values_of_space(decoded)
    events = read["planes"][0]["lines"][0]["events"]
    doubles = [
        memoryview(event[4][-2 if k % 2 == 0 else -4][2])
        for k, event in enumerate(events)
    ]
    assert [double.cast("d")[0] for double in doubles] == [0.5, 1, 2, 3]
    assert [
        [(key, value) for key, kind, value in event[4] if kind != DOUBLE]
        for event in events
    ] == [
        [("u", 2**64 - 1), ("t", "zero")],
        [("i", 2), ("r", "value"), ("t", "one"), ("b", b"\xff")],
        [("u", 0), ("t", "zero")],
        [("i", 4), ("r", "value"), ("t", "one"), ("b", b"\xff")],
    ]


def test_a_line_before_the_recording_is_refused() -> None:
    with pytest.raises(ValueError, match="before the recording"):
        builder().plane("p").line(1, timestamp_ns=-1)


def test_dropped_events_are_warned_of_in_the_agreed_form() -> None:
    space = builder()
    space.dropped(1234, "the buffer was full")
    space.error("tracer failed")
    values = values_of_message(space.to_bytes())
    assert values["warnings"] == ["dropped 1234 events: the buffer was full"]
    assert values["errors"] == ["tracer failed"]


def test_a_file_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "host.xplane.pb"
    space = builder()
    assert space.write(path) == (path,)
    assert path.read_bytes() == space.to_bytes()
    assert sorted(tmp_path.iterdir()) == [path]
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="disk full"):
        space.write(path)
    assert path.read_bytes() == b"old"
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_message_beyond_the_budget_is_split_between_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builders, "_CHUNK_EVENTS", 10)
    space = builder()
    for name in ("one", "two"):
        plane = space.plane(name)
        for number in range(3):
            line = plane.line(number, name=f"line {number}")
            ids = np.full(25, plane.event_type(f"event {number}"))
            line.events(ids, np.arange(25), np.ones(25), stats=[numbered(plane, 25)])
    (whole,) = space.write(tmp_path / "whole.xplane.pb")
    budget = 1000
    assert whole.stat().st_size > 2 * budget
    parts = space.write(tmp_path / "host.xplane.pb", budget_bytes=budget)
    assert [path.name for path in parts] == [
        f"host.part{k}.xplane.pb" for k in range(len(parts))
    ]
    assert all(0 < path.stat().st_size <= budget for path in parts)

    def contents(path: Path) -> list[tuple[Any, ...]]:
        values = values_of_space(decode_file(path))
        assert values["hostnames"] == ["host"]
        return [
            (plane["name"], line["name"], plane["types"][event[0]]["name"], event[1:])
            for plane in values["planes"]
            for line in plane["lines"]
            for event in line["events"]
        ]

    assert [event for path in parts for event in contents(path)] == contents(whole)
    with pytest.raises(ValueError, match="exceed the budget of 300"):
        space.write(tmp_path / "host.xplane.pb", budget_bytes=300)
