"""Lines that only say something of a thread, and what a new function costs, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.account.parts import AccountParts, account_parts
from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.account.topics import IdleTopics, idle_topics
from stepscope.derive.step_time.owners import OWNERS

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
#: A step on the line of JAX's own profiler, which numbers threads in its own way.
STEP: list[Any] = [
    ("python", "train", 0, 1000, {"_r": 1, "step_num": 0}),
    ("python", "PjitFunction(f)", 100, 500),
    ("pool", "dot.1", 620, 80, {"hlo_op": "dot.1"}),
]


def profile_of(*lines: Any) -> ProfileData:
    return blueprint.profile(blueprint.trace([*lines], devices={}))


def owned_us(*lines: Any) -> dict[str, float]:
    found = profile_of(*lines).derived("vm", account)
    assert isinstance(found, Account), found
    found.self_check()
    (row,) = found.rows.iter_rows(named=True)
    return {
        owner.name: row[f"{owner.name}_ps"] / US
        for owner in OWNERS
        if row.get(f"{owner.name}_ps")
    }


def named_us(*lines: Any) -> dict[str | None, float]:
    """The parts of the host's own work by name."""
    found = profile_of(*lines).derived("vm", account_parts)
    assert isinstance(found, AccountParts), found
    rows = found.rows.iter_rows(named=True)
    return {
        row["name"]: row["time_ps"] / US
        for row in rows
        if row["owner"] == "host_compute"
    }


@pytest.mark.parametrize(
    ("line", "compiling"), [("MainThread", 200.0), ("compiler", 0.0)]
)
def test_compiling_that_was_noted_of_the_first_thread_holds_the_step_up(
    line: str, compiling: float
) -> None:
    """Of any other thread it may be done ahead."""
    found = owned_us(*STEP, (line, "compilation of f", 110, 200, {"stage": "trace"}))
    assert found.get("compile", 0.0) == compiling
    assert found["host_compute"] == 500 + 80 - compiling


def test_functions_that_were_sampled_on_a_line_apart_are_no_unexplained_time() -> None:
    bare = owned_us(*STEP)
    assert bare["unexplained"] == 1000 - 580
    noted = [
        ("MainThread", "garbage collection", 860, 20),
        ("samples of MainThread, 100 a second", "$/app/t.py:3 prepare", 700, 300),
    ]
    found = owned_us(*STEP, *noted)
    # From 0 to 100, and from 600 to 620, nothing says what was done.
    assert found == {"host_compute": 580 + 300, "unexplained": 120}
    assert named_us(*STEP, *noted)["prepare"] == 280
    topics = profile_of(*STEP, *noted).derived("vm", idle_topics)
    assert isinstance(topics, IdleTopics)
    assert topics.devices[0].spans["garbage"].length_ps == 20 * US


def test_what_was_seen_itself_is_no_fetch_of_the_function_that_a_late_look_found() -> (
    None
):
    """A collection keeps the lock, so that the look comes after it."""
    found = owned_us(
        ("main", "train", 0, 1000, {"_r": 1, "step_num": 0}),
        ("main", "m/MatMul:MatMul", 430, 570, {"is_eager": 0}),
        ("main", "garbage collection", 100, 300),
        ("samples of main, 100 a second", "$/app/t.py:3 next_batch", 50, 400),
    )
    assert found == {"input": 50 + 30, "host_compute": 300 + 570, "unexplained": 50}


def called(anew: str) -> list[Any]:
    """A call that builds a graph, makes its function ready, and runs it."""
    call = "EagerLocalExecute: __inference_take_step_7"
    return [
        ("main", "train", 0, 1000, {"_r": 1, "step_num": 0}),
        ("main", "take_step", 0, 800, {"tf_function_call": anew}),
        ("main", "EagerExecute", 410, 380),
        ("main", call, 420, 360),
        ("main", "EagerKernelExecute", 700, 60),
        ("main", "m/MatMul:MatMul", 900, 100, {"is_eager": 0}),
    ]


def test_the_making_of_a_traced_function_is_compiling_and_its_run_is_not() -> None:
    building = [
        ("main", "tf.function-graph_building", 10, 390),
        ("main", "convert_to_tensor", 50, 50),
    ]
    found = owned_us(*called("traced-nonXla"), *building)
    # 20 µs of the wrapper around the call repeat nobody's time.
    assert found["compile"] == 800 - 60 - 20
    assert found["host_compute"] == 60 + 20 + 100
    again = owned_us(*called("notTraced-nonXla"))
    assert "compile" not in again


def test_who_waits_for_the_tasks_of_a_pool_is_not_what_takes_their_time() -> None:
    """A task from 700 to 900 is handed over at 600 and says nothing of itself."""
    lines = [
        *STEP[:2],
        ("python", "ThreadpoolListener::Record", 590, 0, {"_pt": 15, "_p": 9}),
        ("pool", "ThreadpoolListener::StartRegion", 700, 0, {"_ct": 15, "_c": 9}),
        ("pool", "ThreadpoolListener::StopRegion", 900, 0),
        ("samples of python, 100 a second", "$/app/t.py:3 take_step", 0, 1000),
    ]
    found = named_us(*lines)
    assert found == {
        "PjitFunction(f)": 500,
        "tasks of thread pools": 300,
        "take_step": 200,
    }
