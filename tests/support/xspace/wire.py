"""Profile messages as other writers might encode them: valid, but in every odd way.

Strategies for hypothesis. Numbers are padded, fields repeat, stand in any order or have
a wire type that makes them unknown; map entries lack their key or come in pieces.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Ids that go wrong where somebody takes 32 bits, a sign or a small table for granted.
IDS = st.one_of(
    st.integers(0, 6),
    st.sampled_from(
        [-1, -559038737, 2**31, 2**32, 2**32 + 1, 2**40, 2**63 - 1, -(2**63), 5000]
    ),
)
INT64 = st.one_of(st.integers(-3, 300), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.one_of(
    st.sampled_from([b"", b"a", b"step_num", b"_r", b"x" * 130, b"\xff\xfe", b"\xef"]),
    st.text(max_size=5).map(str.encode),
)


def varint(value: int, *, padding: int = 0) -> bytes:
    """The number, with needless bytes after it as far as ten bytes reach."""
    value %= 2**64
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        if value == 0:
            break
        out.append(low | 0x80)
    needless = min(padding, 9 - len(out))
    if needless <= 0:
        return bytes([*out, low])
    return bytes([*out, low | 0x80, *[0x80] * (needless - 1), 0])


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def number_field(number: int, value: int, *, padding: int = 0) -> bytes:
    return tag(number, 0) + varint(value, padding=padding)


def sized(number: int, body: bytes) -> bytes:
    return tag(number, 2) + varint(len(body)) + body


def double(number: int, value: float) -> bytes:
    return tag(number, 1) + struct.pack("<d", value)


def event(*fields: bytes) -> bytes:
    """In a line."""
    return sized(4, b"".join(fields))


def stat(*fields: bytes) -> bytes:
    """In an event."""
    return sized(4, b"".join(fields))


def line(*fields: bytes) -> bytes:
    """In a plane."""
    return sized(3, b"".join(fields))


def plane(*fields: bytes) -> bytes:
    return sized(1, b"".join(fields))


def named(field: int, key: int, name: str, *more: bytes) -> bytes:
    """An entry of a plane's map: of event metadata (4) or stat metadata (5)."""
    value = sized(2, name.encode()) + b"".join(more)
    return sized(field, number_field(1, key) + sized(2, value))


def padded(number: int, values: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda value, padding: number_field(number, value, padding=padding),
        values,
        st.sampled_from([0, 0, 0, 1, 9]),
    )


def within(number: int, bodies: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return bodies.map(lambda body: sized(number, body))


def unknown(known: Sequence[int]) -> st.SearchStrategy[bytes]:
    """A field that nobody knows: another number, or a known one of another type."""
    numbers = st.sampled_from(
        [n for n in (12, 15, 16, 100, 2**29 - 1) if n not in known]
    )
    return st.one_of(
        numbers.map(lambda number: number_field(number, 7)),
        numbers.map(lambda number: sized(number, b"\x08\x01")),
        numbers.map(lambda number: tag(number, 1) + bytes(8)),
        numbers.map(lambda number: tag(number, 5) + bytes(4)),
        st.sampled_from(list(known)).map(lambda number: tag(number, 5) + b"\x22\0\0\0"),
    )


def message(
    fields: Sequence[st.SearchStrategy[bytes]], known: Sequence[int], *, most: int = 6
) -> st.SearchStrategy[bytes]:
    """Some fields in any order, any of them repeatedly."""
    # Unknown ones are rare, so that most messages say something.
    usual = st.one_of(*fields)
    any_field = st.integers(0, 9).flatmap(
        lambda dice: unknown(known) if dice == 0 else usual
    )
    return st.lists(any_field, max_size=most).map(b"".join)


STATS = message(
    [
        padded(1, IDS),
        st.floats(width=64).map(lambda value: double(2, value)),
        padded(3, INT64),
        padded(4, INT64),
        within(5, TEXTS),
        within(6, TEXTS),
        padded(7, IDS),
    ],
    known=range(1, 8),
    most=4,
)
EVENTS = message(
    [
        padded(1, IDS),
        padded(2, INT64),
        padded(3, INT64),
        within(4, STATS),
        within(4, STATS),
        padded(5, INT64),
    ],
    known=range(1, 6),
)
LINES = message(
    [
        padded(1, IDS),
        within(2, TEXTS),
        padded(3, INT64),
        within(4, EVENTS),
        within(4, EVENTS),
        within(4, EVENTS),
        padded(9, INT64),
        padded(10, IDS),
        within(11, TEXTS),
    ],
    known=(1, 2, 3, 4, 9, 10, 11),
    most=12,
)
EVENT_METADATA = message(
    [
        padded(1, IDS),
        within(2, TEXTS),
        within(3, TEXTS),
        within(4, TEXTS),
        within(5, STATS),
        padded(6, IDS),
    ],
    known=range(1, 7),
)
STAT_METADATA = message(
    [padded(1, IDS), within(2, TEXTS), within(3, TEXTS)], known=range(1, 4)
)


def entries(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Map entries. Without unknown fields: the parser of protobuf's Python package
    takes an entry that has some for unknown itself, unlike the one for C++.
    """
    fields = st.one_of(padded(1, IDS), within(2, values))
    return st.lists(fields, max_size=4).map(b"".join)


PLANES = message(
    [
        padded(1, IDS),
        within(2, TEXTS),
        within(3, LINES),
        within(3, LINES),
        within(4, entries(EVENT_METADATA)),
        within(4, entries(EVENT_METADATA)),
        within(5, entries(STAT_METADATA)),
        within(5, entries(STAT_METADATA)),
        within(6, STATS),
    ],
    known=range(1, 7),
    most=12,
)
SPACES = message(
    [within(1, PLANES), within(1, PLANES), *(within(n, TEXTS) for n in (2, 3, 4))],
    known=range(1, 5),
    most=5,
)
