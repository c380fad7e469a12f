"""Throws damaged profile messages at the decoder; finds crashes, not wrong numbers.

    python tests/fuzz/fuzz_decoder.py [--cases 1000000] [--seconds 600] [--plain]

Each case is a message, mutated by cuts, flips, runs, splices and absurd lengths, in
a buffer that ends at a page which must not be touched: a read beyond the end kills the
process, and the seed and number of the case are in the file named at the start.
What is decoded must keep its own promises (`promises`), and where protobuf accepts the
case, hold the same values.

Definition: docs/formats/xplane.md#damage.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import ctypes.util
import gzip
import mmap
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS.parent) not in sys.path:
    sys.path.insert(0, str(TESTS.parent))

from tests.support.xspace.kernels import (  # noqa: E402 - needs the path above
    uncompiled_xspace,
)

from stepscope.errors import BadInput  # noqa: E402
from stepscope.xspace.reading.columns import XSpace  # noqa: E402, TC001
from stepscope.xspace.reading.decode import decode_bytes  # noqa: E402
from stepscope.xspace.writing.builders import Unsigned  # noqa: E402
from stepscope.xspace.writing.write import XSpaceBuilder  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Random = np.random.Generator

#: A case longer than this is cut out of a larger message.
LONGEST = 4096


class GuardedBuffer:
    """Memory that ends at a page which nobody may touch."""

    def __init__(self, room: int) -> None:
        page = mmap.PAGESIZE
        self.room = -(-room // page) * page
        self.pages = mmap.mmap(-1, self.room + page)
        libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        place = ctypes.addressof(ctypes.c_char.from_buffer(self.pages)) + self.room
        if libc.mprotect(place, page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def holding(self, data: bytes) -> memoryview:
        """The data, its last byte before the page; valid until the next call."""
        begin = self.room - len(data)
        self.pages[begin : self.room] = data
        return memoryview(self.pages)[begin : self.room].toreadonly()


def messages() -> list[bytes]:
    """Whole messages to start from: made here, and the committed recordings."""
    made = []
    for lines in (1, 4):
        space = XSpaceBuilder("fuzz", start_ns=10**18, stop_ns=10**18 + 10**9)
        plane = space.plane("/host:CPU")
        plane.event_type("big", type_id=2**40, metadata=b"m" * 20, stats={"flops": 7})
        for number in range(lines):
            line = plane.line(-number, name=f"thread {number}", display_name="shown")
            for event in range(6):
                line.event(
                    f"event {event % 3}" if event else 2**40,
                    offset_ps=event * 1000,
                    dur_ps=900,
                    occurrences=5 if event == 3 else None,
                    stats={"a": event, "b": "text", "c": 0.5, "d": Unsigned(2**63)},
                )
        space.warning("dropped 3 events: room")
        made.append(space.to_bytes())
    recorded = sorted((TESTS / "data").rglob("*.xplane.pb*"))
    for path in recorded[:3]:
        raw = path.read_bytes()
        made.append(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return made


def cut(data: bytearray, random: Random) -> None:
    """Drop the end."""
    del data[int(random.integers(0, len(data) + 1)) :]


def flip(data: bytearray, random: Random) -> None:
    """Flip some bits."""
    for _ in range(int(random.integers(1, 8))):
        data[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))


def run(data: bytearray, random: Random) -> None:
    """Overwrite a run with one byte."""
    begin = int(random.integers(len(data)))
    end = min(begin + int(random.integers(1, 16)), len(data))
    data[begin:end] = bytes([int(random.integers(256))]) * (end - begin)


def splice(data: bytearray, random: Random) -> None:
    """Copy a piece to another place, or drop it."""
    begin, end = sorted(random.integers(0, len(data), 2).tolist())
    piece = data[begin : min(end, begin + 200)]
    at = int(random.integers(len(data)))
    if random.integers(2):
        data[at:at] = piece
    else:
        del data[begin : begin + len(piece)]


def lengthen(data: bytearray, random: Random) -> None:
    """Put an absurd number where any byte stood."""
    at = int(random.integers(len(data)))
    data[at : at + 1] = b"\xff" * int(random.integers(1, 12)) + bytes(
        [int(random.integers(128))]
    )


MUTATIONS: Sequence[Callable[[bytearray, Random], None]] = (
    cut,
    flip,
    flip,
    run,
    splice,
    lengthen,
)


def case(sources: list[bytes], random: Random) -> bytes:
    """One damaged message."""
    source = sources[int(random.integers(len(sources)))]
    begin = 0
    if len(source) > LONGEST and random.integers(2):
        begin = int(random.integers(len(source) - LONGEST))
    data = bytearray(source[begin : begin + LONGEST])
    for _ in range(int(random.integers(1, 5))):
        if data:
            MUTATIONS[int(random.integers(len(MUTATIONS)))](data, random)
    return bytes(data)


def promises(space: XSpace) -> None:
    """What every answer keeps, whatever the bytes were."""
    size, strings = len(space.data), len(space.strings)
    events, stats, types = space.events, space.stats, space.event_types
    lines = space.lines
    assert len(set(space.strings)) == strings
    assert space.strings[0] == ""
    for column, low, end in (
        (events.type, 0, len(types)),
        (stats.event, 0, len(events)),
        (stats.key, 0, strings),
        (types.name, 0, strings),
        (types.display_name, -1, strings),
        (types.plane, 0, len(space.planes)),
        (lines.plane, 0, len(space.planes)),
        (lines.name, 0, strings),
        (events.aggregated, 0, len(events)),
        (space.type_stats.type, 0, len(types)),
        (space.type_stats.key, 0, strings),
    ):
        assert column.min(initial=low) >= low
        assert not len(column) or column.max() < end
    assert np.all(np.diff(stats.event) >= 0)
    assert np.all(np.diff(events.aggregated) > 0)
    bounds = [0, *lines.event_end.tolist()]
    assert lines.event_begin.tolist() == bounds[:-1]
    assert bounds[-1] == len(events)
    for columns in (stats, space.type_stats):
        sized = (columns.kind == 5) | (columns.kind == 6)
        assert np.all(columns.length[~sized] == 0)
        assert np.all(columns.value[sized] >= 0)
        assert np.all(columns.value[sized] + columns.length[sized] <= size)
        assert np.all(columns.value[columns.kind == 7] < strings)
    assert all(0 <= one.offset <= size for one in space.damage)
    assert all(one.lost_bytes >= 0 for one in space.damage)


def try_case(data: bytes, buffer: GuardedBuffer, *, compare: bool) -> bool:
    """Decode one case; whether it could be read."""
    try:
        space = decode_bytes(buffer.holding(data), threads=1)
    except BadInput:
        space = None
    if space is not None:
        promises(space)
    if compare:
        compare_with_protobuf(data, space)
    return space is not None


def compare_with_protobuf(data: bytes, space: XSpace | None) -> None:
    """What protobuf accepts must be read, and read alike."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - a test extra
    from tests.support.xspace.proto import (  # noqa: PLC0415
        holds_unknown_fields,
        values_of_message,
        values_of_space,
    )

    try:
        expected = values_of_message(data)
    except DecodeError:
        return
    if holds_unknown_fields(data):
        return
    if space is None:
        assert expected["planes"] == [] or not any(
            plane["name"] or plane["stats"] or plane["types"] or plane["lines"]
            for plane in expected["planes"]
        )
    else:
        assert expected == values_of_space(space)


def loop(
    *, cases: int, seconds: float, seed: int, compare_every: int, note: Path | None
) -> tuple[int, int]:
    """Run until either bound is met: how many cases ran, and how many were readable."""
    sources = messages()
    buffer = GuardedBuffer(4 * LONGEST)
    begun = time.monotonic()
    readable = done = 0
    while done < cases and time.monotonic() - begun < seconds:
        random = np.random.default_rng([seed, done])
        data = case(sources, random)
        if note is not None:
            note.write_bytes(data)
        compare = bool(compare_every) and done % compare_every == 0
        try:
            readable += try_case(data, buffer, compare=compare)
        except BaseException:
            print(f"case {done} of seed {seed}: {data.hex()}", file=sys.stderr)  # noqa: T201
            raise
        done += 1
    return done, readable


def main() -> int:
    """Run the loop and say what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare-every", type=int, default=20)
    parser.add_argument("--plain", action="store_true", help="uncompiled kernels")
    options = parser.parse_args()
    note = Path(tempfile.gettempdir()) / f"stepscope_fuzz_{options.seed}.pb"
    print(f"the case under test stands in {note}", flush=True)  # noqa: T201
    with uncompiled_xspace() if options.plain else contextlib.nullcontext():
        done, readable = loop(
            cases=options.cases,
            seconds=options.seconds,
            seed=options.seed,
            compare_every=options.compare_every,
            note=note,
        )
    note.unlink(missing_ok=True)
    print(f"{done:,} cases, {readable:,} of them readable, no crash")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
