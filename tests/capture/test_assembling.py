"""What several collectors recorded becomes one message, read here by protobuf."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.xspace.proto import XSpaceMessage, values_of_message

from stepscope.capture.base.clock import ClockPair, drift_ns
from stepscope.capture.collectors.levels import TracerLevels
from stepscope.capture.recording.assembling import (
    Recording,
    assemble_profile,
    spool_head,
)
from stepscope.xspace.vocabulary import FORWARDED_PLANE, HOST_PLANE
from stepscope.xspace.wire import read_fields
from stepscope.xspace.writing.write import XSpaceBuilder

#: The recording began at 2 s after this; frameworks began a little before or after.
ZERO_NS = 1_800_000_000_000_000_000
SECOND = 1_000_000_000
RECORDING = Recording(
    hostname="vm",
    begin=ClockPair(ZERO_NS + 2 * SECOND, 500 * SECOND),
    asked=TracerLevels(host=2, device=1, python=0),
    own=TracerLevels(host=1, device=0, python=0),
    collectors=("first", "second", "host"),
)
END = ClockPair(ZERO_NS + 9 * SECOND + 5, 507 * SECOND)
THREAD = 4242


def framework(name: str, start_ns: int | None, *, at_ms: int) -> bytes:
    """One op of a thread that all have in common, and one of a thread of its own."""
    space = XSpaceBuilder(
        "vm", start_ns=start_ns, stop_ns=start_ns and start_ns + 5 * SECOND
    )
    if start_ns is not None:
        space.environment().stat("profile_options", b"\x10\x02" + name.encode())
    plane = space.plane(HOST_PLANE)
    shared = plane.line(THREAD, name=f"{name}'s name")
    shared.event(f"{name}.op", offset_ps=at_ms * 10**9, stats={"kind": name, "n": 1})
    own = plane.line(len(name) + 1, name=f"{name} pool", timestamp_ns=3)
    own.event("shared.op", offset_ps=7, dur_ps=1, stats={"n": 2})
    space.plane(f"/device:{name}").line(1, name="stream").event("kernel", dur_ps=5)
    space.warning(f"{name} warns")
    return space.to_bytes()


def own_fragments() -> bytes:
    out = spool_head(RECORDING)
    for second, plane in ((1, HOST_PLANE), (2, HOST_PLANE), (3, FORWARDED_PLANE)):
        space = XSpaceBuilder("vm", start_ns=None)
        line = space.plane(plane).line(THREAD, name="MainThread")
        stats = {"step_num": second, "kind": "ours"}
        line.event("train", offset_ps=second * 10**12, dur_ps=10, stats=stats)
        out += space.to_bytes()
    return out


def assembled(*frameworks: tuple[str, bytes], **more: Any) -> bytes:
    return assemble_profile(
        frameworks, own_fragments(), recording=RECORDING, end=END, **more
    )


def events_of(
    data: bytes, plane_name: str
) -> list[tuple[int, str, int, dict[str, Any]]]:
    """Line, type, begin in ps from `profile_start_time`, and values; by begin."""
    values = values_of_message(data)
    (plane,) = (plane for plane in values["planes"] if plane["name"] == plane_name)
    found = [
        (
            line["id"],
            plane["types"][event[0]]["name"],
            line["timestamp_ns"] * 1000 + event[1],
            {name: value for name, _, value in event[4]},
        )
        for line in plane["lines"]
        for event in line["events"]
    ]
    return sorted(found, key=lambda event: event[2])


def environment_of(data: bytes) -> dict[str, Any]:
    values = values_of_message(data)
    (plane,) = (it for it in values["planes"] if it["name"] == "Task Environment")
    stats = [(name, value) for name, _, value in plane["stats"]]
    assert len(stats) == len(dict(stats))
    return dict(stats)


def test_without_a_framework_it_is_ours_in_one_line() -> None:
    data = assembled()
    assert events_of(data, HOST_PLANE) == [
        (THREAD, "train", second * 10**12, {"step_num": second, "kind": "ours"})
        for second in (1, 2, 3)
    ]
    values = values_of_message(data)
    assert [plane["name"] for plane in values["planes"]] == [
        HOST_PLANE,
        "Task Environment",
    ]
    assert len(values["planes"][0]["lines"]) == 1
    stats = environment_of(data)
    assert stats["profile_start_time"] == ZERO_NS + 2 * SECOND
    # The wall clock went 5 ns further than the monotonic one, which events follow.
    assert stats["profile_stop_time"] == ZERO_NS + 9 * SECOND
    assert stats["clock_drift_ns"] == 5 == drift_ns(RECORDING.begin, END)
    assert stats["profile_options"] == RECORDING.own.message()
    assert stats["stepscope_asked_options"] == RECORDING.asked.message()
    assert values["hostnames"] == ["vm"]


@pytest.mark.parametrize("begun_s", [1, 2, 3])
def test_times_count_from_the_earliest_start(begun_s: int) -> None:
    start = ZERO_NS + begun_s * SECOND
    data = assembled(("first", framework("first", start, at_ms=500)))
    earliest = min(begun_s, 2)
    assert environment_of(data)["profile_start_time"] == ZERO_NS + earliest * SECOND
    begins = {name: at for _, name, at, _ in events_of(data, HOST_PLANE)}
    assert begins["first.op"] == (begun_s - earliest) * 10**12 + 500 * 10**9
    assert begins["shared.op"] == (begun_s - earliest) * 10**12 + 3 * 1000 + 7
    assert begins["train"] == (2 - earliest) * 10**12 + 3 * 10**12


def test_two_frameworks_and_ours_share_one_plane_and_no_id() -> None:
    first = framework("first", ZERO_NS + SECOND, at_ms=10)
    second = framework("second", ZERO_NS + 3 * SECOND, at_ms=20)
    data = assembled(("first", first), ("second", second), warnings=["ours warns"])
    space = XSpaceMessage.FromString(data)
    names = [plane.name.decode() for plane in space.planes]
    assert len(names) == len(set(names)) == 4
    assert events_of(data, HOST_PLANE) == [
        (6, "shared.op", 3007, {"n": 2}),
        (THREAD, "first.op", 10 * 10**9, {"kind": "first", "n": 1}),
        (THREAD, "train", 2 * 10**12, {"step_num": 1, "kind": "ours"}),
        (7, "shared.op", 2 * 10**12 + 3007, {"n": 2}),
        (THREAD, "second.op", 2 * 10**12 + 20 * 10**9, {"kind": "second", "n": 1}),
        (THREAD, "train", 3 * 10**12, {"step_num": 2, "kind": "ours"}),
        (THREAD, "train", 4 * 10**12, {"step_num": 3, "kind": "ours"}),
    ]
    # A thread that all of them saw has one name: that of the first.
    host = next(plane for plane in space.planes if plane.name == b"/host:CPU")
    assert {line.name for line in host.lines if line.id == THREAD} == {b"first's name"}
    values = values_of_message(data)
    assert values["warnings"] == ["first warns", "second warns", "ours warns"]
    assert environment_of(data)["profile_options"] == b"\x10\x02first"


def test_the_frameworks_own_bytes_stay_where_nothing_moves() -> None:
    first = framework("first", ZERO_NS + SECOND, at_ms=10)
    planes = [bytes(plane) for field, plane in read_fields(first) if field == 1]
    (device,) = (plane for plane in planes if b"/device:first" in plane)
    data = assembled(("first", first))
    assert device in data
    # And the lines of the plane that ours joined.
    (host,) = (plane for plane in planes if b"/host:CPU" in plane)
    lines = [bytes(line) for field, line in read_fields(host) if field == 3]
    assert len(lines) == 2
    assert all(line in data for line in lines)


@pytest.mark.parametrize("begun_s", [1, 2])
def test_what_a_framework_saw_of_a_thread_and_ours_are_one_line(begun_s: int) -> None:
    """XProf gives a step what stands in the line of its marker, and nothing else."""
    start_ns = ZERO_NS + begun_s * SECOND
    space = XSpaceBuilder("vm", start_ns=start_ns, stop_ns=start_ns + 5 * SECOND)
    plane = space.plane(HOST_PLANE)
    # What it recorded on threads counts from when the recording began.
    lead_ns = (2 - begun_s) * SECOND
    line = plane.line(THREAD, name="python", timestamp_ns=lead_ns)
    line.event("mm", offset_ps=1500 * 10**9, dur_ps=5, stats={"kind": "op"})
    plane.line(7, name="pool").event("add", offset_ps=7, dur_ps=1)
    data = assembled(("first", space.to_bytes()))
    message = XSpaceMessage.FromString(data)
    host = next(plane for plane in message.planes if plane.name == b"/host:CPU")
    assert [(line.id, line.name) for line in host.lines] == [
        (7, b"pool"),
        (THREAD, b"python"),
    ]
    begins = {
        (name, values.get("step_num")): at
        for line, name, at, values in events_of(data, HOST_PLANE)
        if line == THREAD
    }
    ours_ps = (2 - begun_s) * 10**12
    assert begins == {
        ("train", 1): ours_ps + 10**12,
        ("mm", None): ours_ps + 1500 * 10**9,
        ("train", 2): ours_ps + 2 * 10**12,
        ("train", 3): ours_ps + 3 * 10**12,
    }
    offsets = [event.offset_ps for event in host.lines[1].events]
    assert offsets == sorted(offsets)


def test_annotations_that_a_framework_holds_are_not_there_twice() -> None:
    first = framework("first", ZERO_NS + SECOND, at_ms=10)
    data = assembled(("first", first), forwarded_elsewhere=True)
    steps = [
        values["step_num"]
        for _, name, _, values in events_of(data, HOST_PLANE)
        if name == "train"
    ]
    assert steps == [1, 2]


def test_a_framework_without_a_clock_counts_from_ours() -> None:
    data = assembled(("first", framework("first", None, at_ms=500)))
    assert environment_of(data)["profile_start_time"] == ZERO_NS + 2 * SECOND
    begins = {name: at for _, name, at, _ in events_of(data, HOST_PLANE)}
    assert begins["first.op"] == 500 * 10**9


def test_lines_that_count_from_1970_are_made_to_count_from_the_start() -> None:
    """As TensorFlow wrote them before 2024, without a start in the file."""
    space = XSpaceBuilder("vm", start_ns=None)
    at = ZERO_NS + 4 * SECOND
    line = space.plane(HOST_PLANE).line(1, name="old", timestamp_ns=at)
    line.event("old.op", offset_ps=9, dur_ps=1)
    data = assembled(("first", space.to_bytes()))
    begins = {name: begin for _, name, begin, _ in events_of(data, HOST_PLANE)}
    assert begins["old.op"] == 2 * 10**12 + 9
    assert begins["train"] == 3 * 10**12


def test_what_is_malformed_is_left_out_and_told() -> None:
    data = assembled(("first", b"\x0a\xff\xff"), ("second", b""))
    assert [event[1] for event in events_of(data, HOST_PLANE)] == ["train"] * 3
    assert values_of_message(data)["warnings"] == [
        "the recording of first is malformed and is left out"
    ]
