"""`annotation_calls`: which events are ranges of a program, and what they launched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint
from tests.support.traces.kineto import call, complete, kernel, read_file

from stepscope.derive.model.annotation_calls import AnnotationCalls, annotation_calls
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.trace.model import TraceData


def of(trace: TraceData) -> AnnotationCalls | Unavailable:
    return blueprint.profile(trace).derived(trace.host, annotation_calls)


def found(trace: TraceData) -> AnnotationCalls:
    calls = of(trace)
    assert isinstance(calls, AnnotationCalls), calls
    return calls


def paths(calls: AnnotationCalls) -> list[str]:
    """Path of names of each call, in the order of events."""
    texts: list[str] = []
    for place in range(len(calls.places.key)):
        above = int(calls.places.parent[place])
        own = calls.names[calls.places.key[place]]
        texts.append(own if above < 0 else f"{texts[above]} > {own}")
    return [texts[node] for node in calls.places.node.tolist()]


def recorded(tmp_path: Path, *events: dict[str, Any]) -> TraceData:
    path = tmp_path / "worker.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": list(events)}))
    return read_file(path)


def named(name: str, ts: float, dur: float, **fields: Any) -> dict[str, Any]:
    return complete(name, ts, dur, cat="user_annotation", **fields)


# ------------------------------------------------- where the producer does not say


def test_ranges_lie_outside_of_every_call_of_a_framework() -> None:
    trace = blueprint.trace(
        [
            ("python", "epoch", 0, 1000),
            ("python", "$train.py:3 main", 1, 900),
            ("python", "load batch", 10, 100),
            ("python", "PjitFunction(step)", 200, 100),
            # The runtime's own, in a call of it.
            ("python", "Handle inputs", 210, 10),
            ("python", "a/MatMul:MatMul", 400, 50),
            ("python", "gather", 410, 10),
        ]
    )
    assert paths(found(trace)) == ["epoch", "epoch > load batch"]


def test_what_runtimes_record_on_the_programs_threads_is_no_range_of_the_program() -> (
    None
):
    lines = [
        ("python", name, 10 * at, 5)
        for at, name in enumerate(
            (
                *("PythonRefManager::CollectGarbage", "Wait for donation holds"),
                *("shard_args", "garbage collection", "cuMemFree", "TraceContext"),
                *("D2H Copy From Staging Buffer", "$loop.py:1 run", "end: Op"),
            )
        )
    ]
    calls = of(blueprint.trace(lines))
    assert isinstance(calls, Unavailable)
    assert calls.code == "NOT_RECORDED"


def test_threads_of_a_runtime_hold_no_range_of_the_program() -> None:
    trace = blueprint.trace(
        [
            ("tf_XLAEigen/7", "dot", 0, 5),
            ("py_xla_execute", "copy", 0, 5),
            ("Thread-3 (loader)", "decode", 0, 5),
        ]
    )
    assert paths(found(trace)) == ["decode"]


def test_calls_of_graph_functions_and_asynchronous_work_are_no_ranges() -> None:
    trace = blueprint.trace(
        [
            ("python", "train", 0, 100, {"_r": 1, "step_num": 1}),
            ("python", "train_step", 10, 80, {"tf_function_call": "notTraced-nonXla"}),
            # Run eagerly, a graph function is the program's own code.
            ("python", "augment", 20, 10),
            ("python", "copying", 40, 500, {"_a": 1}),
        ]
    )
    assert paths(found(trace)) == ["train", "train > augment"]


def test_a_number_that_counts_steps_is_no_part_of_the_name() -> None:
    trace = blueprint.trace([("python", f"step {at}", 10 * at, 8) for at in range(3)])
    calls = found(trace)
    assert (calls.names, len(calls.event)) == (("step",), 3)


# ------------------------------------------------------ where the producer says it


def test_the_producers_word_decides_whatever_name_and_place(tmp_path: Path) -> None:
    trace = recorded(
        tmp_path,
        complete("autograd::engine::evaluate_function: X", 0, 90),
        named("aten::mm", 10, 50),
        complete("aten::mm", 20, 10),
        # No range, though no vocabulary has the name.
        complete("mine", 70, 5),
        named("Optimizer.step#SGD.step", 100, 10),
    )
    calls = found(trace)
    assert paths(calls) == ["aten::mm", "Optimizer.step#SGD.step"]
    assert calls.library.tolist() == [False, True]


# ------------------------------------------------------------ nesting and charging

ranges = st.lists(
    st.tuples(
        st.sampled_from(["main", "worker"]),
        st.sampled_from(["load", "compute", "save"]),
        st.integers(0, 60),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=25,
)


@given(ranges)
def test_self_times_of_a_thread_add_up_to_the_time_in_any_range(
    lines: list[tuple[str, str, int, int]],
) -> None:
    calls = found(blueprint.trace(sorted(lines, key=lambda one: one[0])))
    instants = {
        (thread, at)
        for thread, _, start, dur in lines
        for at in range(start, start + dur)
    }
    assert int(calls.self_ps.sum()) == len(instants) * PS_PER_US
    assert (calls.self_ps >= 0).all()
    assert (calls.self_ps <= calls.dur_ps).all()


def test_work_is_charged_to_the_range_around_its_launch_call(tmp_path: Path) -> None:
    """Work of another thread: in a range of that thread, else in the one that waits."""
    other = {"tid": 77}
    trace = recorded(
        tmp_path,
        named("forward", 0, 100),
        named("layer", 10, 50),
        call("cudaLaunchKernel", 20, 5, correlation=1),
        call("cudaLaunchKernel", 70, 5, correlation=2),
        named("backward", 100, 100),
        {**call("cudaLaunchKernel", 110, 5, correlation=3), **other},
        named("hook", 150, 30, **other),
        {**call("cudaLaunchKernel", 160, 5, correlation=4), **other},
        # Runs long after the range has ended.
        kernel("a", 500, 10, correlation=1),
        kernel("b", 520, 20, correlation=2),
        kernel("c", 550, 30, correlation=3),
        kernel("d", 600, 40, correlation=4),
        kernel("never launched here", 700, 50, correlation=99),
    )
    calls = found(trace)
    assert not isinstance(calls.of_activity, Unavailable)
    of_calls = paths(calls)
    charged = [of_calls[at] if at >= 0 else None for at in calls.of_activity.tolist()]
    assert charged == ["forward > layer", "forward", "backward", "hook", None]


def lent(tmp_path: Path, *others: dict[str, Any]) -> list[str | None]:
    """Ranges of nine launches of thread 77 in `backward`, which lasts 100 µs."""
    launches = [
        {**call("cudaLaunchKernel", 5 + 10 * at, 5, correlation=at), "tid": 77}
        for at in range(9)
    ]
    kernels = [kernel("k", 500 + 10 * at, 10, correlation=at) for at in range(9)]
    own = [call("cudaLaunchKernel", 101, 5, correlation=9)]
    kernels.append(kernel("k", 600, 10, correlation=9))
    backward = named("backward", 0, 100)
    after = named("after", 100, 50)
    calls = found(
        recorded(tmp_path, backward, after, *launches, *own, *kernels, *others)
    )
    assert not isinstance(calls.of_activity, Unavailable)
    of_calls = paths(calls)
    return [of_calls[at] if at >= 0 else None for at in calls.of_activity.tolist()]


def test_what_a_thread_launches_is_of_the_range_that_waits_for_it(
    tmp_path: Path,
) -> None:
    inside = complete("$train.py(3): backward", 0, 100, cat="python_function")
    assert lent(tmp_path, inside) == ["backward"] * 9 + ["after"]
    # An op that lies between two launches is no work beside them.
    assert lent(tmp_path, complete("aten::ones_like", 1, 2)) == (
        ["backward"] * 9 + ["after"]
    )


def test_work_of_a_thread_beside_a_range_that_works_itself_is_not_its(
    tmp_path: Path,
) -> None:
    assert lent(tmp_path, complete("aten::mm", 40, 30)) == [None] * 9 + ["after"]


def test_of_two_ranges_that_may_wait_none_is_charged(tmp_path: Path) -> None:
    beside = named("serve", 0, 100, tid=99)
    # A thread that never runs an op may do what it likes meanwhile.
    assert lent(tmp_path, beside) == ["backward"] * 9 + ["after"]
    works = complete("aten::mm", 300, 20, tid=99)
    assert lent(tmp_path, beside, works) == [None] * 9 + ["after"]


def test_without_launch_calls_nothing_is_charged_and_it_is_said_why() -> None:
    trace = blueprint.trace(
        [
            ("main", "compute", 0, 100),
            ("gpu:0/7", "k", 10, 5, {"correlation_id": 1}),
        ]
    )
    assert isinstance(found(trace).of_activity, Unavailable)


def test_launches_of_other_threads_alone_are_not_zero_device_time() -> None:
    trace = blueprint.trace(
        [
            ("main", "compute", 0, 100),
            ("main", "a/MatMul:MatMul", 1, 90),
            ("tf_Compute/1", "cuLaunchKernel", 5, 2, {"correlation_id": 1}),
            ("gpu:0/7", "k", 10, 5, {"correlation_id": 1}),
        ]
    )
    of_activity = found(trace).of_activity
    assert isinstance(of_activity, Unavailable)
    assert "other threads" in of_activity.reason


def test_a_call_is_in_the_last_step_that_began_before_it() -> None:
    lines = []
    for at in range(3):
        lines.append(("main", "train", 100 * at, 80, {"_r": 1, "step_num": 5 + at}))
        lines.append(("main", "load", 100 * at + 10, 20))
        # Between this step and the next one; after the last one there is none.
        lines.append(("main", "log", 100 * at + 85, 10))
    calls = found(blueprint.trace(lines))
    steps = dict[str, list[int]]()
    for path, step in zip(paths(calls), calls.step.tolist(), strict=True):
        steps.setdefault(path, []).append(step)
    assert steps == {"train": [0, 1, 2], "train > load": [0, 1, 2], "log": [0, 1, -1]}
    assert np.array_equal(calls.depth, calls.parent >= 0)
