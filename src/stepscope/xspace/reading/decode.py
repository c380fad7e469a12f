"""Decoding of the bytes of a profile message into columns.

The outline (planes, lines, metadata maps) is indexed first. Then the lines are read in
two passes on all cores: the first counts, so that columns get their exact size, and the
second fills the columns.

Damage never stops the reading. From a truncated file every whole event before the cut
is read. From a malformed line the events before the malformed byte are read, and
reading continues after the line. `XSpace.damage` lists what was lost.

Memory in addition to the mapped file of N bytes: at most 32 N. An event or stat takes
at least two bytes in the file and 20 or 21 in columns; the rest is temporary arrays.
All other data is limited (`read_outline`) to 1.5 GB. A real file takes about 3 N bytes.

Definition: docs/formats/xplane.md#decoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.cores import core_count
from stepscope.errors import BadInput, Malformed
from stepscope.rundir import LIMIT_BYTES
from stepscope.xspace.fields import PlaneTag, SpaceTag
from stepscope.xspace.reading.catalog import name_lost, read_catalog, read_plane_stats
from stepscope.xspace.reading.columns import Damage, Lines, Plane, XSpace
from stepscope.xspace.reading.fill import fill_lines, scan_lines, thread_pool
from stepscope.xspace.reading.messages import (
    Slices,
    list_damage,
    read_outline,
    summarise_damage,
)
from stepscope.xspace.reading.source import (
    decompress_gzip,
    forget_pages,
    is_text_damaged,
    open_bytes,
)

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.array_types import UInt8s
    from stepscope.xspace.reading.catalog import Catalog
    from stepscope.xspace.reading.fill import Filled, Scanned
    from stepscope.xspace.reading.messages import Outline

_MAX_ROWS: Final = 2**31 - 1
_REMEDY: Final = "Copy the file again in binary, or capture again."


def decode_file(
    path: Path,
    *,
    limit_bytes: int = LIMIT_BYTES,
    mapped: bool = True,
    threads: int | None = None,
) -> XSpace:
    """Decode a `*.xplane.pb` file, compressed with gzip or not.

    Args:
        path: The file; it stays mapped as long as the result exists.
        limit_bytes: Maximum size of a compressed file's content, in bytes.
        mapped: Whether to map the file instead of copying it into memory.
        threads: Number of threads; by default the number of cores.

    Raises:
        BadInput: The file is empty, unreadable, larger than the limits, or was damaged
            by a conversion to text.
        Malformed: No part of the file can be read.
    """
    data, damage = open_bytes(path, limit_bytes=limit_bytes, mapped=mapped)
    space = _decode_message(data, path, damage, threads=threads)
    # From here on only a few texts are read from the file's bytes.
    forget_pages(data)
    return space


def decode_bytes(
    data: bytes | memoryview,
    name: str = "<bytes>",
    *,
    limit_bytes: int = LIMIT_BYTES,
    threads: int | None = None,
) -> XSpace:
    """Decode the bytes of a profile; error messages call it `name`."""
    if not data:
        raise BadInput.at(name, "the profile is empty", "Capture again.")
    if data[:2] == b"\x1f\x8b":
        decompressed, damage = decompress_gzip(data, name, limit_bytes=limit_bytes)
        return _decode_message(decompressed, name, damage, threads=threads)
    return _decode_message(np.frombuffer(data, np.uint8), name, (), threads=threads)


def _decode_message(
    data: UInt8s, name: object, damage: tuple[Damage, ...], *, threads: int | None
) -> XSpace:
    outline = read_outline(data, name)
    with thread_pool(len(data), threads) as pool:
        scanned = scan_lines(
            data,
            outline.line_begin,
            outline.line_end,
            pool=pool,
            threads=(threads or core_count()) if pool else 1,
        )
        _check_row_counts(name, scanned)
        catalog = read_catalog(
            data,
            outline,
            line_name=Slices(scanned.head[:, 1], scanned.head[:, 2]),
            line_display_name=Slices(scanned.head[:, 6], scanned.head[:, 7]),
        )
        filled = fill_lines(
            data,
            scanned,
            outline.line_plane,
            types=catalog.types,
            keys=catalog.keys,
            pool=pool,
        )
    event_types = name_lost(filled, catalog)
    plane_count = len(outline.planes.stop)
    bounds = np.searchsorted(outline.line_plane, np.arange(plane_count + 1)).tolist()
    stats = read_plane_stats(data, outline, catalog)
    # The list is complete now: `name_lost` has added the names that the file lost.
    strings = catalog.strings.texts()
    names = catalog.plane_names.tolist()
    ids = outline.planes.last(PlaneTag.ID).tolist()
    planes = tuple(
        Plane(ids[row], strings[names[row]], bounds[row], bounds[row + 1], stats[row])
        for row in range(plane_count)
    )
    damage += list_damage(
        outline,
        filled.stop,
        plane_names=[plane.name for plane in planes],
        line_names=[strings[handle] for handle in catalog.line_names.tolist()],
    )
    damage += tuple(
        Damage(place, "a name's entry is malformed", 0)
        for place in catalog.broken.tolist()
    )
    errors, warnings, hostnames = (
        tuple(
            text.decode("utf-8", "replace")
            for text in outline.space.of(tag).bodies(data)
        )
        for tag in (SpaceTag.ERROR, SpaceTag.WARNING, SpaceTag.HOSTNAME)
    )
    space = XSpace(
        data,
        planes,
        _line_columns(outline, scanned, filled, catalog),
        filled.events,
        filled.stats,
        event_types,
        catalog.type_stats,
        strings,
        errors,
        warnings,
        hostnames,
        summarise_damage(damage),
    )
    _check_readable(space, name)
    return space


def _line_columns(
    outline: Outline, scanned: Scanned, filled: Filled, catalog: Catalog
) -> Lines:
    ids, _, _, timestamp, duration, display_id, _, _ = scanned.head.T.copy()
    display = catalog.line_display_names
    return Lines(
        outline.line_plane,
        ids,
        display_id,
        catalog.line_names,
        np.where(display == 0, np.int32(-1), display),
        timestamp,
        duration,
        filled.event_bounds[:-1],
        filled.event_bounds[1:],
    )


def _check_row_counts(name: object, scanned: Scanned) -> None:
    counts = scanned.rows[:, 2:4].sum(axis=0).tolist()
    for unit, count in zip(("events", "values"), counts, strict=True):
        if count > _MAX_ROWS:
            raise BadInput.at(
                name,
                f"contains {count:,} {unit}, and at most {_MAX_ROWS:,} are read",
                "Record fewer steps.",
            )


def _check_readable(space: XSpace, name: object) -> None:
    """Raise an error that explains the cause if nothing of the message was readable."""
    if space.damage and is_text_damaged(space.data):
        raise BadInput.at(
            name,
            "damaged by a text conversion: bytes above 7F became EF BF BD",
            "Copy the file again in binary mode.",
        )
    if (
        len(space.events)
        or len(space.lines)
        or len(space.event_types)
        or space.hostnames
        or space.errors
        or space.warnings
        or any(plane.name or plane.stats for plane in space.planes)
    ):
        return
    offset = space.damage[0].offset if space.damage else 0
    raise Malformed.broken_at_offset(
        name, offset, "contains no readable plane of a profile", _REMEDY
    )
