"""The two metadata maps of several planes made into one of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.xspace.fields import Entry, EventMetadata, StatMetadata, StatTag
from stepscope.xspace.reading.messages import index_messages
from stepscope.xspace.wire import MalformedMessage, packed_numbers, read_varint
from stepscope.xspace.writing.encode import encode_varint, number_field, sized_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from stepscope.array_types import Int64s, UInt8s

_WRAP: Final = 2**64
_SIZED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
#: Field with the ids of a type's child types, packed or not.
_CHILD: Final = 6 << 3


class NameEntry(NamedTuple):
    """One entry of a metadata map: its id, and its message without the id."""

    id: int
    body: bytes


@dataclass(frozen=True)
class IdMap:
    """From the ids of one plane's map to those of the merged one.

    Attributes:
        ids: 64 bits unsigned to 64 bits unsigned.
    """

    ids: Mapping[int, int]

    @cached_property
    def columns(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Ascending keys, and what they become, as `_core.rebase` takes them."""
        keys = sorted(self.ids)
        values = [self.ids[key] for key in keys]
        return np.array(keys, np.uint64), np.array(values, np.uint64)


class Names:
    """A metadata map that grows by the entries of one plane after the other."""

    def __init__(self, *, first_free: int) -> None:
        """Begin an empty map whose new ids are `first_free` and above."""
        self._bodies: dict[int, bytes] = {}
        self._ids: dict[bytes, int] = {}
        self._next = first_free

    def enter(
        self,
        entries: Iterable[NameEntry],
        *,
        stat_ids: tuple[IdMap, int] | None = None,
        keep_ids: bool,
    ) -> IdMap:
        """Add the entries of a plane.

        Args:
            entries: Of two with one id the last counts.
            stat_ids: What ids inside the entries become, for types of events, and
                what those become that name nothing.
            keep_ids: Every entry keeps its id and its bytes; otherwise equal entries
                become one and the others get a free id.
        """
        latest = {entry.id % _WRAP: entry.body for entry in entries}
        if keep_ids:
            for key, body in latest.items():
                self._bodies[key] = body
                self._ids.setdefault(body, key)
            return IdMap({key: key for key in latest})
        ids: dict[int, int] = {}
        later: list[tuple[int, bytes]] = []
        for key, body in latest.items():
            if stat_ids is not None:
                body = _rewrite_stats(body, *stat_ids)  # noqa: PLW2901 - as it becomes
            # No field of a name's entry is a child in most files.
            if any(tag >> 3 == _CHILD >> 3 for tag, _, _ in _read_fields(body)):
                later.append((key, body))
            else:
                known = self._ids.get(body)
                if known is None:
                    known = self._ids[body] = self.free_id()
                    self._bodies[known] = body
                ids[key] = known
        # Types that name other types come last, when those have their ids.
        for key, _ in later:
            ids[key] = self.free_id()
            self._bodies[ids[key]] = b""
        for key, body in later:
            self._bodies[ids[key]] = _rewrite_children(body, ids)
        return IdMap(ids)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Ids and messages of all entries; id and key are equal, as viewers expect."""
        # Both messages have their id in field 1.
        for key, body in self._bodies.items():
            yield key, number_field(StatMetadata.ID, key) + body

    def identity(self) -> IdMap:
        """Return every id of the merged map as itself."""
        return IdMap({key: key for key in self._bodies})

    def free_id(self) -> int:
        """Return an id that no entry has."""
        while self._next in self._bodies:
            self._next += 1
        return self._next


def read_entries(data: UInt8s, begin: Int64s, end: Int64s) -> list[NameEntry]:
    """Return the entries of a map, whose messages are [begin, end)."""
    fields = index_messages(data, begin, end)
    keys = fields.last(Entry.KEY).tolist()
    bodies = [b""] * len(keys)
    values = fields.of(Entry.VALUE)
    # A message that comes in pieces is the pieces one after the other.
    for owner, place, size in zip(
        values.owner.tolist(), values.place.tolist(), values.size.tolist(), strict=True
    ):
        bodies[owner] += data[place : place + size].tobytes()
    return [
        NameEntry(
            key,
            b"".join(
                raw for tag, raw, _ in _read_fields(body) if tag != StatMetadata.ID
            ),
        )
        for key, body in zip(keys, bodies, strict=True)
    ]


def rewritten_stat(body: bytes, stat_ids: IdMap, *, missing: int) -> bytes:
    """Return a stat with the ids of its name and of a reference replaced."""
    out = []
    named = False
    for tag, raw, value in _read_fields(body):
        if tag in (StatTag.METADATA_ID, StatTag.REF):
            named |= tag == StatTag.METADATA_ID
            out.append(
                encode_varint(tag) + encode_varint(stat_ids.ids.get(value, missing))
            )
        else:
            out.append(raw)
    if not named:
        # What is not written is id 0, which may have become another.
        out.append(number_field(StatTag.METADATA_ID, stat_ids.ids.get(0, missing)))
    return b"".join(out)


def _rewrite_stats(body: bytes, stat_ids: IdMap, missing: int) -> bytes:
    out = []
    for tag, raw, _ in _read_fields(body):
        if tag == EventMetadata.STAT:
            inner = raw[len(encode_varint(tag)) :]
            _, start = read_varint(inner, 0)
            out.append(
                sized_field(
                    tag, rewritten_stat(inner[start:], stat_ids, missing=missing)
                )
            )
        else:
            out.append(raw)
    return b"".join(out)


def _rewrite_children(body: bytes, type_ids: Mapping[int, int]) -> bytes:
    out = []
    for tag, raw, value in _read_fields(body):
        if tag == _CHILD:
            # What names nothing here must not name something of another plane.
            if value in type_ids:
                out.append(encode_varint(tag) + encode_varint(type_ids[value]))
        elif tag == _CHILD | _SIZED:
            try:
                children = packed_numbers(memoryview(raw)[len(raw) - value :])
            except MalformedMessage:
                children = []
            known = (type_ids[it] for it in children if it in type_ids)
            out.append(sized_field(tag, b"".join(map(encode_varint, known))))
        else:
            out.append(raw)
    return b"".join(out)


def _read_fields(body: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Tag, bytes with the tag, and number or length of every field of a message.

    What breaks the wire format ends the message, as it does for a reader.
    """
    at = 0
    while at < len(body):
        start = at
        try:
            tag, at = read_varint(body, at)
            value, end = read_varint(body, at) if tag & 7 in (0, _SIZED) else (0, at)
        except MalformedMessage:
            return
        wire = tag & 7
        if wire == _SIZED:
            end += value
        elif wire in _FIXED_BYTES:
            end += _FIXED_BYTES[wire]
        elif wire:
            return
        if end > len(body):
            return
        yield tag, body[start:end], value
        at = end
