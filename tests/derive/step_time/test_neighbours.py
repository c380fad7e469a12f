"""What time between steps is called: by what the program did around it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.account.parts import AccountParts, account_parts
from stepscope.derive.step_time.neighbours import neighbours_text

STREAM = "gpu:0/7(Compute)"
GRAPH = "EagerLocalExecute: __inference_train_function_7"


def launch(k: int, start: float) -> list[tuple[Any, ...]]:
    stats = {"correlation_id": k}
    return [
        ("main", "cuLaunchKernel", start, 10, stats),
        (STREAM, "sgemm", start + 20, 480, stats),
    ]


def between_of(*after_the_gap: tuple[Any, ...]) -> list[str | None]:
    """Names of the time from 1 ms, where a step's work is over, to 21 ms."""
    marks = [("main", "train", 0, 600, {"_r": 1, "step_num": 0})]
    marks += [("main", "train", 40_000, 600, {"_r": 1, "step_num": 1})]
    lines = [
        *marks,
        *launch(1, 120),
        *after_the_gap,
        *launch(2, 40_100),
    ]
    profile = blueprint.profile(blueprint.trace(lines))
    found = profile.derived("vm", account_parts)
    assert isinstance(found, AccountParts), found
    rows = found.rows.filter(owner="between").sort("time_ps", descending=True)
    return [name for name in rows["name"].to_list() if name and "after train" in name]


def written(start: float) -> list[tuple[Any, ...]]:
    return [
        ("main", "EagerExecute: WriteSummary", start, 60),
        ("main", "EagerLocalExecute: WriteSummary", start + 1, 58),
        ("main", "WriteSummary:WriteSummary", start + 5, 50),
    ]


def test_a_summary_that_is_written_soon_after_names_the_time_before_it() -> None:
    """TensorBoard's callback was hidden behind the constant that it makes first."""
    found = between_of(("main", "tf.constant", 21_000, 150), *written(22_000))
    assert found == ["after train, before WriteSummary"]


@pytest.mark.parametrize(
    "between",
    [
        # The program trains on before it writes.
        [("main", GRAPH, 21_500, 20), *written(22_000)],
        # It writes much later.
        written(32_000),
        # It writes nothing.
        [],
    ],
)
def test_else_the_next_call_names_it(between: list[tuple[Any, ...]]) -> None:
    found = between_of(("main", "tf.constant", 21_000, 150), *between)
    assert found == ["after train, before tf.constant"]


def test_long_time_without_a_cause_is_told_by_where_it_lies() -> None:
    """Of one batch of Keras without steps, 63 % were unexplained, and no place."""
    lines = [
        ("main", "train_function", 0, 400),
        *launch(1, 50),
        ("main", "tf.constant", 20_400, 150),
        *written(20_700),
        *launch(2, 20_900),
    ]
    profile = blueprint.profile(blueprint.trace(lines))
    found = profile.derived("vm", account_parts)
    assert isinstance(found, AccountParts), found
    named = dict(
        found.rows.filter(owner="unexplained").select("name", "time_ps").rows()
    )
    # From the end of the first kernel at 550 µs to the constant.
    assert named["after train_function, before WriteSummary"] >= 19_000 * 1_000_000


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("f", "g", "after f, before g"),
        ("f", "f", "between two calls of f"),
        (None, "g", "before g"),
        ("f", None, "after f"),
        (None, None, None),
    ],
)
def test_neighbours_in_words(
    before: str | None, after: str | None, said: str | None
) -> None:
    assert neighbours_text(before, after) == said


def inside_of(*lines: tuple[Any, ...]) -> list[str | None]:
    """Names of long time without a cause in two steps of 20 ms each."""
    marks = [
        ("main", "train", 20_000 * number, 19_990, {"_r": 1, "step_num": number})
        for number in range(2)
    ]
    profile = blueprint.profile(blueprint.trace([*marks, *lines]))
    found = profile.derived("vm", account_parts)
    assert isinstance(found, AccountParts), found
    return found.rows.filter(owner="unexplained")["name"].to_list()


def test_time_within_a_steps_range_is_told_by_what_the_range_holds() -> None:
    """From 6 to 20 ms of the first step nothing is known of; the next range is none."""
    lines = [
        ("main", "MatMul:MatMul", 0, 5_000),
        ("main", "tf.constant", 5_000, 1_000),
        ("main", "MatMul:MatMul", 20_000, 19_990),
    ]
    assert "after tf.constant, to the end of the step's range" in inside_of(*lines)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("a", "b", "after a, before b"),
        ("a", None, "after a, to the end of the step's range"),
        (None, "b", "from the begin of the step's range, before b"),
        (None, None, "within a step's range"),
    ],
)
def test_a_steps_range_begins_and_ends_what_nothing_else_does(
    before: str | None, after: str | None, told: str
) -> None:
    assert neighbours_text(before, after, inside=True) == told
