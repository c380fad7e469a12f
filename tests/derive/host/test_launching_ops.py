"""The op on the host inside which a launch call was made."""

from __future__ import annotations

from tests.support.traces import blueprint

from stepscope.derive.host.event_nesting import launching_ops


def launching(lines: list[blueprint.Line]) -> list[str | None]:
    """Name of the op around each launch call."""
    found = blueprint.profile(blueprint.trace(lines)).derived("vm", launching_ops)
    names = found.ops["name"].to_list()
    return [names[op] if op >= 0 else None for op in found.op.tolist()]


def call(start: float, number: int, thread: str = "main") -> blueprint.Line:
    return (thread, "cuLaunchKernel", start, 1, {"correlation_id": number})


def test_the_innermost_op_around_a_call_launched_it() -> None:
    assert launching(
        [
            ("main", "Outer:Outer", 0, 100),
            ("main", "a/Relu:Relu", 10, 20),
            ("main", "some range", 12, 10),
            call(15, 1),
            call(50, 2),
            call(200, 3),
        ]
    ) == ["a/Relu", "Outer", None]


def test_other_threads_do_not_launch_for_each_other() -> None:
    lines = [("main", "a/Relu:Relu", 0, 100), call(10, 1, "executor")]
    assert launching(lines) == [None]


def test_functions_control_flow_and_iterators_are_looked_through() -> None:
    assert launching(
        [
            ("main", "f:StatefulPartitionedCall", 0, 100),
            ("main", "Iterator::Prefetch", 10, 50),
            call(20, 1),
            ("main", "model/Relu:Relu", 200, 50),
            ("main", "w:While", 210, 30),
            call(220, 2),
        ]
    ) == [None, "model/Relu"]
