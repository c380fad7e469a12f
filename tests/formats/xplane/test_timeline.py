"""When events happened, in which order, and which are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kept_promises import check_frame
from tests.support.xspace.literal import event, line, plane, space

from stepscope.formats.opening import read
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData

EPOCH = 1_795_166_549_737_043_149


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    def of(*planes: Any) -> TraceData:
        path = tmp_path / "vm.xplane.pb"
        path.write_bytes(space(*planes))
        return read(path)

    return of


def rows(trace: TraceData) -> list[tuple[str, str, int, int]]:
    names, tracks = trace.table("event_types")["name"], trace.table("tracks")["name"]
    return [
        (tracks[row["track"]], names[row["type"]], row["start_ps"], row["dur_ps"])
        for row in trace.table("events").iter_rows(named=True)
    ]


def notes(trace: TraceData) -> dict[str, int | None]:
    return {note.kind: note.count for note in trace.quality_notes()}


def test_relative_lines_keep_their_distance(trace: Any) -> None:
    found = trace(
        plane("/host:CPU", line(1, "a", event("x", 7, 2), timestamp_ns=36_840)),
        plane("/host:CPU", line(2, "b", event("y", 0, 1), timestamp_ns=911_061)),
    )
    assert rows(found) == [("a", "x", 36_840_007, 2), ("b", "y", 911_061_000, 1)]
    assert found.table("environment")["start_unix_ns"].to_list() == [None]


def test_absolute_lines_are_counted_from_the_first_one_without_overflow(
    trace: Any,
) -> None:
    found = trace(
        plane("/host:CPU", line(1, "a", event("x", 7, 2), timestamp_ns=EPOCH + 5)),
        plane("/host:CPU", line(2, "b", event("y", 1, 1), timestamp_ns=EPOCH)),
        plane("/host:CPU", line(3, "c", event("z", 4, 1), timestamp_ns=0)),
    )
    assert rows(found) == [("a", "x", 5007, 2), ("b", "y", 1, 1), ("c", "z", 4, 1)]
    assert found.table("environment")["start_unix_ns"].to_list() == [EPOCH]
    assert notes(found)["lines_anchored"] == 1


def test_the_start_of_the_recording_is_time_zero_of_relative_lines(trace: Any) -> None:
    environment = {"profile_start_time": EPOCH, "profile_stop_time": EPOCH + 9}
    found = trace(
        plane("/host:CPU", line(1, "a", event("x", 7, 2))),
        plane("Task Environment", stats=environment),
    )
    table = found.table("environment")
    assert table["start_unix_ns"].to_list() == [EPOCH]
    assert table["stop_unix_ns"].to_list() == [EPOCH + 9]
    assert table.select("begin_ps", "end_ps").row(0) == (7, 9)


def test_events_out_of_order_are_sorted_with_their_stats(trace: Any) -> None:
    found = trace(
        plane(
            "/host:CPU",
            line(1, "in order", event("p", 0, 9, n=10), event("q", 0, 4, n=11)),
            line(
                2,
                "not",
                event("late", 50, 5, n=20),
                event("child", 10, 5, n=21),
                event("parent", 10, 30, n=22),
                event("twin", 10, 5, n=23),
            ),
        )
    )
    assert rows(found) == [
        ("in order", "p", 0, 9),
        ("in order", "q", 0, 4),
        ("not", "parent", 10, 30),
        ("not", "child", 10, 5),
        ("not", "twin", 10, 5),
        ("not", "late", 50, 5),
    ]
    stats = found.table("stats")
    assert stats["event"].to_list() == [0, 1, 2, 3, 4, 5]
    assert stats["value"].to_list() == [10, 11, 22, 21, 23, 20]
    assert notes(found)["unordered_tracks"] == 1


def test_negative_durations_are_left_out_and_counted(trace: Any) -> None:
    found = trace(
        plane(
            "/host:CPU",
            line(1, "a", event("x", 0, 5, n=1), event("bad", 9, -1, n=2)),
            line(2, "b", event("y", 0, 5, n=3), event("bad", 9, -(2**62), n=4)),
        )
    )
    assert rows(found) == [("a", "x", 0, 5), ("b", "y", 0, 5)]
    assert found.table("stats")["value"].to_list() == [1, 3]
    assert notes(found)["negative_durations"] == 2


@pytest.mark.parametrize(
    "odd",
    [
        event("odd", 2**62, 5),
        event("odd", -(2**63), 5),
        event("odd", 10, 2**63 - 1),
        event("odd", 2**63 - 1, 2**63 - 1),
    ],
)
def test_times_that_would_overflow_are_left_out_and_counted(
    trace: Any, odd: Any
) -> None:
    found = trace(plane("/host:CPU", line(1, "a", event("x", 0, 5), odd)))
    assert rows(found) == [("a", "x", 0, 5)]
    assert notes(found)["impossible_times"] == 1


def test_a_line_at_a_time_of_no_recording_starts_at_zero(trace: Any) -> None:
    # A year in nanoseconds is neither since the start nor since 1970.
    year = 31_557_600_000_000_000
    found = trace(
        plane("/host:CPU", line(1, "a", event("x", 3, 5), timestamp_ns=year)),
        plane("/host:CPU", line(2, "b", event("y", 4, 5))),
    )
    assert rows(found) == [("a", "x", 3, 5), ("b", "y", 4, 5)]
    assert notes(found)["impossible_line_times"] == 1


def test_aggregated_events_are_counted_apart(trace: Any) -> None:
    found = trace(
        plane(
            "/host:CPU",
            line(1, "a", event("x", 0, 5, n=1)),
            line(
                2,
                "b",
                event("calls", 0, 700, occurrences=12, n=2),
                event("y", 3, 4, n=3),
            ),
        )
    )
    assert rows(found) == [("a", "x", 0, 5), ("b", "y", 3, 4)]
    names = found.table("event_types")["name"]
    assert [
        (row["track"], names[row["type"]], row["occurrences"], row["dur_ps"])
        for row in found.table("aggregates").iter_rows(named=True)
    ] == [(1, "calls", 12, 700)]
    assert found.table("stats")["value"].to_list() == [1, 3]


def test_lines_of_one_track_are_merged_in_time(trace: Any) -> None:
    found = trace(
        plane("/host:CPU", line(1, "a", event("x", 0, 5, n=1), event("y", 20, 5, n=2))),
        plane("/host:CPU", line(2, "b", event("z", 0, 1, n=3))),
        plane("/host:CPU", line(1, "a", event("w", 1, 2, n=4), timestamp_ns=0)),
    )
    assert rows(found) == [
        ("a", "x", 0, 5),
        ("a", "w", 1, 2),
        ("a", "y", 20, 5),
        ("b", "z", 0, 1),
    ]
    assert found.table("stats")["value"].to_list() == [1, 4, 2, 3]


def test_a_name_that_the_file_lacks_is_named_by_its_id_and_counted(
    tmp_path: Path,
) -> None:
    whole = space(plane("/host:CPU", line(1, "a", event("x", 0, 5), event("x", 9, 5))))
    path = tmp_path / "vm.xplane.pb"
    # The one entry of the name table is renumbered: the events' id 1 has none then.
    path.write_bytes(
        whole.replace(
            b"\x08\x01\x12\x05\x08\x01\x12\x01x", b"\x08\x02\x12\x05\x08\x02\x12\x01x"
        )
    )
    found = read(path)
    assert {name for _, name, _, _ in rows(found)} == {"(unknown event 1)"}
    assert notes(found)["unknown_event_names"] == 2
    assert found.table("event_types")["known"].to_list().count(False) == 1


def test_a_file_without_events_fills_every_table_all_the_same(trace: Any) -> None:
    found = trace(plane("/host:CPU", line(1, "a")), plane("/device:GPU:0"))
    for name, schema in TABLES.items():
        table = found.table(name)
        assert isinstance(table, Unavailable) or check_frame(schema, table) == []
    assert found.table("events").is_empty()
    assert found.table("environment").select("begin_ps", "end_ps").row(0) == (
        None,
        None,
    )


def _own(name: str, start: int, dur: int, own_start: int, own_dur: int) -> Any:
    own = {"device_offset_ps": own_start, "device_duration_ps": own_dur}
    return event(name, start, dur, own)


def test_the_device_s_own_clock_tells_when_its_work_ran(trace: Any) -> None:
    """The recorded times of the second step are late by 40 and one op too long."""
    found = trace(
        plane(
            "/device:TPU:0",
            line(
                2,
                "XLA Modules",
                event("step", 100, 50),
                event("step", 240, 50),
                event("step", 300, 50),
            ),
            line(
                3,
                "XLA Ops",
                _own("a", 100, 50, 90, 50),
                _own("a", 240, 50, 190, 40),
                _own("a", 300, 50, 290, 50),
            ),
        ),
        plane("/host:CPU", line(1, "main", event("host", 240, 5))),
    )
    # Own times and 10, which is how far the clocks are apart where nothing is late.
    assert rows(found) == [
        ("XLA Modules", "step", 100, 50),
        ("XLA Modules", "step", 200, 40),
        ("XLA Modules", "step", 300, 50),
        ("XLA Ops", "a", 100, 50),
        ("XLA Ops", "a", 200, 40),
        ("XLA Ops", "a", 300, 50),
        ("main", "host", 240, 5),
    ]
    assert "device_clock" not in notes(found)


def test_clocks_that_are_far_apart_are_said(trace: Any) -> None:
    late = 2_000_000_000
    found = trace(
        plane(
            "/device:TPU:0",
            line(
                3,
                "XLA Ops",
                _own("a", 0, 5, 0, 5),
                _own("a", 10 + late, 5, 10, 5),
                event("b", 20 + late, 4),
            ),
        )
    )
    # What follows the last known time keeps its distance from it.
    assert rows(found) == [
        ("XLA Ops", "a", 0, 5),
        ("XLA Ops", "a", 10, 5),
        ("XLA Ops", "b", 20, 4),
    ]
    assert "device_clock" in notes(found)


def test_own_times_count_on_devices_only_and_only_in_pairs(trace: Any) -> None:
    found = trace(
        plane(
            "/device:TPU:0",
            line(3, "XLA Ops", event("half", 50, 5, {"device_offset_ps": 7})),
        ),
        plane("/host:CPU", line(1, "main", _own("host", 30, 5, 9, 2))),
    )
    assert rows(found) == [("XLA Ops", "half", 50, 5), ("main", "host", 30, 5)]
