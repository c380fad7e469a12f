"""A file about memory alone as a trace: one table is filled, all others say why not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from stepscope.errors import BadInput
from stepscope.remedies import Remedy
from stepscope.rundir import shown_name
from stepscope.trace.environment import environment_frame
from stepscope.trace.model import TraceData
from stepscope.trace.quality import notes_frame
from stepscope.trace.tables import ALLOCATIONS, BESIDE, TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from stepscope.rundir import HostFiles
    from stepscope.trace.quality import QualityNote


def only_file(source: HostFiles) -> Path:
    """Return the file of a host, which has one.

    Raises:
        BadInput: Several files were given as parts of one.
    """
    if len(source.paths) != 1:
        raise BadInput.at(
            source.paths[0],
            f"is one of {len(source.paths)} files given as parts of one",
            "Give each file as a worker of its own.",
        )
    return source.paths[0]


def memory_trace(
    host: str,
    path: Path,
    rows: Sequence[dict[str, Any]],
    *,
    what: str,
    record: str,
    notes: Iterable[QualityNote],
    stacks: Sequence[str],
    start_unix_ns: int | None = None,
) -> TraceData:
    """Return the trace of a host of which nothing but memory was recorded.

    Args:
        host: Name of the host.
        path: The file.
        rows: Rows of `allocations` in order of time; absent columns are null.
        what: Name of the format.
        record: How to record what the other tables need, as a sentence.
        notes: Doubts about the file.
        stacks: The strings that `allocations.stack` refers to.
        start_unix_ns: Time 0 since 1970; None where it was not recorded.
    """
    absent = Unavailable(
        code="FORMAT",
        reason=f"A {what} holds the memory of a program, and no timeline of its host "
        "or its devices.",
        remedy=record,
    )
    try:
        frame = pl.DataFrame(rows, schema=ALLOCATIONS.dtypes())
    except (OverflowError, pl.exceptions.ComputeError):
        raise BadInput.at(
            path, "counts more bytes than 64 bits can hold", Remedy.COPY_AGAIN
        ) from None
    given = {
        "file": shown_name(path),
        "format": what,
        "file_bytes": path.stat().st_size,
        "start_unix_ns": start_unix_ns,
        "grouped": False,
        "begin_ps": frame["start_ps"].min(),
        "end_ps": frame["start_ps"].max(),
    }
    tables: dict[str, pl.DataFrame | Unavailable] = {
        **dict.fromkeys(TABLES.keys() - BESIDE.keys(), absent),
        "allocations": frame,
        "environment": environment_frame(given),
        "quality": notes_frame(tuple(notes)),
    }
    return TraceData(
        host,
        {name: partial(_itself, table) for name, table in tables.items()},
        strings=stacks,
        # No value of these formats is a place in the file.
        data=np.zeros(0, np.uint8),
    )


def _itself(table: pl.DataFrame | Unavailable) -> pl.DataFrame | Unavailable:
    return table
