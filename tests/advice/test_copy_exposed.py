"""`copy.exposed`: copies between kernels, the same beside them, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces.training import KERNELS, Recorder, findings

from stepscope.advice.rules.copies.copy_exposed import evaluate
from stepscope.derive.facts.devices.device_copies import copy_signals
from stepscope.derive.verdicts.recorded_devices import DeviceSignals

RULE = "copy.exposed"
STEPS = 12
MIB = 1 << 20


def copying(
    *, between: bool = True, count: int = 2, copy_us: float = 700.0, **copy: Any
) -> list[Any]:
    """Steps whose kernels stop half-way for copies to the host and back."""
    made = Recorder()
    given = {"size": 2 * MIB, "source": "pageable", "op": "model/save:Copy"} | copy
    given = {name: value for name, value in given.items() if value is not None}
    for number in range(STEPS):
        begin = 12_000.0 * number
        made.mark(number, begin, 11_900.0)
        called, start = begin + 20.0, begin + 40.0
        for at, kernel in enumerate(KERNELS):
            if at == 20:
                for each in range(count):
                    kind = ("MemcpyD2H", "MemcpyH2D")[each % 2]
                    made.copy(kind, start, copy_us, **given)
                    start += copy_us if between else 0.0
            made.launch(kernel, called, start)
            called += 6.0
            start += kernel[1] + 0.5
    return made.lines


def facts_of(found: Any) -> dict[str, float | None]:
    return {fact.name: fact.value for fact in found.facts}


def test_copies_between_kernels_are_found_with_their_op() -> None:
    found = findings(copying())[RULE]
    assert (found.status, found.severity) == ("fail", "warn")
    assert found.share_percent == pytest.approx(100 * 1_400 / 12_000, abs=0.05)
    assert [one.cause for one in found.causes] == ["to_device", "to_host"]
    assert {one.name for one in found.parts} == {
        "the copy to the host of model/save",
        "the copy to the device of model/save",
    }
    assert {one.detail for one in found.parts} == {"recorded"}
    assert found.because == ("pageable",)
    assert facts_of(found)["copies_per_step"] == 2
    assert found.evidence[0].end_ps - found.evidence[0].start_ps == 700_000_000


def test_the_same_copies_beside_kernels_pass() -> None:
    found = findings(copying(between=False))[RULE]
    # Half a microsecond between two kernels is left uncovered.
    assert (found.status, found.share_percent) == ("pass", pytest.approx(0, abs=0.1))


def test_one_large_copy_under_compute_passes() -> None:
    lines = copying(between=False, count=1, copy_us=3_000.0, size=64 * MIB)
    assert findings(lines)[RULE].status == "pass"


@pytest.mark.slow(seconds=0.4)
def test_what_input_bound_promises_is_not_promised_twice() -> None:
    found = findings(copying(count=4))
    assert found["input.bound"].status == "fail"
    small, large = found[RULE].saving_ms, found["input.bound"].saving_ms
    assert small is not None
    assert large is not None
    assert small.high == pytest.approx(1.4, abs=0.01)
    assert found[RULE].explained_by == ()
    alone = [
        (track, "MemcpyH2D" if name == "MemcpyD2H" else name, *rest)
        for track, name, *rest in copying(count=4)
    ]
    found = findings([(track.replace("D2H", "H2D"), *rest) for track, *rest in alone])
    assert found[RULE].explained_by == ("input.bound",)


def test_fast_copies_are_not_called_pageable_and_a_call_that_waits_blocks() -> None:
    given = {"size": 16 * MIB, "source": "device", "call_us": 710.0}
    found = findings(copying(**given))[RULE]
    assert found.because == ("blocking",)


def test_many_small_copies_are_named() -> None:
    given = {"size": 1024, "source": "device", "copy_us": 15.0, "count": 80}
    found = findings(copying(**given))[RULE]
    assert (found.status, found.because) == ("fail", ("many",))
    assert facts_of(found)["small_copies_per_step"] == 80


def shaped(lines: list[Any], **shapes: str) -> list[Any]:
    """The same kernels with the operands of these ops, by a word of their names."""
    return [
        (*line[:4], {**line[4], "shape": shape})
        if (shape := _shape_of(line, shapes)) is not None
        else line
        for line in lines
    ]


def _shape_of(line: Any, shapes: dict[str, str]) -> str | None:
    if not line[0].endswith("(Compute)"):
        return None
    return next((it for op, it in shapes.items() if op in line[4]["tf_op"]), None)


def test_a_copy_without_an_op_is_named_by_its_size() -> None:
    # 2 MiB of products alone, and other sizes elsewhere.
    lines = shaped(
        copying(op=None),
        MatMul="(f32[512,1024];f32[1024,8192])",
        AddV2="(f32[512,512])",
    )
    found = findings(lines)[RULE]
    assert {one.detail for one in found.parts} == {"by size"}
    assert "the copy to the host of model/dense/MatMul" in {
        one.name for one in found.parts
    }


def test_a_size_that_several_ops_have_names_none_of_them() -> None:
    both = "(f32[512,1024])"
    lines = shaped(copying(op=None), MatMul=both, AddV2=both)
    assert findings(lines)[RULE].parts[0].detail == "by position"


def test_a_copy_without_an_op_is_named_by_its_neighbours() -> None:
    found = findings(copying(op=None))[RULE]
    assert found.parts[0].detail == "by position"
    assert "between model/dense/MatMul and model/add/AddV2" in found.parts[0].name


def test_a_copy_between_other_kernels_in_each_step_stays_unnamed() -> None:
    made = Recorder()
    for number in range(STEPS):
        begin = 12_000.0 * number
        made.mark(number, begin, 11_900.0)
        called, start = begin + 20.0, begin + 40.0
        for at in range(100):
            if at == 5 * number + 3:
                made.copy("MemcpyD2H", start, 1_400.0, size=4 * MIB)
                start += 1_400.0
            made.launch(("k", 100.0, f"model/op_{at}:Mul"), called, start)
            called += 6.0
            start += 100.5
    found = findings(made.lines)[RULE]
    assert found.status == "fail"
    assert [(one.name, one.detail) for one in found.parts] == [
        ("the copy to the host", None)
    ]


@pytest.mark.parametrize("table", ["device_activity"])
def test_a_table_that_is_needed_and_absent_never_becomes_a_pass(table: str) -> None:
    found = findings(copying(), without=table)[RULE]
    assert found.status == "cannot_tell"
    assert found.unavailable is not None


@pytest.mark.parametrize("table", ["launches", "events", "stats", "geometries"])
def test_without_what_only_explains_the_verdict_stays(table: str) -> None:
    assert findings(copying(), without=table)[RULE].status in ("fail", "cannot_tell")


@pytest.mark.parametrize(("ms", "status"), [(0.51, "fail"), (0.49, "pass")])
@pytest.mark.parametrize("owner", ["copy_in", "copy_out", "copy_within"])
def test_a_twentieth_of_the_time_is_the_limit(
    signals_of: Any, shares: Any, owner: str, ms: float, status: str
) -> None:
    signals = signals_of(shares(**{owner: ms}), {copy_signals: {}})
    assert evaluate(signals).status == status


def test_waiting_for_transfers_on_a_tpu_is_found(signals_of: Any, shares: Any) -> None:
    one = shares(transfer_wait=9.0, missing=["copy_in", "copy_out"])
    finding = evaluate(signals_of(one, {copy_signals: {}}))
    assert (finding.status, finding.severity) == ("fail", "critical")
    assert finding.causes[0].cause == "transfer"
    assert [action.cause for action in finding.actions] == ["transfer"]


def test_a_run_on_the_host_alone_is_not_applicable(
    signals_of: Any, shares: Any
) -> None:
    device = DeviceSignals(recorded="host_only")
    signals = signals_of(shares(device=None), {copy_signals: {}}, device=device)
    assert evaluate(signals).status == "not_applicable"
