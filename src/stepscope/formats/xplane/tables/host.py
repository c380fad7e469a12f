"""Build the tables of the host: launches, input pipeline calls, and allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import as_declared, is_loader_call, or_lost
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.torch_allocations import allocation_rows
from stepscope.formats.xplane.decoded.tracks import integer_stat
from stepscope.trace.reading.nullable import nullable_series
from stepscope.trace.tables import ALLOCATIONS, ITERATORS
from stepscope.xspace.vocabulary import PROGRAM_ORDINAL

if TYPE_CHECKING:
    from stepscope.array_types import Int64s
    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.formats.xplane.tables.programs import ProgramRuns
    from stepscope.unavailable import Unavailable

_BEGINNING: Final = "Iterator::"
_NAMES: Final = {"MemoryAllocation": "allocate", "MemoryDeallocation": "deallocate"}
#: Column → name of the stat with its value.
_BYTES: Final = {
    "allocated_bytes": "allocation_bytes",
    "requested_bytes": "requested_bytes",
    "heap_bytes": "bytes_allocated",
    "stack_bytes": "bytes_reserved",
    "free_bytes": "bytes_available",
    "peak_bytes": "peak_bytes_in_use",
}
_TEXTS: Final = {"op": "tf_op", "region": "region_type", "shape": "shape"}
_KEYS: Final = (
    *_BYTES.values(),
    *_TEXTS.values(),
    "allocator_name",
    "index_on_host",
    "device_ordinal",
    "addr",
    "data_type",
    "group_id",
    "fragmentation",
)
#: Name of PyTorch's report of an allocation, and names of the numbers in the report.
_TORCH_NAME: Final = "[memory]"
_TORCH_ADDRESS: Final = "Addr"
_TORCH_NUMBERS: Final = {
    "Bytes": "bytes",
    "Device Type": "device_type",
    "Device Id": "device",
    "Total Allocated": "allocated",
    "Total Reserved": "reserved",
}


def launches_table(
    recording: Recording, runs: ProgramRuns
) -> pl.DataFrame | Unavailable:
    """Return the launch calls, which have ids, in the order of `events`."""
    rows, values = recording.host_values("correlation_id")
    number, present = values.integer_values()
    if not present.all():
        rows, number = rows[present], number[present]
    if not len(rows):
        number = np.argsort(runs.call, kind="stable")
        rows = runs.call[number]
    if not len(rows):
        key = "no_calls" if recording.activity_tracks else "nothing_launched"
        return or_lost(why_absent(f"xplane.{key}"), recording.damaged_at)
    columns = recording.timeline.columns_at(rows)
    processes = pl.Series([track.process for track in recording.tracks], dtype=pl.Int64)
    return pl.DataFrame(
        {
            **columns,
            "correlation": number,
            "process": processes.gather(columns["track"]),
        }
    )


def iterators_table(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every `next()` call of every iterator, in the order of `events`."""
    rows = recording.host_rows(
        lambda name: name.startswith(_BEGINNING) or is_loader_call(name)
    )
    if not len(rows):
        return or_lost(why_absent("xplane.no_iterators"), recording.damaged_at)
    stats = recording.values_at_rows(["id", "parent_id"], rows)
    calls = pl.DataFrame(recording.timeline.columns_at(rows))
    names = pl.Series(recording.type_names.tolist(), dtype=pl.String)
    named = calls.with_columns(
        *(nullable_series(key, *stats[key].integer_values()) for key in stats),
        long_name=names.gather(calls["type"]),
    )
    return as_declared(named, ITERATORS.dtypes())


def allocations_table(recording: Recording) -> pl.DataFrame | Unavailable:
    """Return every allocation and deallocation in order of time, ties in file order."""
    rows = recording.host_rows(lambda name: name in _NAMES)
    if not len(rows):
        return _torch_allocations(recording)
    rows = _time_order(recording, rows)
    stats, texts = recording.values_at_rows(_KEYS, rows), recording.texts()
    numbers = {
        column: nullable_series(column, *stats[key].integer_values())
        for column, key in (
            *_BYTES.items(),
            ("dtype", "data_type"),
            ("group", "group_id"),
        )
    }
    address, has_address = stats["addr"].integer_values()
    fragmentation, has_fragmentation = stats["fragmentation"].real_values()
    of_type = [_NAMES.get(name) for name in recording.type_names.tolist()]
    kinds = pl.Series("kind", of_type, pl.String)
    # Name the memory after its allocator, or if that is unknown, its index and device.
    allocator_names = texts.series("name", texts.numbers(stats["allocator_name"]))
    # The text may contain bytes after the end of a C string.
    memories = allocator_names.str.split("\0").list.first().replace("", None)
    if memories.null_count():
        parts = [
            nullable_series(key, *stats[key].integer_values()).cast(pl.String)
            for key in ("index_on_host", "device_ordinal")
        ]
        numbered = pl.concat_str(parts, separator="/", ignore_nulls=True)
        named = pl.coalesce(memories, numbered.replace("", None), pl.lit("unknown"))
        memories = pl.select(named).to_series()
    frame = pl.DataFrame(
        {
            "event": rows.astype(np.int32),
            "start_ps": recording.timeline.start_ps[rows],
            "kind": kinds.gather(recording.timeline.type[rows]),
            "allocator": memories,
            "address": nullable_series("address", address.view(np.uint64), has_address),
            "fragmentation": nullable_series(
                "fragmentation", fragmentation, has_fragmentation
            ),
            **numbers,
            **{
                column: texts.series(column, texts.numbers(stats[key]))
                for column, key in _TEXTS.items()
            },
        }
    )
    # If no bytes are free, there is no largest free chunk: fragmentation is undefined.
    meaningless = (pl.col("free_bytes") == 0) | ~pl.col("fragmentation").is_finite()
    frame = frame.with_columns(
        fragmentation=pl.when(meaningless).then(None).otherwise("fragmentation")
    )
    return as_declared(frame, ALLOCATIONS.dtypes())


def _time_order(recording: Recording, rows: Int64s) -> Int64s:
    """Sort rows of several tracks by time; `events` is grouped by track."""
    return rows[np.argsort(recording.timeline.start_ps[rows], kind="stable")]


def _torch_allocations(recording: Recording) -> pl.DataFrame | Unavailable:
    rows = _time_order(recording, recording.host_rows(lambda name: name == _TORCH_NAME))
    stats = recording.values_at_rows((*_TORCH_NUMBERS, _TORCH_ADDRESS, "tf_op"), rows)
    address, has_address = stats[_TORCH_ADDRESS].integer_values()
    texts = recording.texts()
    reports = pl.DataFrame(
        {
            "event": rows.astype(np.int32),
            "start_ps": recording.timeline.start_ps[rows],
            "address": nullable_series("address", address.view(np.uint64), has_address),
            "asked_by": texts.series("op", texts.numbers(stats["tf_op"])),
            **{
                column: nullable_series(column, *stats[key].integer_values())
                for key, column in _TORCH_NUMBERS.items()
            },
        }
    ).filter(pl.col("bytes") != 0)
    if reports.is_empty():
        return or_lost(why_absent("xplane.no_allocations"), recording.damaged_at)
    sizes = {}
    for plane, role in zip(recording.space.planes, recording.roles, strict=True):
        size = integer_stat(plane, "memory_size")
        if role.device is not None and size is not None:
            named = integer_stat(plane, PROGRAM_ORDINAL)
            sizes[role.device if named is None else named] = size
    return allocation_rows(reports, device_bytes=sizes)
