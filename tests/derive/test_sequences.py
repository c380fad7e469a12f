"""Sequences in which unmarked steps are sought: every field, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.correlation import Correlation, correlation
from stepscope.derive.names.event_kinds import event_kinds
from stepscope.derive.sequences import (
    SymbolSequence,
    activity_by_launch,
    device_sequence,
    instruction_sequence,
    op_sequences,
    program_threads,
    sequence_of_events,
)

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

US = 1_000_000


def table(trace: TraceData, name: str) -> pl.DataFrame:
    found = trace.table(name)
    assert isinstance(found, pl.DataFrame)
    return found


def names(trace: TraceData, sequence: SymbolSequence) -> list[str]:
    """The name of each entry."""
    types = table(trace, "event_types")["name"]
    return types.gather(sequence.label[sequence.symbol]).to_list()


def times_us(*columns: np.ndarray[Any, np.dtype[np.int64]]) -> list[list[float]]:
    return [(column / US).tolist() for column in columns]


def times_of(sequence: SymbolSequence) -> list[list[float]]:
    """Time, weight and gap of the entries in µs."""
    return times_us(sequence.at_ps, sequence.weight, sequence.gap_ps)


def kernel(start: float, dur: float, name: str, stream: str, **stats: Any) -> Any:
    return (f"gpu:{stream}", name, start, dur, stats)


def test_kernels_of_the_busiest_stream_are_a_sequence() -> None:
    trace = blueprint.trace(
        [
            kernel(2, 5, "a", "0/7(Compute)", correlation_id=4),
            kernel(12, 5, "b", "0/7(Compute)", correlation_id=3),
            kernel(14, 8, "a", "0/7(Compute)", correlation_id=9),
            kernel(14, 9, "c", "0/9(Compute)"),
            kernel(0, 90, "MemcpyH2D", "0/8(MemcpyH2D)"),
        ]
    )
    activity = table(trace, "device_activity")
    launch_of = np.arange(10, 10 + len(activity), dtype=np.int32)
    found = device_sequence(table(trace, "tracks"), activity, launch_of)
    assert found is not None
    assert found.what == "kernels of Stream #7(Compute) of device 0"
    assert names(trace, found) == ["a", "b", "a"]
    assert times_of(found) == [[2, 12, 14], [5, 5, 8], [0, 5, 0]]
    assert found.work.tolist() == found.weight.tolist()
    assert (found.end_ps, found.on_device, len(found)) == (22 * US, True, 3)
    on_stream = np.flatnonzero((activity["start_ps"] == 2 * US).to_numpy())
    assert found.launch is not None
    assert found.launch[0] == launch_of[on_stream[0]]
    assert device_sequence(table(trace, "tracks"), activity, None).launch is None  # type: ignore[union-attr]


def test_equal_kernels_of_other_ops_are_other_symbols() -> None:
    stream = "0/7(Compute)"
    trace = blueprint.trace(
        [
            kernel(0, 5, "k", stream, tf_op="one:Op"),
            kernel(10, 5, "k", stream, tf_op="two:Op"),
            kernel(20, 5, "k", stream, tf_op="one:Op"),
            kernel(
                30, 5, "k", stream, tf_op="one:Op", kernel_details=blueprint._KERNEL
            ),
        ]
    )
    tables = table(trace, "tracks"), table(trace, "device_activity")
    found = device_sequence(*tables, None)
    assert found is not None
    first, second, third, fourth = found.symbol.tolist()
    assert first == third
    assert len({first, second, fourth}) == 3
    assert names(trace, found) == ["k"] * 4


def test_kernels_that_take_no_time_are_counted() -> None:
    trace = blueprint.trace(
        [
            kernel(0, 0, "a", "0/7(Compute)"),
            *(kernel(at, 0, "b", "1/7(Compute)") for at in (1, 2)),
        ]
    )
    found = device_sequence(
        table(trace, "tracks"), table(trace, "device_activity"), None
    )
    assert found is not None
    assert found.what == "kernels of Stream #7(Compute) of device 1"
    assert names(trace, found) == ["b", "b"]


def test_without_kernels_there_is_no_sequence() -> None:
    trace = blueprint.trace([kernel(0, 9, "MemcpyH2D", "0/8(MemcpyH2D)")])
    tables = table(trace, "tracks"), table(trace, "device_activity")
    assert device_sequence(*tables, None) is None


def test_kernels_of_all_streams_by_their_launch_calls() -> None:
    def call(start: float, number: int) -> Any:
        return ("main", "cuLaunchKernel", start, 2, {"correlation_id": number})

    trace = blueprint.trace(
        [
            *(call(10 * number, number) for number in range(1, 6)),
            kernel(100, 5, "a", "0/7(Compute)", correlation_id=3),
            kernel(110, 7, "b", "0/7(Compute)", correlation_id=5),
            kernel(120, 11, "c", "1/9(Compute)", correlation_id=1),
            kernel(
                130, 13, "ncclDevKernel_AllReduce", "1/9(Compute)", correlation_id=4
            ),
            kernel(140, 17, "MemcpyH2D", "0/8(MemcpyH2D)", correlation_id=2),
            kernel(150, 19, "lost", "0/7(Compute)", correlation_id=77),
        ]
    )
    launched = blueprint.profile(trace).derived("vm", correlation)
    assert isinstance(launched, Correlation)
    found = activity_by_launch(launched)
    assert found is not None
    assert names(trace, found) == ["c", "a", "ncclDevKernel_AllReduce", "b"]
    assert times_of(found) == [[10, 30, 40, 50], [11, 5, 13, 7], [0, 20, 10, 10]]
    assert found.work.tolist() == found.weight.tolist()
    assert (found.end_ps, found.on_device, found.launch) == (50 * US, True, None)
    bare = blueprint.profile(
        blueprint.trace([call(0, 1), kernel(5, 5, "a", "0/7", correlation_id=9)])
    ).derived("vm", correlation)
    assert isinstance(bare, Correlation)
    assert activity_by_launch(bare) is None


def ops_of(*lines: blueprint.Line) -> tuple[TraceData, dict[int, SymbolSequence]]:
    trace = blueprint.trace(lines)
    kinds = blueprint.profile(trace).derived("vm", event_kinds)
    found = op_sequences(table(trace, "tracks"), table(trace, "events"), kinds)
    return trace, found


def test_ops_of_each_thread_and_of_all() -> None:
    trace, found = ops_of(
        ("main", "a:A", 0, 10),
        ("main", "b:B", 2, 5),
        ("main", "c:C", 8, 6),
        ("main", "a:A", 30, 10),
        ("main", "ThreadpoolListener::StartRegion", 42, 9),
        ("main", "no op", 60, 9),
        ("pool", "d:D", 5, 20),
        ("pool", "d:D", 26, 20),
        ("tf_data_iterator", "e:E", 0, 90),
        ("idle", "f:F", 1, 0),
    )
    tracks = table(trace, "tracks")["name"].to_list()
    threads = [tracks.index(name) for name in ("pool", "main")]
    # The one with most time in ops is first.
    assert list(found) == [*threads, -1]
    pool, main, every = found.values()
    assert [each.what for each in (pool, main, every)] == [
        *("ops of thread pool", "ops of thread main", "ops of all threads"),
    ]
    assert names(trace, main) == ["a:A", "b:B", "c:C", "a:A"]
    # An entry weighs what it adds to the time in which there are any.
    assert times_of(main) == [[0, 2, 8, 30], [10, 0, 4, 10], [0, 0, 0, 16]]
    assert main.work.tolist() == [1] * 4
    assert (main.end_ps, main.on_device, main.launch) == (40 * US, False, None)
    assert names(trace, pool) == ["d:D", "d:D"]
    assert times_of(pool) == [[5, 26], [20, 20], [0, 1]]
    assert names(trace, every) == ["a:A", "b:B", "d:D", "c:C", "d:D", "a:A"]
    assert times_of(every) == [
        *([0, 2, 5, 8, 26, 30], [10, 0, 15, 0, 20, 0], [0, 0, 0, 0, 1, 0])
    ]
    assert every.end_ps == 46 * US


def test_a_single_thread_has_no_sequence_of_all() -> None:
    trace, found = ops_of(("main", "a:A", 0, 10), ("main", "a:A", 20, 10))
    assert list(found) == [table(trace, "tracks")["name"].to_list().index("main")]
    assert ops_of(("main", "nothing", 0, 10))[1] == {}


@pytest.mark.parametrize(("captured", "workers"), [(10, 0), (9, 1)])
def test_threads_that_mostly_run_functions_of_the_input_are_left_out(
    captured: int, workers: int
) -> None:
    trace, found = ops_of(
        ("main", "a:A", 0, 30),
        ("main", "a:A", 40, 30),
        ("worker", "b:B", 0, 10),
        ("worker", "InstantiatedCapturedFunction::Run", 20, captured),
        ("worker", "b:B", 80, 10),
    )
    worker = table(trace, "tracks")["name"].to_list().index("worker")
    assert (worker in found) == bool(workers)
    assert (-1 in found) == bool(workers)


def test_instructions_of_compiled_programs_on_all_threads() -> None:
    trace = blueprint.trace(
        [
            ("one", "dot.1", 0, 10),
            ("one", "end: dot.1", 10, 0),
            ("two", "add.2", 4, 2),
            ("tf_data_x", "dot.1", 5, 2),
            ("one", "dot.1", 30, 10),
        ]
    )
    kinds = blueprint.profile(trace).derived("vm", event_kinds)
    tracks, events = table(trace, "tracks"), table(trace, "events")
    executed = np.arange(len(events), dtype=np.int32)[::-1]
    found = instruction_sequence(tracks, events, kinds, np.append(executed, executed))
    assert found is not None
    assert names(trace, found) == ["dot.1", "add.2", "dot.1"]
    assert times_of(found) == [[0, 4, 30], [10, 0, 10], [0, 0, 20]]
    assert found.what == "instructions of compiled programs"
    assert not found.on_device
    none = np.empty(0, np.int32)
    assert instruction_sequence(tracks, events, kinds, none) is None


def test_threads_of_the_program_are_neither_of_a_device_nor_of_the_input() -> None:
    trace = blueprint.trace(
        [("main", "a", 0, 1), ("tf_data_1", "b", 0, 1), kernel(0, 1, "k", "0/7")]
    )
    tracks = table(trace, "tracks")
    assert dict(zip(tracks["name"], program_threads(tracks), strict=True)) == {
        "main": True,
        "tf_data_1": False,
        "Stream #7": False,
    }


@pytest.mark.parametrize(("dur", "kept"), [(50, 3), (51, 2)])
def test_events_of_more_than_half_the_recording_are_left_out(
    dur: int, kept: int
) -> None:
    trace = blueprint.trace(
        [("main", "a", 0, 10), ("main", "b", 20, dur), ("main", "a", 90, 10)]
    )
    events = table(trace, "events")
    rows = np.arange(3)
    for order in (rows, rows[::-1]):
        found = sequence_of_events("it", events, order, on_device=True)
        assert len(found) == kept
        assert found.at_ps.tolist() == sorted(found.at_ps.tolist())
        assert (found.end_ps, found.on_device) == (100 * US, True)
        assert found.work.sum() == (20 + (dur if kept == 3 else 0)) * US


def test_nothing_is_left_of_a_single_event() -> None:
    events = table(blueprint.trace([("main", "a", 5, 10)]), "events")
    found = sequence_of_events("it", events, np.arange(1), on_device=False)
    assert (len(found), found.end_ps) == (0, 0)


def test_what_is_looked_up_in_a_sequence() -> None:
    symbol = np.array([2, 0, 2, 1, 0, 2], np.int32)
    weight = np.array([1, 9, 1, 30, 2, 1])
    found = SymbolSequence(
        what="it",
        symbol=symbol,
        label=np.arange(3, dtype=np.int32),
        at_ps=np.arange(6),
        weight=weight,
        work=2 * weight,
        gap_ps=np.zeros(6, np.int64),
        end_ps=6,
        on_device=False,
    )
    assert found.counts.tolist() == [2, 1, 3]
    assert found.weight_before.tolist() == [0, 1, 10, 11, 41, 43, 44]
    assert found.work_before.tolist() == [0, 2, 20, 22, 82, 86, 88]
    assert found.heaviest.tolist() == [1, 0, 2]
    assert found.index.tolist() == [1, 4, 7 + 3, 14, 14 + 2, 14 + 5]
    listed = [entries.tolist() for entries in found.symbol_entries(np.array([2, 1]))]
    assert listed == [[0, 2, 5], [3]]
