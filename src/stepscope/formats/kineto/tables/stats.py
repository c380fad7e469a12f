"""Build the table `stats` from all arguments of all events.

Few tools need arguments, and each event has several. Arguments are therefore decoded
when the table is first read, in a second pass over the file. For each batch of events,
the arguments of many events are decoded at once, then the values of each argument name.
New texts get handles after the recording's known handles, so handles do not depend on
the order in which tables are read.

An op and the op of its gradient both get the id of their link. In newer files, arrows
record the links. In files without arrows, the links follow from sequence numbers. An op
of the backward pass has the number of its graph node, and the id of the thread that
created the node. The op that created the node has the same number.

Definition: docs/formats/kineto.md#device-activity.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import numpy as np
import polars as pl
from msgspec import Raw

from stepscope.formats.assemble import EventValues
from stepscope.formats.kineto.columns.categories import EventClass
from stepscope.formats.kineto.columns.declared import Interned
from stepscope.formats.kineto.columns.gathering import paused_collector
from stepscope.formats.kineto.json.batches import read_batches
from stepscope.formats.kineto.json.messages import (
    LENIENT_ERRORS,
    encode_lenient_value,
    json_value,
)
from stepscope.trace.reading.texts import Shortening
from stepscope.trace.tables import DOUBLE, INT, REF, STATS, UINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.formats.kineto.decoded.recording import Recording


#: Names of op arguments that record links to gradients.
SEQUENCE: Final = "Sequence number"
FORWARD_THREAD: Final = "Fwd thread id"
_LINKS: Final[dict[str, pl.DataType]] = {"event": pl.Int32(), "value": pl.Int64()}
#: Name of the argument with a link's id, which an op and the op of its gradient share.
#: The category of arrows that record links has the same name.
LINK: Final = "fwdbwd"
_Scalar = int | float | str | bool | None
_Value = _Scalar | bytes | Raw
#: Decoder of events whose arguments are only numbers, texts and truth values.
_SCALAR_DECODER: Final = msgspec.json.Decoder(list[dict[str, _Scalar]])
_ANY: Final = msgspec.json.Decoder(list[dict[str, Raw]])
_SCALARS: Final = msgspec.json.Decoder(list[_Scalar])
_UNSIGNED_END: Final = 2**64
_SIGNED_END: Final = 2**63


def gradient_links(
    recording: Recording,
    sequence: tuple[Int32s, Int64s],
    forward_thread: tuple[Int32s, Int64s],
) -> pl.DataFrame:
    """Return both ends of every link between an op and the op of its gradient.

    Args:
        sequence: Rows of events, and values of their argument `SEQUENCE`.
        forward_thread: Rows of events, and values of their argument `FORWARD_THREAD`.

    Returns:
        One row per end: `event`, a row of `events`, and `value`, the id of the link.
    """
    links, line = recording.columns.links, recording.timeline
    if not len(links.id):
        return _links_by_sequence(recording, sequence, forward_thread)
    events = recording.columns.events
    rows = np.flatnonzero(line.kind == EventClass.OP)
    ends = pl.DataFrame(
        {
            "process": links.process,
            "thread": links.thread,
            "start": links.start_ns,
            "value": links.id,
        }
    )
    ops = pl.DataFrame(
        {
            "process": events.process[line.place[rows]],
            "thread": events.thread[line.place[rows]],
            "start": events.start_ns[line.place[rows]],
            "event": rows.astype(np.int32),
        }
    )
    # If ops have the same start, they are nested, and the arrow starts at the inner op.
    ops = ops.unique(["process", "thread", "start"], keep="last")
    arrows = ends.join(ops, on=["process", "thread", "start"])
    if arrows.height:
        return arrows.unique(["event", "value"], maintain_order=True).select(*_LINKS)
    return _links_by_sequence(recording, sequence, forward_thread)


def _links_by_sequence(
    recording: Recording,
    sequence: tuple[Int32s, Int64s],
    forward_thread: tuple[Int32s, Int64s],
) -> pl.DataFrame:
    line = recording.timeline
    event, number = sequence
    chosen = (number >= 0) & (line.kind[event] == EventClass.OP)
    event, number = event[chosen], number[chosen]
    threads = pl.DataFrame(dict(zip(("event", "maker"), forward_thread, strict=True)))
    ops = (
        pl.DataFrame(
            {
                "event": event,
                "number": number,
                "track": line.track[event],
                "start": line.start_ps[event],
            }
        )
        .join(threads, on="event", how="left", maintain_order="left")
        .with_columns(pl.col("maker").fill_null(0))
    )
    # Events around a node's op have the op's sequence number; keep the outermost one.
    backward = (
        ops.filter(pl.col("maker") > 0)
        .sort("event")
        .unique(["maker", "number"], keep="first", maintain_order=True)
    )
    # A sequence number counts nodes: the last op with a number created its node.
    forward = (
        ops.filter(pl.col("maker") == 0)
        .sort("start", "event")
        .unique(["track", "number"], keep="last", maintain_order=True)
    )
    pairs = backward.select("maker", "number", event_backward="event").join(
        forward.select("track", "number", event_forward="event"), on="number"
    )
    # A forward thread id is not the id of the thread's track. It is mapped to the track
    # that has most of the id's sequence numbers.
    main = (
        pairs.group_by("maker", "track")
        .len()
        .sort("maker", "len", "track", descending=[False, True, False])
        .unique("maker", keep="first", maintain_order=True)
    )
    pairs = pairs.join(main, on=["maker", "track"], how="semi").sort("event_backward")
    ends = [
        pairs.select(pl.col(name).alias("event"), pl.int_range(pl.len()).alias("value"))
        for name in ("event_forward", "event_backward")
    ]
    return pl.concat(ends).select(
        pl.col(name).cast(dtype) for name, dtype in _LINKS.items()
    )


def read_arguments(recording: Recording) -> EventValues:
    """Return every argument of every event, sorted by event."""
    collecting = _Collecting(recording)
    events, row = recording.columns.events, recording.timeline.row
    columns = recording.columns
    # If events were parsed leniently or left out, the second pass must parse all
    # fields, so that it finds the same events.
    regular = not columns.lenient and columns.bad_place is None and not columns.cut_at
    first = begin = 0
    with paused_collector():
        for batch in read_batches(recording.document, arguments_only=regular):
            arguments = batch.arguments or [event.args for event in batch.events]
            end = int(np.searchsorted(events.ordinal, first + len(arguments)))
            positions = np.arange(begin, end)[row[begin:end] >= 0]
            # Events of one class have mostly the same argument names.
            for kind in np.unique(events.kind[positions]).tolist():
                of_kind = positions[events.kind[positions] == kind]
                chosen = (events.ordinal[of_kind] - first).tolist()
                collecting.add([arguments[index] for index in chosen], row[of_kind])
            first, begin = first + len(arguments), end
    packed = columns.values
    is_kept = row[packed.place] >= 0
    if is_kept.any():
        chosen = np.flatnonzero(is_kept).tolist()
        collecting.add(
            [packed.json[index] for index in chosen], row[packed.place[is_kept]]
        )
    collecting.add_links()
    return collecting.result()


class _Collecting:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        known = recording.texts.strings
        self._handles = Interned(zip(known, range(len(known)), strict=True))
        self._shortening = Shortening()
        self._texts: Interned[str | bytes] = Interned()
        self._split_parts: list[tuple[NDArray[Any], ...]] = []
        # Values of the arguments that record links between ops.
        self._numbers: dict[str, list[tuple[NDArray[Any], ...]]] = {
            SEQUENCE: [],
            FORWARD_THREAD: [],
        }

    def add(self, raws: Sequence[Raw], event: Int32s) -> None:
        arguments = _decode_arguments(raws)
        counts = np.fromiter(map(len, arguments), np.int64, len(arguments))
        owner = np.repeat(event, counts)
        names: Interned[str] = Interned()
        name = names.numbers([key for fields in arguments for key in fields])
        values = [value for fields in arguments for value in fields.values()]
        order = np.argsort(name, kind="stable")
        ends = np.cumsum(np.bincount(name, minlength=len(names)))
        for key, number in names.items():
            rows = order[ends[number - 1] if number else 0 : ends[number]]
            self._add_values(key, owner[rows], [values[row] for row in rows.tolist()])

    def add_links(self) -> None:
        """Add the id of each link to the ops at both ends."""
        links = gradient_links(
            self._recording,
            self._integers_of_name(SEQUENCE),
            self._integers_of_name(FORWARD_THREAD),
        )
        if links.height:
            self._add_part(
                LINK,
                links["event"].to_numpy(),
                np.full(links.height, INT, np.uint8),
                links["value"].to_numpy(),
            )

    def _integers_of_name(self, name: str) -> tuple[Int32s, Int64s]:
        events, values = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for event, kind, value in self._numbers[name]:
            is_integer = kind == INT
            events.append(event[is_integer])
            values.append(value[is_integer])
        return np.concatenate(events), np.concatenate(values)

    def result(self) -> EventValues:
        # Replace each text's number by its handle; convert each text only once.
        handle = np.array(
            [
                self._handle_of_text(
                    str(text, "utf-8", "replace") if isinstance(text, bytes) else text
                )
                for text in self._texts
            ],
            np.int64,
        )
        for _, _, kind, value in self._split_parts:
            if len(kind) and kind[0] == REF:
                value[:] = handle[value]
        texts = tuple(self._handles)
        if not self._split_parts:
            return EventValues(frame=pl.DataFrame(schema=STATS.dtypes()), strings=texts)
        event, key, kind, value = (
            np.concatenate(column) for column in zip(*self._split_parts, strict=True)
        )
        self._split_parts.clear()
        # The arguments of one event may be in any order.
        order = np.argsort(event, kind="stable")
        frame = pl.DataFrame(
            {
                "event": event[order],
                "key": key[order],
                "kind": kind[order],
                "value": value[order],
                "length": np.zeros(len(order), np.int32),
            },
            schema=STATS.dtypes(),
        )
        return EventValues(frame=frame, strings=texts)

    def _add_part(self, name: str, event: Int32s, kind: UInt8s, value: Int64s) -> None:
        key = np.full(len(event), self._handle_of_text(name), np.int32)
        self._split_parts.append((event, key, kind, value))
        if name in self._numbers:
            self._numbers[name].append((event, kind, value))

    def _add_values(self, name: str, event: Int32s, values: Sequence[_Value]) -> None:
        types = set(map(type, values))
        if types == {Raw}:
            values = _decode_scalars(cast("Sequence[Raw]", values))
            types = set(map(type, values))
        for type_ in types:
            chosen, typed = event, values
            if len(types) > 1:
                rows = [row for row, value in enumerate(values) if type(value) is type_]
                chosen, typed = event[rows], [values[row] for row in rows]
            if type_ is int or type_ is bool:
                self._add_part(name, chosen, *_integer_values(cast("list[int]", typed)))
            elif type_ is float:
                real = np.array(cast("list[float]", typed)).view(np.int64)
                self._add_part(name, chosen, _repeat_kind(DOUBLE, len(real)), real)
            elif type_ in (str, bytes):
                # Store each text as a number until its handle is known.
                texts = self._texts.numbers(cast("list[str | bytes]", typed))
                self._add_part(
                    name, chosen, _repeat_kind(REF, len(texts)), texts.astype(np.int64)
                )

    def _handle_of_text(self, text: str) -> int:
        return self._handles[self._shortening.text(text)]


def _decode_arguments(
    raws: Sequence[Raw],
) -> Sequence[dict[str, _Scalar] | dict[str, Raw]]:
    listed = b"[" + b",".join(raws) + b"]"
    try:
        return _SCALAR_DECODER.decode(listed)
    except LENIENT_ERRORS:
        pass
    try:
        return _ANY.decode(listed)
    except LENIENT_ERRORS:
        pass
    arguments: list[dict[str, Raw]] = []
    for raw in raws:
        try:
            arguments.append(msgspec.json.decode(raw, type=dict[str, Raw]))
        except LENIENT_ERRORS:
            value = json_value(bytes(raw))
            pairs = value.items() if isinstance(value, dict) else ()
            arguments.append(
                {key: Raw(encode_lenient_value(member)) for key, member in pairs}
            )
    return arguments


def _decode_scalars(raws: Sequence[Raw]) -> Sequence[_Value]:
    """Decode numbers, texts and booleans; return lists and objects as JSON bytes."""
    listed = b"[" + b",".join(raws) + b"]"
    # If the first value is a list or an object, decoding scalars would fail.
    if listed[1:2] not in b"[{":
        try:
            return _SCALARS.decode(listed)
        except LENIENT_ERRORS:
            pass
    written = [bytes(raw) for raw in raws]
    return [text if text[:1] in b"[{" else _lenient_scalar(text) for text in written]


def _lenient_scalar(written: bytes) -> _Scalar:
    value = json_value(written)
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, int | str) else None


def _repeat_kind(kind: int, count: int) -> UInt8s:
    return np.full(count, kind, np.uint8)


def _integer_values(numbers: Sequence[int]) -> tuple[UInt8s, Int64s]:
    """Store integers as signed, from 2^63 on as unsigned, from 2^64 on as doubles."""
    try:
        value = np.fromiter(numbers, np.int64, len(numbers))
        return _repeat_kind(INT, len(value)), value
    except OverflowError:
        kind, value = _repeat_kind(INT, len(numbers)), np.zeros(len(numbers), np.int64)
    for index, number in enumerate(numbers):
        if -_SIGNED_END <= number < _SIGNED_END:
            value[index] = number
        elif 0 < number < _UNSIGNED_END:
            kind[index], value[index] = UINT, number - _UNSIGNED_END
        else:
            kind[index], value[index] = (
                DOUBLE,
                np.float64(_float_or_infinity(number)).view(np.int64),
            )
    return kind, value


def _float_or_infinity(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
