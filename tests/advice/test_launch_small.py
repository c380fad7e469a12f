"""`launch.small`: many tiny kernels, one in their place, and a replayed graph."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import Recorder, findings, on_host

from stepscope.advice.rules.launches.op_launches import judge_small_work as evaluate
from stepscope.derive.facts.devices.small_work import WorkGroup, small_kernels
from stepscope.reporting.words.findings import lead_sentence

RULE = "launch.small"
STEPS = 12
MUL = ("mul_kernel", 4.0, "model/loss/Mul:Mul")
US = 1_000_000


def steps_of(
    *, count: int, kernel: Any, every_us: float, early_us: float, step_us: float
) -> list[Any]:
    """Steps of equal kernels, each launched some time before it starts."""
    made = Recorder()
    for number in range(STEPS):
        begin = 1_000.0 + step_us * number
        made.mark(number, begin - 900.0, step_us - 20.0)
        for at in range(count):
            start = begin + every_us * at
            made.launch(kernel, start - early_us, start)
    return made.lines


def starved() -> list[Any]:
    return steps_of(count=500, kernel=MUL, every_us=18.0, early_us=8.0, step_us=10_000)


@pytest.mark.slow(seconds=0.4)
def test_tiny_kernels_that_each_wait_for_their_launch_are_found() -> None:
    found = findings(starved())
    small = found[RULE]
    assert (small.status, small.severity) == ("fail", "warn")
    assert small.explained_by == ("launch.delay",)
    assert found["launch.delay"].status == "fail"
    # Launched as one they take 4 µs each, and at most 3 from one to the next.
    assert small.saving_ms.basis == "replay"
    assert small.saving_ms.high == pytest.approx(10 - 0.5 * (4 + 3), abs=0.1)
    assert small.saving_ms.low <= small.saving_ms.high
    assert small.saving_ms.high <= found["launch.delay"].saving_ms.high + 1e-9
    assert (small.parts[0].name, small.parts[0].detail) == ("Mul", None)
    facts = {fact.name: fact.value for fact in small.facts}
    assert (facts["kernels"], facts["launches"]) == (500, 100)
    assert facts["brief_kernel"] == pytest.approx(16.0)


def test_one_fused_kernel_in_their_place_passes() -> None:
    fused = ("fusion", 6_000.0, "model/loss/Mul:Mul")
    lines = steps_of(count=1, kernel=fused, every_us=0, early_us=8.0, step_us=10_000)
    assert findings(lines)[RULE].status == "pass"


@pytest.mark.slow(seconds=1.1)
def test_tiny_kernels_back_to_back_are_a_note() -> None:
    lines = steps_of(
        count=2_000, kernel=MUL, every_us=4.5, early_us=900.0, step_us=9_020
    )
    found = findings(lines)[RULE]
    assert (found.status, found.severity, found.note) == ("fail", "info", "hidden")
    assert found.explained_by == ()


def test_kernels_without_an_op_are_named_by_themselves() -> None:
    lines = [
        (*line[:4], {k: v for k, v in line[4].items() if k != "tf_op"})
        if len(line) > 4
        else line
        for line in starved()
    ]
    part = findings(lines)[RULE].parts[0]
    assert (part.name, part.detail) == ("mul_kernel", "kernel")


@pytest.mark.parametrize("table", ["device_activity", "launches", "events"])
@pytest.mark.sweep(every=3)
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(table: str) -> None:
    found = findings(starved(), without=table)[RULE]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None


def test_without_steps_it_cannot_tell() -> None:
    lines = [line for line in starved() if line[1] != "train"]
    assert findings(lines)[RULE].status in ("cannot_tell", "fail")


def tiny_ops(*, pause_us: float, op_us: float = 8.0, count: int = 300) -> list[Any]:
    """Bc whose steps begin with so many multiplications."""
    lines = on_host(lead_us=6_100.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    return lines + [
        ("main", f"m/mul_{at}:Mul", begin + 50.0 + (op_us + pause_us) * at, op_us)
        for begin in begins
        for at in range(count)
    ]


def test_the_way_between_tiny_ops_of_the_host_is_found() -> None:
    found = findings(tiny_ops(pause_us=10.0), devices=None)[RULE]
    assert (found.status, found.severity) == ("fail", "critical")
    # 299 ways of 10 µs, and 300 ops of 8 µs, of 10 ms.
    assert found.value == pytest.approx(29.9 + 24.0, abs=0.2)
    assert [(it.cause, it.share_percent) for it in found.causes] == [
        ("dispatch", pytest.approx(29.9, abs=0.2)),
        ("ops", pytest.approx(24.0, abs=0.2)),
    ]
    assert found.parts[0].name == "Mul"
    assert found.saving_ms is not None
    # At most all ways and all ops go.
    assert found.saving_ms.low == 0.0
    assert found.saving_ms.high == pytest.approx((2.99 + 2.4), abs=0.02)


def test_without_steps_the_whole_recording_is_judged_on_the_host() -> None:
    """Inference without marks: 600 ops of 8 µs, 10 µs apart, then one of 9.21 ms.

    Such a program was told to mark its steps, and nothing else.
    """
    lines = [("main", "aten::add", 18.0 * at, 8.0) for at in range(600)]
    lines.append(("main", "aten::mm", 10_790.0, 9_210.0))
    found = findings(lines, devices=None)[RULE]
    assert (found.status, found.severity) == ("fail", "warn")
    # 599 ways and 600 ops, of 20 ms.
    assert found.value == pytest.approx((5.99 + 4.8) / 20 * 100, abs=0.1)
    assert lead_sentence(found).startswith(
        "600 tiny ops in the recording, most of them aten::add: these ops and the time "
        "between them take 54.0 % of the time."
    )
    assert (found.ms_per_step, found.saving_ms) == (None, None)
    advised = [it.text for it in found.actions]
    assert any(text.startswith("Give the model several inputs") for text in advised)
    assert not any("one graph" in text for text in advised)


def test_the_function_that_calls_tiny_ops_is_named_and_found_once() -> None:
    """All of its 5.4 ms is the ops and the ways between them."""
    lines = [
        (track, "m/mul:Mul" if name.endswith(":Mul") else name, *rest)
        for track, name, *rest in tiny_ops(pause_us=10.0)
    ]
    begins = [line[2] for line in lines if line[1] == "train"]
    lines += [
        ("main", "$/app/train.py:41 by_sample", begin + 45.0, 5_400.0)
        for begin in begins
    ]
    found = findings(lines, devices=None)
    assert lead_sentence(found[RULE]).startswith(
        "300 tiny ops a step, many of them called from `by_sample` (train.py:41): "
    )
    assert found["host.work"].parts[0].name == "by_sample"
    assert found["host.work"].explained_by == (RULE,)


def test_the_function_between_the_ops_is_named_and_not_the_one_around_all() -> None:
    """100 tiny ops of 1.8 ms beside one of 4 ms, all of them called by one function."""
    lines = tiny_ops(pause_us=10.0, count=100)
    begins = [line[2] for line in lines if line[1] == "train"]
    for begin in begins:
        lines += [
            ("main", "$/app/train.py:9 fit", begin + 44.0, 6_000.0),
            ("main", "$/app/train.py:41 by_sample", begin + 45.0, 1_810.0),
            ("main", "m/dense:MatMul", begin + 2_000.0, 4_000.0),
        ]
    found = findings(lines, devices=None)[RULE]
    assert found.parts[0].function == "by_sample"


def test_tiny_ops_that_make_a_batch_are_none_of_the_steps() -> None:
    lines = tiny_ops(pause_us=10.0)
    begins = [line[2] for line in lines if line[1] == "train"]
    waits = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    lines += [("main", waits, begin + 45.0, 6_000.0) for begin in begins]
    assert findings(lines, devices=None)[RULE].status == "pass"


def test_tiny_ops_close_together_and_longer_ones_pass() -> None:
    close = findings(tiny_ops(pause_us=0.5, op_us=18.0), devices=None)[RULE]
    long = findings(tiny_ops(pause_us=-1.0, op_us=21.0), devices=None)[RULE]
    assert {close.status, long.status} == {"pass"}


def test_ops_without_their_table_cannot_tell() -> None:
    lines = tiny_ops(pause_us=10.0)
    found = findings(lines, devices=None, without="events")[RULE]
    assert found.status == "cannot_tell"


def group(**fields: Any) -> WorkGroup:
    usual = {"name": "Mul", "has_op": True, "per_step": 60.0, "mean_ps": 19.0 * US}
    usual["short_name"] = fields.get("name", "Mul")
    return WorkGroup(**(usual | {"percent": 11.0, "count_percent": 20.0} | fields))


@pytest.mark.parametrize(
    ("fields", "launch_ms", "status"),
    [
        ({}, 0.31, "fail"),
        ({}, 0.29, "pass"),
        ({"mean_ps": 21.0 * US}, 0.31, "pass"),
        ({"per_step": 49.0}, 0.31, "pass"),
        ({"percent": 9.0}, 0.31, "pass"),
        ({"percent": 9.0, "count_percent": 31.0}, 0.31, "fail"),
        ({"percent": 21.0}, 0.0, "fail"),
    ],
)
def test_each_limit_decides(
    signals_of: Any, shares: Any, fields: Any, launch_ms: float, status: str
) -> None:
    given = {small_kernels: {"vm:0": (group(**fields),)}}
    signals = signals_of(shares(launch=launch_ms), given)
    assert evaluate(signals).status == status


def test_kernels_of_one_template_are_named_once(signals_of: Any, shares: Any) -> None:
    """Of 200 kernels 130 are of one template: its name stood twice in one sentence."""
    bare = "at::native::vectorized_elementwise_kernel"
    groups = (
        group(name="cat_kernel", has_op=False, per_step=70.0, percent=12.0),
        *(
            group(name=f"{bare}<4, {of}>", short_name=bare, has_op=False, per_step=65.0)
            for of in ("CUDAFunctor_add<float>", "MulFunctor<float>")
        ),
    )
    one = shares(launch=0.31)
    found = evaluate(signals_of(one, {small_kernels: {"vm:0": groups}}))
    assert [(it.name, it.detail) for it in found.parts] == [
        (bare, "kernel"),
        ("cat_kernel", "kernel"),
    ]
    # 22 and 12 % of what a device computes: 10 ms less 0.31.
    percents = [it.share_percent for it in found.parts]
    assert percents == pytest.approx([22 * 0.969, 12 * 0.969])
    said = f"200 tiny kernels a step, most of them {bare}"
    assert lead_sentence(found).startswith(said)


@pytest.mark.slow(seconds=0.4)
def test_kernels_lose_their_arguments_and_types_in_a_short_name() -> None:
    """Two kernels of a template in the place of one: 1,000 of each."""
    lines = [
        (track, f"void mul<{at % 2}>(float*)" if name == MUL[0] else name, *rest)
        for at, (track, name, *rest) in enumerate(starved())
    ]
    lines = [
        (*line[:4], {k: v for k, v in line[4].items() if k != "tf_op"})
        if len(line) > 4
        else line
        for line in lines
    ]
    (part,) = findings(lines)[RULE].parts
    assert (part.name, part.detail) == ("mul", "kernel")


def test_waits_that_lost_records_may_be_cannot_tell(
    signals_of: Any, shares: Any
) -> None:
    given = {small_kernels: {"vm:0": (group(),)}}
    one = shares(launch=0.35, fields={"lost_ps": 2_000_000_000})
    assert evaluate(signals_of(one, given)).status == "cannot_tell"
