"""Which call launched what, and whether the device had been waiting for it."""

from __future__ import annotations

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.device.correlation import (
    Correlation,
    correlation,
    device_timeline,
)

GPU = "gpu:0/7(Compute)"
COPY = "gpu:0/8(MemcpyH2D)"


def correlated(
    lines: list[blueprint.Line],
    *,
    activity: dict[str, list[int | None]] | None = None,
    launches: dict[str, list[int | None]] | None = None,
) -> Correlation:
    """The derivation over literal lines, with some columns replaced."""
    trace = blueprint.trace(lines)
    tables = {}
    for name, columns in (("device_activity", activity), ("launches", launches)):
        frame = trace.table(name)
        assert isinstance(frame, pl.DataFrame)
        new = [
            pl.Series(column, values, frame.schema[column])
            for column, values in (columns or {}).items()
        ]
        tables[name] = frame.with_columns(new)
    timeline = device_timeline(device_activity=tables["device_activity"])
    return correlation(**tables, device_timeline=timeline)


def call(start: float, number: int, dur: float = 5) -> blueprint.Line:
    return ("main", "cuLaunchKernel", start, dur, {"correlation_id": number})


def kernel(start: float, dur: float, number: int, stream: str = GPU) -> blueprint.Line:
    return (stream, "kernel", start, dur, {"correlation_id": number})


def test_activities_find_their_calls_whatever_the_order() -> None:
    found = correlated(
        [call(0, 30), call(10, 10), kernel(20, 5, 10), kernel(30, 5, 30)]
    )
    assert found.launch_of_activity.tolist() == [1, 0]
    assert found.activity_count_of_launch.tolist() == [1, 1]


def test_one_call_may_launch_many_and_another_nothing() -> None:
    found = correlated([call(0, 1), call(10, 2), kernel(20, 5, 1), kernel(30, 5, 1)])
    assert found.launch_of_activity.tolist() == [0, 0]
    assert found.activity_count_of_launch.tolist() == [2, 0]


def test_an_activity_without_a_call_is_counted() -> None:
    found = correlated([call(0, 1), kernel(20, 5, 9)])
    assert found.launch_of_activity.tolist() == [-1]
    assert [(note.kind, note.count) for note in found.notes] == [("launch_missing", 1)]


def test_an_id_between_those_of_calls_matches_none_of_them() -> None:
    found = correlated([call(0, 1), call(10, 3), kernel(20, 5, 2), kernel(30, 5, 3)])
    assert found.launch_of_activity.tolist() == [-1, 1]
    assert found.activity_count_of_launch.tolist() == [0, 1]
    (note,) = found.notes
    assert note.count == 1


def test_a_missing_id_matches_nothing_not_even_zero() -> None:
    found = correlated(
        [call(0, 0), kernel(20, 5, 7), kernel(30, 5, 0)],
        activity={"correlation": [None, 0]},
    )
    assert found.launch_of_activity.tolist() == [-1, 0]
    assert found.activity_count_of_launch.tolist() == [1]
    assert found.notes == ()


def test_equal_ids_of_two_processes_are_told_apart() -> None:
    lines = [call(0, 1), call(10, 1), kernel(20, 5, 1), kernel(30, 5, 1)]
    found = correlated(
        lines, activity={"process": [70, 80]}, launches={"process": [80, 70]}
    )
    assert found.launch_of_activity.tolist() == [1, 0]


def test_processes_that_one_side_did_not_record_decide_nothing() -> None:
    lines = [call(0, 1), kernel(20, 5, 1)]
    found = correlated(lines, activity={"process": [70]})
    assert found.launch_of_activity.tolist() == [0]


def test_ids_that_use_all_64_bits_are_matched() -> None:
    wide = [-(2**63), 2**63 - 1]
    found = correlated(
        [call(0, 1), call(10, 2), kernel(20, 5, 1), kernel(30, 5, 2)],
        activity={"correlation": [wide[1], wide[0]], "process": [1, 2]},
        launches={"correlation": [*wide], "process": [2, 1]},
    )
    assert found.launch_of_activity.tolist() == [1, 0]


def test_the_last_of_several_calls_with_one_id_counts() -> None:
    found = correlated([call(0, 1), call(10, 1), kernel(20, 5, 1)])
    assert found.launch_of_activity.tolist() == [1]


@pytest.mark.parametrize(
    ("other", "waited"),
    [
        pytest.param(kernel(0, 50, 2, COPY), True, id="done before the call"),
        pytest.param(kernel(0, 100, 2, COPY), True, id="ends as the call begins"),
        pytest.param(kernel(0, 101, 2, COPY), False, id="runs into the call"),
        pytest.param(kernel(110, 1, 2, COPY), False, id="runs in between"),
        pytest.param(kernel(110, 0, 2, COPY), True, id="an instant occupies no time"),
        pytest.param(kernel(130, 9, 2, COPY), True, id="begins together"),
        pytest.param(
            ("gpu:1/7", "kernel", 90, 90, {}), True, id="runs on another device"
        ),
    ],
)
def test_the_queue_was_empty_if_nothing_ran_since_the_call(
    other: blueprint.Line, *, waited: bool
) -> None:
    lines = [call(100, 1), kernel(130, 10, 1), other]
    if "correlation_id" not in other[4]:
        lines[-1] = (*other[:4], {"correlation_id": 2})
    found = correlated(lines)
    assert found.queue_empty[0] == waited
    assert found.latency_ps[0] == (25_000_000 if waited else 0)


def test_a_kernel_before_its_call_is_skew_and_no_wait() -> None:
    found = correlated([call(100, 1), kernel(90, 5, 1)])
    assert found.queue_empty.tolist() == [False]
    (note,) = found.notes
    assert (note.kind, note.severity, note.count) == ("clock_skew", "warning", 1)
    assert "10.0 µs" in note.message


def test_a_kernel_that_begins_during_its_call_waited_for_nothing() -> None:
    found = correlated([call(100, 1, dur=20), kernel(110, 5, 1)])
    assert found.queue_empty.tolist() == [True]
    assert found.latency_ps.tolist() == [0]


def test_activity_without_any_launch_matches_nothing() -> None:
    trace = blueprint.trace([call(0, 1), kernel(5, 5, 1)])
    activity, launches = trace.table("device_activity"), trace.table("launches")
    assert isinstance(activity, pl.DataFrame)
    assert isinstance(launches, pl.DataFrame)
    found = correlation(
        device_activity=activity,
        launches=launches.head(0),
        device_timeline=device_timeline(device_activity=activity),
    )
    assert found.launch_of_activity.tolist() == [-1]
    assert found.queue_empty.tolist() == [False]


def test_the_first_kernel_of_each_step_of_a1_found_an_empty_queue() -> None:
    profile = blueprint.profile(blueprint.a1())
    found = profile.derived("vm", correlation)
    # A.1: of six activities per step only the first kernel; 200 - 5 µs after its call.
    assert found.queue_empty.sum() == 8
    assert set(found.latency_ps[found.queue_empty].tolist()) == {195_000_000}
