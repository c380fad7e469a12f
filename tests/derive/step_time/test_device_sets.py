"""What a device did, from when it was waited for, and what its tracer cannot see."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.device_sets import DeviceSets, DeviceTimes, device_sets

US = 1_000_000
STREAM = "gpu:0/7(Compute)"


def sets_of(*lines: tuple[Any, ...]) -> DeviceSets:
    trace = blueprint.trace([("main", "train", 0, 1), *lines])
    found = blueprint.profile(trace).derived("vm", device_sets)
    assert isinstance(found, DeviceSets), found
    return found


def device_of(*lines: tuple[Any, ...]) -> DeviceTimes:
    return sets_of(*lines).devices[0]


def us(*pairs: tuple[float, float]) -> Spans:
    return Spans.of([(round(a * US), round(b * US)) for a, b in pairs])


def test_orders_may_overlap_and_busy_is_their_union() -> None:
    found = device_of(
        (STREAM, "sgemm", 0, 20),
        ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 10, 20),
        ("gpu:0/9(Memset)", "Memset 4", 50, 5),
    )
    assert found.orders["compute_32"] == us((0, 20))
    assert found.orders["copy_in"] == us((10, 30))
    assert found.orders["memset"] == us((50, 55))
    assert found.charged["copy_in"] == us((20, 30))
    assert found.idle_until("copy_out", us((15, 60))) == us((20, 50), (55, 60))
    assert found.busy == us((0, 30), (50, 55))


@pytest.mark.parametrize(
    ("out", "into", "kernel", "owner", "charged"),
    [
        # What follows waits for the copy that ends last, whatever its direction.
        ((5, 15), (0, 30), 30, "copy_in", us((0, 30))),
        ((0, 30), (5, 15), 30, "copy_out", us((0, 30))),
        ((5, 15), (0, 30), 40, "copy_in", us((0, 30))),
        ((5, 15), (0, 15), 15, "copy_out", us((5, 15))),
        # A copy that goes on under the next kernel delays nothing before it.
        ((0, 20), (0, 45), 20, "copy_out", us((0, 20))),
        ((0, 45), (0, 20), 20, "copy_in", us((0, 20))),
    ],
)
def test_of_two_copies_at_once_the_one_that_is_waited_for_owns_the_time(
    out: Any, into: Any, kernel: int, owner: str, charged: Spans
) -> None:
    found = device_of(
        ("gpu:0/8(MemcpyD2H)", "MemcpyD2H", out[0], out[1] - out[0]),
        ("gpu:0/9(MemcpyH2D)", "MemcpyH2D", into[0], into[1] - into[0]),
        (STREAM, "sgemm", kernel, 30),
    )
    assert found.charged[owner] == charged
    both = found.charged["copy_in"] | found.charged["copy_out"]
    assert both | found.charged["compute_32"] == found.busy
    assert not found.charged["copy_in"] & found.charged["copy_out"]


def test_devices_are_in_order_and_those_without_activity_are_left_out() -> None:
    found = sets_of(
        ("gpu:3/7(Compute)", "sgemm", 0, 10), ("gpu:1/7(Compute)", "sgemm", 5, 10)
    )
    assert [one.device for one in found.devices] == [1, 3]
    assert found.any_device.busy == us((0, 15))


def test_a_core_without_streams_says_nothing_about_transfers() -> None:
    trace = blueprint.trace([(STREAM, "sgemm", 0, 10)])
    devices = trace.table("devices")
    assert isinstance(devices, pl.DataFrame)
    core = blueprint.substitute(trace, devices=devices.with_columns(type=pl.lit("TPU")))
    found = blueprint.profile(core).derived("vm", device_sets).devices[0]
    assert {name: why.code for name, why in found.unknown.items()} == {
        "copy_in": "FORMAT",
        "copy_out": "FORMAT",
    }
    assert "copy_in" not in found.orders
    assert found.busy == us((0, 10))


def test_widths_of_no_known_kernel_are_unknown_among_unknown_ones() -> None:
    told = device_of((STREAM, "sgemm", 0, 96), (STREAM, "fusion", 96, 4))
    assert told.unknown == {}
    untold = device_of((STREAM, "sgemm", 0, 90), (STREAM, "fusion", 90, 10))
    assert {name: why.code for name, why in untold.unknown.items()} == dict.fromkeys(
        ("compute_16", "compute_tf32", "compute_64"), "NOT_RECORDED"
    )
    assert untold.orders["compute_32"] == us((0, 90))
    assert untold.orders["compute_unknown"] == us((90, 100))
    narrow = device_of((STREAM, "hgemm_fp16", 0, 90), (STREAM, "fusion", 90, 10))
    assert "compute_16" not in narrow.unknown
