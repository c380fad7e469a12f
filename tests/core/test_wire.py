"""Wire kernels, compiled and plain, on bytes written out by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.support.xspace.wire import double, event, number_field, sized, tag, varint

from stepscope.xspace import fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

HEAD = 8


@pytest.fixture(params=["compiled", "plain"])
def wire(
    request: pytest.FixtureRequest, kernel_forms: Callable[[str], dict[str, ModuleType]]
) -> ModuleType:
    forms = kernel_forms("wire")
    if request.param not in forms:
        pytest.skip("the kernels are not compiled here")
    return forms[request.param]


def raw(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def indexed(
    wire: ModuleType, data: bytes, *, end: int | None = None
) -> tuple[list[tuple[int, int, int]], int]:
    """(tag, place, size) of every field of one message, and where it broke."""
    last = len(data) if end is None else end
    owner, tags = np.empty(32, np.int32), np.empty(32, np.uint32)
    place, size, stop = np.empty(32, np.int64), np.empty(32, np.int64), int64(0)
    count = wire.index_fields(
        raw(data), int64(0), int64(last), owner, tags, place, size, stop
    )
    assert owner[:count].tolist() == [0] * count
    rows = zip(
        tags[:count].tolist(),
        place[:count].tolist(),
        size[:count].tolist(),
        strict=True,
    )
    return list(rows), int(stop[0])


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\x80\x80\x80\x80\x10", 2**32),
        (b"\xff" * 8 + b"\x7f", 2**63 - 1),
        (b"\x80" * 9 + b"\x01", -(2**63)),
        (b"\xff" * 9 + b"\x01", -1),
        # Bits beyond the 64th are dropped, as protobuf does.
        (b"\xff" * 9 + b"\x7f", -1),
        (b"\x81" + b"\x80" * 8 + b"\x00", 1),
    ],
)
def test_varints_of_one_to_ten_bytes_are_read_as_64_bits(
    wire: ModuleType, encoded: bytes, value: int
) -> None:
    assert indexed(wire, b"\x08" + encoded) == ([(8, 1, value)], -1)


@pytest.mark.parametrize(
    "encoded", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10 + b"\x01", b"\x80" * 20]
)
def test_a_varint_that_ends_too_early_or_too_late_is_malformed(
    wire: ModuleType, encoded: bytes
) -> None:
    whole = number_field(2, 5)
    assert indexed(wire, whole + b"\x08" + encoded) == ([(16, 1, 5)], 2)


def test_every_wire_type_is_listed_with_its_value(wire: ModuleType) -> None:
    data = number_field(1, 300) + double(2, 1.5) + sized(3, b"abc")
    data += tag(4, 5) + b"\x01\x02\x03\x80"
    assert indexed(wire, data) == (
        [
            (0x08, 1, 300),
            (0x11, 4, 0x3FF8000000000000),
            (0x1A, 14, 3),
            (0x25, 18, 0x80030201),
        ],
        -1,
    )


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(tag(1, 3), id="group begins"),
        pytest.param(tag(1, 4), id="group ends"),
        pytest.param(tag(1, 6), id="no such wire type"),
        pytest.param(tag(0, 0) + b"\x01", id="field number 0"),
        pytest.param(varint(2**32 | 8) + b"\x01", id="field number beyond 29 bits"),
        pytest.param(tag(1, 1) + b"\0" * 7, id="seven of eight bytes"),
        pytest.param(tag(1, 5) + b"\0" * 3, id="three of four bytes"),
        pytest.param(tag(1, 2) + varint(2**63), id="a length of 63 bits"),
    ],
)
def test_what_breaks_the_format_ends_the_message_before_it(
    wire: ModuleType, bad: bytes
) -> None:
    assert indexed(wire, number_field(2, 5) + bad) == ([(16, 1, 5)], 2)


def test_a_sized_field_beyond_its_message_is_listed_with_what_it_claims(
    wire: ModuleType,
) -> None:
    data = number_field(2, 5) + tag(3, 2) + varint(200) + b"abc"
    assert indexed(wire, data) == ([(16, 1, 5), (0x1A, 5, 200)], 2)


def test_rows_beyond_the_room_are_counted_and_not_written(wire: ModuleType) -> None:
    data = number_field(1, 1) * 5
    owner, tags = np.full(2, 7, np.int32), np.full(2, 7, np.uint32)
    place, size = np.full((2, 2), 7, np.int64)
    count = wire.index_fields(
        raw(data), int64(0), int64(10), owner, tags, place, size, int64(0)
    )
    assert count == 5
    assert place.tolist() == [1, 3]


def scanned(wire: ModuleType, data: bytes) -> dict[str, Any]:
    head = np.zeros((1, HEAD), np.int64)
    rows = np.array([[0, len(data), -9, -9, -9, -9]], np.int64)
    assert wire.scan_chunks(raw(data), 0, 1, rows, head) == 1
    return {
        "head": head[0].tolist(),
        "counts": rows[0, 2:5].tolist(),
        "stop": int(rows[0, 5]),
    }


def test_scan_reads_the_head_and_counts_events_stats_and_aggregates(
    wire: ModuleType,
) -> None:
    data = number_field(1, -7) + sized(2, b"main") + number_field(3, 10**18)
    data += event(number_field(1, 1), sized(4, b""), sized(4, number_field(1, 3)))
    data += event(number_field(5, 3)) + event()
    data += number_field(9, 8) + number_field(10, 2) + sized(11, b"shown")
    name, shown = data.index(b"main"), data.index(b"shown")
    assert scanned(wire, data) == {
        "head": [-7, name, 4, 10**18, 8, 2, shown, 5],
        "counts": [3, 2, 1],
        "stop": -1,
    }


def test_scan_counts_what_stands_before_damage_and_still_reads_the_head(
    wire: ModuleType,
) -> None:
    before = event(number_field(1, 1)) * 2
    data = before + event(tag(1, 3)) + event() + number_field(10, 77)
    assert scanned(wire, data) == {
        "head": [0, 0, 0, 0, 0, 77, 0, 0],
        "counts": [2, 0, 0],
        "stop": len(before),
    }


def test_split_cuts_between_fields_only(wire: ModuleType) -> None:
    one = event(number_field(1, 1), number_field(2, 300))
    data = number_field(1, 5) + one * 6 + number_field(10, 9)
    head, cuts, stop = np.zeros((1, HEAD), np.int64), int64(0, 0, 0, 0), int64(0)
    count = wire.split_line(raw(data), 0, len(data), 2 * len(one), head, 0, cuts, stop)
    assert cuts[:count].tolist() == [
        2 + 2 * len(one),
        2 + 4 * len(one),
        2 + 6 * len(one),
    ]
    assert (head[0, 0], head[0, 5], stop[0]) == (5, 9, -1)


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (0, 3)])
def test_bytes_outside_the_data_are_refused(
    wire: ModuleType, begin: int, end: int
) -> None:
    data = raw(event())
    head, stop = np.zeros((1, HEAD), np.int64), int64(0)
    rows = np.array([[begin, end, 0, 0, 0, 0]], np.int64)
    assert wire.scan_chunks(data, 0, 1, rows, head) == wire.BAD_RANGE
    assert (
        wire.split_line(data, begin, end, 1, head, 0, int64(0), stop) == wire.BAD_RANGE
    )
    room = np.empty(4, np.int32), np.empty(4, np.uint32), *np.empty((2, 4), np.int64)
    found = wire.index_fields(data, int64(begin), int64(end), *room, stop)
    assert found == wire.BAD_RANGE


def test_chunks_and_arrays_that_do_not_fit_are_refused(wire: ModuleType) -> None:
    data = raw(event())
    rows, head = np.zeros((1, 6), np.int64), np.zeros((1, HEAD), np.int64)
    for first, last in ((-1, 1), (1, 0), (0, 2)):
        assert wire.scan_chunks(data, first, last, rows, head) == wire.BAD_RANGE
    assert wire.scan_chunks(data, 0, 1, rows[:, :5].copy(), head) == wire.BAD_RANGE
    assert wire.scan_chunks(data, 0, 1, rows, head[:0]) == wire.BAD_RANGE
    none, stop = int64(), int64(0)
    for step, row in ((0, 0), (1, 1), (1, -1)):
        found = wire.split_line(data, 0, 2, step, head, row, none, stop)
        assert found == wire.BAD_RANGE
    owner, tags, place = np.empty(4, np.int32), np.empty(4, np.uint32), int64(0, 0, 0)
    found = wire.index_fields(data, int64(0), int64(2), owner, tags, place, place, stop)
    assert found == wire.BAD_RANGE


def test_scanning_lets_other_threads_run(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
    runs_beside: Callable[[Callable[[], object]], bool],
) -> None:
    wire = kernel_forms("wire").get("compiled")
    if wire is None:
        pytest.skip("uncompiled, a kernel keeps the lock")
    count = 300_000
    data = event(number_field(1, 1), number_field(2, 70_000)) * count

    def scan() -> None:
        assert scanned(wire, data)["counts"] == [count, 0, 0]

    assert any(runs_beside(scan) for _ in range(20))


def test_the_kernels_use_the_declared_tags(repository: Path) -> None:
    core = repository / "src" / "stepscope" / "_core"
    source = (core / "wire.py").read_text("utf-8") + (core / "fill.py").read_text(
        "utf-8"
    )
    used = {int(found, 16) for found in re.findall(r"0x([0-9A-F]{2})\b", source)}
    declared = {
        value
        for names in (fields.LineTag, fields.EventTag, fields.StatTag)
        for name, value in vars(names).items()
        if name.isupper()
    }
    # The other two are the masks of a varint's bytes.
    assert used - {0x7F, 0x80} == declared
