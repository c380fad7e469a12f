"""`input_ops`: which host events are input work, of which kind, and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.input_pipeline.input_ops import (
    InputOps,
    input_ops,
    pipeline_category,
)
from stepscope.derive.reasons import WHY as REASONS
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")


def found(*lines: blueprint.Line, **more: Any) -> InputOps:
    profile = blueprint.profile(blueprint.trace(list(lines), **more))
    ops = profile.derived("vm", input_ops)
    assert isinstance(ops, InputOps), ops
    return ops


def categories(ops: InputOps) -> dict[str, str]:
    return dict(ops.rows.select("name", "category").iter_rows())


def test_a_reader_works_ahead_where_something_downstream_does() -> None:
    cases: list[Any] = [
        ("Batch::TFRecord", "demanded_file_read"),
        ("Root::BatchV2::Map::Shuffle::FlatMap[0]::TFRecord", "demanded_file_read"),
        ("Prefetch::TFRecord", "advanced_file_read"),
        ("Model::ParallelMapV2::TextLine", "advanced_file_read"),
        ("ParallelInterleaveV4[3]::FixedLengthRecordV2", "advanced_file_read"),
        ("LegacyParallelInterleaveV2[0]::CSVV2", "advanced_file_read"),
        ("CacheV2::MemoryWriter::SSTable", "advanced_file_read"),
        # Upstream of the reader nothing makes it read ahead.
        ("TFRecord::Prefetch", "preprocessing"),
        ("Prefetch::Map::TensorSlice", "preprocessing"),
        ("TFRecordDatasetOfMine", "preprocessing"),
    ]
    for stages, category in cases:
        assert pipeline_category(f"Iterator::{stages}") == category


def test_self_time_excludes_input_ops_inside_and_keeps_the_work_of_functions() -> None:
    ops = found(
        ("worker", "Iterator::Batch::Map", 0, 100),
        ("worker", "DecodeJpeg:DecodeJpeg", 10, 50),
        ("worker", "Iterator::Batch::Map::TFRecord", 70, 20),
        ("other", "Iterator::Batch::Map", 0, 30),
    )
    columns = ("name", "source", "count", "total_ps", "self_ps", "threads")
    us = 1_000_000
    assert ops.rows.select(columns).rows() == [
        ("Iterator::Batch::Map", "iterator", 2, 130 * us, 110 * us, 2),
        ("Iterator::Batch::Map::TFRecord", "iterator", 1, 20 * us, 20 * us, 1),
    ]
    assert ops.calls == ops.pipeline_calls == 3


def test_recursive_calls_count_once_in_the_total() -> None:
    ops = found(
        ("main", "load_batch", 0, 100),
        ("main", "load_batch", 20, 50),
    )
    row = ops.rows.row(0, named=True)
    assert (row["count"], row["total_ps"], row["self_ps"]) == (2, 10**8, 10**8)


def test_loaders_libraries_and_ranges_that_the_user_named() -> None:
    ops = found(
        ("main", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 9),
        ("main", "grain.next", 20, 9),
        ("main", "load_batch", 40, 9),
        ("main", "IteratorGetNext", 60, 9),
        ("main", "InfeedEnqueueTuple:InfeedEnqueueTuple", 80, 9),
    )
    assert categories(ops) == {
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": "preprocessing",
        "grain.next": "preprocessing",
        "load_batch": "unclassified",
        "InfeedEnqueueTuple:InfeedEnqueueTuple": "enqueue",
    }


def test_stages_that_the_program_marked() -> None:
    def stage(start: float, name: str, kind: str) -> blueprint.Line:
        values = {"_ipl_stage_id": 1, "_ipl_stage_name": name, "_ipl_stage_cat": kind}
        return ("main", "stage", start, 9, values)

    ops = found(
        stage(0, "fetch", "read"),
        stage(10, "resize", "preprocessing"),
        stage(20, "send", "enqueue"),
        stage(30, "other", "what else"),
    )
    assert categories(ops) == {
        "fetch": "demanded_file_read",
        "resize": "preprocessing",
        "send": "enqueue",
        "other": "unclassified",
    }
    assert set(ops.rows["source"]) == {"stage"}
    assert (ops.calls, ops.pipeline_calls) == (4, 3)


def test_a_call_copies_to_the_device_if_nothing_else_came_of_it() -> None:
    ops = found(
        ("main", "Iterator::Batch", 0, 5),
        ("main", "cudaMemcpyAsync", 10, 5, {"correlation_id": 1}),
        ("main", "cudaMemcpyAsync", 20, 5, {"correlation_id": 2}),
        ("main", "cudaGraphLaunch", 30, 5, {"correlation_id": 3}),
        ("main", "cuMemcpyHtoDAsync_v2", 40, 5),
        ("main", "MemcpyH2D", 46, 3),
        ("main", "MemcpyD2H", 49, 1),
        ("gpu:0/8", "MemcpyH2D", 50, 5, {"correlation_id": 1}),
        ("gpu:0/8", "MemcpyD2H", 60, 5, {"correlation_id": 2}),
        ("gpu:0/8", "MemcpyH2D", 70, 5, {"correlation_id": 3}),
        ("gpu:0/7", "sgemm", 80, 5, {"correlation_id": 3}),
    )
    copies = ops.rows.filter(source="copy").sort("name")
    assert copies.select("name", "count").rows() == [
        ("MemcpyH2D", 1),
        ("cuMemcpyHtoDAsync_v2", 1),
        ("cudaMemcpyAsync", 1),
    ]


def test_events_of_devices_are_no_work_of_the_host() -> None:
    profile = blueprint.profile(
        blueprint.trace(
            [
                ("main", "a:A", 0, 5),
                ("gpu:0/8", "MemcpyH2D", 50, 5, {"correlation_id": 1}),
            ]
        )
    )
    ops = profile.derived("vm", input_ops)
    assert isinstance(ops, Unavailable)
    assert ops.code == "NO_TFDATA_EVENTS"
    assert "load_batch" in ops.remedy


@pytest.mark.parametrize(
    ("table", "doubtful"),
    [
        ("iterators", {"demanded_file_read", "advanced_file_read", "preprocessing"}),
        ("launches", {"enqueue"}),
        ("device_activity", {"enqueue"}),
        (
            "stats",
            {
                *("demanded_file_read", "advanced_file_read", "preprocessing"),
                *("enqueue", "unclassified"),
            },
        ),
    ],
)
def test_what_was_lost_puts_categories_in_doubt(table: str, doubtful: set[str]) -> None:
    trace = blueprint.trace(
        [
            ("main", "load_batch", 0, 5),
            ("main", "Iterator::Batch", 10, 5),
            ("main", "Iterator::Batch::TFRecord", 11, 3),
            ("main", "cudaLaunchKernel", 20, 5, {"correlation_id": 1}),
            ("gpu:0/7", "sgemm", 80, 5, {"correlation_id": 1}),
        ]
    )
    whole = blueprint.profile(trace).derived("vm", input_ops)
    assert whole.doubts == {}
    ops = blueprint.profile(trace).without(table, WHY).derived("vm", input_ops)
    assert ops.doubts.keys() == doubtful
    assert ops.rows.rows() == whole.rows.rows()


READS = {"demanded_file_read", "advanced_file_read"}


@pytest.mark.parametrize(
    ("names", "unseen"),
    [
        # A loader's call reads and transforms; nothing in it tells the two apart.
        (["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"], READS),
        (["load_batch"], READS | {"preprocessing"}),
        (["Iterator::Batch", "Iterator::Batch::Map"], READS),
        (["Iterator::Batch", "Iterator::Batch::TFRecord"], set()),
    ],
)
def test_work_that_no_event_can_show_is_in_doubt(
    names: list[str], unseen: set[str]
) -> None:
    """A CPU recording said 0 µs of reading and of sending, which nobody had seen."""
    spans = [("main", name, 10 + i, 5 - 2 * i) for i, name in enumerate(names)]
    ops = blueprint.profile(blueprint.trace(spans)).derived("vm", input_ops)
    found = set(ops.rows["category"])
    assert ops.doubts.keys() - found == unseen | {"enqueue"}
    assert ops.doubts["enqueue"].code == "NO_DEVICE_PLANE"


US = 1_000_000
WAITS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LOADS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
MARKED = {"_ipl_stage_id": 1, "_ipl_stage_name": "fetch", "_ipl_stage_cat": "READ"}


def test_everything_about_input_ops_of_two_threads() -> None:
    ops = found(
        ("main", LOADS, 0, 50),
        # This call has two names: that of the stage counts.
        ("main", "load_batch", 10, 30, MARKED),
        ("main", "cuMemcpyHtoDAsync_v2", 15, 5, {"correlation_id": 1}),
        ("main", "cuMemcpyHtoDAsync_v2", 60, 5),
        ("main", "Iterator::Prefetch::TFRecord", 70, 10),
        ("main", "aten::add", 90, 10),
        ("other", "load_batch", 0, 20),
        ("other", "load_batch", 5, 10),
        ("other", "cuMemcpyHtoDAsync_v2", 40, 7),
        ("other", "Iterator::Prefetch", 50, 10),
        ("gpu:0/8", "MemcpyH2D", 50, 5, {"correlation_id": 1}),
        # It is named like a call of the host, but a device recorded it.
        ("gpu:0/9", "InfeedEnqueueTuple", 80, 5),
    )
    assert ops.rows.rows() == [
        ("fetch", "demanded_file_read", "stage", 1, 30 * US, 25 * US, 1),
        (LOADS, "preprocessing", "loader", 1, 50 * US, 20 * US, 1),
        ("load_batch", "unclassified", "loader", 2, 20 * US, 20 * US, 1),
        ("cuMemcpyHtoDAsync_v2", "enqueue", "copy", 3, 17 * US, 17 * US, 2),
        ("Iterator::Prefetch", "preprocessing", "iterator", 1, 10 * US, 10 * US, 1),
        (
            *("Iterator::Prefetch::TFRecord", "advanced_file_read", "iterator"),
            *(1, 10 * US, 10 * US, 1),
        ),
    ]
    assert (ops.calls, ops.pipeline_calls) == (9, 6)
    assert ops.doubts == {}


def test_each_doubt_has_its_reason() -> None:
    cases: list[Any] = [
        ([WAITS, "Iterator::TFRecord"], "input_in_workers", 3),
        ([WAITS], "input_in_workers", 3),
        ([LOADS], "input_in_one_call", 3),
        (["Iterator::Batch"], "no_file_reader", 2),
        (["Iterator::Batch", LOADS], "no_file_reader", 2),
        (["Iterator::TFRecord"], None, 0),
        (["Iterator::Prefetch::TFRecord"], None, 0),
    ]
    for names, key, doubtful in cases:
        ops = found(*(("main", name, 10 * k, 5) for k, name in enumerate(names)))
        in_order = ("demanded_file_read", "advanced_file_read", "preprocessing")
        doubts = {name: why for name, why in ops.doubts.items() if name != "enqueue"}
        assert doubts == {name: REASONS[key] for name in in_order[:doubtful] if key}
        waits = categories(ops).get(WAITS)
        assert waits == ("waiting_for_workers" if WAITS in names else None)


def test_lost_tables_explain_what_the_recorded_ops_leave_open() -> None:
    trace = blueprint.trace([("main", LOADS, 0, 5), ("main", "Iterator::Batch", 9, 5)])
    ops = blueprint.profile(trace).without("iterators", WHY).derived("vm", input_ops)
    assert set(ops.doubts.values()) >= {WHY}
    assert [ops.doubts[name] for name in sorted(READS | {"preprocessing"})] == [WHY] * 3
    # Where nothing is input, the lost table is the reason.
    alone = blueprint.profile(blueprint.trace([("main", "aten::add", 0, 5)]))
    assert alone.without("iterators", WHY).derived("vm", input_ops) == WHY
    assert alone.derived("vm", input_ops) == REASONS["no_input_ops"]
