"""`iterators`: calls into an input pipeline."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

__all__ = ["ITERATORS", "is_loader_call"]

#: How PyTorch names the range around each batch that a DataLoader hands over.
_LOADER_CALL: Final = re.compile(r"enumerate\(\w+\)#.*__next__")

ITERATORS: Final = TableSchema(
    "iterators",
    "one call of one iterator of an input pipeline",
    "by row of events",
    (
        Column("event", pl.Int32(), "row of events", NEVER, "The call."),
        Column("track", pl.Int32(), "row of tracks", NEVER, "The thread."),
        Column("start_ps", pl.Int64(), "ps", NEVER, "Since the start of the profile."),
        Column("dur_ps", pl.Int64(), "ps", NEVER, "Duration of the call."),
        Column("long_name", pl.String(), "", NEVER, "Outermost iterator first."),
        Column("id", pl.Int64(), "", "not recorded", "This iterator."),
        Column("parent_id", pl.Int64(), "", "not recorded", "Its consumer."),
    ),
)


def is_loader_call(name: str) -> bool:
    """Whether a range of this name is one call of a DataLoader's iterator."""
    return _LOADER_CALL.match(name) is not None
