"""`iterators`: calls into an input pipeline."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.patterns import Pattern
from stepscope.trace.schema import NEVER, Column, TableSchema

#: How PyTorch names the range around each batch that a DataLoader hands over.
_LOADER_CALL: Final = Pattern(r"enumerate\(\w+\)#.*__next__")

ITERATORS: Final = TableSchema(
    "iterators",
    "one call of one iterator of an input pipeline",
    "by row of events",
    (
        Column(
            "event", pl.Int32(), "row of events", NEVER, "The call's slice in `events`."
        ),
        Column(
            "track",
            pl.Int32(),
            "row of tracks",
            NEVER,
            "Track of the thread that made the call.",
        ),
        Column(
            "start_ps",
            pl.Int64(),
            "ps",
            NEVER,
            "When the call began, since the start of the profile.",
        ),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Duration of the call."),
        Column(
            "long_name",
            pl.String(),
            "",
            NEVER,
            "Path of the iterator in the pipeline, outermost iterator first.",
        ),
        Column("id", pl.Int64(), "", "not recorded", "Id of the iterator."),
        Column(
            "parent_id",
            pl.Int64(),
            "",
            "not recorded",
            "Id of the iterator that consumes what this one yields.",
        ),
    ),
)


def is_loader_call(name: str) -> bool:
    """Return whether a range of this name is one call of a DataLoader's iterator."""
    return _LOADER_CALL.match(name) is not None
