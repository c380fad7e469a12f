"""Windows, their anchor, gaps and flags, and which activity belongs to which step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.derive.consistency import consistency
from stepscope.derive.step_time.input_between_steps import (
    InputBetweenSteps,
    input_between_steps,
)
from stepscope.derive.step_windows.device_spans import device_spans
from stepscope.derive.step_windows.windows import Windows, windows
from stepscope.derive.steps.chosen import activity_steps, steps
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
STREAM = "gpu:0/7(Compute)"


def profile(lines: list[tuple[Any, ...]]) -> ProfileData:
    return blueprint.profile(blueprint.trace(lines))


def windows_of(lines: list[tuple[Any, ...]]) -> Windows:
    found = profile(lines).derived("vm", windows)
    assert isinstance(found, Windows), found
    return found


def spans_us(windows: Windows) -> list[tuple[float, float]]:
    return [
        (start / US, end / US)
        for start, end in windows.rows.select("start_ps", "end_ps").iter_rows()
    ]


def train(k: int, start: float, dur: float) -> tuple[Any, ...]:
    return ("main", "train", start, dur, {"step_num": k, "_r": 1})


def launched(k: int, call: float, start: float, dur: float) -> list[tuple[Any, ...]]:
    stats = {"correlation_id": k}
    return [
        ("main", "cuLaunchKernel", call, 5, stats),
        (STREAM, "gemm", start, dur, stats),
    ]


def run_ahead(lengths: float = 900) -> list[tuple[Any, ...]]:
    lines = [train(k, 100 * k, 90) for k in range(4)]
    for k in range(4):
        lines += launched(k + 1, 100 * k + 10, 50 + 1000 * k, lengths)
    return lines


def test_windows_of_a1_run_from_marker_to_marker() -> None:
    found = blueprint.profile(blueprint.a1()).derived("vm", windows)
    assert found.anchor == "host"
    assert spans_us(found) == [
        *((1000.0 * k, 1000.0 * k + 1000) for k in range(7)),
        (7000.0, 7900.0),
    ]
    assert found.rows["open_end"].to_list() == [False] * 7 + [True]
    assert found.rows["device_step_time_ps"].to_list() == [400 * US] * 8
    gap = found.rows["gap_end_ps"] - found.rows["gap_start_ps"]
    assert gap.to_list() == [100 * US] * 7 + [0]


def test_statistics_use_closed_windows_and_the_open_one_only_if_it_is_alone() -> None:
    assert len(windows_of([train(k, 10 * k, 8) for k in range(3)]).measured) == 2
    assert len(windows_of([train(0, 0, 8)]).measured) == 1


def test_rows_of_other_tables_are_measured_by_their_window() -> None:
    # The last of three windows is open, since nothing shows where it ends.
    found = windows_of([train(k, 10 * k, 8) for k in range(3)])
    rows = pl.DataFrame({"window": [2, 0, 1, 1], "row": [0, 1, 2, 3]})
    assert found.rows_of_measured(rows)["row"].to_list() == [1, 2, 3]
    alone = windows_of([train(0, 0, 8)])
    assert alone.rows_of_measured(rows[1:2])["row"].to_list() == [1]


def test_a_host_that_runs_ahead_hands_the_windows_to_the_device() -> None:
    found = windows_of(run_ahead())
    assert found.anchor == "device"
    assert spans_us(found) == [(50, 1050), (1050, 2050), (2050, 3050), (3050, 3950)]


def test_a_host_that_runs_ahead_in_half_of_the_steps_keeps_the_windows() -> None:
    lines = [train(k, 100 * k, 90) for k in range(5)]
    for k, start in enumerate((50, 150, 350, 450, 550)):
        lines += launched(k + 1, 100 * k + 10, start, 20)
    found = windows_of(lines)
    assert found.anchor == "host"


def test_work_that_ends_five_percent_into_the_next_step_keeps_the_windows() -> None:
    lines = [train(k, 100 * k, 90) for k in range(4)]
    for k in range(4):
        lines += launched(k + 1, 100 * k + 10, 100 * k + 50, 55)
    assert windows_of(lines).anchor == "host"


def test_work_that_ends_later_anchors_the_windows_on_its_first_kernels() -> None:
    lines = [train(k, 100 * k, 90) for k in range(4)]
    for k in range(4):
        lines += launched(k + 1, 100 * k + 10, 100 * k + 50, 56)
    found = windows_of(lines)
    assert found.anchor == "device"
    assert spans_us(found) == [(50, 150), (150, 250), (250, 350), (350, 406)]


def test_a_batch_that_is_copied_early_does_not_begin_a_window() -> None:
    """Nor does a kernel of a stream that computes less, or a collective."""
    lines = run_ahead()
    for k in range(4):
        for j, (stream, name) in enumerate(
            (
                ("gpu:0/8(MemcpyH2D)", "MemcpyH2D"),
                ("gpu:0/9(Compute)", "cast"),
                (STREAM, "ncclDevKernel_AllReduce_Sum"),
            )
        ):
            stats = {"correlation_id": 100 + 10 * k + j}
            lines += [
                ("main", "cuLaunchKernel", 100 * k + 20 + 5 * j, 3, stats),
                (stream, name, 20 + 1000 * k + 5 * j, 4, stats),
            ]
    found = windows_of(lines)
    assert spans_us(found)[:3] == [(50, 1050), (1050, 2050), (2050, 3050)]


def test_one_launch_that_ran_late_is_no_evidence_of_running_ahead() -> None:
    """A cut recording: the only kernel lies behind both markers."""
    lines = [train(0, 0, 100), train(1, 100, 100), *launched(1, 10, 157, 20)]
    lines += launched(2, 110, 250, 24)
    found = windows_of(lines)
    assert found.anchor == "host"
    assert spans_us(found)[0] == (0, 100)


def test_windows_on_the_device_say_how_far_apart_the_host_began_them() -> None:
    lines = run_ahead()
    assert windows_of(lines).rows["host_period_ps"].to_list() == [
        *[100 * US] * 3,
        None,
    ]
    on_host = windows_of([train(k, 10 * k, 8) for k in range(3)])
    assert on_host.rows["host_period_ps"].to_list() == [10 * US, 10 * US, None]


def asked_for(executed: int, *, steps: int = 6) -> list[tuple[Any, ...]]:
    """Calls of a program every 10, which threads of the host run for 80 every 100."""
    lines = [train(k, 10 * k, 9) for k in range(steps)]
    for k in range(executed):
        begin = 5 + 100 * k
        lines += [
            ("executor", "dot", begin, 50, {"hlo_op": "dot"}),
            ("executor", "add", begin + 50, 15, {"hlo_op": "add"}),
            ("helper", "add", begin + 65, 15, {"hlo_op": "add"}),
        ]
    return lines


@pytest.mark.parametrize("executed", [5, 6])
def test_windows_of_programs_that_run_behind_their_calls_show_when_they_ran(
    executed: int,
) -> None:
    found = windows_of(asked_for(executed))
    assert found.anchor == "executor"
    assert spans_us(found)[:4] == [(5 + 100 * k, 105 + 100 * k) for k in range(4)]
    assert found.rows["end_ps"].to_list()[-1] == (85 + 100 * (executed - 1)) * US
    assert found.rows["host_period_ps"].to_list() == [*[10 * US] * 5, None]


def test_programs_that_end_before_the_next_call_leave_the_windows_to_the_host() -> None:
    lines = [
        (track, name, 20 * start if track == "main" else start, *rest)
        for track, name, start, *rest in asked_for(6)
    ]
    assert windows_of(lines).anchor == "host"


def test_calls_whose_work_cannot_be_told_apart_are_only_dispatched() -> None:
    found = profile(asked_for(3))
    step_windows = found.derived("vm", windows)
    assert isinstance(step_windows, Windows)
    assert step_windows.anchor == "host"
    assert all("dispatch_only" in each for each in step_windows.rows["flags"])
    notes = found.derived("vm", consistency)
    assert not isinstance(notes, Unavailable)
    assert {note.kind: note.count for note in notes}["steps_dispatch_only"] == 6


def test_too_few_steps_with_device_work_keep_the_windows_on_the_host() -> None:
    lines = [train(k, 100 * k, 90) for k in range(4)]
    for k in range(3):
        lines += launched(k + 1, 100 * k + 10, 50 + 1000 * k, 900)
    assert windows_of(lines).anchor == "host"


def test_a_step_without_device_work_has_an_empty_device_window() -> None:
    lines = [train(k, 100 * k, 90) for k in range(6)]
    for k in (0, 1, 3, 4, 5):
        lines += launched(k + 1, 100 * k + 10, 50 + 1000 * k, 900)
    found = windows_of(lines)
    assert found.anchor == "device"
    assert spans_us(found)[1:4] == [(1050, 3050), (3050, 3050), (3050, 4050)]


def test_windows_follow_each_other_without_a_hole() -> None:
    rng = np.random.default_rng(7)
    starts = np.cumsum(rng.integers(90, 400, 40)).tolist()
    found = windows_of([train(k, start, 80) for k, start in enumerate(starts)])
    rows = found.rows
    assert (rows["end_ps"][:-1] == rows["start_ps"][1:]).all()


def test_the_last_window_ends_with_the_marker_or_the_later_device_work() -> None:
    by_marker = [train(0, 0, 90), *launched(1, 10, 20, 30)]
    by_device = [train(0, 0, 90), *launched(1, 10, 80, 300)]
    assert spans_us(windows_of(by_marker)) == [(0, 90)]
    assert spans_us(windows_of(by_device)) == [(0, 380)]


def test_a_gap_begins_after_marker_and_device_work() -> None:
    lines = [train(0, 0, 50), train(1, 100, 50), *launched(1, 10, 40, 30)]
    row = windows_of(lines).rows.row(0, named=True)
    assert (row["gap_start_ps"], row["gap_end_ps"]) == (70 * US, 100 * US)


def test_first_open_and_outlier_windows_are_flagged_and_kept() -> None:
    starts = [0, 100, 201, 300, 401, 1400, 1500]
    found = windows_of([train(k, start, 50) for k, start in enumerate(starts)])
    assert found.rows["flags"].to_list() == [
        ["first"],
        [],
        [],
        [],
        ["outlier"],
        [],
        ["open_end"],
    ]


def test_five_deviations_that_are_no_tenth_of_the_step_are_no_outlier() -> None:
    starts = [0, 1000, 2001, 3000, 4001, 5090, 6090, 7200]
    found = windows_of([train(k, start, 50) for k, start in enumerate(starts)])
    flags = found.rows["flags"].to_list()
    # 1,089 against a median of 1,001 is 9 %; 1,110 is 11 %.
    assert flags[4] == []
    assert flags[6] == ["outlier"]


def test_an_open_window_is_no_outlier() -> None:
    starts = [0, 100, 201, 300, 401]
    lines = [train(k, start, 50) for k, start in enumerate(starts)]
    lines.append(train(5, 500, 5000))
    assert windows_of(lines).rows["flags"].to_list()[-1] == ["open_end"]


def validated(at: int, kernels: int) -> list[tuple[Any, ...]]:
    """Ten steps of four kernels; one of them has so many kernels more."""
    lines: list[tuple[Any, ...]] = []
    for k in range(10):
        lines.append(train(k, 100 * k, 90))
        names = [*["conv", "relu", "grad", "adam"], *["predict"] * kernels * (k == at)]
        for j, name in enumerate(names):
            stats = {"correlation_id": 100 * k + j + 1}
            lines += [
                ("main", "cuLaunchKernel", 100 * k + 5 + 5 * j, 3, stats),
                (STREAM, name, 100 * k + 10 + 5 * j, 4, stats),
            ]
    return lines


def test_a_step_with_a_validation_inside_is_of_another_kind_and_in_no_mean() -> None:
    found = windows_of(validated(4, kernels=9))
    flagged = [k for k, each in enumerate(found.rows["flags"]) if "other_kind" in each]
    assert flagged == [4]
    assert found.measured["step_row"].to_list() == [0, 1, 2, 3, 5, 6, 7, 8]


def test_a_step_with_half_as_much_work_more_is_of_the_same_kind() -> None:
    found = windows_of(validated(4, kernels=2))
    assert not any("other_kind" in each for each in found.rows["flags"])


def test_an_update_after_every_fourth_batch_belongs_to_the_cycle() -> None:
    lines: list[tuple[Any, ...]] = []
    for k in range(16):
        lines.append(train(k, 100 * k, 90))
        names = ["a:MatMul", *["b:Apply"] * 4 * (k % 4 == 3)]
        lines += [("main", name, 100 * k + 9 * j, 8) for j, name in enumerate(names)]
    found = windows_of(lines)
    assert not any("other_kind" in each for each in found.rows["flags"])


def recorded_in_part(*, without: set[int], steps: int = 10) -> list[tuple[Any, ...]]:
    """Steps of four calls; what some of them put on the device has no records."""
    lines: list[tuple[Any, ...]] = []
    for k in range(steps):
        lines.append(train(k, 100 * k, 90))
        for j in range(4):
            stats = {"correlation_id": 100 * k + j + 1}
            at = 100 * k + 10 + 10 * j
            lines.append(("main", "cuLaunchKernel", at - 5, 3, stats))
            if k not in without:
                lines.append((STREAM, "conv", at, 4, stats))
    return lines


@pytest.mark.parametrize("without", [{0, 1, 2}, {0}, {6, 7, 8, 9}, {0, 1, 8, 9}])
def test_steps_before_or_after_the_devices_records_are_in_no_mean(
    without: set[int],
) -> None:
    found = windows_of(recorded_in_part(without=without))
    flagged = [k for k, each in enumerate(found.rows["flags"]) if "unrecorded" in each]
    assert flagged == sorted(without - {9})
    assert found.measured["step_row"].to_list() == sorted(set(range(9)) - without)
    assert "cut" in found.rows["flags"][9].to_list() or 9 not in without


@pytest.mark.parametrize("without", [set(), {4}, {9}])
def test_a_hole_in_the_records_is_no_end_of_them(without: set[int]) -> None:
    found = windows_of(recorded_in_part(without=without))
    assert not any("unrecorded" in each for each in found.rows["flags"])


def filled_buffers(ready: int, steps: int = 14) -> list[tuple[Any, ...]]:
    """Steps that wait 40 for input, except the first ones."""
    lines: list[tuple[Any, ...]] = []
    at = 0
    for k in range(steps):
        wait = 1 if k < ready else 40
        lines += [
            train(k, at, wait + 50),
            ("main", "IteratorGetNext", at + 1, wait),
        ]
        at += wait + 60
    return lines


def test_steps_that_live_on_buffers_filled_before_are_warm_up() -> None:
    found = windows_of(filled_buffers(4))
    flagged = [k for k, each in enumerate(found.rows["flags"]) if "warm_up" in each]
    assert flagged == [0, 1, 2, 3]
    lengths = found.measured["end_ps"] - found.measured["start_ps"]
    assert lengths.to_list() == [100 * US] * 9


def test_a_loader_that_is_ready_now_and_then_shows_no_warm_up() -> None:
    lines: list[tuple[Any, ...]] = []
    at = 0
    for k, wait in enumerate([1, 1, 40, 40, 1, 40, 40, 1, 40, 1, 40, 40, 40, 1, 40]):
        lines += [
            train(k, at, wait + 50),
            ("main", "IteratorGetNext", at + 1, wait),
        ]
        at += wait + 60
    found = windows_of(lines)
    assert not any("warm_up" in each for each in found.rows["flags"])


@pytest.mark.parametrize(("ready", "steps"), [(0, 14), (6, 14), (2, 8)])
def test_without_eight_steps_in_balance_none_is_left_out(
    ready: int, steps: int
) -> None:
    found = windows_of(filled_buffers(ready, steps))
    assert not any("warm_up" in each for each in found.rows["flags"])


def test_windows_with_compilation_or_autotuning_are_flagged() -> None:
    lines = [train(k, 100 * k, 90) for k in range(4)]
    lines += [("compiler", "XlaCompile", 110, 20), (STREAM, "redzone_checker", 210, 5)]
    assert windows_of(lines).rows["flags"].to_list() == [
        ["first"],
        ["compile"],
        ["autotune"],
        ["open_end"],
    ]


def test_a_call_that_traced_its_function_anew_is_compilation() -> None:
    lines = [train(k, 100 * k, 90) for k in range(3)]
    lines += [
        ("main", "f", 110, 20, {"tf_function_call": "traced-nonXla"}),
        ("main", "f", 210, 20, {"tf_function_call": "notTraced-nonXla"}),
    ]
    assert windows_of(lines).rows["flags"].to_list() == [
        ["first"],
        ["compile"],
        ["open_end"],
    ]


def test_a_last_step_whose_calls_did_not_reach_the_device_is_cut() -> None:
    lines = [train(k, 100 * k, 90) for k in range(4)]
    for k in range(3):
        lines += launched(k + 1, 100 * k + 10, 100 * k + 20, 30)
    lines.append(("main", "cuLaunchKernel", 310, 5, {"correlation_id": 9}))
    assert windows_of(lines).rows["flags"].to_list()[-1] == ["open_end", "cut"]


def test_without_steps_the_whole_profile_is_one_window() -> None:
    found = windows_of([("main", "a", 5, 10), ("other", "b", 40, 30)])
    assert (found.has_steps, found.anchor) == (False, "profile")
    assert spans_us(found) == [(5, 70)]
    assert found.rows["step_row"].to_list() == [None]


def test_the_longest_stored_span_is_the_device_step_time() -> None:
    lines = [
        train(0, 0, 500),
        (STREAM, "k", 10, 300, {"group_id": 3}),
        ("gpu:0/Steps", "0", 10, 90, {"group_id": 3}),
        ("gpu:0/Steps", "0", 120, 190, {"group_id": 3}),
    ]
    lines[0] = ("main", "train", 0, 500, {"step_num": 0, "_r": 1, "group_id": 3})
    spans = windows_of(lines).device_spans
    assert spans.row(0, named=True) == {
        "step_row": 0,
        "device": 0,
        "first_begin_ps": 10 * US,
        "last_end_ps": 310 * US,
        "stored_start_ps": 120 * US,
        "stored_end_ps": 310 * US,
        "device_step_time_ps": 190 * US,
    }


def test_step_time_of_several_devices_is_the_largest() -> None:
    found = blueprint.profile(blueprint.a7()).derived("vm", windows)
    assert found.device_spans["device_step_time_ps"].to_list() == [600 * US, 200 * US]
    assert found.rows["device_step_time_ps"].to_list() == [600 * US]


def test_windows_of_a_stored_line_are_the_stored_spans() -> None:
    lines = [
        (STREAM, "k", 10, 50, {"group_id": 0}),
        (STREAM, "copy", 70, 5),
        ("gpu:0/Steps", "0", 10, 50, {"group_id": 0}),
    ]
    assert spans_us(windows_of(lines)) == [(10, 60)]


# Which step an activity belongs to.


def steps_of_activity(lines: list[tuple[Any, ...]]) -> list[int]:
    found = profile(lines).derived("vm", activity_steps)
    return list(map(int, found))


def test_activity_belongs_to_the_step_of_its_launch_call() -> None:
    assert steps_of_activity(run_ahead()) == [0, 1, 2, 3]


def test_a_stored_group_outranks_the_launch_call() -> None:
    lines = [
        ("main", "train", 100 * k, 90, {"step_num": k, "_r": 1, "group_id": 5 + k})
        for k in range(2)
    ]
    lines += [
        ("main", "cuLaunchKernel", 10, 5, {"correlation_id": 1}),
        (STREAM, "k", 120, 5, {"correlation_id": 1, "group_id": 6}),
        (STREAM, "k", 130, 5, {"correlation_id": 1, "group_id": 99}),
    ]
    assert steps_of_activity(lines) == [1, 0]


def test_all_activity_of_one_graph_launch_belongs_to_its_step() -> None:
    lines = [train(0, 0, 90), train(1, 100, 90)]
    lines += [("main", "cuGraphLaunch", 20, 5, {"correlation_id": 1})]
    lines += [
        (STREAM, f"k{j}", 80 + 20 * j, 15, {"correlation_id": 1}) for j in range(4)
    ]
    assert steps_of_activity(lines) == [0, 0, 0, 0]


def test_activity_without_launch_follows_its_stream_and_no_other() -> None:
    lines = [train(0, 0, 90), train(1, 100, 90), *launched(1, 110, 120, 5)]
    lines += [
        (STREAM, "before", 50, 5),
        (STREAM, "after", 300, 5),
        ("gpu:0/8(Compute)", "other stream", 300, 5),
    ]
    assert steps_of_activity(lines) == [-1, 1, 1, -1]


def test_what_was_launched_before_the_first_step_is_in_no_step() -> None:
    lines = [train(0, 100, 90), train(1, 200, 90), *launched(1, 10, 20, 5)]
    assert steps_of_activity(lines) == [-1]


def test_without_launch_calls_and_groups_no_step_can_be_told() -> None:
    why = Unavailable(code="NOT_RECORDED", reason="no calls", remedy="record them")
    trace = blueprint.substitute(blueprint.a1(), launches=why)
    run = blueprint.profile(trace)
    assert isinstance(run.derived("vm", activity_steps), Unavailable)
    step_windows = run.derived("vm", windows)
    assert step_windows.rows["device_step_time_ps"].null_count() == 8


def test_hulls_equal_a_plain_loop_over_all_activity() -> None:
    rng = np.random.default_rng(3)
    n = 500
    base = blueprint.profile(blueprint.a1())
    of_base = base.derived("vm", steps)
    activity = base.table("vm", "device_activity").sample(
        n, with_replacement=True, seed=1
    )
    activity = activity.with_columns(
        device=pl.Series(rng.integers(0, 3, n), dtype=pl.Int32),
        start_ps=pl.Series(rng.integers(0, 10**9, n), dtype=pl.Int64),
        dur_ps=pl.Series(rng.integers(0, 10**6, n), dtype=pl.Int64),
    )
    step = rng.integers(-1, 8, n).astype(np.int32)
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    columns = activity.select("device", "start_ps", "dur_ps").iter_rows()
    for row, (device, start, dur) in zip(step.tolist(), columns, strict=True):
        if row < 0:
            continue
        first, last = expected.get((row, device), (start, start + dur))
        expected[row, device] = (min(first, start), max(last, start + dur))
    found = device_spans(of_base, step, activity)
    assert {
        (row, device): (first, last)
        for row, device, first, last in found.select(
            "step_row", "device", "first_begin_ps", "last_end_ps"
        ).iter_rows()
    } == expected


# Fetching outside the markers.


def fetched(at: float) -> tuple[Any, ...]:
    return ("main", "IteratorGetNext:IteratorGetNext", at, 5)


@pytest.mark.parametrize(("offset", "gaps"), [(92, 4), (10, 0)])
def test_fetching_between_the_markers_is_noticed(offset: float, gaps: int) -> None:
    lines = [train(k, 100 * k, 90) for k in range(5)]
    lines += [fetched(100 * k + offset) for k in range(5)]
    run = profile(lines)
    found = run.derived("vm", input_between_steps)
    assert isinstance(found, InputBetweenSteps)
    assert (found.gaps, found.gaps_with_wait) == (4, gaps)
    assert found.outside is (gaps > 0)
    kinds = [note.kind for note in run.derived("vm", consistency)]
    assert ("input_outside_steps" in kinds) is (gaps > 0)


def test_one_fetch_inside_a_marker_is_enough_to_be_silent() -> None:
    lines = [train(k, 100 * k, 90) for k in range(5)]
    lines += [fetched(100 * k + 92) for k in range(5)] + [fetched(10)]
    assert not profile(lines).derived("vm", input_between_steps).outside


def test_inferred_steps_and_activity_without_step_are_noted() -> None:
    repeated = [
        (STREAM, name, 400 * k + 100 * j + 50, 80)
        for k in range(8)
        for j, name in enumerate("ABC")
    ]
    repeated += [("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 400 * k + 55, 9) for k in range(8)]
    early = ("gpu:1/7(Compute)", "early", 0, 10)
    notes = profile([*repeated, early]).derived("vm", consistency)
    counts = {note.kind: note.count for note in notes}
    assert counts == {
        "steps_inferred": 8,
        "activity_without_step": 1,
        "kernels_without_op": 25,
    }


def test_events_that_end_after_their_parent_are_noted() -> None:
    lines = [("main", "outer", 0, 50), ("main", "inner", 40, 20)]
    notes = profile(lines).derived("vm", consistency)
    assert [(note.kind, note.count, note.scope) for note in notes] == [
        ("event_outlives_parent", 1, "main")
    ]
