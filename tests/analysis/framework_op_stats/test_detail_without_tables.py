"""What cannot be said of an op without a table is null with a reason, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.traces import blueprint
from tests.support.traces.ops import call, copy, detail, kernel

from stepscope.derive.steps.chosen import steps
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.framework_op_stats.detail import OpDetailResult
    from stepscope.trace.model import TraceData


WHY = Unavailable(code="LOST_EVENTS", reason="taken away.", remedy="Put it back.")


def test_without_launches_nobody_says_what_a_call_on_the_host_put_on_a_device() -> None:
    lines = [*call(0, 5, 1), kernel(10, 50, 1)]
    trace = blueprint.trace(lines, devices={0: blueprint.A100})
    result = detail(blueprint.profile(trace).without("launches", WHY), op="a")
    shown = ("host_us", "device_us", "kernels", "waiting_us", "launches")
    assert result.calls.select(shown).rows() == [
        (None, 50.0, 1, None, None),
        (5.0, None, None, None, None),
    ]
    assert (result.cause.dominant, result.cause.compute_us) == (None, 50)
    assert {one.field: one.code for one in result.missing}["launches"] == WHY.code


def test_a_run_without_a_device_has_host_times_and_no_cause() -> None:
    result = detail(blueprint.profile(blueprint.a2()), op="a/MatMul")
    assert result.calls["host_us"].to_list() == [100.0] * 3
    assert set(result.cause.__struct_fields__) == {
        name
        for name in result.cause.__struct_fields__
        if not getattr(result.cause, name)
    }
    assert all(
        getattr(result.cause, name) is None for name in result.cause.__struct_fields__
    )
    assert (result.kernels, result.copies, result.launches) == (None, None, None)
    codes = {one.field: one.code for one in result.missing}
    for field in ("cause", "kernels", "copies", "launches", "calls.device_us"):
        assert codes[field] == "NO_DEVICE_PLANE", field
    assert result.share.host_percent == pytest.approx(10.0, abs=1.5)
    assert result.share.device_percent is None


def reasons(result: OpDetailResult) -> dict[str, str]:
    return {one.field: one.reason for one in result.missing}


def test_each_null_of_a_run_without_a_device_has_the_reason_of_the_device() -> None:
    profile = blueprint.profile(blueprint.a2())
    why = profile.table("vm", "device_activity")
    assert isinstance(why, Unavailable)
    found = reasons(detail(profile, op="a/MatMul"))
    for field in (
        *("share.device_percent", "share.exposed_percent", "calls.copy_bytes"),
        *("calls.devices", "calls.kernels", "calls.collectives", "calls.copies"),
    ):
        assert found[field] == why.reason, field


def test_a_size_that_was_not_recorded_is_no_missing_device() -> None:
    bare = ("gpu:0/8(MemcpyH2D)", "MemcpyH2D", 60, 5, {"correlation_id": 1})
    trace = blueprint.trace([*call(50, 9, 1), bare], devices={0: blueprint.A100})
    result = detail(blueprint.profile(trace), op="a")
    (missing,) = [one for one in result.missing if one.field == "calls.copy_bytes"]
    assert missing.code == "NOT_RECORDED"
    assert result.copies is not None
    assert result.copies["bytes"].to_list() == [None]


def test_a_call_outside_all_steps_and_one_of_a_run_without_steps_differ() -> None:
    lines = [*call(0, 5, 1), kernel(10, 50, 1)]
    without = blueprint.profile(blueprint.trace(lines, devices={0: blueprint.A100}))
    no_steps = without.derived("vm", steps)
    assert isinstance(no_steps, Unavailable)
    found = reasons(detail(without, op="a"))
    assert found["calls.step"] == found["share"] == no_steps.reason
    marks = [
        ("main", "train", 500 + 100 * number, 90, {"_r": 1, "step_num": number})
        for number in range(3)
    ]
    after = detail(
        blueprint.profile(blueprint.trace([("main", "a:A", 0, 5), *marks])), op="a"
    )
    assert after.calls["step"].to_list() == [None]
    assert reasons(after)["calls.step"] != no_steps.reason
    assert after.share.steps == 2


@pytest.fixture(scope="module")
def trained() -> TraceData:
    lines: list[blueprint.Line] = []
    for step in range(4):
        begin = 1000 * step
        lines.append(("main", "train", begin, 900, {"_r": 1, "step_num": step}))
        lines += [
            *call(begin + 10, 300, 2 * step),
            *call(begin + 400, 50, 2 * step + 1),
        ]
        done = kernel(begin + 100, 200, 2 * step)
        done[4]["shape"] = "(f32[4,5])"
        lines += [done, copy(begin + 450, 50, 2 * step + 1)]
    return blueprint.trace(lines, devices={0: blueprint.A100})


@pytest.fixture(scope="module")
def whole(trained: TraceData) -> OpDetailResult:
    return detail(blueprint.profile(trained), op="a")


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.sweep(every=5)
def test_what_a_missing_table_would_tell_is_null_with_a_reason_and_no_zero(
    table: str, trained: TraceData, whole: OpDetailResult
) -> None:
    try:
        without = detail(blueprint.profile(trained).without(table, WHY), op="a")
    except AssertionError:
        # The tool as a whole has no input.
        assert table in {"events", "event_types", "tracks"}
        return
    before, after = numbers(whole), numbers(without)
    said = [one.field for one in without.missing]
    for name, value in before.items():
        now = after.get(name)
        assert value == 0 or now != 0, name
        if value is not None and now is None:
            known = ("", ".", "[")
            assert any(
                name == field
                or name.startswith(tuple(field + end for end in known[1:]))
                for field in said
            ), (name, said)


def numbers(result: OpDetailResult) -> dict[str, float | None]:
    """Every number of the detail, columns added up; None where nothing is known."""
    found: dict[str, float | None] = {}
    for part in ("share", "cause"):
        for name, value in msgspec.structs.asdict(getattr(result, part)).items():
            if not isinstance(value, str):
                found[f"{part}.{name}"] = value
    for part in ("calls", "kernels", "copies", "launches", "shapes"):
        frame = getattr(result, part)
        if frame is None:
            found[part] = None
            continue
        for name, dtype in frame.schema.items():
            if dtype.is_numeric() and name != "rank":
                known = frame[name].drop_nulls()
                found[f"{part}.{name}"] = float(known.sum()) if len(known) else None
    return found
