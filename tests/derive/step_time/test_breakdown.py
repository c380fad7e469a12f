"""Every instant of a step is charged once, device work before host work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.step_time.breakdown import (
    BUCKETS,
    CATEGORIES,
    Breakdown,
    breakdown,
)
from stepscope.derive.step_time.device_sets import DEVICE_ORDERS

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

US = 1_000_000
DEVICE_BUCKETS = (*DEVICE_ORDERS, "launch", "device_internal")


def breakdown_of(trace: TraceData) -> Breakdown:
    found = blueprint.profile(trace).derived(trace.host, breakdown)
    assert isinstance(found, Breakdown), found
    found.self_check()
    return found


def charged_us(frame: pl.DataFrame) -> list[dict[str, float]]:
    """The buckets of each row that hold time, in µs."""
    return [
        {
            bucket.name: row[f"{bucket.name}_ps"] / US
            for bucket in BUCKETS
            if row[f"{bucket.name}_ps"]
        }
        for row in frame.iter_rows(named=True)
    ]


def test_a1_charges_kernels_copies_launches_and_the_gap_between_steps() -> None:
    closed = {
        "device_compute_16": 100,
        "device_compute_32": 100,
        "collective": 60,
        "d2h": 10,
        "h2d": 70,
        "launch": 115,
        "between_steps": 100,
        "unattributed": 445,
    }
    opened = {name: us for name, us in closed.items() if name != "between_steps"}
    found = breakdown_of(blueprint.a1())
    assert charged_us(found.rows) == [closed] * 7 + [opened]
    assert found.rows["device_busy_ps"].unique().to_list() == [340 * US]
    assert found.rows["device_working_ps"].unique().to_list() == [270 * US]
    assert found.rows["idle_input_ps"].unique().to_list() == [70 * US]


def test_a2_without_a_device_leaves_the_device_out() -> None:
    found = breakdown_of(blueprint.a2())
    host = {"host_wait": 200, "host_compute": 300, "unattributed": 300}
    closed = {**host, "between_steps": 200}
    assert charged_us(found.rows) == [closed, closed, host]
    for name in DEVICE_BUCKETS:
        assert found.rows[f"{name}_ps"].null_count() == 3
        assert found.missing[name].code == "NO_DEVICE_PLANE"
    assert found.rows["device_busy_ps"].null_count() == 3


def test_a6_charges_overlapping_work_by_priority_and_reports_what_it_hides() -> None:
    found = breakdown_of(blueprint.a6())
    assert charged_us(found.rows) == [
        {
            "device_compute_16": 80,
            "device_compute_32": 120,
            "collective": 60,
            "h2d": 20,
            "host_wait": 60,
            "compile": 10,
            "launch": 40,
            "host_compute": 40,
            "unattributed": 70,
        }
    ]
    assert found.overlapped is not None
    hidden = found.overlapped.row(0, named=True)
    assert hidden["h2d_ps"] == 80 * US
    assert hidden["collective_ps"] == 20 * US
    assert hidden["device_compute_32_ps"] == 0


def test_a7_keeps_two_devices_apart_and_takes_them_as_one_beside() -> None:
    found = breakdown_of(blueprint.a7())
    compute = found.rows["device_compute_32_ps"].to_list()
    assert found.rows["device"].to_list() == [0, 1]
    assert compute == [600 * US, 200 * US]
    assert found.any_device["device_compute_32_ps"].to_list() == [600 * US]


def test_one_device_taken_as_one_is_that_device() -> None:
    found = breakdown_of(blueprint.a6())
    assert found.any_device.drop("device").equals(found.rows.drop("device"))


def test_without_steps_the_whole_recording_is_the_window() -> None:
    trace = blueprint.trace(
        [
            ("main", "cuLaunchKernel", 0, 5, {"correlation_id": 1}),
            ("gpu:0/7(Compute)", "sgemm", 10, 30, {"correlation_id": 1}),
            ("main", "checkpoint", 60, 40),
        ]
    )
    assert charged_us(breakdown_of(trace).rows) == [
        {"device_compute_32": 30, "launch": 10, "unattributed": 60}
    ]


def test_a_bucket_that_does_not_add_up_is_found() -> None:
    found = breakdown_of(blueprint.a6())
    wrong = found.rows.with_columns(pl.col("h2d_ps") + 1)
    broken = Breakdown(wrong, found.any_device, found.overlapped, found.missing)
    with pytest.raises(ValueError, match="add up"):
        broken.self_check()


def test_a_negative_bucket_is_found() -> None:
    found = breakdown_of(blueprint.a6())
    wrong = found.rows.with_columns(
        pl.col("h2d_ps") - 100 * US, pl.col("compile_ps") + 100 * US
    )
    broken = Breakdown(wrong, found.any_device, found.overlapped, found.missing)
    with pytest.raises(ValueError, match="negative"):
        broken.self_check()


def test_every_bucket_belongs_to_a_category_of_the_contract() -> None:
    assert {bucket.category for bucket in BUCKETS} == set(CATEGORIES)


def step(*lines: tuple[Any, ...]) -> TraceData:
    marker = ("main", "train", 0, 100, {"_r": 1, "step_num": 0})
    return blueprint.trace([marker, *lines], devices={0: blueprint.A100})


def test_a_listed_device_without_activity_is_not_an_idle_device() -> None:
    found = breakdown_of(step(("main", "a/Op:Op", 10, 30)))
    assert found.missing["device_compute_32"].code == "NO_DEVICE_EVENTS"
    assert found.missing["host_compute"].code == "NO_DEVICE_EVENTS"
    assert charged_us(found.rows) == [{"unattributed": 100}]


def test_a_wait_for_input_hides_no_copy_and_is_hidden_by_kernels() -> None:
    found = breakdown_of(
        step(
            ("main", "IteratorGetNext", 0, 60),
            ("main", "cuLaunchKernel", 0, 0, {"correlation_id": 1}),
            ("main", "cuMemcpyHtoDAsync", 0, 0, {"correlation_id": 2}),
            ("gpu:0/7(Compute)", "sgemm", 0, 20, {"correlation_id": 1}),
            ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 30, 10, {"correlation_id": 2}),
        )
    )
    assert charged_us(found.rows) == [
        {"device_compute_32": 20, "h2d": 10, "host_wait": 30, "unattributed": 40}
    ]
