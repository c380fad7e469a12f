"""`event_categories`: the colour of each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.traces import blueprint

from stepscope.derive.step_time.host_classes import event_categories
from stepscope.derive.step_time.owners import CATEGORIES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")


def colours(lines: list[blueprint.Line]) -> dict[str, str]:
    """Name of an event → its category; each name has one only."""
    profile = blueprint.profile(blueprint.trace(lines))
    return by_name(profile)


def by_name(profile: ProfileData) -> dict[str, str]:
    events = profile.table("vm", "events")
    names = profile.table("vm", "event_types")["name"].gather(events["type"])
    category = profile.derived("vm", event_categories)
    assert len(category) == len(events)
    found: dict[str, set[str]] = {}
    for name, number in zip(names, category.tolist(), strict=True):
        found.setdefault(name, set()).add(CATEGORIES[number])
    assert all(len(each) == 1 for each in found.values())
    return {name: each.pop() for name, each in found.items()}


def test_each_event_has_the_category_that_its_time_is_charged_to() -> None:
    assert by_name(blueprint.profile(blueprint.a6())) == {
        "train": "other",
        "IteratorGetNext": "input",
        "cuLaunchKernel": "kernel_launch",
        # Both ops work for less than 100 µs and launch nothing: beside a device they
        # are part of the way to the next launch.
        "host/late:Late": "kernel_launch",
        "XlaCompile": "compilation",
        "host/op:Op": "kernel_launch",
        "sgemm": "device_compute_32",
        "h884gemm_fp16": "device_compute_16",
        "MemcpyH2D": "input",
        "ncclKernel": "device_collectives",
    }


def test_copies_and_memory_sets_go_by_their_direction() -> None:
    stream = "gpu:0/7(Memcpy)"
    found = colours(
        [
            ("main", "train", 0, 100, {"_r": 1, "step_num": 0}),
            (stream, "MemcpyD2H", 0, 5),
            (stream, "MemcpyP2P", 10, 5),
            (stream, "MemcpyD2D", 20, 5),
            (stream, "Memset", 30, 5),
        ]
    )
    assert found == {
        "train": "other",
        "MemcpyD2H": "output",
        "MemcpyP2P": "device_to_device",
        "MemcpyD2D": "device_to_device",
        "Memset": "device_to_device",
    }


def test_what_stands_for_nothing_has_the_category_of_what_encloses_it() -> None:
    found = colours(
        [
            ("main", "train", 0, 1000, {"_r": 1, "step_num": 0}),
            ("main", "mine, alone", 5, 10),
            ("main", "IteratorGetNext", 20, 100),
            ("main", "mine, in input", 30, 10),
            ("main", "a/MatMul:MatMul", 50, 20),
            ("main", "b/Relu:Relu", 200, 100),
            ("main", "mine, in an op", 210, 10),
        ]
    )
    assert found == {
        "train": "other",
        "mine, alone": "other",
        "IteratorGetNext": "input",
        "mine, in input": "input",
        # What is nested in input belongs to it.
        "a/MatMul:MatMul": "input",
        "b/Relu:Relu": "host_compute",
        "mine, in an op": "host_compute",
    }


def test_without_device_activity_the_events_of_threads_keep_their_colour() -> None:
    whole = blueprint.profile(blueprint.a6())
    without_device = by_name(whole.without("device_activity", ABSENT))
    assert without_device["sgemm"] == "other"
    assert without_device["IteratorGetNext"] == "input"


def test_without_events_there_are_no_colours() -> None:
    whole = blueprint.profile(blueprint.a6())
    found = whole.without("events", ABSENT).derived("vm", event_categories)
    assert found == ABSENT
