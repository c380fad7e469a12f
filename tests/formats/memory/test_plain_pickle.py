"""Plain values are read as Python reads them; anything else is refused, not run."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.formats.memory.plain_pickle import RefusedPickle, plain_pickle

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.floats(allow_nan=False)
    | st.text()
    | st.tuples(st.integers(0, 9), st.text(max_size=2)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3) | st.integers(1 - 2**63, 2**63 - 1), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(PLAIN, st.integers(2, 5))
def test_plain_values_are_read_as_python_reads_them(value: Any, protocol: int) -> None:
    assert plain_pickle(pickle.dumps(value, protocol)) == value


def test_what_occurs_again_is_one_value() -> None:
    frames = [{"line": 1}]
    found: Any = plain_pickle(pickle.dumps([frames, frames], 4))
    assert found[0] is found[1]


class Runs:
    """What a hostile file does: the pickle of it would make a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (str(self._path), "w")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_nothing_is_imported_or_called(tmp_path: Path, protocol: int) -> None:
    made = tmp_path / "made"
    with pytest.raises(RefusedPickle):
        plain_pickle(pickle.dumps({"segments": Runs(made)}, protocol))
    assert not made.exists()


def framed(content: bytes) -> bytes:
    return b"\x80\x04" + content + b"."


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"cos\nsystem\n", "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"(ios\nsystem\n", "INST"),
        (b"])R", "REDUCE"),
        (b"]}b", "BUILD"),
        (b"Pid\n", "PERSID"),
        (b"NQ", "BINPERSID"),
        (b"\x82\x01", "EXT1"),
        (b"\x97", "NEXT_BUFFER"),
        (b"])\x81", "NEWOBJ"),
        # A bytearray of a size that the file does not have.
        (b"\x96" + struct.pack("<Q", 2**62), "0x96"),
        (b"I1\n", "0x49"),
    ],
)
def test_an_instruction_that_plain_data_do_not_need_is_named(
    content: bytes, what: str
) -> None:
    with pytest.raises(RefusedPickle, match=what):
        plain_pickle(framed(content))


@pytest.mark.parametrize(
    "content",
    [
        b"X" + struct.pack("<I", 2**32 - 1) + b"a",
        b"\x8d" + struct.pack("<Q", 2**63) + b"a",
        b"\x8a\xff" + b"\1" * 255,
        b"(" * 65 + b"]" * 65,
        b"]" * 300_000,
        b")" + b"\x85" * 100_000,
        b"}]]s",
        # Keys of 65 bits and more, of which any number share a place.
        b"}\x8a\x10" + (2**61 - 1 << 64).to_bytes(16, "little") + b"Ns",
        b"j" + struct.pack("<I", 2**32 - 1),
        b"a",
        b"]N]a",
        b"\x85",
        b"(]Ne",
        b"Na",
        b"]]",
        b"",
        b"\x80\x09N",
    ],
    ids=range(17),
)
def test_a_bomb_and_nonsense_are_refused(content: bytes) -> None:
    with pytest.raises(RefusedPickle):
        plain_pickle(framed(content))


def test_a_place_in_the_memo_costs_nothing() -> None:
    """Python's own unpickler makes a list as long as the greatest place."""
    assert plain_pickle(framed(b"]r" + struct.pack("<I", 2**32 - 1))) == []


def test_shared_lists_are_not_multiplied() -> None:
    """Thirty lists that hold the former one twice would be a billion items."""
    value: list[Any] = []
    for _ in range(30):
        value = [value, value]
    found: Any = plain_pickle(pickle.dumps(value, 4))
    assert found[0] is found[1]


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_are_read_or_refused(content: bytes) -> None:
    with suppress(RefusedPickle):
        plain_pickle(framed(content))


def test_a_cut_file_is_refused_at_every_byte() -> None:
    whole = pickle.dumps({"segments": [{"size": 5, "frames": [("a", 1)]}]}, 4)
    for end in range(len(whole)):
        with pytest.raises(RefusedPickle):
            plain_pickle(whole[:end])
