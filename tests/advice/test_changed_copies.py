"""Verdicts on copies of real GPU profiles whose names, order or clocks were changed.

Nothing may hang on how a kernel is called, on where in the file an event stands, or on
when the recording began.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.advice.engine import evaluate, signals_of
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: One field of a message: its number, its wire type, its value.
Field = tuple[int, int, Any]

PLANES, PLANE_NAME, LINES, EVENT_TYPES = 1, 2, 3, 4
TIMESTAMP, EVENTS = 3, 4
VARINT, SIZED = 0, 2

PROFILES = ["t4_healthy", "t4_starved", "turing_launch_bound", "v100_large"]
#: Words of kernel names that mean nothing to anybody's tables.
RENAMED = {
    b"volta_": b"zeta_",
    b"cudnn::": b"library::",
    b"cask_": b"barrel_",
    b"Eigen::": b"Own::",
    b"tensorflow::": b"framework::",
}


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def parse(data: bytes) -> list[Field]:
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == VARINT:
            value, at = read_varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                length, at = read_varint(data, at)
            value, at = data[at : at + length], at + length
        fields.append((number, kind, value))
    return fields


def write(fields: list[Field]) -> bytes:
    parts = []
    for number, kind, value in fields:
        parts.append(varint(number << 3 | kind))
        if kind == VARINT:
            parts.append(varint(value))
        else:
            parts += [varint(len(value)), value] if kind == SIZED else [value]
    return b"".join(parts)


def each(
    fields: list[Field], number: int, change: Callable[[bytes], bytes]
) -> list[Field]:
    return [
        (tag, kind, change(value) if tag == number else value)
        for tag, kind, value in fields
    ]


def on_planes(data: bytes, change: Callable[[list[Field], bool], list[Field]]) -> bytes:
    def plane(body: bytes) -> bytes:
        fields = parse(body)
        name = next((value for tag, _, value in fields if tag == PLANE_NAME), b"")
        return write(change(fields, name.startswith(b"/device:GPU")))

    return write(each(parse(data), PLANES, plane))


def on_lines(data: bytes, change: Callable[[list[Field], bool], list[Field]]) -> bytes:
    def lines(fields: list[Field], on_device: bool) -> list[Field]:  # noqa: FBT001 - of a callback
        return each(fields, LINES, lambda body: write(change(parse(body), on_device)))

    return on_planes(data, lines)


def other_names(data: bytes) -> bytes:
    def renamed(body: bytes) -> bytes:
        entry = parse(body)
        value = {tag: one for tag, _, one in entry}[2]
        changed = []
        for tag, kind, one in parse(value):
            if tag == 2:  # the name
                for word, other in RENAMED.items():
                    one = one.replace(word, other)  # noqa: PLW2901 - word after word
            changed.append((tag, kind, one))
        return write([(t, k, write(changed) if t == 2 else v) for t, k, v in entry])

    return on_planes(data, lambda fields, _: each(fields, EVENT_TYPES, renamed))


def other_order(data: bytes) -> bytes:
    stream = random.Random(7)  # noqa: S311 - a fixed stream for a test

    def shuffled(fields: list[Field], number: int) -> list[Field]:
        places = [at for at, one in enumerate(fields) if one[0] == number]
        mixed = places[:]
        stream.shuffle(mixed)
        found = fields[:]
        for at, other in zip(places, mixed, strict=True):
            found[at] = fields[other]
        return found

    mixed = on_lines(data, lambda fields, _: shuffled(fields, EVENTS))
    return on_planes(mixed, lambda fields, _: shuffled(fields, LINES))


def other_clock(data: bytes) -> bytes:
    def later(fields: list[Field], _: bool) -> list[Field]:  # noqa: FBT001 - of a callback
        if not any(tag == TIMESTAMP for tag, _, _ in fields):
            fields = [*fields, (TIMESTAMP, VARINT, 0)]
        return [
            (tag, kind, value + 123_456_789 if tag == TIMESTAMP else value)
            for tag, kind, value in fields
        ]

    return on_lines(data, later)


def fewer_kernels(data: bytes) -> bytes:
    def dropped(fields: list[Field], on_device: bool) -> list[Field]:  # noqa: FBT001 - of a callback
        return [
            one
            for at, one in enumerate(fields)
            if not (on_device and one[0] == EVENTS and at % 20 == 7)
        ]

    return on_lines(data, dropped)


def verdicts(path: Path) -> dict[str, Any]:
    found = evaluate(signals_of(open_profile(path)))
    return {one.id: one for one in found}


@pytest.fixture(params=PROFILES)
def original(request: pytest.FixtureRequest, shared_profile: Any) -> Path:
    (path,) = shared_profile(f"gpu_tf/{request.param}").rglob("*.xplane.pb*")
    return path


@pytest.mark.profiles
@pytest.mark.parametrize("change", [other_names, other_order, other_clock])
def test_a_changed_copy_gets_the_same_verdicts(
    original: Path, change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    data = original.read_bytes()
    changed = change(data)
    assert changed != data
    copy = tmp_path / "copy.xplane.pb"
    copy.write_bytes(changed)
    before, after = verdicts(original), verdicts(copy)
    for rule, one in before.items():
        assert (after[rule].status, after[rule].severity) == (one.status, one.severity)
        assert after[rule].because == one.because
        assert after[rule].value == pytest.approx(one.value, abs=1e-9), rule


@pytest.mark.profiles
def test_a_copy_with_lost_kernels_gets_the_same_verdicts_or_none(
    original: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.xplane.pb"
    copy.write_bytes(fewer_kernels(original.read_bytes()))
    before, after = verdicts(original), verdicts(copy)
    # The record itself may be called what it is.
    for rule in before.keys() - {"capture.quality"}:
        assert after[rule].status in (before[rule].status, "cannot_tell"), rule


@pytest.mark.profiles
def test_a_copy_made_by_nothing_but_parsing_is_the_same_file(original: Path) -> None:
    data = original.read_bytes()
    assert on_lines(data, lambda fields, _: fields) == data
