"""Fields of small messages: read as the kernels read those of events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.xspace.wire import double, number_field, sized, tag

from stepscope._core import wire
from stepscope.xspace.wire import MalformedMessage, packed_numbers, read_fields

MANY = 64
MESSAGES = st.lists(
    st.one_of(
        st.builds(
            number_field,
            st.integers(1, 2**29 - 1),
            st.integers(0, 2**64 - 1),
        ),
        st.builds(sized, st.integers(1, 2**29 - 1), st.binary(max_size=200)),
        st.builds(double, st.integers(1, 20), st.floats(allow_nan=False)),
        st.binary(max_size=12),
    ),
    max_size=5,
).map(b"".join)


def by_kernel(message: bytes) -> list[tuple[int, int | bytes]] | None:
    """Number and value of each field; None for a message that breaks the format."""
    data = np.frombuffer(message, np.uint8)
    owner, tags = np.empty(MANY, np.int32), np.empty(MANY, np.uint32)
    place, size, stop = (np.empty(it, np.int64) for it in (MANY, MANY, 1))
    edges = np.zeros(1, np.int64), np.array([len(message)], np.int64)
    count = wire.index_fields(data, *edges, owner, tags, place, size, stop)
    assert 0 <= count <= MANY
    if stop[0] >= 0:
        return None
    rows = zip(tags.tolist(), place.tolist(), size.tolist(), strict=True)
    return [
        (it >> 3, message[at : at + length] if it & 7 == 2 else length % 2**64)
        for it, at, length in list(rows)[:count]
        if it & 7 in (0, 2)
    ]


def in_python(message: bytes) -> list[tuple[int, int | bytes]] | None:
    try:
        fields = list(read_fields(message))
    except MalformedMessage:
        return None
    return [(it, v if isinstance(v, int) else bytes(v)) for it, v in fields]


@given(MESSAGES)
def test_fields_are_those_that_the_kernel_finds(message: bytes) -> None:
    assert in_python(message) == by_kernel(message)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(tag(0, 0) + b"\x01", id="field number 0"),
        pytest.param(b"\x80\x80\x80\x80\x10\x01", id="field number of 30 bits"),
        pytest.param(tag(1, 3), id="group"),
        pytest.param(b"\x08" + b"\xff" * 10 + b"\x01", id="number of 11 bytes"),
        pytest.param(tag(1, 2) + b"\x02a", id="length beyond the message"),
        pytest.param(tag(1, 1) + bytes(7), id="cut number of 8 bytes"),
    ],
)
def test_what_breaks_the_format_is_refused_in_both(message: bytes) -> None:
    assert in_python(message) is None
    assert by_kernel(message) is None


def test_packed_numbers_end_with_a_whole_one() -> None:
    assert packed_numbers(memoryview(b"\x01\x96\x01")) == [1, 150]
    with pytest.raises(MalformedMessage):
        packed_numbers(memoryview(b"\x01\x96"))
