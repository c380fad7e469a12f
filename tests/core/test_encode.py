"""Encoding kernels, compiled and plain, against a few lines of Python."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.xspace.kernels import uncompiled
from tests.support.xspace.wire import INT64, number_field, sized, tag

from stepscope._core import encode as installed

if TYPE_CHECKING:
    from types import ModuleType

FORMS = {"installed": installed, "plain": uncompiled("encode")}

Stat = tuple[int, int, int | float | bytes]
Event = tuple[int, int, int, bool, list[Stat]]
STATS = st.one_of(
    st.tuples(INT64, st.just(2), st.floats(allow_nan=False)),
    st.tuples(INT64, st.sampled_from([3, 4, 7]), INT64),
    st.tuples(INT64, st.sampled_from([5, 6]), st.binary(max_size=200)),
    st.tuples(INT64, st.just(0), st.just(0)),
)
EVENTS = st.lists(
    st.tuples(INT64, INT64, INT64, st.booleans(), st.lists(STATS, max_size=3)),
    max_size=5,
)


def encoded_slowly(events: list[Event]) -> bytes:
    out = b""
    for type_id, offset, dur, counted, stats in events:
        body = number_field(1, type_id)
        if not counted and offset:
            body += number_field(2, offset)
        if dur:
            body += number_field(3, dur)
        for key, kind, value in stats:
            inner = number_field(1, key)
            if isinstance(value, float):
                inner += tag(2, 1) + struct.pack("<d", value)
            elif isinstance(value, bytes):
                inner += sized(kind, value)
            elif kind:
                inner += number_field(kind, value)
            body += sized(4, inner)
        if counted:
            body += number_field(5, offset)
        out += sized(4, body)
    return out


def columns(events: list[Event]) -> list[np.ndarray]:
    stats = [stat for event in events for stat in event[4]]
    texts = b""
    values, lengths = [], []
    for _, _, value in stats:
        lengths.append(len(value) if isinstance(value, bytes) else 0)
        if isinstance(value, bytes):
            values.append(len(texts))
            texts += value
        elif isinstance(value, float):
            values.append(struct.unpack("<q", struct.pack("<d", value))[0])
        else:
            values.append(value)
    return [
        np.array([event[0] for event in events], np.int64),
        np.array([event[1] for event in events], np.int64),
        np.array([event[2] for event in events], np.int64),
        np.array([event[3] for event in events], np.uint8),
        np.cumsum([0, *(len(event[4]) for event in events)], dtype=np.int64),
        np.array([stat[0] for stat in stats], np.int64),
        np.array([stat[1] for stat in stats], np.uint8),
        np.array(values, np.int64),
        np.array(lengths, np.int32),
        np.frombuffer(texts, np.uint8),
    ]


@pytest.mark.parametrize("form", sorted(FORMS))
@given(events=EVENTS)
def test_bytes_are_those_of_a_plain_encoder_and_need_exactly_the_room(
    form: str, events: list[Event]
) -> None:
    kernels, expected = FORMS[form], encoded_slowly(events)
    arrays = columns(events)
    assert kernels.encode_line_events(*arrays, np.empty(0, np.uint8)) == len(expected)
    out = np.full(len(expected) + 3, 0xAA, np.uint8)
    assert kernels.encode_line_events(*arrays, out[: len(expected)]) == len(expected)
    assert out.tobytes() == expected + b"\xaa\xaa\xaa"
    if expected:
        short = out[: len(expected) - 1]
        assert kernels.encode_line_events(*arrays, short) == kernels.NO_ROOM


@pytest.mark.parametrize("kernels", FORMS.values(), ids=FORMS)
def test_columns_that_do_not_fit_are_refused(kernels: ModuleType) -> None:
    event: Event = (1, 2, 3, False, [(1, 5, b"text"), (2, 4, 5)])
    out = np.empty(100, np.uint8)

    def answer(position: int, changed: np.ndarray) -> int:
        arrays = columns([event])
        arrays[position] = changed
        return int(kernels.encode_line_events(*arrays, out))

    for position in range(9):
        shorter = columns([event])[position][:-1]
        assert answer(position, shorter) == kernels.BAD_RANGE
    bounds = (1, 2), (0, 1), (0, 3), (2, 0)
    for pair in bounds:
        assert answer(4, np.array(pair, np.int64)) == kernels.BAD_RANGE
    for kind in (1, 8, 255):
        assert answer(6, np.array([5, kind], np.uint8)) == kernels.BAD_RANGE
    for place in (-1, 1, 2**62):
        assert answer(7, np.array([place, 5], np.int64)) == kernels.BAD_RANGE
    assert answer(8, np.array([-1, 0], np.int32)) == kernels.BAD_RANGE
