"""Every instant of a step has one owner, worked out by hand on small traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.step_time.owners import BUSY_OWNERS, CATEGORIES, OWNERS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

US = 1_000_000
MARK = {"_r": 1, "step_num": 0}
WHY = Unavailable(code="NOT_RECORDED", reason="made up", remedy="none")


def account_of(trace: TraceData) -> Account:
    found = blueprint.profile(trace).derived(trace.host, account)
    assert isinstance(found, Account), found
    found.self_check()
    return found


def owned_us(frame: pl.DataFrame) -> list[dict[str, float]]:
    """The owners of each row that hold time, in µs."""
    return [
        {
            owner.name: row[f"{owner.name}_ps"] / US
            for owner in OWNERS
            if row.get(f"{owner.name}_ps")
        }
        for row in frame.iter_rows(named=True)
    ]


def of_lines(*lines: Any) -> dict[str, float]:
    (only,) = owned_us(
        account_of(blueprint.trace(list(lines), devices={0: blueprint.A100})).rows
    )
    return only


def call(
    number: int, start: float, dur: float = 5, name: str = "cuLaunchKernel"
) -> Any:
    return ("main", name, start, dur, {"correlation_id": number})


def kernel(number: int, start: float, dur: float, name: str = "sgemm") -> Any:
    return ("gpu:0/7(Compute)", name, start, dur, {"correlation_id": number})


def test_a1_charges_work_launches_and_what_waited_in_the_queue() -> None:
    """Launches come 200 µs ahead; too few to measure, their latency is 20 µs.

    The host's six calls of a step begin within a millisecond of each other and of the
    next step's, so that it is on its way to a launch all the time, save before the
    first and after the last call of the recording.
    """
    busy = {
        "compute_16": 100,
        "compute_32": 100,
        "collective": 60,
        "copy_out": 10,
        "copy_in": 70,
    }
    # From 100 to 205 µs on its way, then 95 µs and two waits of 20 behind other work.
    # The shortest waits behind other work last 10 µs: two of these are switching.
    busy |= {"switch": 10 + 10, "queued": 95 + 20 + 20}
    first = {**busy, "launch": 105 + 300, "unexplained": 100}
    later = {**busy, "launch": 100 + 105 + 300}
    last = {**busy, "launch": 100 + 105, "unexplained": 200}
    found = account_of(blueprint.a1())
    assert owned_us(found.rows) == [first, *[later] * 6, last]
    assert owned_us(found.between)[0] == {"launch": 100}
    assert found.rows["device_busy_ps"].unique().to_list() == [340 * US]
    assert found.rows["device_working_ps"].unique().to_list() == [270 * US]
    assert found.rows["idle_input_ps"].unique().to_list() == [70 * US]


def test_a2_without_a_device_leaves_the_device_out() -> None:
    found = account_of(blueprint.a2())
    # Three ops of 100, 50 and 150 µs, and a range of the program's own of 40 µs.
    host = {"input": 200, "host_compute": 300 + 40}
    closed = {**host, "between": 200, "unexplained": 260}
    assert owned_us(found.rows) == [closed, closed, {**host, "unexplained": 260}]
    for name in (*BUSY_OWNERS, "switch", "queued", "launch"):
        assert found.rows[f"{name}_ps"].null_count() == 3
        assert found.missing[name].code == "NO_DEVICE_PLANE"
    assert found.rows["device_busy_ps"].null_count() == 3


def test_a6_charges_overlapping_work_in_order_and_reports_what_it_hides() -> None:
    found = account_of(blueprint.a6())
    assert owned_us(found.rows) == [
        {
            "compute_16": 80,
            "compute_32": 120,
            "collective": 60,
            "copy_in": 20,
            "compile": 10,
            "input": 60,
            # 20 µs before the fetch, 10 of the op after it, 40 on its way, and an op
            # that launches nothing, 30.
            "launch": 20 + 10 + 40 + 30,
            "unexplained": 50,
        }
    ]
    assert found.overlapped is not None
    hidden = found.overlapped.row(0, named=True)
    assert hidden["copy_in_ps"] == 80 * US
    assert hidden["collective_ps"] == 20 * US
    assert hidden["compute_32_ps"] == 0


def test_a7_keeps_two_devices_apart_and_takes_them_as_one_beside() -> None:
    found = account_of(blueprint.a7())
    assert found.rows["device"].to_list() == [0, 1]
    assert found.rows["compute_32_ps"].to_list() == [600 * US, 200 * US]
    assert found.any_device["compute_32_ps"].to_list() == [600 * US]


def test_without_steps_the_whole_recording_is_the_window() -> None:
    assert of_lines(call(1, 0), kernel(1, 10, 30), ("main", "checkpoint", 60, 40)) == {
        "compute_32": 30,
        "launch": 10,
        "output": 40,
        "unexplained": 20,
    }


def test_work_that_was_queued_in_time_is_nobodys_launch() -> None:
    assert of_lines(
        ("main", "train", 0, 1000, MARK),
        call(1, 0),
        call(2, 6),
        kernel(1, 10, 490),
        kernel(2, 700, 300),
    ) == {"compute_32": 790, "launch": 10, "queued": 200}


def test_a_launch_explains_100_us_of_the_wait_for_its_kernel() -> None:
    assert of_lines(
        ("main", "train", 0, 1000, MARK), call(1, 0), kernel(1, 400, 600)
    ) == {"compute_32": 600, "launch": 105, "queued": 295}


def test_the_wait_for_a_launch_is_divided_by_what_its_thread_did() -> None:
    assert of_lines(
        ("main", "train", 0, 1000, MARK),
        call(1, 0),
        kernel(1, 10, 90),
        ("main", "IteratorGetNext", 150, 50),
        ("main", "cudaStreamSynchronize", 260, 20),
        call(2, 300),
        kernel(2, 320, 680),
    ) == {
        "compute_32": 770,
        "input": 50,
        # Before the first kernel and the second, and the short Python in between.
        "launch": 10 + 20 + 50 + 60 + 20,
        "sync": 20,
    }


def test_a_long_silence_is_the_programs_where_something_names_it() -> None:
    lines = [
        ("main", "train", 0, 10_000, MARK),
        call(1, 0),
        kernel(1, 10, 90),
        call(2, 6_000),
        kernel(2, 6_010, 3_990),
    ]
    busy = {"compute_32": 4_080, "launch": 10 + 10}
    unnamed = of_lines(*lines)
    # The call itself lasts 5 µs; what follows it without a name is unexplained.
    assert unnamed == {**busy, "unexplained": 5_900}
    named = of_lines(*lines, ("main", "$train.py:41 augment", 200, 5_000))
    assert named == {**busy, "host_compute": 5_000, "unexplained": 900}


def test_a_blocking_copy_of_a_batch_is_input_until_its_call_returns() -> None:
    copy = ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 600, 100, {"correlation_id": 2})
    assert of_lines(
        ("main", "train", 0, 1000, MARK),
        call(1, 0),
        kernel(1, 10, 90),
        call(2, 200, 510, "cudaMemcpyAsync"),
        copy,
        call(3, 720),
        kernel(3, 730, 270),
    ) == {
        "compute_32": 360,
        "copy_in": 100,
        # Before the copy, and after it until the call returns.
        "input": 400 + 10,
        "launch": 10 + 100 + 20,
    }


def test_a_call_that_outlasts_its_copy_to_the_host_is_no_launching() -> None:
    """Pageable memory: the driver copies from its buffer after the device is done."""
    assert of_lines(
        ("main", "train", 0, 1000, MARK),
        call(1, 0),
        kernel(1, 10, 90),
        call(2, 110, 600, "cudaMemcpyAsync"),
        ("gpu:0/8(MemcpyD2H)", "MemcpyD2H", 150, 100, {"correlation_id": 2}),
        call(3, 720),
        kernel(3, 730, 270),
    ) == {
        "compute_32": 360,
        "copy_out": 100,
        "output": 40 + 460,
        "launch": 10 + 10 + 20,
    }


def test_what_follows_a_long_wait_is_the_way_to_the_next_launch() -> None:
    """A wait of 5 ms is no silence of the program: the next op begins 30 µs after."""
    assert of_lines(
        ("main", "train", 0, 6_000, MARK),
        call(1, 0),
        kernel(1, 10, 90),
        ("main", "cudaStreamSynchronize", 10, 5_000),
        call(2, 5_040),
        kernel(2, 5_050, 950),
    ) == {"compute_32": 1_040, "launch": 10 + 30 + 10, "sync": 4_910}


def test_the_recordings_own_work_comes_before_all() -> None:
    assert of_lines(
        ("main", "train", 0, 1000, MARK),
        call(1, 0),
        kernel(1, 10, 90),
        ("profiler", "Activity Buffer Request", 120, 60),
        call(2, 300),
        kernel(2, 320, 680),
    ) == {"compute_32": 770, "launch": 10 + 140 + 20, "profiler": 60}


def test_what_lies_between_steps_is_told_apart() -> None:
    trace = blueprint.trace(
        [
            ("main", "train", 0, 300, MARK),
            call(1, 0),
            kernel(1, 10, 290),
            ("main", "my callback", 2_000, 1_000),
            ("main", "train", 5_000, 300, {"_r": 1, "step_num": 1}),
            call(2, 5_000),
            kernel(2, 5_010, 290),
        ],
        devices={0: blueprint.A100},
    )
    found = account_of(trace)
    first, last = owned_us(found.rows)
    assert first == {"compute_32": 290, "launch": 10, "between": 4_700}
    assert last == {"compute_32": 290, "launch": 10}
    assert owned_us(found.between)[0] == {"between": 4_700}


@pytest.mark.parametrize("table", ["launches", "device_activity", "events"])
def test_a_table_that_is_absent_is_no_zero(table: str) -> None:
    profile = blueprint.profile(blueprint.a1()).without(table, WHY)
    found = profile.derived("vm", account)
    if isinstance(found, Unavailable):
        return
    found.self_check()
    for name, why in found.missing.items():
        assert why.reason
        assert found.rows[f"{name}_ps"].null_count() == len(found.rows)
    assert "launch" in found.missing


def test_every_owner_has_a_category_of_the_results() -> None:
    assert {owner.category for owner in OWNERS} == set(CATEGORIES)


def test_owners_that_do_not_add_up_are_found() -> None:
    found = account_of(blueprint.a6())
    wrong = found.rows.with_columns(pl.col("copy_in_ps") + 1)
    with pytest.raises(ValueError, match="add up"):
        msgspec.structs.replace(found, rows=wrong).self_check()


def test_a_negative_owner_is_found() -> None:
    found = account_of(blueprint.a6())
    wrong = found.rows.with_columns(
        pl.col("copy_in_ps") - 100 * US, pl.col("compile_ps") + 100 * US
    )
    with pytest.raises(ValueError, match="negative"):
        msgspec.structs.replace(found, rows=wrong).self_check()
