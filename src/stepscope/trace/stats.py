"""`stats` and `type_stats`: typed key/value pairs, in long form."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

#: Values of the column `kind`.
DOUBLE: Final = 2
UINT: Final = 3
INT: Final = 4
PLACE_TEXT: Final = 5
PLACE_BYTES: Final = 6
REF: Final = 7

_VALUE: Final = (
    Column("key", pl.Int32(), "handle of strings", NEVER, "Name of the value."),
    Column(
        "kind",
        pl.UInt8(),
        "",
        NEVER,
        "Type of the value: 2 double, 3 unsigned, 4 signed, 5 place of a text, 6 place "
        "of bytes, 7 handle of strings, 0 no value.",
    ),
    Column(
        "value",
        pl.Int64(),
        "",
        NEVER,
        "The 64 bits of a number; the offset of a place in the file's data; or a "
        "handle of strings.",
    ),
    Column(
        "length",
        pl.Int32(),
        "bytes",
        NEVER,
        "Length of a place; 0 for other kinds of value.",
    ),
)

STATS: Final = TableSchema(
    "stats",
    "one value attached to one event",
    "by event",
    (
        Column(
            "event", pl.Int32(), "row of events", NEVER, "Event that has the value."
        ),
        *_VALUE,
    ),
)

TYPE_STATS: Final = TableSchema(
    "type_stats",
    "one value shared by all events of a type; an event's own value wins",
    "by type",
    (
        Column(
            "type",
            pl.Int32(),
            "row of event_types",
            NEVER,
            "Event type that has the value.",
        ),
        *_VALUE,
    ),
)
