"""The section on memory: peaks, shares of the capacity, and what runs short."""

from __future__ import annotations

import msgspec
import polars as pl
from tests.support.results.pages import document_of, host_loop, page, section
from tests.support.traces import blueprint
from tests.support.traces.memory import Allocator, a3

from stepscope.analysis.memory_profile.rows import LINE_ROWS
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.tools import memory_parts
from stepscope.reporting.page import plain_text
from stepscope.trace.tables import ALLOCATIONS
from stepscope.unavailable import Unavailable

AT = ("peak", "at")
MORE = "  more: stepscope show memory_profile PATH"


def unseen(text: str) -> str:
    """The last section without its line breaks."""
    return " ".join(text.split("What could not be seen")[1].split())


def test_each_memory_has_its_peak_as_a_share_of_its_capacity() -> None:
    lines = section(page(a3()), "Memory")
    assert lines is not None
    assert lines[0].split() == ["memory", "peak", "of", "capacity", "capacity", *AT]
    # 620 of 1000 MiB (which are 0.977 GiB), 30 µs after the start.
    sizes = ["620", "MiB", "62.0", "%", "0.98", "GiB"]
    assert lines[1].split() == ["GPU_0_bfc", *sizes, "30.0", "µs"]
    assert lines[2:] == [MORE]


def test_a_memory_that_is_nearly_full_is_said_to_be() -> None:
    pool = Allocator("pool", limit=1000)
    pool.allocate(1, 1, 970)
    lines = section(page(blueprint.trace(pool.lines)), "Memory")
    assert lines is not None
    assert "  pool: 97.0 % of its capacity is in use at the peak." in lines


def test_unknown_capacity_is_a_dash_with_its_reason() -> None:
    row = {"event": 0, "start_ps": 0, "allocator": "pool", "kind": "allocate"}
    frame = pl.DataFrame([row | {"heap_bytes": 2048}], schema=ALLOCATIONS.dtypes())
    text = page(blueprint.substitute(blueprint.a2(), allocations=frame))
    lines = section(text, "Memory")
    assert lines is not None
    assert lines[1].split()[:5] == ["pool", "2.00", "KiB", "–", "–"]
    assert lines[2].startswith("  – The size is neither recorded nor computable")


def test_unknown_use_is_a_dash_and_no_zero() -> None:
    row = {"event": 0, "start_ps": 0, "allocator": "pool", "kind": "allocate"}
    frame = pl.DataFrame([row], schema=ALLOCATIONS.dtypes())
    text = page(blueprint.substitute(blueprint.a2(), allocations=frame))
    lines = section(text, "Memory")
    assert lines is not None
    assert lines[1].split() == ["pool", "–", "–", "–", "–"]
    assert "The memory use is unknown" in " ".join(lines)


def test_without_allocator_events_the_page_says_how_to_record_them() -> None:
    text = page(blueprint.trace([*host_loop(), ("gpu:0/7", "gemm", 0, 100)]))
    assert section(text, "Memory") is None
    assert "The profile contains neither MemoryAllocation" in unseen(text)


def test_more_memories_than_the_page_has_room_for_are_counted() -> None:
    lines = []
    for number in range(11):
        pool = Allocator(f"pool {number}", limit=1000)
        pool.allocate(1 + number, 1, 100 + number)
        lines += pool.lines
    found = section(page(blueprint.trace(lines)), "Memory")
    assert found is not None
    # The fullest first.
    assert found[1].startswith("  pool 10 ")
    assert found[-2:] == ["  3 more memories are not shown", MORE]


def test_devices_that_hold_the_same_are_written_once() -> None:
    lines = []
    for device in ("TPU_0", "TPU_1", "TPU_2"):
        pool = Allocator(device, limit=1000)
        pool.allocate(1, 1, 100)
        lines += pool.lines
    document = document_of(blueprint.trace(lines))
    result = document.memory
    assert not isinstance(result, Unavailable)

    def holding(place: str) -> pl.DataFrame:
        row = {"source": place, "allocation_bytes": 2048, "share_percent": 50.0}
        return pl.DataFrame([row], schema=LINE_ROWS.dtypes())

    held = {"TPU_0": "a.py:1 f", "TPU_1": "a.py:2 g", "TPU_2": "a.py:2 g"}
    known = {
        name: msgspec.structs.replace(memory, lines=holding(held[name]))
        for name, memory in result.memories.items()
    }
    full = msgspec.structs.replace(result, memories=known)
    results = document.results | {"memory_profile": full}
    section = tuple(memory_parts(msgspec.structs.replace(document, results=results)))
    text = plain_text(as_text.render(section, width=90))
    assert "  TPU_0: 2.00 KiB, 50.0 %: a.py:1 f" in text
    assert "  TPU_1 (and 1 with equal contents): 2.00 KiB, 50.0 %: a.py:2 g" in text
