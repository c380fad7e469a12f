"""Ops on the host: a product, its twin on the device, shapes, ops without a form."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import BF16, KERNELS, Recorder, findings, on_host

from stepscope.advice.rules.copies.ops_on_host import (
    judge_overridden_ops as judge_override,
)
from stepscope.advice.rules.copies.ops_on_host import (
    judge_work_on_host as judge_host,
)
from stepscope.derive.facts.devices.op_sides import HostPlaced, placement_signals

STEPS = 12
MS = 1_000_000_000


def interrupted(op: str, *, host_us: float = 900.0, kernel: Any = None) -> list[Any]:
    """Steps whose launches stop half-way, for an op on the host or a kernel."""
    made = Recorder()
    for number in range(STEPS):
        begin = 12_000.0 * number
        made.mark(number, begin, 11_900.0)
        called, start = begin + 20.0, begin + 40.0
        for at, one in enumerate(KERNELS):
            if at == 20:
                # The device has done all that was launched.
                made.host("cuStreamSynchronize", called, start - called)
                called = start + 5.0
                if kernel is None:
                    made.host(op, called, host_us)
                    called += host_us
                    start = called + 10.0
                else:
                    made.launch(kernel, called, called + 10.0)
                    called, start = called + 6.0, called + 10.0 + kernel[1]
            made.launch(one, called, start)
            called += 6.0
            start += one[1] + 0.5
    return made.lines


def test_a_product_on_the_host_is_found_and_named() -> None:
    found = findings(interrupted("model/head/MatMul:MatMul"))
    host = found["place.host"]
    assert (host.status, host.severity) == ("fail", "warn")
    assert host.share_percent == pytest.approx(100 * 900 / 12_000, abs=0.3)
    assert (host.parts[0].name, host.causes[0].cause) == (
        "model/head/MatMul",
        "products",
    )
    assert found["place.override"].status == "pass"
    assert found["launch.delay"].explained_by == ("place.host",)


def test_the_same_product_on_the_device_passes() -> None:
    kernel = (BF16, 300.0, "model/head/MatMul:MatMul")
    assert findings(interrupted("", kernel=kernel))["place.host"].status == "pass"


@pytest.mark.parametrize("op", ["PyFunc", "EagerPyFunc", "StringToNumber"])
def test_python_and_texts_in_the_graph_are_found(op: str) -> None:
    found = findings(interrupted(f"model/head/{op}:{op}"))["place.host"]
    assert (found.status, found.causes[0].cause) == ("fail", "callbacks")


def test_shapes_on_the_host_take_no_time() -> None:
    found = findings(interrupted("model/head/Shape:Shape", host_us=4.0))
    assert found["place.host"].status == "pass"
    assert found["place.override"].status == "pass"


def test_an_op_of_the_model_that_ran_on_the_host_is_found() -> None:
    found = findings(interrupted("model/head/Unique:Unique"))
    assert found["place.override"].status == "fail"
    assert found["place.override"].parts[0].name == "model/head/Unique"
    assert found["place.host"].status == "pass"


def test_the_same_op_on_the_device_is_where_it_belongs() -> None:
    kernel = ("unique_kernel", 300.0, "model/head/Unique:Unique")
    found = findings(interrupted("", kernel=kernel))["place.override"]
    assert found.status == "pass"


@pytest.mark.parametrize("op", ["Unique:Unique", "Iterator::Map::Unique"])
def test_an_op_of_no_model_or_of_the_input_is_another_matter(op: str) -> None:
    found = findings(interrupted(op))["place.override"]
    assert (found.status, found.parts) == ("pass", ())


@pytest.mark.parametrize("rule", ["place.host", "place.override"])
@pytest.mark.parametrize("table", ["device_activity", "events", "launches"])
@pytest.mark.sweep(every=3)
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(
    rule: str, table: str
) -> None:
    op = "MatMul" if rule == "place.host" else "Unique"
    found = findings(interrupted(f"model/head/{op}:{op}"), without=table)[rule]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None


@pytest.mark.parametrize("rule", ["place.host", "place.override"])
def test_a_run_on_the_host_alone_is_not_applicable(rule: str) -> None:
    assert findings(on_host(), devices=None)[rule].status == "not_applicable"


@pytest.mark.parametrize("judge", [judge_host, judge_override])
@pytest.mark.parametrize(("ms", "status"), [(2.5, "fail"), (2.3, "pass")])
def test_a_fiftieth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, judge: Any, ms: float, status: str
) -> None:
    kind = "heavy" if judge is judge_host else "model"
    # Twelve steps of 10 ms, of which the host's own work has 5 %.
    placed = (HostPlaced("op", kind, round(ms * MS)), HostPlaced("x", "other", 9 * MS))
    one = shares(host_compute=0.5)
    signals = signals_of(one, {placement_signals: {"vm:0": placed}})
    assert judge(signals).status == status
