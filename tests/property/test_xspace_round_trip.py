"""Reading and writing profile messages, against protobuf and against each other."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.xspace.kernels import uncompiled_xspace
from tests.support.xspace.proto import values_of_message, values_of_space
from tests.support.xspace.wire import SPACES, sized

from stepscope.errors import Malformed
from stepscope.xspace.reading import fill
from stepscope.xspace.reading.decode import decode_bytes
from stepscope.xspace.writing.builders import Unsigned
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from stepscope.xspace.writing.builders import Value

FORMS = {"compiled": nullcontext, "plain": uncompiled_xspace}


@pytest.mark.parametrize("form", sorted(FORMS))
@given(data=SPACES)
def test_whatever_protobuf_accepts_is_read_alike(form: str, data: bytes) -> None:
    # A host name makes sure that there is something to be read.
    data += sized(4, b"host")
    with FORMS[form]():
        assert values_of_message(data) == values_of_space(decode_bytes(data))


@given(data=SPACES, length=st.integers(0, 2**16), flipped=st.integers(0, 2**19))
def test_where_lines_are_split_among_threads_changes_nothing(
    data: bytes, length: int, flipped: int
) -> None:
    raw = bytearray(data + sized(4, b"host"))
    raw[flipped // 8 % len(raw)] ^= 1 << flipped % 8
    raw = raw[: max(length, len(raw) // 2)]

    def decoded(threads: int) -> Any:
        try:
            space = decode_bytes(bytes(raw), threads=threads)
        except Malformed as refused:
            return str(refused)
        return values_of_space(space), space.damage

    expected = decoded(1)
    with (
        mock.patch.object(fill, "_MIN_TASK_BYTES", 1),
        mock.patch.object(fill, "_MAX_TASK_BYTES", 4),
    ):
        assert expected == decoded(3)


NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.integers(0, 2**64 - 1).map(Unsigned),
)
VALUES = st.one_of(
    NUMBERS, st.binary(max_size=4), st.text(max_size=3), st.sampled_from(["x", "y"])
)
STATS = st.dictionaries(st.sampled_from(["a", "b", "step_num", "_r"]), VALUES)
WRITTEN_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "", "käse"]),
        st.integers(0, 40),
        st.integers(0, 2**62),
        STATS,
    ),
    max_size=8,
)


def plain(value: Value) -> object:
    """A value as it is after reading: who wrote `Unsigned` reads an int."""
    return value.value if isinstance(value, Unsigned) else value


def read_back(stats: list[tuple[str, int, Any]]) -> dict[str, object]:
    """The stats of one event by name; doubles come as eight bytes."""
    return {
        name: memoryview(value).cast("d")[0] if kind == 2 else value
        for name, kind, value in stats
    }


@pytest.mark.parametrize("form", sorted(FORMS))
@given(lines=st.lists(WRITTEN_EVENTS, max_size=3), shared=STATS)
def test_what_was_written_is_what_protobuf_and_the_decoder_read(
    form: str,
    lines: list[list[tuple[str, int, int, dict[str, Value]]]],
    shared: dict[str, Value],
) -> None:
    with FORMS[form]():
        space = XSpaceBuilder("host", start_ns=10**18, stop_ns=10**18 + 1)
        plane = space.plane("/device:GPU:3", plane_id=3)
        plane.event_type("two", display_name="zwei", metadata=b"\0", stats=shared)
        for number, events in enumerate(lines):
            line = plane.line(-number, name=f"line {number}", timestamp_ns=number)
            for name, offset, dur, stats in events:
                line.event(name, offset_ps=offset, dur_ps=dur, stats=stats)
        data = space.to_bytes()
        values = values_of_space(decode_bytes(data))

    assert values == values_of_message(data)
    read = values["planes"][0]
    names = {number: one["name"] for number, one in read["types"].items()}
    assert [
        [
            (names[event[0]], event[1], event[2], read_back(event[4]))
            for event in line["events"]
        ]
        for line in read["lines"]
    ] == [
        [
            (name, offset, dur, {key: plain(value) for key, value in stats.items()})
            for name, offset, dur, stats in sorted(
                events, key=lambda event: (event[1], -event[2])
            )
        ]
        for events in lines
    ]
    (two,) = (one for one in read["types"].values() if one["name"] == "two")
    assert read_back(two["stats"]) == {
        key: plain(value) for key, value in shared.items()
    }
