"""Allocations, input iterators, environment, and what is doubtful in a file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.kept_promises import check_frame
from tests.support.xspace.literal import Ref, Unsigned, event, line, plane, space
from tests.support.xspace.wire import number_field

from stepscope.formats.opening import read
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    def of(*planes: Any, **about: Any) -> TraceData:
        path = tmp_path / "vm.xplane.pb"
        path.write_bytes(space(*planes, **about))
        return read(path)

    return of


def threads(*events: Any) -> Any:
    return plane("/host:CPU", line(1, "main", *events))


def notes(trace: TraceData) -> dict[str, Any]:
    return {note.kind: note for note in trace.quality_notes()}


def test_allocations_of_all_threads_are_in_order_of_time(trace: Any) -> None:
    levels = {"bytes_reserved": 0, "bytes_available": 900, "peak_bytes_in_use": 700}
    found = trace(
        plane(
            "/host:CPU",
            line(
                1,
                "a",
                event(
                    "MemoryAllocation",
                    50,
                    0,
                    levels,
                    allocator_name=Ref("GPU_0_bfc"),
                    requested_bytes=8,
                    allocation_bytes=256,
                    bytes_allocated=100,
                    fragmentation=0.25,
                    addr=Unsigned(2**63 + 16),
                    tf_op="Adam/add",
                    region_type=Ref("output"),
                    data_type=9,
                    shape="[2]",
                    group_id=3,
                ),
            ),
            line(
                2,
                "b",
                event("MemoryDeallocation", 20, 0, levels, allocator_name="GPU_0_bfc"),
                event("MemoryDeallocation", 90, 0, levels, index_on_host=3),
                event("MemoryAllocation", 95, 0, index_on_host=3, device_ordinal=1),
                event("MemoryAllocation", 99, 0),
            ),
        )
    )
    table = found.table("allocations")
    assert check_frame(TABLES["allocations"], table) == []
    assert table["start_ps"].to_list() == [20, 50, 90, 95, 99]
    assert table["allocator"].to_list() == [
        "GPU_0_bfc",
        "GPU_0_bfc",
        "3",
        "3/1",
        "unknown",
    ]
    allocation = table.row(1, named=True)
    assert allocation["kind"] == "allocate"
    assert allocation["address"] == 2**63 + 16
    assert (allocation["heap_bytes"], allocation["allocated_bytes"]) == (100, 256)
    assert (allocation["op"], allocation["region"]) == ("Adam/add", "output")
    assert (allocation["dtype"], allocation["shape"]) == (9, "[2]")
    assert (allocation["fragmentation"], allocation["group"]) == (0.25, 3)
    assert table.row(4, named=True)["heap_bytes"] is None


@pytest.mark.parametrize(
    ("fragmentation", "free", "expected"),
    [(0.5, 10, 0.5), (0, 10, 0.0), (0.5, 0, None), (math.nan, 10, None)],
)
def test_fragmentation_is_missing_where_nothing_is_free(
    trace: Any, fragmentation: float, free: int, expected: float | None
) -> None:
    found = trace(
        threads(
            event(
                "MemoryAllocation",
                0,
                0,
                allocator_name="x",
                fragmentation=fragmentation,
                bytes_available=free,
            )
        )
    )
    assert found.table("allocations")["fragmentation"].to_list() == [expected]


def test_iterators_carry_their_ids_in_either_field(trace: Any) -> None:
    found = trace(
        threads(
            event("Iterator::Batch", 0, 90, id=7),
            event(
                "Iterator::Batch::Map",
                5,
                50,
                id=Unsigned(9938941371175357777),
                parent_id=7,
            ),
            event("IteratorGetNextOp::DoCompute", 60, 5, id=3),
        )
    )
    table = found.table("iterators")
    assert check_frame(TABLES["iterators"], table) == []
    assert table.select("long_name", "dur_ps", "id", "parent_id").rows() == [
        ("Iterator::Batch", 90, 7, None),
        ("Iterator::Batch::Map", 50, 9938941371175357777 - 2**64, 7),
    ]


def test_the_name_of_an_allocator_ends_at_the_first_nul(trace: Any) -> None:
    names = ("GPU_0_bfc\0rest", "\0", "cpu")
    found = trace(
        threads(
            *(
                event("MemoryAllocation", at, 0, bytes_allocated=1, allocator_name=name)
                for at, name in enumerate(names)
            )
        )
    )
    named = found.table("allocations")["allocator"].to_list()
    assert named == ["GPU_0_bfc", "unknown", "cpu"]


def test_allocator_events_on_a_device_are_not_the_hosts(trace: Any) -> None:
    found = trace(
        plane(
            "/device:GPU:0", line(7, "Stream #7(Compute)", event("Iterator::X", 0, 1))
        ),
        threads(event("train", 0, 1)),
    )
    assert found.table("iterators").code == "NO_TFDATA_EVENTS"


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ("allocations", "NO_ALLOCATOR_EVENTS"),
        ("iterators", "NO_TFDATA_EVENTS"),
        ("hlo_ops", "NO_HLO"),
        ("devices", "NO_DEVICE_PLANE"),
        ("launches", "NO_DEVICE_PLANE"),
        ("geometries", "NO_DEVICE_PLANE"),
        ("parameters", "NOT_RECORDED"),
    ],
)
def test_a_table_that_was_not_recorded_says_so(
    trace: Any, table: str, code: str
) -> None:
    absent = trace(threads(event("train", 0, 5))).table(table)
    assert isinstance(absent, Unavailable)
    assert absent.code == code
    assert absent.reason.endswith(".")
    assert absent.remedy.endswith(".")


@pytest.mark.parametrize("table", ["allocations", "iterators", "hlo_ops", "devices"])
def test_a_table_that_damage_may_have_taken_says_so(tmp_path: Path, table: str) -> None:
    whole = space(threads(*(event("train", 10 * i, 5) for i in range(99))))
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(whole[: len(whole) // 2])
    found = read(path)
    assert found.table(table).code == "CORRUPT"
    assert notes(found)["damaged_file"].severity == "error"
    assert notes(found)["unknown_event_names"].count == found.table("events").height


def test_the_tracer_levels_in_force_are_read_from_the_options(trace: Any) -> None:
    options = number_field(1, 1) + number_field(2, 2) + number_field(3, 1)
    task = plane("Task Environment", stats={"profile_options": options})
    found = trace(threads(), task)
    levels = ("host_tracer_level", "device_tracer_level", "python_tracer_level")
    assert found.table("environment").select(levels).row(0) == (2, 1, 0)
    assert "host 2, device 1, Python 0" in notes(found)["tracer_levels"].message


def test_options_that_are_not_a_message_are_unknown(trace: Any) -> None:
    task = plane("Task Environment", stats={"profile_options": b"\xff\xff\xff"})
    row = trace(threads(), task).table("environment").row(0, named=True)
    assert row["host_tracer_level"] is None


def test_what_the_producer_reports_is_passed_on(trace: Any) -> None:
    found = trace(
        threads(),
        errors=("tracer failed",),
        warnings=("dropped 1200 events: buffer full", "slow", "slow"),
    )
    by_kind = notes(found)
    assert by_kind["dropped_events"].count == 1200
    assert "buffer full" in by_kind["dropped_events"].message
    assert by_kind["producer_error"].severity == "error"
    assert by_kind["producer_warning"].count == 2
    table = found.table("quality")
    assert check_frame(TABLES["quality"], table) == []
    assert table["severity"].to_list() == sorted(
        table["severity"].to_list(), key=["error", "warning", "info"].index
    )


def test_a_file_without_a_clock_says_so(trace: Any) -> None:
    start = {"profile_start_time": Unsigned(1_795_166_549_737_043_149)}
    without = trace(threads(event("x", 0, 1)))
    assert "no_clock" in notes(without)
    with_clock = trace(
        threads(event("x", 0, 1)), plane("Task Environment", stats=start)
    )
    assert "no_clock" not in notes(with_clock)


def test_the_environment_names_file_size_and_groups(trace: Any) -> None:
    plain = trace(threads(event("x", 3, 4)), hostnames=("node7",))
    row = plain.table("environment").row(0, named=True)
    assert row["hostname"] == "node7"
    assert row["format"] == "XSpace"
    assert row["file_bytes"] == len(plain.data)
    assert row["grouped"] is False
    assert (row["begin_ps"], row["end_ps"]) == (3, 7)
    grouped = trace(threads(event("x", 0, 1, group_id=0)))
    assert grouped.table("environment")["grouped"].to_list() == [True]


def test_hlo_that_cannot_be_read_is_counted(trace: Any) -> None:
    metadata = plane(
        "/host:metadata",
        types={
            "jit_good(5)": {"Hlo Proto": b"\x0a\x05\x0a\x03mod"},
            "jit_bad(6)": {"HLO Proto": b"\x0a\xff"},
        },
    )
    found = trace(threads(), metadata)
    assert notes(found)["malformed_programs"].count == 1
    only_bad = plane("/host:metadata", types={"b(6)": {"Hlo Proto": b"\x0a\xff"}})
    assert trace(threads(), only_bad).table("hlo_ops").code == "CORRUPT"


def test_program_ids_come_from_the_stat_the_name_or_the_entry(trace: Any) -> None:
    proto = b"\x0a\x13\x1a\x0f\x12\x0b\x0a\x03add\x12\x04add!\x28\x09"
    proto = proto[:1] + bytes([len(proto) - 2]) + proto[2:]
    metadata = plane(
        "/host:metadata",
        types={
            "jit_a(0)": {"Hlo Proto": proto, "program_id": Unsigned(41)},
            "jit_b(9646411105960254074)": {"Hlo Proto": proto},
            "cluster": {"Hlo Proto": proto},
        },
        type_ids={"cluster": 77},
    )
    table = trace(threads(), metadata).table("hlo_ops")
    assert check_frame(TABLES["hlo_ops"], table) == []
    assert dict(table.select("module", "program").rows()) == {
        "jit_a": 41,
        "jit_b": 9646411105960254074 - 2**64,
        "cluster": 77,
    }
