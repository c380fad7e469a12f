"""Recorded arguments of collective calls: kinds, sizes, element types and groups.

`host_collectives` lists the collectives that host threads execute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.stat_values import (
    find_handle,
    owner_numbers,
    owner_texts,
    rows_of_owners,
)
from stepscope.derive.host.values import host_rows
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.reasons import WHY
from stepscope.patterns import Pattern
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.array_types import Int32s
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: Kind of a collective → pattern of its name in lower case; the first match counts.
_KINDS: Final = (
    ("reduce-scatter", Pattern(r"reduce_?-?scatter")),
    ("all-reduce", Pattern(r"all_?-?reduce|cross_device_reduce|collectivereduce")),
    ("all-gather", Pattern(r"all_?-?gather|collectivegather")),
    (
        "all-to-all",
        Pattern(r"all_?-?(?:to|2)_?-?all|deep_ep\w*(?:::\w+)*::(?:disp|comb)"),
    ),
    ("broadcast", Pattern(r"broad_?cast|bcast")),
    ("send-receive", Pattern(r"send|recv|permute")),
    ("gather", Pattern(r"gather")),
    ("scatter", Pattern(r"scatter")),
    ("reduce", Pattern(r"reduce")),
    ("barrier", Pattern(r"barrier")),
)
#: All kinds of collectives; the last, `other`, is for names that contain no kind.
KINDS: Final = (*(kind for kind, _ in _KINDS), "other")

#: Kinds that occur only in names of collectives. Names such as gather, scatter and
#: reduce also belong to ops within one device.
SURE_KINDS: Final = frozenset(
    {"all-reduce", "reduce-scatter", "all-gather", "all-to-all"}
)

ARGUMENTS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),  # library's name of the collective
    "in_elements": pl.Int64(),
    "out_elements": pl.Int64(),
    "dtype": pl.String(),  # element type as the library writes it
    "group_size": pl.Int64(),
    "group": pl.String(),  # name of the group of members; "" if not recorded
}
_TEXTS: Final = {"name": StatKey.COLLECTIVE_NAME, "dtype": StatKey.COLLECTIVE_DTYPE}
_NUMBERS: Final = {
    "in_elements": StatKey.IN_ELEMENTS,
    "out_elements": StatKey.OUT_ELEMENTS,
    "group_size": StatKey.GROUP_SIZE,
}
#: Stats that together identify the group of processes in a collective.
_GROUP: Final = (StatKey.PROCESS_GROUP_NAME, StatKey.PROCESS_GROUP_RANKS)

#: Lower-case element type → its name in reports and its size in bytes.
_TYPES: Final = {
    **dict.fromkeys(("float", "float32"), ("float32", 4)),
    **dict.fromkeys(("double", "float64"), ("float64", 8)),
    **dict.fromkeys(("half", "float16"), ("float16", 2)),
    "bfloat16": ("bfloat16", 2),
    **dict.fromkeys(("long", "int64"), ("int64", 8)),
    **dict.fromkeys(("int", "int32"), ("int32", 4)),
    **dict.fromkeys(("short", "int16"), ("int16", 2)),
    **dict.fromkeys(("byte", "uint8"), ("uint8", 1)),
    **dict.fromkeys(("char", "int8"), ("int8", 1)),
    "bool": ("bool", 1),
    **{
        f"float8_{form}": (f"float8_{form}", 1)
        for form in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")
    },
    "complexfloat": ("complex64", 8),
    "complexdouble": ("complex128", 16),
}

HOST_COLLECTIVES: Final[dict[str, pl.DataType]] = {
    "event": pl.Int32(),  # row of events
    "kind": pl.String(),  # kind of collective, one of `KINDS`
    "group": pl.String(),  # name of the group of members; "" if not recorded
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
}
#: Events in which a communication library itself transfers data between hosts. The ops
#: that start a collective only pass it to the library and return.
_TRANSPORT: Final = r"^(?:gloo|mpi|ucc):"


def host_collectives(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    event_nesting: Nesting,
    stats: pl.DataFrame | Unavailable,
) -> pl.DataFrame | Unavailable:
    """List the outermost collectives on all threads of a host.

    If a communication library's own events were recorded, they are the collectives.
    Without such events, a collective is the op or function that starts it. On a host
    whose devices communicate, this op only starts the collective on the device.

    Definition: docs/definitions/device-work.md#collectives.

    Returns:
        Columns `HOST_COLLECTIVES`, sorted by start.
    """
    names = event_types["name"]
    flagged = event_kinds.has(EventFlag.COLLECTIVE)
    transport = flagged & names.str.contains(_TRANSPORT).to_numpy()
    types = handles(events, "type")
    rows = host_rows(tracks, types, transport).astype(np.int32)
    if not len(rows):
        reduced = host_rows(tracks, types, flagged).astype(np.int32)
        chosen = np.zeros(len(event_nesting.parent), np.bool_)
        chosen[reduced] = True
        above, inside = event_nesting.parent[reduced], np.zeros(len(reduced), np.bool_)
        # Each iteration goes up one level of nesting.
        while (above >= 0).any():
            inside |= (above >= 0) & chosen[above]
            above = np.where(above >= 0, event_nesting.parent[above], np.int32(-1))
        rows = reduced[~inside]
    if not len(rows):
        return WHY["no_host_collectives"]
    group = [""] * len(rows)
    if not isinstance(stats, Unavailable):
        group = event_arguments(trace, stats, rows)["group"].to_list()
    kinds = {
        number: collective_kind(names[number]) or "other"
        for number in np.unique(types[rows]).tolist()
    }
    return pl.DataFrame(
        {
            "event": rows,
            "kind": [kinds[number] for number in types[rows].tolist()],
            "group": group,
            "start_ps": ints(events, "start_ps")[rows],
            "dur_ps": ints(events, "dur_ps")[rows],
        },
        schema=HOST_COLLECTIVES,
    ).sort("start_ps", "event")


def event_arguments(
    trace: TraceData, stats: pl.DataFrame, events: Int32s
) -> pl.DataFrame:
    """Return the collective's arguments in each event, as columns `ARGUMENTS`.

    Args:
        events: Rows of events; a negative row gives nulls and an empty group.
    """
    owners = np.unique(events[events >= 0])
    values = rows_of_owners(stats, "event", owners)
    columns: dict[str, pl.Series] = {}
    for name, key in _TEXTS.items():
        texts = owner_texts(trace, values, owners, find_handle(trace.strings, key))
        columns[name] = pl.Series(name, texts, pl.String)
    for name, key in _NUMBERS.items():
        number, known = owner_numbers(values, owners, find_handle(trace.strings, key))
        columns[name] = pl.select(
            pl.when(pl.Series(known)).then(pl.Series(number)).alias(name)
        ).to_series()
    named = [
        owner_texts(trace, values, owners, find_handle(trace.strings, key))
        for key in _GROUP
    ]
    groups = [" ".join(filter(None, texts)) for texts in zip(*named, strict=True)]
    columns["group"] = pl.Series("group", groups, pl.String)
    arguments = pl.DataFrame(columns, schema=ARGUMENTS)
    # The appended row of nulls is for events without arguments.
    padded = pl.concat([arguments, arguments.clear(1)])
    index = np.where(events >= 0, np.searchsorted(owners, events), len(owners))
    return padded[index].with_columns(pl.col("group").fill_null(""))


def element_type(name: str) -> tuple[str, int | None]:
    """Return an element type's common name and its bytes; None for unknown bytes."""
    lowered = name.lower()
    return _TYPES.get(lowered, (lowered, None))


def collective_kind(text: str) -> str | None:
    """Return the kind of collective in the name of a kernel, op, event or call.

    The result is None if the name contains no kind.
    """
    lowered = text.lower()
    return next((kind for kind, pattern in _KINDS if pattern.search(lowered)), None)


def bus_share(kind: str, members: int) -> float:
    """Return the bytes over one member's link as a multiple of the collective's bytes.

    With this factor, times of different kinds and group sizes are comparable with the
    bandwidth of a link: an all-reduce of n members sends 2 (n - 1) / n of the bytes.

    Definition: docs/definitions/device-work.md#collectives.
    """
    if kind == "all-reduce":
        return 2.0 * (members - 1) / members
    if kind in ("reduce-scatter", "all-gather", "all-to-all", "gather", "scatter"):
        return (members - 1) / members
    return 1.0
