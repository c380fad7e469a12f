"""Steps that nobody announced, and repetitions that are no steps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.step_windows.windows import windows
from stepscope.derive.steps.chosen import (
    StepCandidates,
    Steps,
    choose_steps,
    step_candidates,
    steps,
)
from stepscope.unavailable import Unavailable

US = 1_000_000
STREAM = "gpu:0/7(Compute)"
COPIES = "gpu:0/8(MemcpyH2D)"


def derived(lines: list[tuple[Any, ...]]) -> tuple[Any, StepCandidates, Any]:
    profile = blueprint.profile(blueprint.trace(lines))
    return (
        profile.derived("vm", steps),
        profile.derived("vm", step_candidates),
        profile.derived("vm", windows),
    )


def abbc(idle: list[float], *, copied: bool = True) -> list[tuple[Any, ...]]:
    """`A` 100, `B` 50, `B` 50, `C` 100 back to back, then idle, once per entry.

    Meanwhile the next batch is copied to the device, if it is copied.
    """
    lines: list[tuple[Any, ...]] = []
    at = 0.0
    for pause in idle:
        lines += [(COPIES, "MemcpyH2D", at + 20, 30)] * copied
        for name, dur in (("A", 100), ("B", 50), ("B", 50), ("C", 100)):
            lines.append((STREAM, name, at, dur))
            at += dur
        at += pause
    return lines


@pytest.mark.parametrize(("size", "is_step"), [(8, False), (64, False), (4_096, True)])
def test_a_copy_of_a_scalar_is_no_edge_of_a_step(size: int, *, is_step: bool) -> None:
    """A layer may send a number to the device; a batch has more bytes."""
    details = {"memcpy_details": f"kind:H2D size:{size} dest:0 async:1"}
    lines = [
        (*line, details) if line[0] == COPIES else line for line in abbc([100] * 5)
    ]
    found, candidates, _ = derived(lines)
    assert isinstance(found, Unavailable) is not is_step
    assert candidates.found[0].candidate.accepted is is_step


@pytest.mark.parametrize("inside", [True, False])
def test_an_op_that_waits_for_its_scalar_is_no_edge(*, inside: bool) -> None:
    """Five layers send eight bytes each, in an op that waits; else a step waits."""
    lines: list[tuple[Any, ...]] = []
    for k in range(5):
        at, stats = 1_000.0 * k, {"correlation_id": 10 * k + 1}
        details = {"memcpy_details": "kind:H2D size:8 dest:0 async:0", **stats}
        lines += [
            ("main", "aten::to", at, 100),
            ("main", "cudaMemcpyAsync", at + 10, 5, stats),
            (COPIES, "MemcpyH2D", at + 20, 1, details),
            ("main", "cudaStreamSynchronize", at + (30 if inside else 700), 20),
        ]
        for number, name in enumerate(("A", "B", "B", "C")):
            begin = at + 150 + 60 * number
            key = {"correlation_id": 10 * k + 2 + number}
            lines += [
                ("main", f"aten::{name.lower()}", begin, 20),
                ("main", "cudaLaunchKernel", begin + 5, 5, key),
                (STREAM, name, begin + 20, 30, key),
            ]
    found, _, _ = derived(sorted(lines, key=lambda line: line[0]))
    assert isinstance(found, Unavailable) is inside


def test_a_repeated_kernel_sequence_is_a_step() -> None:
    steps, candidates, windows = derived(abbc([100] * 5))
    chosen = candidates.found[0].candidate
    assert steps.source == "period"
    assert chosen.what.startswith("A among the kernels")
    assert (chosen.n, chosen.coverage, chosen.cv) == (5, 1.0, 0.0)
    # min(0.90, 1 × (1 - 0) × (1 - 2^-4))
    assert steps.confidence == pytest.approx(0.90)
    assert steps.rows["name"].to_list() == [f"step {k} (inferred)" for k in range(5)]
    lengths = windows.rows["end_ps"] - windows.rows["start_ps"]
    assert lengths.to_list() == [400 * US] * 4 + [300 * US]
    assert windows.anchor == "device"


def test_uneven_pauses_do_not_make_even_work_uneven() -> None:
    even = derived(abbc([100] * 5))[0]
    uneven = derived(abbc([100, 900, 900, 100, 100]))[0]
    assert len(uneven.rows) == 5
    assert uneven.confidence == even.confidence
    assert uneven.rows["start_ps"].to_list() == [
        at * US for at in (0, 400, 1600, 2800, 3200)
    ]


def test_three_repeats_that_cover_three_quarters_are_not_enough() -> None:
    # Twice A B C (300 each) inside 3 segments: 0.75 × 1 × 0.75 = 0.5625.
    lines = [(STREAM, name, 0 + 50 * k, 50) for k, name in enumerate("WXYZ")]
    for repeat in range(3):
        lines += [
            (STREAM, name, 300 + 300 * repeat + 100 * k, 50 + 50 * (k == 0))
            for k, name in enumerate("ABC")
        ]
    steps, candidates, _ = derived(lines)
    best = max((it.candidate for it in candidates.found), key=lambda it: it.confidence)
    assert isinstance(steps, Unavailable)
    assert steps.code == "NO_STEPS"
    assert (best.n, best.coverage) == (3, pytest.approx(0.75))
    assert best.confidence == pytest.approx(0.5625)
    assert not best.accepted
    assert "0.56" in steps.reason


def test_a_rejected_candidate_can_be_chosen_by_hand() -> None:
    _, candidates, _ = derived(abbc([100] * 2))
    index = next(
        k for k, it in enumerate(candidates.found) if it.candidate.what[0] == "B"
    )
    chosen = choose_steps(candidates, index)
    assert isinstance(chosen, Steps)
    assert not candidates.found[index].candidate.accepted


def test_layers_that_repeat_inside_a_step_are_not_the_step() -> None:
    lines: list[tuple[Any, ...]] = []
    at = 0
    for _ in range(6):
        lines.append((COPIES, "MemcpyH2D", at, 5))
        for name in [*["conv", "relu"] * 8, "loss", *["grad"] * 8, "adam"]:
            lines.append((STREAM, name, at, 10))
            at += 10
        at += 30
    steps = derived(lines)[0]
    assert len(steps.rows) == 6


def test_equal_layers_of_one_step_are_told_apart_by_their_ops() -> None:
    """Twelve equal layers, once: the kernels repeat, the ops they run for do not."""
    lines = [
        (
            STREAM,
            kernel,
            100 * layer + 40 * k,
            40,
            {"tf_op": f"layer_{layer}/{kernel}:{kernel}"},
        )
        for layer in range(12)
        for k, kernel in enumerate(["Conv2D", "Relu"])
    ]
    assert isinstance(derived(lines)[0], Unavailable)


def in_one_run(program: str) -> list[tuple[Any, ...]]:
    """Twelve equal layers whose kernels say nothing of ops, from a host event."""
    lines: list[tuple[Any, ...]] = [("main", program, 0, 130)]
    for k in range(24):
        stats = {"correlation_id": k + 1}
        lines += [
            ("main", "cuLaunchKernel", 1 + 5 * k, 3, stats),
            (STREAM, ["Conv2D", "Relu"][k % 2], 200 + 50 * k, 40, stats),
        ]
    return lines


def test_repetitions_inside_one_run_of_a_program_are_no_steps() -> None:
    steps, candidates, _ = derived(in_one_run("PjitFunction(infer)"))
    assert isinstance(steps, Unavailable)
    assert candidates.found[0].candidate.why_not == (
        "it repeats inside single executions of a program"
    )


@pytest.mark.parametrize(
    "call", ["nn.Module: Bert_0", "model.py(7): forward", "aten::encoder"]
)
def test_repetitions_inside_one_call_are_no_steps(call: str) -> None:
    steps, candidates, _ = derived(in_one_run(call))
    assert isinstance(steps, Unavailable)
    assert candidates.found[0].candidate.confidence <= 0.59
    assert candidates.found[0].candidate.why_not == (
        "it repeats inside single calls of a module, an op or a request"
    )


def test_equal_work_in_a_range_of_unknown_meaning_is_no_step_without_an_edge() -> None:
    steps, candidates, _ = derived(in_one_run("some annotation"))
    assert isinstance(steps, Unavailable)
    assert candidates.found[0].candidate.confidence == 0.59


NODE = "autograd::engine::evaluate_function: "


def test_nodes_that_run_layers_again_are_one_pass() -> None:
    """One step of eight layers: forward, then each one's node computes it again."""
    lines: list[blueprint.Line] = [
        ("main", "aten::linear", 100.0 * k, 90) for k in range(8)
    ]
    for k in range(8):
        begin = 1_000 + 300.0 * k
        lines += [
            ("main", f"{NODE}CheckpointFunctionBackward", begin, 280),
            ("main", "aten::linear", begin + 10, 90),
            ("main", "aten::mm", begin + 110, 90),
        ]
    steps, _, _ = derived(lines)
    assert isinstance(steps, Unavailable)


def test_repetitions_that_copy_nothing_may_be_layers() -> None:
    steps, candidates, _ = derived(abbc([100] * 5, copied=False))
    assert isinstance(steps, Unavailable)
    best = candidates.found[0].candidate
    assert (best.confidence, best.n) == (0.59, 5)
    assert best.why_not.startswith("its segments lack what steps have")


@pytest.mark.parametrize(
    "edge",
    ["cudaDeviceSynchronize", "IteratorGetNext", "Optimizer.step#SGD.step"],
)
def test_an_edge_on_the_host_in_each_repetition_makes_steps(edge: str) -> None:
    lines = []
    for k, (track, name, start, dur) in enumerate(abbc([100] * 5, copied=False)):
        stats = {"correlation_id": k + 1}
        lines += [
            ("main", "cuLaunchKernel", start / 4, 3, stats),
            (track, name, start, dur, stats),
        ]
        if name == "C":
            lines.append(("main", edge, start / 4 + 5, 10))
    steps = derived(lines)[0]
    assert isinstance(steps, Steps), steps
    assert len(steps.rows) == 5


@pytest.mark.parametrize("call", ["nn.Module: Bert_0", "model.py(7): forward"])
def test_one_outermost_call_of_a_module_per_repetition_is_a_step(call: str) -> None:
    """Between them layers of the same module, whose calls are no edges."""
    lines: list[tuple[Any, ...]] = []
    for k in range(6):
        lines.append(("main", call, 100 * k, 80))
        for j, kernel in enumerate(["norm", "gemm", "relu"] * 4):
            stats = {"correlation_id": 20 * k + j + 1}
            lines += [
                ("main", "nn.Module: Layer_0", 100 * k + 2 + 6 * j, 5),
                ("main", "cuLaunchKernel", 100 * k + 3 + 6 * j, 3, stats),
                (STREAM, kernel, 1000 + 300 * k + 20 * j, 15, stats),
            ]
    steps = derived(lines)[0]
    assert isinstance(steps, Steps), steps
    assert len(steps.rows) == 6


def test_one_launch_of_a_graph_per_repetition_is_a_step() -> None:
    lines: list[tuple[Any, ...]] = []
    for k in range(6):
        lines.append(("main", "cudaGraphLaunch", 10 * k, 5, {"correlation_id": k + 1}))
        lines += [
            (STREAM, kernel, 100 + 80 * k + 20 * j, 15, {"correlation_id": k + 1})
            for j, kernel in enumerate(["norm", "gemm", "relu"])
        ]
    steps = derived(lines)[0]
    assert isinstance(steps, Steps), steps
    assert len(steps.rows) == 6


def test_calls_of_ops_that_touch_each_other_are_calls_of_their_own() -> None:
    """Clocks of whole microseconds leave no pause between them."""
    lines: list[tuple[Any, ...]] = []
    for k in range(6):
        for j, op in enumerate(["aten::linear", "aten::relu", "aten::item"]):
            lines.append(("main", op, 30 * k + 10 * j, 10))
    steps = derived(lines)[0]
    assert isinstance(steps, Steps), steps
    assert len(steps.rows) == 6


def called_eight_times(names: list[str]) -> list[tuple[Any, ...]]:
    """Calls of a part that reads a value back, as a mixture of experts does."""
    lines: list[tuple[Any, ...]] = []
    for k, name in enumerate(names):
        lines += [
            ("main", name, 100 * k, 90),
            ("main", "cudaStreamSynchronize", 100 * k + 70, 10),
        ]
        for j, kernel in enumerate(["norm", "gemm", "relu"]):
            stats = {"correlation_id": 10 * k + j + 1}
            lines += [
                ("main", "cuLaunchKernel", 100 * k + 10 + 10 * j, 3, stats),
                (STREAM, kernel, 1000 + 100 * k + 20 * j, 15, stats),
            ]
    return lines


@pytest.mark.parametrize("name", ["nn.Module: Block_{}", "layer {}"])
def test_numbered_instances_called_once_each_are_parts_of_one_step(name: str) -> None:
    each_once = called_eight_times([name.format(k) for k in range(8)])
    steps, candidates, _ = derived(each_once)
    assert isinstance(steps, Unavailable)
    assert candidates.found[0].candidate.why_not == (
        "each repetition is a different instance of one module"
    )
    one_over_again = called_eight_times([name.format(0)] * 8)
    assert isinstance(derived(one_over_again)[0], Steps)


def test_iterations_of_a_serving_engine_are_steps_even_one() -> None:
    lines = in_one_run("execute_context_1(888_788544)_generation_0(0)")
    steps, _, windows = derived(lines)
    assert (steps.source, len(steps.rows)) == ("launch", 1)
    assert steps.rows["end_ps"].to_list() == [130 * US]
    assert windows.rows["end_ps"].to_list() == [(200 + 50 * 23 + 40) * US]
    several = [
        ("main", f"execute_context_{k}(9)_generation_{k % 3}(4)", 100 * k, 80)
        for k in range(5)
    ]
    assert len(derived(several)[0].rows) == 5


def test_steps_are_found_where_every_kernel_runs_several_times_per_step() -> None:
    lines: list[tuple[Any, ...]] = []
    at = 0
    for _ in range(10):
        lines.append((COPIES, "MemcpyH2D", at, 5))
        for name in "AABABBAAB":
            lines.append((STREAM, name, at, 10 + ord(name) - 65))
            at += 15
        at += 200
    steps = derived(lines)[0]
    assert steps.rows["start_ps"].to_list() == [
        k * (9 * 15 + 200) * US for k in range(10)
    ]


def test_one_kernel_over_and_over_is_no_step() -> None:
    lines = [(STREAM, "gemm", 100 * k, 90) for k in range(50)]
    steps, candidates, _ = derived(lines)
    assert isinstance(steps, Unavailable)
    assert all(not it.candidate.accepted for it in candidates.found)


def test_a_cut_last_repeat_is_flagged_and_kept() -> None:
    lines = abbc([100] * 8)[:-2]
    steps, _, windows = derived(lines)
    assert len(steps.rows) == 8
    assert steps.rows["cut"].to_list() == [False] * 7 + [True]
    assert windows.rows["flags"].to_list()[-1] == ["open_end", "cut"]


def test_repeated_launches_of_a_program_are_steps() -> None:
    lines: list[tuple[Any, ...]] = []
    for k in range(10):
        lines += [
            ("main", "PjitFunction(step)", 100 * k, 30),
            ("main", "PjitFunction(step)", 100 * k + 1, 28),
            ("main", "a/MatMul:MatMul", 100 * k + 5, 10),
            ("main", "a/Relu:Relu", 100 * k + 40, 10),
        ]
    steps, candidates, _ = derived(lines)
    assert steps.source == "launch"
    assert candidates.found[0].candidate.n == 10
    assert steps.rows["start_ps"].to_list() == [100 * US * k for k in range(10)]


def test_where_the_host_runs_ahead_the_executed_ops_answer() -> None:
    lines: list[tuple[Any, ...]] = []
    for k in range(20):
        lines.append(("main", "PjitFunction(step)", 10 * k, 5))
        lines += [
            ("worker", name, 1000 + 100 * k + 20 * j, 15, {"hlo_op": name})
            for j, name in enumerate(["dot", "add", "tanh"])
        ]
    steps = derived(lines)[0]
    assert steps.source == "period"
    assert len(steps.rows) == 20
    assert steps.rows["start_ps"][0] == 1000 * US


def op_by_op(*, ops: int, waits: bool = False) -> list[tuple[Any, ...]]:
    """Twelve times `matmul` and `tanh`, each a program, with so many instructions.

    Their instructions run on a thread of the runtime, some time after the calls; the
    program waits for each pair, or for none.
    """
    lines: list[tuple[Any, ...]] = []
    for number in range(12):
        for at, program in enumerate(("matmul", "tanh")):
            begin = 100.0 * number + 40 * at
            lines += [
                ("main", f"PjitFunction({program})", begin, 20),
                ("main", f"PjitFunction({program})", begin + 1, 18),
                *(
                    (
                        "tf_XLATfrtCpuClient",
                        f"{program}.{part}",
                        begin + 30 + 30 / ops * part,
                        30 / ops,
                        {"hlo_op": f"{program}.{part}", "hlo_module": f"jit_{program}"},
                    )
                    for part in range(ops)
                ),
            ]
        if waits:
            lines.append(("main", "BlockUntilReady", 100.0 * number + 82, 10))
    return lines


@pytest.mark.parametrize(
    ("ops", "waits", "count"),
    [(1, False, 0), (2, False, 0), (4, False, 12), (1, True, 12)],
)
def test_of_ops_that_are_programs_nothing_says_whether_they_are_a_layer(
    ops: int, count: int, *, waits: bool
) -> None:
    """An eager loop of JAX over equal layers was told as many steps as it has layers.

    Two programs of four instructions each are an iteration; so are two ops that the
    program waits for.
    """
    found, _, _ = derived(op_by_op(ops=ops, waits=waits))
    assert (0 if isinstance(found, Unavailable) else len(found.rows)) == count


def test_a_launch_step_begins_where_its_batch_is_fetched() -> None:
    lines: list[tuple[Any, ...]] = []
    for k in range(12):
        b = 100 * k
        lines += [
            ("main", "next", b, 40),
            ("main", "IteratorGetNext:IteratorGetNext", b + 1, 38),
            ("main", "train_step", b + 50, 40),
            ("main", "__inference_step_1:__inference_step_1", b + 52, 30),
        ]
    steps = derived(lines)[0]
    assert steps.source == "launch"
    assert steps.rows["start_ps"].to_list() == [100 * US * k for k in range(12)]


def test_requests_on_several_threads_form_one_sequence() -> None:
    lines: list[tuple[Any, ...]] = []
    for thread, shift in (("a", 0), ("b", 31), ("c", 62)):
        for k in range(10):
            b = 100 * k + shift
            lines += [
                (thread, "a/MatMul:MatMul", b, 20),
                (thread, "a/Relu:Relu", b + 20, 20),
                (thread, "a/Softmax:Softmax", b + 40, 20),
                (thread, "np.asarray(jax.Array)", b + 62, 5),
            ]
    steps = derived(lines)[0]
    assert len(steps.rows) == 30
    assert steps.rows["start_ps"].is_sorted()
    assert steps.rows["track"].n_unique() == 3


def gradients(*, passes: int) -> list[tuple[Any, ...]]:
    """Eight turns of equal work: an op, then a node of gradients or, in one pass, none.

    With one pass all nodes follow each other: eight layers forward, eight backward.
    """
    lines: list[tuple[Any, ...]] = []
    for turn in range(8):
        forward = 1_000.0 * turn if passes > 1 else 400.0 * turn
        backward = forward + 450.0 if passes > 1 else 3_300.0 + 400.0 * turn
        node = "AddmmBackward0"
        lines += [
            ("main", "aten::addmm", forward, 390),
            ("main", f"autograd::engine::evaluate_function: {node}", backward, 390),
            ("main", node, backward + 5, 380),
            ("main", "aten::mm", backward + 10, 370),
        ]
    return lines


def test_a_pass_of_gradients_in_each_repetition_makes_steps() -> None:
    """Weights that are updated by hand, or never: nothing else shows a step."""
    found = derived(gradients(passes=8))[0]
    assert isinstance(found, Steps), found
    assert len(found.rows) == 8


def test_the_layers_of_one_pass_of_gradients_are_no_steps() -> None:
    found, candidates, _ = derived(gradients(passes=1))
    assert isinstance(found, Unavailable)
    assert not any(one.candidate.accepted for one in candidates.found)
