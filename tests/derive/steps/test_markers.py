"""Steps that the program or the producer announced."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.steps.chosen import Steps, steps
from stepscope.unavailable import Unavailable

US = 1_000_000


def steps_of(lines: list[tuple[Any, ...]]) -> Steps:
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", steps)
    assert isinstance(found, Steps), found
    return found


def marker(
    name: str, start: float, dur: float, number: int | None, root: int | None = None
) -> tuple[Any, ...]:
    stats = {"step_num": number, "_r": root}
    return ("main", name, start, dur, {k: v for k, v in stats.items() if v is not None})


def test_root_markers_are_certain_and_named_after_marker_and_number() -> None:
    found = blueprint.profile(blueprint.a1()).derived("vm", steps)
    assert (found.source, found.confidence) == ("marker", 1.0)
    assert found.rows["name"].to_list() == [f"train {100 + i}" for i in range(8)]
    assert found.rows["start_ps"].to_list() == [1000 * US * i for i in range(8)]
    assert found.rows["end_ps"].to_list() == [
        1000 * US * i + 900 * US for i in range(8)
    ]


def test_profiled_batch_without_root_is_a_marker() -> None:
    found = steps_of(
        [marker("Profiled batch", 10_000 * k, 9_000, 9 + k) for k in range(6)]
    )
    assert (found.source, found.confidence) == ("marker", 0.95)
    assert found.rows["step"].to_list() == [9, 10, 11, 12, 13, 14]


def test_one_profiled_batch_is_enough() -> None:
    assert len(steps_of([marker("Profiled batch", 0, 10, 3)]).rows) == 1


def test_any_name_with_growing_step_numbers_on_one_thread_is_a_marker() -> None:
    found = steps_of([marker("my loop", 10 * k, 8, 3 * k) for k in range(2)])
    assert found.confidence == 0.95
    assert found.rows["name"].to_list() == ["my loop 0", "my loop 3"]


@pytest.mark.parametrize("numbers", [[1, 1, 2], [3, 2, 1], [7]])
def test_numbers_that_do_not_grow_are_no_marker(numbers: list[int]) -> None:
    lines = [marker("my loop", 10 * k, 8, n) for k, n in enumerate(numbers)]
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", steps)
    assert isinstance(found, Unavailable)
    assert found.code == "NO_STEPS"


def test_the_roots_of_older_releases_may_begin_their_numbers_again() -> None:
    """A new epoch and a validation began at 0: the whole training was lost."""
    numbers = [("train", 2), ("train", 3), ("test", 0), ("train", 0)]
    found = steps_of(
        [
            (
                "main",
                "TraceContext",
                100 * k,
                80,
                {"step_num": n, "step_name": f"{name} {n}"},
            )
            for k, (name, n) in enumerate(numbers)
        ]
    )
    assert (found.source, found.confidence) == ("marker", 1.0)
    assert found.rows["name"].to_list() == ["train 2", "train 3", "test 0", "train 0"]
    assert found.rows["marker"].to_list() == ["train", "train", "test", "train"]


def test_root_markers_win_over_markers_without_root() -> None:
    found = steps_of(
        [
            *(marker("train", 100 * k, 80, k, 1) for k in range(4)),
            *(marker("log", 100 * k + 85, 5, k) for k in range(4)),
        ]
    )
    assert found.rows["marker"].unique().to_list() == ["train"]


def test_the_outermost_of_nested_markers_wins() -> None:
    found = steps_of(
        [
            *(marker("epoch", 100 * k, 99, k, 1) for k in range(2)),
            *(marker("train", 10 * k, 8, k, 1) for k in range(20)),
        ]
    )
    assert found.rows["name"].to_list() == ["epoch 0", "epoch 1"]


def test_a_lone_outer_marker_gives_way_to_the_steps_inside() -> None:
    found = steps_of(
        [
            marker("train", 0, 1000, 0, 1),
            *(marker("train", 100 * k + 1, 90, k, 1) for k in range(10)),
        ]
    )
    assert len(found.rows) == 10
    assert found.rows["start_ps"][0] == US


def test_a_lone_outer_marker_of_two_stays() -> None:
    found = steps_of(
        [
            marker("train", 0, 1000, 0, 1),
            *(marker("train", 100 * k + 1, 90, k, 1) for k in range(2)),
        ]
    )
    assert len(found.rows) == 1


def test_a_lone_root_marker_gives_way_to_markers_of_another_source_inside() -> None:
    found = steps_of(
        [
            marker("fit", 0, 1000, 0, 1),
            *(marker("Profiled batch", 100 * k + 1, 90, k) for k in range(5)),
        ]
    )
    assert found.rows["marker"].unique().to_list() == ["Profiled batch"]


def test_several_marker_names_form_one_sequence_in_time() -> None:
    found = steps_of(
        [
            *(marker("train", 100 * k, 90, k, 1) for k in range(3)),
            *(marker("test", 300 + 100 * k, 90, k, 1) for k in range(2)),
            marker("predict", 500, 90, 0, 1),
        ]
    )
    assert found.rows["marker"].to_list() == [*["train"] * 3, *["test"] * 2, "predict"]
    assert found.rows["start_ps"].is_sorted()


def test_replicas_that_announce_one_step_on_a_thread_each_give_one_step() -> None:
    found = steps_of(
        [
            (thread, "train", 100 * k + shift, 90, {"step_num": k, "_r": 1})
            for k in range(3)
            for shift, thread in enumerate(["replica 0", "replica 1"])
        ]
    )
    assert found.rows["step"].to_list() == [0, 1, 2]


def test_profiler_step_ranges_carry_their_number_in_the_name() -> None:
    found = steps_of([("main", f"ProfilerStep#{n}", 100 * n, 90) for n in (2, 3, 4)])
    assert found.confidence == 0.95
    assert found.rows["step"].to_list() == [2, 3, 4]
    assert found.rows["name"].to_list() == [f"ProfilerStep#{n}" for n in (2, 3, 4)]


@pytest.mark.parametrize("form", ["step {}", "NVTX:train_iter {}", "Batch#{}"])
def test_numbered_ranges_that_say_step_are_markers(form: str) -> None:
    found = steps_of([("main", form.format(n), 100 * n, 90) for n in range(4)])
    assert (found.confidence, len(found.rows)) == (0.95, 4)


@pytest.mark.parametrize("form", ["layer {}", "NVTX:block {}", "conv2d#{}"])
def test_numbered_ranges_that_say_something_else_are_not(form: str) -> None:
    lines = [("main", form.format(n), 100 * n, 90) for n in range(12)]
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", steps)
    assert isinstance(found, Unavailable)


def test_ranges_whose_number_starts_again_are_no_step_count() -> None:
    lines = [("main", f"step {n % 3}", 100 * n, 90) for n in range(9)]
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", steps)
    assert isinstance(found, Unavailable)


def test_numbers_that_grow_by_n_are_n_batches_per_step() -> None:
    found = steps_of([marker("Profiled batch", 100 * k, 95, 8 * k) for k in range(4)])
    assert found.rows["batches"].to_list() == [8] * 4


def stating(start: float, dur: float, number: int, n_steps: int) -> tuple[Any, ...]:
    stats = {"step_num": number, "_r": 1, "n_steps": n_steps}
    return ("main", "train", start, dur, stats)


def test_a_marker_states_for_how_many_batches_it_stands() -> None:
    """The last execution of an epoch of 13 batches has three, not five."""
    found = steps_of(
        [
            stating(0, 50, 1, 5),
            stating(100, 50, 6, 5),
            stating(200, 30, 11, 3),
            stating(300, 50, 14, 5),
        ]
    )
    assert found.rows["batches"].to_list() == [5, 5, 3, 5]


def test_a_marker_that_states_nothing_among_others_that_do_is_unknown() -> None:
    found = steps_of(
        [stating(0, 50, 1, 5), marker("train", 100, 50, 6, 1), stating(200, 50, 11, 5)]
    )
    assert found.rows["batches"].to_list() == [5, None, 5]


def test_a_count_below_one_states_nothing() -> None:
    found = steps_of([stating(100 * k, 95, 5 * k, 0) for k in range(3)])
    assert found.rows["batches"].to_list() == [5] * 3


def test_marking_every_tenth_step_is_not_ten_batches_per_step() -> None:
    found = steps_of([marker("train", 100 * k, 10, 10 * k, 1) for k in range(4)])
    assert found.rows["batches"].to_list() == [None] * 4


def test_a_stored_line_gives_steps_where_nothing_is_marked() -> None:
    found = steps_of(
        [
            ("gpu:0/7(Compute)", "k", 10, 50, {"group_id": 4}),
            ("gpu:0/7(Compute)", "k", 110, 40, {"group_id": 5}),
            ("gpu:0/Steps", "4", 10, 50, {"group_id": 4, "step_name": "train 4"}),
            ("gpu:0/Steps", "5", 110, 40, {"group_id": 5, "step_name": "train 5"}),
        ]
    )
    assert (found.source, found.confidence) == ("device_line", 0.95)
    assert found.rows["step"].to_list() == [4, 5]
    assert found.rows["name"].to_list() == ["train 4", "train 5"]


def test_one_group_on_several_devices_is_one_step() -> None:
    found = steps_of(
        [
            ("gpu:0/7(Compute)", "k", 10, 50, {"group_id": 0}),
            ("gpu:0/Steps", "0", 10, 50, {"group_id": 0}),
            ("gpu:1/7(Compute)", "k", 100, 70, {"group_id": 0}),
            ("gpu:1/Steps", "0", 100, 70, {"group_id": 0}),
        ]
    )
    row = found.rows.row(0, named=True)
    assert len(found.rows) == 1
    assert (row["start_ps"], row["end_ps"]) == (10 * US, 170 * US)


def test_markers_win_over_a_stored_line() -> None:
    found = steps_of(
        [
            marker("train", 0, 60, 7, 1),
            ("gpu:0/7(Compute)", "k", 10, 50, {"group_id": 0}),
            ("gpu:0/Steps", "0", 10, 50, {"group_id": 0}),
        ]
    )
    assert (found.source, found.rows["step"].to_list()) == ("marker", [7])


@pytest.mark.parametrize(
    "name", ["WhileOp-StartBody", "WhileOp-EvalCond", "ForOp", "ParallelForOp"]
)
def test_a_loop_op_in_the_program_changes_nothing(name: str) -> None:
    lines = [marker("train", 100 * k, 90, k, 1) for k in range(5)]
    plain = steps_of(lines)
    with_loop = steps_of([*lines, ("main", name, 110, 20)])
    columns = ["step", "name", "start_ps", "end_ps"]
    assert with_loop.rows.select(columns).equals(plain.rows.select(columns))


def test_no_steps_names_the_remedy() -> None:
    trace = blueprint.trace([("main", "something", 0, 10)])
    found = blueprint.profile(trace).derived("vm", steps)
    assert isinstance(found, Unavailable)
    assert found.code == "NO_STEPS"
    assert "Trace(name, step_num=i, _r=1)" in found.remedy


def stored_call(start: float, dur: float, group: int, graph: str) -> list[Any]:
    """A call of a graph that the producer stored as a step, as TensorFlow nests it."""
    inside = {"group_id": group, "step_name": str(group)}
    return [
        ("main", f"EagerLocalExecute: {graph}", start, dur),
        ("main", "EagerKernelExecute", start + 5, dur - 10, inside),
    ]


def test_one_stored_call_of_a_graph_is_one_step() -> None:
    """Of one batch of training on a CPU TensorFlow measured the step, and we none."""
    found = steps_of(
        [
            *stored_call(100, 500, 0, "__inference_train_function_7"),
            ("main", "EagerLocalExecute: WriteSummary", 700, 20),
            ("main", "EagerKernelExecute", 705, 10, {"group_id": 0}),
        ]
    )
    assert (found.source, found.confidence) == ("stored_call", 0.80)
    assert found.rows["start_ps"].to_list() == [105 * US]
    assert found.rows["end_ps"].to_list() == [595 * US]
    assert found.rows["step"].to_list() == [0]


def test_of_several_stored_graphs_the_one_that_took_most_time_is_the_step() -> None:
    lines = [
        *stored_call(0, 50, 0, "__inference_norm_1"),
        *stored_call(100, 400, 1, "__inference_train_function_7"),
        *stored_call(600, 300, 2, "__inference_train_function_7"),
        *stored_call(950, 600, 3, "__inference_test_function_9"),
    ]
    found = steps_of(lines)
    assert found.rows["step"].to_list() == [1, 2]
    assert found.rows["name"].to_list() == [
        "__inference_train_function_7 1",
        "__inference_train_function_7 2",
    ]


def test_ops_that_run_one_by_one_are_no_stored_steps() -> None:
    lines = []
    for k, op in enumerate(("MatMul", "AddV2", "Relu")):
        lines += stored_call(100 * k, 80, k, op)
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", steps)
    assert isinstance(found, Unavailable)


def test_steps_that_the_program_marked_win_over_stored_calls() -> None:
    lines = [
        marker("train", 0, 900, 4, 1),
        *stored_call(100, 500, 0, "__inference_f_1"),
    ]
    assert steps_of(lines).source == "marker"


def test_a_stored_call_beside_a_device_shows_the_asking_alone() -> None:
    lines = stored_call(100, 500, 0, "__inference_train_function_7")
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    assert isinstance(blueprint.profile(trace).derived("vm", steps), Unavailable)
