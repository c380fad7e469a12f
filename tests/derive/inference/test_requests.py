"""`requests`: which events are requests, and what they say of themselves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.inference_requests import Requests, requests
from stepscope.unavailable import Unavailable

WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")


def found(*lines: blueprint.Line, **more: Any) -> Requests | Unavailable:
    profile = blueprint.profile(blueprint.trace(list(lines), **more))
    value: Requests | Unavailable = profile.derived("vm", requests)
    return value


def rows(*lines: blueprint.Line) -> list[tuple[Any, ...]]:
    value = found(*lines)
    assert isinstance(value, Requests), value
    return value.rows.select("name", "request_id", "batch_size").rows()


def test_an_id_or_a_size_makes_a_request() -> None:
    assert rows(
        ("a", "serve", 0, 10, {"request_id": 7, "batch_size": 4}),
        ("b", "predict:model", 5, 10, {"request_id": "x-1"}),
        ("a", "batch", 20, 10, {"batch_size": 2}),
        ("a", "other", 40, 10),
    ) == [
        ("serve", "7", 4),
        ("predict:model", "x-1", None),
        ("batch", None, 2),
    ]


def test_a_request_inside_another_one_is_part_of_it() -> None:
    assert rows(
        ("a", "serve", 0, 100, {"request_id": 1}),
        ("a", "run", 10, 50, {"request_id": 1, "batch_size": 3}),
        ("a", "BatchingSessionRun", 20, 10),
    ) == [("serve", "1", None)]


def test_what_else_states_a_batch_size_is_no_request() -> None:
    value = found(
        ("main", "train", 0, 100, {"_r": 1, "batch_size": 8}),
        ("main", "evaluate", 200, 100, {"step_num": 3, "batch_size": 8}),
        ("worker", "Iterator::Batch", 0, 50, {"batch_size": 8}),
        ("main", "a/MatMul:MatMul", 10, 20, {"batch_size": 8}),
        ("main", "ProcessBatch", 400, 20, {"batch_size": 8}),
        ("gpu:0/7", "k", 10, 20, {"batch_size": 8}),
    )
    assert isinstance(value, Unavailable)
    assert value.code == "NOT_RECORDED"
    assert "request_id" in value.remedy


def test_beside_marked_steps_a_size_alone_is_no_request() -> None:
    steps = [("main", "train", 100 * i, 90, {"_r": 1, "step_num": i}) for i in range(3)]
    sized = ("main", "collate", 10, 20, {"batch_size": 8})
    assert isinstance(found(*steps, sized), Unavailable)
    asked = ("side", "serve", 10, 20, {"batch_size": 8, "request_id": 1})
    assert rows(*steps, sized, asked) == [("serve", "1", 8)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["BatchingSessionRun", "SessionRun"], "BatchingSessionRun"),
        (["TfrtModelRun", "ServingModelRun"], "TfrtModelRun"),
        (["ServingModelRun", "RunGraph"], "ServingModelRun"),
        (["RunGraph"], "RunGraph"),
    ],
)
def test_of_several_serving_calls_the_outer_kind_counts(
    names: list[str], expected: str
) -> None:
    lines = [
        (f"thread {number}", name, 10, 10, {"batching_input_task_size": 5})
        for number, name in enumerate(names)
    ]
    assert rows(*lines) == [(expected, None, 5)]


def test_sessions_of_a_training_program_are_no_requests() -> None:
    lines: list[blueprint.Line] = []
    for step in range(3):
        lines += [
            ("main", "train", 100 * step, 90, {"_r": 1, "step_num": step}),
            ("main", "SessionRun", 100 * step + 10, 70),
        ]
    assert isinstance(found(*lines), Unavailable)


def test_a_root_of_its_own_is_a_request_beside_those_of_a_library() -> None:
    assert rows(
        ("a", "ServingModelRun", 0, 10),
        ("b", "my_request", 20, 10, {"_r": -1}),
    ) == [("ServingModelRun", None, None), ("my_request", None, None)]


def test_without_values_named_calls_are_still_found() -> None:
    trace = blueprint.trace(
        [
            ("a", "ServingModelRun", 0, 10, {"batch_size": 4}),
            ("b", "serve", 20, 10, {"request_id": 1}),
        ]
    )
    value = blueprint.profile(trace).without("stats", WHY).derived("vm", requests)
    assert isinstance(value, Requests)
    assert value.rows.select("name", "batch_size").rows() == [("ServingModelRun", None)]
    assert value.without_values == WHY
    only = blueprint.trace([("b", "serve", 20, 10, {"request_id": 1})])
    assert blueprint.profile(only).without("stats", WHY).derived("vm", requests) == WHY
