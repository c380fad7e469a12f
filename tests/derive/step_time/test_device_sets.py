"""What a device did, from when it was waited for, and what its tracer cannot see."""

from __future__ import annotations

from typing import Any

import polars as pl
from tests.support.traces import blueprint

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.device_sets import DeviceSets, OneDevice, device_sets

US = 1_000_000
STREAM = "gpu:0/7(Compute)"


def sets_of(*lines: tuple[Any, ...]) -> DeviceSets:
    trace = blueprint.trace([("main", "train", 0, 1), *lines])
    found = blueprint.profile(trace).derived("vm", device_sets)
    assert isinstance(found, DeviceSets), found
    return found


def device_of(*lines: tuple[Any, ...]) -> OneDevice:
    return sets_of(*lines).devices[0]


def us(*pairs: tuple[float, float]) -> Spans:
    return Spans.of([(round(a * US), round(b * US)) for a, b in pairs])


def launched(k: int, call: float, start: float, dur: float) -> list[tuple[Any, ...]]:
    stats = {"correlation_id": k}
    return [
        ("main", "cuLaunchKernel", call, 5, stats),
        (STREAM, "sgemm", start, dur, stats),
    ]


def test_the_latency_of_a_launch_into_an_empty_queue_is_waiting_for_it() -> None:
    assert device_of(*launched(1, 10, 40, 5)).latency == us((15, 40))


def test_at_most_100_us_of_the_wait_are_explained_by_the_launch() -> None:
    assert device_of(*launched(1, 10, 400, 5)).latency == us((15, 115))


def test_a_kernel_that_waits_behind_another_does_not_wait_for_its_launch() -> None:
    busy = launched(1, 0, 6, 50)
    assert device_of(*busy, *launched(2, 20, 80, 5)).latency == us((5, 6))


def test_pauses_between_activities_of_one_launch_are_the_devices_own() -> None:
    stats = {"correlation_id": 1}
    found = device_of(
        ("main", "cuGraphLaunch", 0, 5, stats),
        (STREAM, "a", 10, 10, stats),
        (STREAM, "b", 30, 10, stats),
        ("gpu:0/8(Compute)", "c", 35, 20, {}),
    )
    assert found.internal == us((20, 30))


def test_orders_may_overlap_and_busy_is_their_union() -> None:
    found = device_of(
        (STREAM, "sgemm", 0, 20),
        ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 10, 20),
        ("gpu:0/9(Memset)", "Memset 4", 50, 5),
    )
    assert found.orders["device_compute_32"] == us((0, 20))
    assert found.orders["h2d"] == us((10, 30))
    assert found.orders["memset"] == us((50, 55))
    assert found.covered["d2h"] == us((0, 20), (50, 55))
    assert found.busy == us((0, 30), (50, 55))


def test_devices_are_in_order_and_those_without_activity_are_left_out() -> None:
    found = sets_of(
        ("gpu:3/7(Compute)", "sgemm", 0, 10), ("gpu:1/7(Compute)", "sgemm", 5, 10)
    )
    assert [one.device for one in found.devices] == [1, 3]
    assert found.any_device.busy == us((0, 15))


def test_a_core_without_streams_says_nothing_about_transfers() -> None:
    trace = blueprint.trace([(STREAM, "fusion", 0, 10)])
    devices = trace.table("devices")
    assert isinstance(devices, pl.DataFrame)
    core = blueprint.substitute(trace, devices=devices.with_columns(type=pl.lit("TPU")))
    found = blueprint.profile(core).derived("vm", device_sets).devices[0]
    assert {name: why.code for name, why in found.unknown.items()} == {
        "h2d": "FORMAT",
        "d2h": "FORMAT",
    }
    assert "h2d" not in found.orders
    assert found.busy == us((0, 10))
