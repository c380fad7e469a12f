"""Values that an exported trace attaches to its events: recorded values, steps, ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import number_values
from stepscope.derive.columns.stat_values import StatRows, find_handle
from stepscope.derive.host.values import text_codes
from stepscope.frozen import Frozen
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import DOUBLE, INT, PLACE_TEXT, REF, UINT
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s, UInt8s
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

#: Values of `Arguments.kind`: the type of a value.
INTEGER: Final = 0
UNSIGNED: Final = 1
REAL: Final = 2
TEXT: Final = 3

_KIND_OF_STAT: Final = {INT: INTEGER, UINT: UNSIGNED, DOUBLE: REAL}
#: Names of values by which the recorder connects its events; an export omits them.
#: Definition: docs/tools/trace_viewer.md#the-json.
_INTERNAL: Final = (
    *(StatKey.PRODUCER_TYPE, StatKey.PRODUCER, StatKey.CONSUMER_TYPE),
    *(StatKey.CONSUMER, StatKey.ROOT_LEVEL, StatKey.FLOW),
)
#: Name of values that are valid on device events only: in launch calls, some recorders
#: leave uninitialised memory in these values (docs/formats/xplane.md#device-activity).
_OF_DEVICES: Final = StatKey.KERNEL_DETAILS
_FIRST_KEY: Final = StatKey.GROUP_ID


class Arguments(NamedTuple):
    """Named values of some spans; arrays of equal length, by span.

    Attributes:
        span: int32, ascending; index of the span among the described spans.
        key: int32; index in `keys`.
        kind: uint8; `INTEGER`, `UNSIGNED`, `REAL` or `TEXT`.
        value: int64; the number's 64 bits, or an index in `texts`.
    """

    span: Int32s
    key: Int32s
    kind: UInt8s
    value: Int64s
    keys: Sequence[str]
    texts: Sequence[str]


class DerivedValues(NamedTuple):
    """Values of one name that are derived, not recorded with the spans.

    Attributes:
        span: Indexes of the spans that have a value.
        values: One value per entry of `span`: int64 or float64 numbers, or texts.
    """

    name: str
    span: Int64s
    values: Int64s | NDArray[np.float64] | Sequence[str]


class ArgumentSource(Frozen, frozen=True):
    """The tables that contain the values of one host's events.

    Attributes:
        owner: int32 by row of `stats`: the event that has the value.
        stats: The table of the events' values; None if absent.
        type_stats: The table of the event types' values; None if absent.
        left_out: By handle of strings: whether an export omits values of that name.
        of_devices: Handle of values that are valid on device events only, or -1.
    """

    trace: TraceData
    owner: Int32s
    stats: pl.DataFrame | None
    type_stats: StatRows | None
    left_out: Bools
    of_devices: int

    def arguments_of_events(
        self,
        begin: int,
        types: Int32s,
        on_host: Bools,
        derived_values: Sequence[DerivedValues],
    ) -> Arguments:
        """Return the values of consecutive events.

        An event's own value replaces its type's value, and both replace derived values.

        Args:
            begin: Row of the first event.
            on_host: Whether each event is on a host track.
            derived_values: Derived values; their indexes count from `begin`.
        """
        end = begin + len(types)
        parts = []
        if self.type_stats is not None:
            distinct = number_values(types)
            of_type = types[distinct.first]
            shared = self.type_stats
            low, high = (
                np.searchsorted(shared.owner, of_type, side=side)
                for side in ("left", "right")
            )
            counts = (high - low)[distinct.code]
            ends = np.cumsum(counts)
            total = int(ends[-1]) if len(ends) else 0
            within = np.arange(total) - np.repeat(ends - counts, counts)
            rows_of_stats = np.repeat(low[distinct.code], counts) + within
            owner = np.repeat(np.arange(len(types), dtype=np.int32), counts)
            values = (shared.key, shared.kind, shared.value, shared.length)
            parts.append(StatRows(owner, *(value[rows_of_stats] for value in values)))
        if self.stats is not None:
            first, last = np.searchsorted(
                self.owner, np.array((begin, end), self.owner.dtype)
            )
            parts.append(_rows_of_events(self.stats, int(first), int(last), begin))
        if not parts:
            return gather_arguments(self.trace, None, derived_values)
        rows = StatRows(*map(np.concatenate, zip(*parts, strict=True)))
        left_out = self.left_out[rows.key]
        left_out |= (rows.key == self.of_devices) & on_host[rows.owner]
        return gather_arguments(self.trace, rows.only(~left_out), derived_values)


def argument_source(profile: ProfileData, host: str) -> ArgumentSource:
    """Return the tables that contain the values of a host's events."""
    trace = profile.trace(host)
    stats = profile.table(host, "stats")
    type_stats = profile.table(host, "type_stats")
    left_out = np.zeros(len(trace.strings) + 1, np.bool_)
    for name in _INTERNAL:
        handle = find_handle(trace.strings, name)
        if handle >= 0:
            left_out[handle] = True
    shared = None
    if not isinstance(type_stats, Unavailable) and len(type_stats):
        shared = _rows_of_events(type_stats, 0, len(type_stats), 0)
    own = None if isinstance(stats, Unavailable) or not len(stats) else stats
    return ArgumentSource(
        trace=trace,
        owner=np.empty(0, np.int32) if own is None else handles(own, "event"),
        stats=own,
        type_stats=shared,
        left_out=left_out,
        of_devices=find_handle(trace.strings, _OF_DEVICES),
    )


def gather_arguments(
    trace: TraceData, rows: StatRows | None, derived_values: Sequence[DerivedValues]
) -> Arguments:
    """Sort values by span; values of a span by group, recorded before derived values.

    Args:
        trace: Trace with the texts that the rows refer to.
        rows: Recorded values; owners are indexes of spans. If a span has several values
            of one name, the last one counts.
        derived_values: Derived values; a recorded value of the same name replaces them.
    """
    texts: list[str] = []
    frames = [
        *(
            _derived_frame(each, number, texts)
            for number, each in enumerate(derived_values)
        ),
        *([] if rows is None else [_recorded_frame(trace, rows, texts)]),
    ]
    names = [each.name for each in derived_values]
    if not frames:
        return _as_arguments(pl.DataFrame(schema=_FRAME), [], texts)
    # Derived values come first, so that recorded values of the same name replace them.
    used = frames[-1]["key"].unique().to_list() if rows is not None else []
    known = {trace.strings[handle]: handle for handle in used}
    same = {
        -1 - number: known[name] for number, name in enumerate(names) if name in known
    }
    first = known.get(_FIRST_KEY, -1 - len(names))
    both = pl.concat(frames)
    if same:
        both = both.with_columns(pl.col("key").replace(same))
    arranged = (
        both.with_row_index("place")
        .unique(["span", "key"], keep="last", maintain_order=True)
        .with_columns(
            rank=pl.when(pl.col("key") == first)
            .then(0)
            .when(pl.col("told"))
            .then(2)
            .otherwise(1)
        )
        .sort("span", "rank", "place")
    )
    keys = arranged["key"].unique(maintain_order=True).to_list()
    place = {key: number for number, key in enumerate(keys)}
    key_names = [names[-1 - key] if key < 0 else trace.strings[key] for key in keys]
    numbered = arranged.with_columns(
        pl.col("key").replace_strict(place, return_dtype=pl.Int32)
    )
    return _as_arguments(numbered, key_names, texts)


#: Columns of unsorted values; a key is a handle of strings, or negative if derived.
_FRAME: Final[dict[str, pl.DataType]] = {
    "span": pl.Int32(),
    "key": pl.Int32(),
    "kind": pl.UInt8(),
    "value": pl.Int64(),
    "told": pl.Boolean(),
}


def _as_arguments(
    frame: pl.DataFrame, keys: Sequence[str], texts: Sequence[str]
) -> Arguments:
    kind: UInt8s = frame["kind"].to_numpy()
    return Arguments(
        handles(frame, "span"),
        handles(frame, "key"),
        kind,
        ints(frame, "value"),
        keys,
        texts,
    )


def _recorded_frame(trace: TraceData, rows: StatRows, texts: list[str]) -> pl.DataFrame:
    kind = np.full(len(rows.kind), 255, np.uint8)
    for stat, code in _KIND_OF_STAT.items():
        kind[rows.kind == stat] = code
    value = rows.value.copy()
    is_text = np.isin(rows.kind, (REF, PLACE_TEXT))
    if is_text.any():
        positions = np.flatnonzero(is_text).astype(np.int32)
        numbered = rows.only(is_text)._replace(owner=positions)
        text_rows, code_of, new_texts = text_codes(trace, numbered)
        value[text_rows] = code_of + len(texts)
        kind[text_rows] = TEXT
        texts += new_texts
    known = kind != 255
    return pl.DataFrame(
        {
            "span": rows.owner[known],
            "key": rows.key[known],
            "kind": kind[known],
            "value": value[known],
            "told": np.zeros(int(known.sum()), np.bool_),
        },
        schema=_FRAME,
    )


def _derived_frame(each: DerivedValues, number: int, texts: list[str]) -> pl.DataFrame:
    count = len(each.span)
    if isinstance(each.values, np.ndarray):
        real = each.values.dtype == np.float64
        kind = REAL if real else INTEGER
        value = each.values.view(np.int64) if real else each.values
    else:
        kind = TEXT
        known = pl.Series(each.values, dtype=pl.String)
        distinct = known.unique(maintain_order=True)
        place = {
            text: number_of_text
            for number_of_text, text in enumerate(distinct, start=len(texts))
        }
        value = known.replace_strict(place, return_dtype=pl.Int64).to_numpy()
        texts += distinct.to_list()
    return pl.DataFrame(
        {
            "span": each.span.astype(np.int32),
            "key": np.full(count, -1 - number, np.int32),
            "kind": np.full(count, kind, np.uint8),
            "value": value,
            "told": np.ones(count, np.bool_),
        },
        schema=_FRAME,
    )


def _rows_of_events(frame: pl.DataFrame, first: int, last: int, begin: int) -> StatRows:
    part = frame.slice(first, last - first)
    owner = handles(part, part.columns[0])
    kind: UInt8s = part["kind"].to_numpy()
    return StatRows(
        owner - np.int32(begin),
        handles(part, "key"),
        kind,
        ints(part, "value"),
        handles(part, "length"),
    )
