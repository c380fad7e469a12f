"""What a hostile or a huge file may cost."""

from __future__ import annotations

import gzip
import tracemalloc
from os import SEEK_CUR
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.xspace.wire import (
    event,
    line,
    named,
    number_field,
    plane,
    sized,
    stat,
    tag,
    varint,
)

from stepscope.errors import BadInput
from stepscope.xspace.reading.decode import decode_bytes, decode_file
from stepscope.xspace.reading.source import decompress_gzip

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GREEDY: dict[str, Callable[[int], bytes]] = {
    "empty events": lambda n: plane(line(event() * (n // 2))),
    "empty stats": lambda n: plane(line(event(stat() * (n // 2)))),
    "known events": lambda n: plane(named(4, 0, ""), line(event() * (n // 2))),
    "padding": lambda n: plane(line(event(number_field(9, 1) * (n // 2)))),
}


@pytest.mark.parametrize("kind", GREEDY)
def test_no_file_takes_more_than_a_small_multiple_of_its_size(kind: str) -> None:
    data = GREEDY[kind](2**18)
    assert decode_bytes(data).damage == ()
    tracemalloc.start()
    try:
        decode_bytes(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * len(data) + 2**16


def test_a_copied_file_may_change_and_a_mapped_one_is_the_same(
    tmp_path: Path,
) -> None:
    data = plane(line(event() * 10_000))
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(data)
    copied = decode_file(path, mapped=False)
    mapped = decode_file(path)
    assert copied.data.tobytes() == mapped.data.tobytes() == data
    assert np.array_equal(copied.events.offset_ps, mapped.events.offset_ps)
    # Written in place, as a recorder writes: the mapping shows it, the copy does not.
    with path.open("r+b") as file:
        file.write(bytes(8))
    assert bytes(mapped.data[:8]) == bytes(8)
    assert bytes(copied.data[:8]) == data[:8]


@pytest.mark.parametrize(
    ("data", "most"),
    [
        pytest.param(plane() * 65_537, "65,536", id="planes"),
        pytest.param(plane(line() * 262_145), "262,144", id="lines"),
        pytest.param(plane(sized(6, b"") * 1_048_577), "1,048,576", id="values"),
        pytest.param(plane(sized(4, b"") * 4_194_305), "4,194,304", id="names"),
        pytest.param(sized(3, b"") * 65_537, "65,536", id="warnings"),
    ],
)
def test_what_no_recording_has_so_many_of_is_refused(data: bytes, most: str) -> None:
    with pytest.raises(BadInput, match=f"at most {most} are read. This is not a rec"):
        decode_bytes(data)


@pytest.mark.slow  # The limit is a quarter of a million, and so many events are made.
def test_unknown_ids_beyond_a_limit_share_a_name() -> None:
    count = 2**18 + 10
    ids = range(1, count + 1)
    data = plane(line(*(event(number_field(1, key)) for key in ids)))
    space = decode_bytes(data)
    assert len(space.event_types) == 2**18
    assert space.events.type[:3].tolist() == [0, 1, 2]
    assert set(space.events.type[-11:].tolist()) == {2**18 - 1}


def test_places_beyond_four_gigabytes_are_right(tmp_path: Path) -> None:
    """Zeros in a file take no disk where the file system knows holes, as most do."""
    hole = 2**27
    tail = stat(number_field(1, 1), sized(5, b"after"))
    # An event with a value of so many zero bytes, then a short text.
    value = number_field(1, 1) + tag(6, 2) + varint(hole)
    inner = tag(4, 2) + varint(len(value) + hole) + value
    event_head = tag(4, 2) + varint(len(inner) + hole + len(tail)) + inner
    line_size = len(event_head) + hole + len(tail)
    line_head = tag(3, 2) + varint(line_size) + event_head
    names = named(4, 0, "big") + named(5, 1, "raw")
    size = len(line_head) + hole + len(tail) + len(names)
    head = tag(1, 2) + varint(size) + line_head
    path = tmp_path / "large.xplane.pb"
    planes = 2**32 // hole + 2
    ends = []
    with path.open("wb") as file:
        for _ in range(planes):
            file.write(head)
            file.seek(hole, SEEK_CUR)
            file.write(tail + names)
            ends.append(file.tell() - len(names))
        file.write(sized(4, b"host"))
    assert path.stat().st_size > 2**32
    if path.stat().st_blocks * 512 > 2**30:
        pytest.skip("the file system keeps no holes, and four gigabytes are too much")

    space = decode_file(path)

    assert (len(space.events), len(space.stats)) == (planes, 2 * planes)
    assert space.hostnames == ("host",)
    assert space.damage == ()
    assert set(space.stats.length[::2].tolist()) == {hole}
    assert space.stats.value[1::2].tolist() == [end - len(b"after") for end in ends]
    assert space.text(int(space.stats.value[-1]), 5) == "after"


@pytest.mark.slow
def test_a_stream_that_was_made_to_unpack_to_much_is_refused_early() -> None:
    bomb = gzip.compress(bytes(2**29), compresslevel=9)
    assert len(bomb) < 2**20
    tracemalloc.start()
    with pytest.raises(BadInput, match="more than 200 times its size"):
        decompress_gzip(bomb, "bomb.json.gz")
    assert tracemalloc.get_traced_memory()[1] < 2**29
    tracemalloc.stop()


@pytest.mark.slow(seconds=0.4)
def test_what_packs_as_well_as_recordings_do_is_unpacked() -> None:
    rng = np.random.default_rng(0)
    # One part in thirty is new, in more than a file that is always let through.
    content = b"".join(rng.bytes(2**12) * 30 for _ in range(768))
    packed = gzip.compress(content, compresslevel=1)
    assert len(content) / len(packed) > 20
    assert len(decompress_gzip(packed, "real.json.gz")[0]) == len(content)
