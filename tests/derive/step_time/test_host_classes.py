"""What step threads do, which threads they are, and what belongs to no step."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_classes import HostClasses, host_classes
from stepscope.derive.step_time.host_time import HostCode
from stepscope.unavailable import Unavailable

US = 1_000_000
STREAM = "gpu:0/7(Compute)"


def classes_of(
    *lines: tuple[Any, ...], devices: dict[int, dict[str, Any]] | None = None
) -> HostClasses:
    trace = blueprint.trace(list(lines), devices=devices)
    found = blueprint.profile(trace).derived("vm", host_classes)
    assert isinstance(found, HostClasses), found
    return found


def train(k: int, start: float = 0, dur: float = 100) -> tuple[Any, ...]:
    return ("main", "train", start, dur, {"_r": 1, "step_num": k})


def launch(k: int, start: float, thread: str = "main") -> list[tuple[Any, ...]]:
    stats = {"correlation_id": k}
    return [
        (thread, "cuLaunchKernel", start, 2, stats),
        (STREAM, "sgemm", start + 2, 1, stats),
    ]


def us(*pairs: tuple[float, float]) -> Spans:
    return Spans.of([(round(a * US), round(b * US)) for a, b in pairs])


def test_what_runs_inside_a_wait_for_input_is_waiting_for_input() -> None:
    found = classes_of(
        train(0), ("main", "IteratorGetNext", 10, 30), ("main", "a/Op:Op", 15, 10)
    )
    assert found.input_wait == us((10, 40))
    assert found.host_compute == Spans.empty()


def test_what_runs_inside_a_compilation_is_compiling() -> None:
    found = classes_of(
        train(0), ("main", "XlaCompile", 10, 30), ("main", "a/Op:Op", 15, 10)
    )
    assert (found.compile, found.host_compute) == (us((10, 40)), Spans.empty())


def test_tracing_a_function_is_compiling_but_not_what_it_calls() -> None:
    found = classes_of(
        train(0),
        ("main", "f", 10, 30, {"tf_function_call": "traced-nonXla"}),
        ("main", "a/Op:Op", 15, 10),
    )
    assert found.compile == us((10, 15), (25, 40))
    assert found.host_compute == us((15, 25))


def test_an_op_that_encloses_a_launch_launches_and_one_that_does_not_computes() -> None:
    found = classes_of(
        train(0, 0, 2000),
        ("main", "a/Op:Op", 10, 600),
        ("main", "a/inner:Inner", 12, 500),
        *launch(1, 550),
        ("main", "b/Op:Op", 1000, 100),
    )
    assert found.launch == us((10, 12), (512, 610))
    assert found.host_compute == us((12, 512), (1000, 1100))


def test_an_op_that_does_little_is_on_the_way_to_a_launch_beside_a_device_only() -> (
    None
):
    """An op of less than 100 µs, what it calls taken out, does no work to speak of."""
    lines = [
        train(0, 0, 2000),
        ("main", "a/empty:Empty", 10, 99),
        ("main", "b/Op:Op", 200, 160),
        ("main", "b/inner:Inner", 210, 90),
    ]
    beside = classes_of(*lines, *launch(1, 1000))
    # Of b its own 70 µs and the 90 of what it calls are both below the limit.
    assert beside.launch == us((10, 109), (200, 360), (1000, 1002))
    assert beside.host_compute == Spans.empty()
    assert classes_of(*lines).host_compute == us((10, 109), (200, 360))


@pytest.mark.parametrize(
    "name",
    ["f:StatefulPartitionedCall", "x/while:While", "__inference_f:__inference_f"],
)
def test_a_call_that_encloses_a_launch_has_no_class_of_its_own(name: str) -> None:
    found = classes_of(train(0), ("main", name, 10, 50), *launch(1, 20))
    assert found.launch == us((20, 22))
    assert found.host_compute == Spans.empty()


def test_the_executor_beside_a_device_hands_out_its_work() -> None:
    found = classes_of(
        train(0), ("main", "ExecutorState::Process", 10, 20), *launch(1, 60)
    )
    assert found.launch == us((10, 30), (60, 62))


def test_the_executor_without_a_device_is_the_work() -> None:
    found = classes_of(train(0), ("pool", "ExecutorState::Process", 10, 20))
    assert found.host_compute == us((10, 30))


def test_an_instruction_of_a_compiled_program_on_a_host_thread_is_computing() -> None:
    found = classes_of(
        train(0),
        ("pool", "dot.1", 10, 20, {"hlo_op": "dot.1"}),
        ("pool", "end: dot.1", 30, 10, {"hlo_op": "dot.1"}),
    )
    assert found.host_compute == us((10, 30))


def test_a_thread_counts_in_the_steps_it_launched_work_of() -> None:
    """The same op is nobody's in the step in which its thread launched nothing."""
    found = classes_of(
        train(0, 0, 500),
        train(1, 500, 500),
        *launch(1, 10),
        ("executor", "a/Op:Op", 20, 200),
        ("executor", "a/Op:Op", 520, 200),
        *launch(2, 510),
        *launch(3, 750, "executor"),
    )
    assert found.host_compute == us((520, 720))


def test_a_thread_with_events_of_the_steps_group_counts() -> None:
    lines = [
        ("main", "train", 0, 500, {"_r": 1, "step_num": 4, "group_id": 0}),
        ("executor", "a/Op:Op", 20, 200, {"group_id": 0}),
        ("other", "a/Op:Op", 40, 200),
        *launch(1, 60),
    ]
    assert classes_of(*lines).host_compute == us((20, 220))


def test_where_there_are_groups_a_wait_of_none_belongs_to_no_step() -> None:
    lines = [
        ("main", "train", 0, 100, {"_r": 1, "step_num": 4, "group_id": 0}),
        ("pool", "IteratorGetNextOp::DoCompute", 20, 10, {"group_id": 0}),
        ("stray", "IteratorGetNextOp::DoCompute", 50, 10),
    ]
    assert classes_of(*lines, *launch(1, 90)).input_wait == us((20, 30))


def test_a_consumer_waits_on_whatever_thread_it_asks() -> None:
    found = classes_of(train(0), ("pool", "IteratorGetNextOp::DoCompute", 20, 10))
    assert found.input_wait == us((20, 30))


def test_the_work_of_an_input_pipeline_is_no_step() -> None:
    found = classes_of(
        train(0),
        ("pool", "a/Op:Op", 0, 5),
        ("pool", "Iterator::Root::Prefetch::Map", 10, 20),
        ("pool", "decode/Op:Op", 15, 5),
        ("worker", "Iterator::Root", 40, 10),
    )
    assert found.input_wait == Spans.empty()
    assert found.host_compute == us((0, 5))


def test_functions_that_a_pipeline_runs_are_told_by_the_id_of_the_run() -> None:
    found = classes_of(
        train(0),
        ("runner", "InstantiatedCapturedFunction::RunAsync", 0, 5, {"id": 77}),
        ("pool", "ExecutorState::Process", 10, 20, {"id": 77}),
        ("pool", "decode/Op:Op", 12, 10),
        ("pool", "ExecutorState::Process", 50, 20, {"id": 3}),
    )
    assert found.host_compute == us((50, 70))


def test_a_step_that_calls_its_iterator_waits_for_it() -> None:
    found = classes_of(
        train(0),
        ("main", "Iterator::Root", 10, 20),
        ("main", "Iterator::Root::Map", 12, 10),
        ("main", "Iterator::Root::Map", 40, 10),
    )
    assert found.input_wait == us((10, 30))


def test_a_range_named_as_input_counts_on_step_threads_only() -> None:
    found = classes_of(
        train(0), ("main", "load_batch", 10, 20), ("background", "load_batch", 50, 20)
    )
    assert found.input_wait == us((10, 30))


def test_beside_a_silent_device_launching_and_computing_cannot_be_told_apart() -> None:
    taken = {"allocator_name": "GPU_0_bfc"}
    found = classes_of(
        train(0),
        ("main", "a/Op:Op", 10, 20),
        ("main", "MemoryAllocation", 12, 2, taken),
        devices={0: blueprint.A100},
    )
    assert isinstance(found.launch, Unavailable)
    assert isinstance(found.host_compute, Unavailable)
    assert found.launch.code == "NO_DEVICE_EVENTS"


def test_beside_a_silent_device_recorded_calls_tell_launching_from_computing() -> None:
    found = classes_of(
        train(0, dur=900),
        ("main", "a/Op:Op", 10, 20),
        ("main", "cudaLaunchKernel", 12, 2, {"correlation_id": 1}),
        ("main", "b/Op:Op", 200, 300),
        ("main", "cudaMemcpyAsync", 600, 150, {"correlation_id": 2}),
        devices={0: blueprint.A100},
    )
    assert found.launch == us((10, 30))
    assert found.host_compute == us((200, 500))
    # A copy call of 100 µs or more waits for its data.
    assert found.sync == us((600, 750))


def eager(*inner: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """A call of a graph function from Python, from 10 to 90 µs."""
    return (
        ("main", "EagerExecute", 10, 80),
        ("main", "EagerLocalExecute: __inference_f_1", 12, 76),
        ("main", "KernelAndDeviceFunc::Run", 20, 60),
        *inner,
    )


def test_without_a_device_calling_a_function_is_work_but_waiting_for_it_is_not() -> (
    None
):
    found = classes_of(train(0), *eager())
    assert found.host_compute == us((10, 20), (80, 90))


def test_beside_a_device_calling_a_function_is_dispatch_but_waiting_is_not() -> None:
    """The call hands out what others launch, and then waits for them."""
    found = classes_of(train(0), *eager(), *launch(1, 95))
    assert found.launch == us((10, 20), (80, 90), (95, 97))
    assert found.host_compute == Spans.empty()


def test_a_plain_op_runs_on_the_thread_that_calls_it() -> None:
    found = classes_of(
        train(0),
        ("main", "EagerLocalExecute: MatMul", 10, 80),
        ("main", "KernelAndDeviceFunc::Run", 20, 60),
    )
    assert found.host_compute == us((10, 90))


def task(k: int, start: float, dur: float) -> list[tuple[Any, ...]]:
    return [
        ("pool", "ThreadpoolListener::StartRegion", start, 0, {"_ct": 15, "_c": k}),
        ("pool", "ThreadpoolListener::StopRegion", start + dur, 0),
    ]


def record(thread: str, at: float, k: int) -> tuple[Any, ...]:
    return (thread, "ThreadpoolListener::Record", at, 0, {"_pt": 15, "_p": k})


def test_a_task_that_an_op_hands_over_is_its_work_from_then_on() -> None:
    found = classes_of(
        train(0), ("main", "a/Op:Op", 10, 10), record("main", 15, 1), *task(1, 30, 20)
    )
    assert found.host_compute == us((10, 50))


def test_a_task_that_a_task_hands_over_belongs_to_the_same_work() -> None:
    found = classes_of(
        train(0),
        ("main", "a/Op:Op", 10, 10),
        record("main", 15, 1),
        *task(1, 20, 10),
        record("pool", 25, 2),
        ("pool2", "ThreadpoolListener::StartRegion", 60, 0, {"_ct": 15, "_c": 2}),
        ("pool2", "ThreadpoolListener::StopRegion", 70, 0),
    )
    assert found.host_compute == us((10, 70))


def test_a_task_of_the_input_pipeline_is_no_step() -> None:
    found = classes_of(
        train(0),
        ("worker", "Iterator::Root::Map", 10, 10),
        record("worker", 15, 1),
        *task(1, 30, 20),
    )
    assert found.host_compute == Spans.empty()


def test_a_task_of_which_nobody_says_who_handed_it_over_is_no_step() -> None:
    assert classes_of(train(0), *task(1, 30, 20)).host_compute == Spans.empty()


def test_a_call_cannot_wait_before_it_has_handed_anything_over() -> None:
    found = classes_of(train(0), *eager(record("main", 45, 1)), *task(1, 50, 10))
    assert found.host_compute == us((10, 60), (80, 90))


def test_a_call_of_a_graph_waits_for_the_threads_that_run_its_ops() -> None:
    """The step was said to be spent in the call, and not in the ops it waited for."""
    graph = "EagerLocalExecute: __inference_train_function_7"
    found = classes_of(
        train(0, 0, 1000),
        ("main", graph, 0, 900),
        ("main", "EagerKernelExecute", 10, 880),
        ("main", "FunctionRun", 20, 30),
        ("pool", "conv/Conv2D:Conv2D", 60, 700),
    )
    main, pool = sorted(found.by_thread)
    assert found.by_thread[main][HostCode.BLOCKED] == us((10, 890))
    assert found.by_thread[pool][HostCode.HOST_COMPUTE] == us((60, 760))


def test_a_call_that_runs_the_ops_itself_does_not_wait() -> None:
    graph = "EagerLocalExecute: __inference_train_function_7"
    found = classes_of(
        train(0, 0, 1000),
        ("main", graph, 0, 900),
        ("main", "EagerKernelExecute", 10, 880),
        ("main", "conv/Conv2D:Conv2D", 60, 700),
        ("main", "EagerLocalExecute: MatMul", 910, 50),
        ("main", "EagerKernelExecute", 915, 40),
    )
    assert HostCode.BLOCKED not in found.by_thread[min(found.by_thread)]


def test_a_call_of_a_graph_whose_ops_were_not_recorded_is_the_work_itself() -> None:
    graph = "EagerLocalExecute: __inference_train_function_7"
    found = classes_of(
        train(0, 0, 1000),
        ("main", graph, 0, 900),
        ("main", "EagerKernelExecute", 10, 880),
    )
    assert found.host_compute == us((0, 900))


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        (("worker", "a/Op:Op", 20, 5), set()),
        (("worker", "XlaCompile", 20, 5), {"compile"}),
        (("worker", "cuStreamSynchronize", 20, 5), {"sync"}),
        (("main", "XlaCompile", 20, 5), set()),
        (("main", "cuStreamSynchronize", 20, 5), set()),
    ],
)
def test_without_launches_another_thread_may_drive_steps_too(
    line: tuple[Any, ...], unknown: set[str]
) -> None:
    why = Unavailable(code="NOT_RECORDED", reason="no calls", remedy="record them")
    trace = blueprint.trace([train(0), line, (STREAM, "sgemm", 0, 9)])
    profile = blueprint.profile(blueprint.substitute(trace, launches=why))
    found = profile.derived("vm", host_classes)
    assert isinstance(found, HostClasses)
    values = {"compile": found.compile, "sync": found.sync}
    assert {name for name, each in values.items() if each is why} == unknown
    own = {"XlaCompile": "compile", "cuStreamSynchronize": "sync"}.get(line[1])
    for name in {"compile", "sync"} - unknown:
        assert values[name] == (us((20, 25)) if name == own else Spans.empty())
    assert found.host_compute is found.launch is found.unknown is why
    assert (found.launch_unknown, found.no_device) == (why, False)
