"""Devices on which memory was taken and no kernel recorded."""

from __future__ import annotations

from tests.support.traces import blueprint

from stepscope.derive.consistency import consistency
from stepscope.derive.memory.replay import unrecorded_devices
from stepscope.unavailable import Unavailable


def memory(device: int, count: int) -> list[blueprint.Line]:
    said = {
        "allocator_name": f"GPU_{device}_bfc", "bytes_allocated": 1, "address": 1,
        "bytes_available": 9, "bytes_reserved": 0, "peak_bytes_in_use": 1,
        "allocation_bytes": 1, "requested_bytes": 1, "fragmentation": 0.0,
    }  # fmt: skip
    return [("main", "MemoryAllocation", 10 + it, 0, said) for it in range(count)]


def found_in(*lines: blueprint.Line) -> tuple[tuple[int, ...], tuple[int, ...]]:
    profile = blueprint.profile(blueprint.trace(lines))
    found = profile.derived("vm", unrecorded_devices)
    assert not isinstance(found, Unavailable)
    return found.used, found.silent


def test_a_device_that_takes_memory_and_runs_no_kernel_is_not_recorded() -> None:
    lines = [
        *memory(0, 8), *memory(1, 6), *memory(2, 8),
        ("gpu:2/7", "k", 20, 5),
        ("gpu:0/7", "MemcpyD2H", 20, 5),
    ]  # fmt: skip
    assert found_in(*lines) == ((0, 1, 2), (0, 1))
    profile = blueprint.profile(blueprint.trace(lines))
    notes = profile.derived("vm", consistency)
    assert not isinstance(notes, Unavailable)
    kinds = {note.kind: note for note in notes}
    assert kinds["device_records_missing"].severity == "error"
    assert kinds["device_records_missing"].count == 2


def test_a_device_that_takes_little_memory_takes_no_part() -> None:
    """A quarter of the blocks of the busiest device is not little."""
    kernel = ("gpu:0/7", "k", 20, 5)
    assert found_in(*memory(0, 9), *memory(1, 2), kernel) == ((0,), ())
    assert found_in(*memory(0, 8), *memory(1, 2), kernel) == ((0, 1), (1,))


def test_kernels_of_most_devices_are_missing_where_it_is_more_than_half() -> None:
    kernels = [("gpu:0/7", "k", 20, 5), ("gpu:1/7", "k", 20, 5)]
    lines = [*memory(0, 8), *memory(1, 8), *memory(2, 8), *memory(3, 8), *kernels]
    profile = blueprint.profile(blueprint.trace(lines))
    found = profile.derived("vm", unrecorded_devices)
    assert not isinstance(found, Unavailable)
    assert (found.silent, found.most) == ((2, 3), False)
    assert [note.severity for note in found.quality_notes()] == ["warning"]


def test_without_any_kernel_it_is_another_doubts_matter() -> None:
    lines = (*memory(0, 8), *memory(1, 8), ("gpu:0/7", "MemcpyD2H", 20, 5))
    assert found_in(*lines) == ((0, 1), ())
