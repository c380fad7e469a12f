"""Memories and failed allocations of literal hosts: every field, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from tests.support.traces.literal import (
    ABSENT,
    OTHER,
    Tables,
    events_at,
    fields_of,
    types_named,
    windows_at,
)

from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.memory_use import (
    Failure,
    KeptGrowth,
    MemorySignals,
    MemoryUse,
    host_growth,
    kept_growth,
    memory_signals,
)
from stepscope.trace.tables import ACTIVITY_KINDS, INT
from stepscope.xspace.vocabulary import KEPT_KINDS, KeptCounter

MS = 1_000_000_000
KINDS = ACTIVITY_KINDS.categories.to_list()


def allocations(*rows: tuple[int, int, int | None, str | None, int]) -> pl.DataFrame:
    """Start, free bytes, capacity, op, and allocated bytes of each event."""
    schema = {
        "start_ps": pl.Int64,
        "free_bytes": pl.Int64,
        "capacity_bytes": pl.Int64,
        "op": pl.String,
        "allocated_bytes": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        stack_bytes=pl.lit(1, pl.Int64),
        heap_bytes=pl.lit(50, pl.Int64),
        fragmentation=pl.col("start_ps") / 1000,
        older_counted=pl.lit(None, pl.Boolean),
        source=pl.lit(None, pl.String),
        kind=pl.lit("allocate"),
        allocator=pl.lit("GPU_0_bfc"),
    )


def replayed(use: list[int], **fields: Any) -> Any:
    return SimpleNamespace(
        **{
            "name": "GPU_0_bfc",
            "rows": np.arange(len(use)),
            "in_use_bytes": np.array(use, np.int64),
            "known": np.ones(len(use), np.bool_),
            "replayed": False,
            "peak": int(np.argmax(use)),
            **fields,
        }
    )


ALLOCATED = allocations(
    (5, 9, None, "a", 30),
    (15, 8, None, "b", 20),
    (25, 7, None, "a", 10),
    (35, 6, None, None, 40),
    (45, 5, None, "c", 20),
    (55, 9, None, "d", 0),
)
USE = [10, 40, 30, 100, 20, 60]
STEPS = windows_at(
    *((0, 3), (10, 20), (20, 30), (30, 50), (50, 53), (53, 60)),
    open_end=[False] * 5 + [True],
)


def used(
    memory: Any, table: pl.DataFrame = ALLOCATED, windows: Any = STEPS
) -> MemorySignals:
    """Rows up to an index are alive then."""
    replay = SimpleNamespace(
        memories=(memory,),
        alive_rows=lambda memory, index: memory.rows[np.arange(index + 1)],
    )
    found: MemorySignals = memory_signals.function(
        trace={"a": Tables("a", allocations=table), "b": Tables("b")},
        memory_replay={"a": replay, "b": replay, "c": ABSENT},
        windows={"a": windows, "b": ABSENT},
    )
    return found


def test_every_field_of_an_allocators_memory() -> None:
    """Before the first event, in the first step, nobody knows how much is in use.

    The second begins with the 10 of the event before it, and the third with 40. In the
    fourth 30 are in use until 35, and 20 from 45 on, until after the fifth.
    """
    found = used(replayed(USE))
    expected = MemoryUse(
        host="a",
        name="GPU_0_bfc",
        capacity_bytes=60,
        peak_bytes=100,
        peak_ps=35,
        counted=True,
        free_bytes=6,
        fragmentation=0.035,
        alive=(
            Part(name="a", share_percent=40.0),
            Part(name="b", share_percent=20.0),
        ),
        least_bytes=(10, 30, 20, 20),
        at_step=(1.0, 2.0, 3.0, 4.0),
        grown=(
            Part(name="a", share_percent=40.0),
            Part(name="b", share_percent=20.0),
            Part(name="c", share_percent=20.0),
        ),
    )
    assert fields_of(found) == {
        "memories": (fields_of(expected),),
        "absent": None,
        "failures": (),
        "tells_failures": False,
    }
    (memory,) = found.memories
    assert (memory.label, memory.used, memory.of_device) == (
        *("a:GPU_0_bfc", 100 / 60),
        True,
    )


def test_a_memory_without_known_use_has_no_peak() -> None:
    unknown = replayed(USE, peak=None, known=np.zeros(6, np.bool_))
    (memory,) = used(unknown).memories
    assert (memory.peak_bytes, memory.peak_ps, memory.free_bytes) == (None, 0, None)
    assert (memory.alive, memory.grown, memory.fragmentation) == ((), (), None)
    assert (memory.least_bytes, memory.at_step, memory.used) == ((), (), None)


def test_the_last_event_may_allocate_a_block_that_stays() -> None:
    sizes = pl.Series([30, 20, 10, 40, 20, 70], dtype=pl.Int64)
    (memory,) = used(
        replayed(USE), ALLOCATED.with_columns(allocated_bytes=sizes)
    ).memories
    assert memory.grown[0] == Part(name="d", share_percent=70.0)
    assert memory.alive[0] == Part(name="a", share_percent=40.0)


def test_the_use_of_steps_is_known_only_if_that_of_every_event_is() -> None:
    known = np.array([True] * 5 + [False])
    (memory,) = used(replayed(USE, known=known)).memories
    assert (memory.peak_bytes, memory.least_bytes, memory.at_step) == (100, (), ())


def test_blocks_from_before_the_recording_may_be_missing() -> None:
    for table, memory in (
        (ALLOCATED, replayed(USE, replayed=True)),
        (
            ALLOCATED.with_columns(older_counted=pl.Series([None] * 5 + [False])),
            replayed(USE),
        ),
    ):
        assert not used(memory, table).memories[0].counted
    older = ALLOCATED.with_columns(older_counted=pl.lit(value=True))
    assert used(replayed(USE), older).memories[0].counted
    known = ALLOCATED.with_columns(capacity_bytes=pl.Series([None, 99] + [70] * 4))
    assert used(replayed(USE), known).memories[0].capacity_bytes == 99
    no_steps = windows_at((0, 60), has_steps=False)
    assert used(replayed(USE), windows=no_steps).memories[0].least_bytes == ()


def test_without_an_allocator_the_reason_is_a_hosts() -> None:
    def signals(replay: Any) -> Any:
        return memory_signals.function(
            trace={"a": Tables("a")}, memory_replay={"a": replay}, windows={}
        )

    assert signals(OTHER).absent == OTHER
    empty = signals(SimpleNamespace(memories=()))
    assert empty.absent.code == "NO_ALLOCATOR_EVENTS"
    assert empty.memories == ()


def test_failed_allocations_are_told_in_the_order_of_time() -> None:
    keys = ("Device Id", "Bytes", "Total Allocated", "Total Reserved")
    stats = pl.DataFrame(
        {
            "event": pl.Series([0, 0, 0, 0, 2], dtype=pl.Int32),
            "key": [0, 1, 2, 3, 1],
            "value": [1, 100, 500, 600, 7],
            "kind": pl.Series([INT] * 5, dtype=pl.UInt8),
        }
    )
    host = Tables(
        "a",
        strings=keys,
        event_types=types_named("[OutOfMemory]", "[memory]"),
        events=events_at((0, 0, 30, 0), (1, 0, 20, 0), (0, 0, 10, 0), (1, 0, 5, 0)),
        stats=stats,
    )
    found = memory_signals.function(
        trace={"a": host, "b": Tables("b")}, memory_replay={}, windows={}
    )
    first = Failure("a", None, 10, 7, None, None, recovered=True)
    last = Failure("a", 1, 30, 100, 500, 600, recovered=False)
    assert fields_of(found.failures) == fields_of((first, last))
    assert found.tells_failures
    assert (first.label, first.kept_bytes, first.fits_in_pieces) == ("a", None, False)
    assert (last.label, last.kept_bytes, last.fits_in_pieces) == ("a:1", 100, True)
    short = Failure("a", 1, 30, 101, 500, 600, recovered=False)
    assert not short.fits_in_pieces
    # The host's allocator reserves nothing in advance, and says so: 0.
    of_host = Failure("a", None, 30, 100, 500, 0, recovered=False)
    assert (of_host.kept_bytes, of_host.fits_in_pieces) == (None, False)


def counted(counters: dict[str, list[tuple[int, int]]], host: str = "a") -> Tables:
    """A host with samples of counters: time and value."""
    samples = [
        (type_, time, value)
        for type_, readings in enumerate(counters.values())
        for time, value in readings
    ]
    stats = pl.DataFrame(
        {
            "event": pl.Series(range(len(samples)), dtype=pl.Int32),
            "value": pl.Series([value for *_, value in samples], dtype=pl.Int64),
            "kind": pl.Series([INT] * len(samples), dtype=pl.UInt8),
        }
    )
    return Tables(
        host,
        event_types=types_named(*counters),
        events=events_at(*((type_, 0, time, 0) for type_, time, _ in samples)),
        stats=stats,
    )


RSS, AVAILABLE = "process RSS (bytes)", "memory available (bytes)"
SIZES = [(5, 30), (35, 80), (20, 40), (50, 70)]


def of_process(
    counters: dict[str, list[tuple[int, int]]], windows: Any
) -> tuple[MemoryUse, ...]:
    found: MemorySignals = memory_signals.function(
        trace={"a": counted(counters)}, memory_replay={}, windows={"a": windows}
    )
    return found.memories


def test_every_field_of_the_memory_of_a_process() -> None:
    """Steps begin at 10, 20, 30 and 50, every 10 at the median; the last is open."""
    steps = windows_at(
        *((10, 20), (20, 30), (30, 50), (50, 55)), open_end=[False] * 3 + [True]
    )
    (found,) = of_process({RSS: SIZES, AVAILABLE: [(5, 90), (35, 20), (50, 25)]}, steps)
    expected = MemoryUse(
        host="a",
        name="process",
        capacity_bytes=80 + 20,
        peak_bytes=80,
        peak_ps=35,
        counted=True,
        free_bytes=20,
        least_bytes=(30, 40, 80, 70),
        at_step=(-0.5, 1.0, 2.5, 4.0),
    )
    assert fields_of(found) == fields_of(expected)
    assert not found.of_device


def test_of_a_process_less_may_be_known() -> None:
    """The period of steps is known from two complete ones on."""
    two, one = windows_at((10, 20), (20, 30)), windows_at((10, 20))
    (found,) = of_process({RSS: SIZES}, two)
    assert (found.capacity_bytes, found.free_bytes, found.peak_bytes) == (
        None,
        None,
        80,
    )
    assert found.at_step == (-0.5, 1.0, 2.5, 4.0)
    (found,) = of_process({RSS: SIZES}, one)
    assert (found.least_bytes, found.at_step, found.peak_ps) == ((), (), 35)
    assert of_process({AVAILABLE: [(5, 90)]}, two) == ()


def test_steps_that_began_while_a_container_grew_are_counted() -> None:
    """It grows from 10 to 30: of the steps at 9, 10, 20 and 30 two began meanwhile."""
    losses, other = (KeptCounter("items", name, "train.py", 3, "main") for name in "xy")
    items, array_bytes, graphs = (losses.of_kind(kind) for kind in KEPT_KINDS)
    counters = {
        other.of_kind(KEPT_KINDS[0]): [(0, 1)],
        items: [(30, 7), (10, 2)],
        array_bytes: [(10, 100), (30, 400)],
        graphs: [(30, 5)],
    }
    windows = windows_at((9, 10), (10, 20), (20, 30), (30, 40))

    def grown(trace: Tables, placed: Any = windows) -> tuple[KeptGrowth, ...]:
        types = trace.tables["event_types"]
        assert isinstance(types, pl.DataFrame)
        return host_growth(trace=trace, event_types=types, windows=placed)

    expected = KeptGrowth("a", losses, 2, 7.0, 400.0, 5.0)
    assert grown(counted(counters)) == (expected,)
    no_steps = windows_at((0, 40), has_steps=False)
    assert grown(counted(counters), no_steps) == ()
    for name in (items, array_bytes, graphs):
        fewer = {key: value for key, value in counters.items() if key != name}
        assert grown(counted(fewer)) == ()
    second = grown(counted(counters, "b"))
    hosts = {"a": (expected,), "c": ABSENT, "b": second}
    assert kept_growth.function(host_growth=hosts) == (expected, *second)
