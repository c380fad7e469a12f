"""An op looked at closely: its calls, what they consist of, and their share."""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint
from tests.support.traces.ops import COPIES, GPU, call, detail, kernel, of


def test_work_of_ops_inside_a_call_is_work_of_the_call() -> None:
    lines = [("main", "outer:Outer", 0, 100), *call(10, 20, 1, op="inner:Inner")]
    done = kernel(40, 30, 1, op="inner:Inner")
    result = of(*lines, done, op="outer")
    assert result.rows["host_or_device"].to_list() == ["Host"]
    (row,) = result.calls.to_dicts()
    assert (row["host_us"], row["host_self_us"]) == (100, 80)
    assert (row["device_us"], row["kernels"], row["launches"]) == (30, 1, 1)
    assert row["waiting_us"] == 40
    kernels = result.kernels
    assert kernels is not None
    assert kernels["op_name"].to_list() == ["inner"]


def test_of_nested_calls_the_innermost_has_the_work() -> None:
    lines = [("main", "a:A", 0, 100), *call(10, 20, 1)]
    rows = of(*lines, kernel(40, 30, 1)).calls
    assert rows.select("host_us", "device_us").rows() == [(20, 30), (100, 0)]


def test_work_that_no_event_of_the_op_launched_is_called_by_its_kernels() -> None:
    launches = [
        ("main", "cuLaunchKernel", 10 * number, 1, {"correlation_id": number})
        for number in range(5)
    ]
    done = [
        kernel(100, 10, 0, name="first"),
        kernel(110, 5, 1, name="second"),
        kernel(120, 10, 2, name="first"),
        kernel(130, 5, 3, name="second"),
        kernel(140, 5, 4, name="second"),
    ]
    result = of(*launches, *done)
    # The second kernel ran three times, so there were at least three calls.
    assert result.call_count == result.rows["occurrences"][0] == 3
    shown = ("start_ms", "host_us", "device_us", "kernels", "launches")
    by_time = result.calls.sort("call").select(*shown).rows()
    assert by_time == [
        (0.0, None, 15, 2, 2),
        (0.02, None, 15, 2, 2),
        (0.04, None, 5, 1, 1),
    ]


def test_the_same_op_of_two_programs_is_called_by_each() -> None:
    def done(start: float, program: int) -> blueprint.Line:
        stats = {"hlo_op": "dot", "hlo_module": "jit_f", "program_id": program}
        return (GPU, f"k{program}", start, 10, stats)

    result = of(done(0, 1), done(10, 2), done(20, 1), op="dot")
    assert result.call_count == 3
    assert result.calls.sort("call")["start_ms"].to_list() == [0, 0.01, 0.02]


def test_calls_know_their_step_and_the_share_is_of_closed_steps() -> None:
    lines: list[blueprint.Line] = []
    for step in range(3):
        begin = 1000 * step
        lines.append(("main", "train", begin, 900, {"_r": 1, "step_num": 7 + step}))
        lines += call(begin + 100, 50, 2 * step)
        lines += call(begin + 300, 50, 2 * step + 1, op="b:B")
        lines.append(kernel(begin + 200, 200, 2 * step))
        stats = {"correlation_id": 2 * step + 1, "tf_op": "b:B"}
        lines.append((COPIES, "MemcpyH2D", begin + 350, 150, stats))
    result = of(*lines)
    assert result.calls.sort("call")["step"].to_list() == [7, 8, 9]
    share = result.share
    # Windows of 1,000 µs; the last one has no end of its own and does not count.
    assert share.steps == 2
    assert share.device_percent == pytest.approx(20)
    assert share.exposed_percent == pytest.approx(15)
    assert share.host_percent == pytest.approx(5)


def test_launches_say_what_they_cost_and_what_waited() -> None:
    result = of(
        *call(0, 5, 1, launch=2),
        *call(5, 5, 2, launch=4),
        kernel(10, 50, 1),
        kernel(60, 50, 2),
    )
    launches = result.launches
    assert launches is not None
    (row,) = launches.to_dicts()
    assert (row["name"], row["calls"], row["activities"]) == ("cuLaunchKernel", 2, 2)
    assert (row["total_us"], row["avg_us"], row["max_us"]) == (6, 3, 4)
    # The first found the device idle: from 3 to 10. The second was queued.
    assert (row["idle_launches"], row["median_wait_us"]) == (1, 7)


def test_two_hosts_add_up_and_one_can_be_chosen() -> None:
    both = blueprint.profile(blueprint.a1(), blueprint.a5_host_b())
    name = "model/dense_1/MatMul"
    result, one = detail(both, op=name), detail(both.select(["vm"]), op=name)
    assert (result.call_count, one.call_count) == (16, 8)
    assert result.calls["host"].value_counts(sort=True).rows() == [("b", 8), ("vm", 8)]
    kernels = result.kernels
    assert kernels is not None
    assert kernels.select("occurrences", "total_us", "hosts").rows() == [
        (16, 1680.0, ["b", "vm"])
    ]
    # 200 µs from the launch to the kernel, of which the other op's takes 100.
    assert one.cause.waiting_us == 8 * 100
    # The kernel of b ends 10 µs later and the next op's launch finds it just so.
    assert result.cause.compute_us is not None
    assert result.cause.small_grid_us == 1680


def test_the_longest_calls_are_listed_and_all_are_counted() -> None:
    lines = [line for number in range(9) for line in call(100 * number, 5, number)]
    done = [kernel(100 * number + 50, 1 + number, number) for number in range(9)]
    result = of(*lines, *done, most_calls=2)
    assert result.call_count == 9
    assert result.calls.select("rank", "call", "device_us").rows() == [
        (1, 9, 9.0),
        (2, 8, 8.0),
    ]
    assert len(of(*lines, *done, most_calls=None).calls) == 9


def test_shapes_come_from_host_and_device() -> None:
    first, second = call(0, 5, 1), call(10, 5, 2)
    first[0] = (*first[0], {"Input Dims": "[[2, 3]]", "Input type": '["float"]'})
    shaped = kernel(20, 30, 2)
    shaped[4]["shape"] = "(f32[4,5])"
    result = of(*first, *second, kernel(10, 10, 1), shaped)
    shapes = result.shapes
    assert shapes is not None
    assert shapes.select("shape", "calls", "host_us", "device_us").rows() == [
        ("(f32[4,5])", 1, 5.0, 30.0),
        ('[[2, 3]] ["float"]', 1, 5.0, 10.0),
    ]
    assert result.calls["shape"].to_list() == ["(f32[4,5])", '[[2, 3]] ["float"]']


def test_the_first_shape_of_a_call_counts_and_host_calls_have_host_time() -> None:
    """Of three calls one is of the device alone; a fourth has no shape."""
    shapes = ("(f32[1])", "(f32[2])", "(f32[2])", "(f32[1])")
    done = [kernel(100 + 10 * at, 5, at) for at in range(4)]
    for line, shape in zip(done, shapes, strict=True):
        line[4]["shape"] = shape
    result = of(
        *call(0, 5, 0),
        ("main", "cuLaunchKernel", 3, 1, {"correlation_id": 1}),
        *call(10, 7, 2),
        *call(20, 9, 9),
        ("main", "cuLaunchKernel", 40, 1, {"correlation_id": 3}),
        *done,
    )
    assert result.calls.sort("call")["shape"].to_list() == [
        *("(f32[1])", "(f32[2])", None, "(f32[1])")
    ]
    assert result.shapes.drop("measured_flop_rate", "measured_memory_bw").rows() == [
        (1, "a", "(f32[1])", 2, 5.0, 15.0),
        (2, "a", "(f32[2])", 1, 7.0, 5.0),
    ]
