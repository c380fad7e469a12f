"""Shares of input against plain sums over the rows of devices and of input ops."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

import stepscope
from stepscope.analysis import input_pipeline_analyzer
from stepscope.analysis.input_pipeline_analyzer import InputPipelineResult, Options
from stepscope.analysis.steps.measured_hosts import (
    MeasuredRun,
    measured_rows,
    measured_run,
)
from stepscope.derive.input_pipeline.input_ops import (
    INPUT_CATEGORIES,
    InputOps,
    input_ops,
)
from stepscope.derive.step_time.input_between_steps import input_between_steps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

MS = 1_000_000_000
US = 1_000_000
Row = dict[str, Any]
#: Of each step: when it waits for its batch and how long, in µs from its begin.
WAITS = ((10, 60), (20, 40), (10, 51), (15, 0), (30, 90), (5, 50))
PERIOD_US = 1000


def fed(host: str, *, later: int = 0) -> TraceData:
    """Six steps of two devices that wait, copy, and compute; other threads read."""
    lines: list[blueprint.Line] = []
    for step, (begin, wait) in enumerate(WAITS):
        at = PERIOD_US * step
        lines += [
            ("main", "train", at, 900, {"_r": 1, "step_num": step}),
            ("main", "IteratorGetNext", at + begin, wait + later),
            ("reader", "Iterator::Prefetch::ParallelMapV2::TFRecord", at, 120 + step),
            ("reader", "Iterator::Batch::TFRecord", at + 130, 30),
            ("reader", "Iterator::Shuffle", at + 170, 20),
        ]
        for device, name, stream, start, dur in (
            (0, "MemcpyH2D", 8, 200, 50 + later),
            (0, "sgemm", 7, 300, 400 + step),
            (1, "sgemm", 7, 320, 300),
            # Beside the other device's copy, and partly under its own kernel.
            (1, "MemcpyH2D", 8, 600, 70),
        ):
            ids = {"correlation_id": len(lines)}
            call = "cuMemcpyHtoDAsync" if name == "MemcpyH2D" else "cuLaunchKernel"
            lines += [
                ("main", call, at + start - 30, 5, ids),
                (f"gpu:{device}/{stream}(Compute)", name, at + start, dur, ids),
            ]
    return blueprint.trace(lines, host=host, devices={0: {}, 1: {}})


MADE: dict[str, Callable[[], Any]] = {
    "two hosts": lambda: (fed("a"), fed("b", later=9)),
    "one host": lambda: (fed("a", later=4),),
    "no device": lambda: (blueprint.a2(),),
    "one device": lambda: (blueprint.a1(),),
}
RECORDED = ("gpu/jax_input_bound", "torch_train")


@pytest.fixture(params=[*MADE, *RECORDED], scope="module")
def profile(
    request: pytest.FixtureRequest, shared_profile: Callable[[str], Path]
) -> ProfileData:
    if request.param in MADE:
        return blueprint.profile(*MADE[request.param]())
    return stepscope.open(shared_profile(request.param))


def analysed(profile: ProfileData) -> tuple[InputPipelineResult, MeasuredRun]:
    result = input_pipeline_analyzer.analyse(profile, Options())
    measured = measured_run(profile)
    assert isinstance(result, InputPipelineResult)
    assert isinstance(measured, MeasuredRun)
    return result, measured


def parts_of(row: Row, *, wait_known: bool, no_device: bool) -> Row:
    """Waiting, transfers and both of one row; None where unknown."""
    wait = None if row["input_ps"] is None else row["input_ps"] + row["starved_ps"]
    if not wait and not wait_known:
        wait = None
    transfer = row["copy_in_ps"]
    both = wait if no_device else None
    if wait is not None and transfer is not None:
        both = wait + transfer
    if both is None:
        both = next((part for part in (wait, transfer) if part), None)
    return {"wait": wait, "transfer": transfer, "both": both, "all": row["window_ps"]}


def all_known(parts: list[Row], name: str) -> list[int] | None:
    values = [part[name] for part in parts]
    return None if None in values else values


def test_steps_and_devices_share_their_time_as_their_rows_do(
    profile: ProfileData,
) -> None:
    result, measured = analysed(profile)
    steps = {(step.host, step.start_ms): step for step in result.steps}
    devices = {(row["host"], row["device"]): row for row in result.devices.to_dicts()}
    for host, of_host in zip(measured.hosts, result.by_host, strict=True):
        known = of_host.input_wait_percent is not None
        lost = host.missing.get("copy_in")
        no_device = lost is not None and lost.code == "NO_DEVICE_PLANE"
        rows = host.rows.to_dicts()
        parts = [
            parts_of(row, wait_known=known, no_device=no_device) | row for row in rows
        ]
        counted = set(measured_rows(host, ())["window"].to_list())
        for window in {row["window"] for row in rows}:
            own = [part for part in parts if part["window"] == window]
            step = steps[host.host, own[0]["start_ps"] / 1e9]
            assert step.counted == (window in counted)
            for field, name in (
                ("input_ms", "both"),
                ("input_wait_ms", "wait"),
                ("input_transfer_ms", "transfer"),
            ):
                values = all_known(own, name)
                expected = None if values is None else pytest.approx(mean(values) / MS)
                assert getattr(step, field) == expected, field
            shares = [
                100 * part["both"] / part["all"]
                for part in own
                if part["both"] is not None
            ]
            for kind, over in (("avg", mean), ("min", min), ("max", max)):
                value = getattr(step, f"input_percent_{kind}")
                assert value == (pytest.approx(over(shares)) if shares else None)
        for device in {row["device"] for row in rows}:
            own = [
                part
                for part in parts
                if part["device"] == device and part["window"] in counted
            ]
            row = devices.pop((host.host, device))
            assert row["steps"] == len(own)
            whole = sum(part["all"] for part in own)
            for field, name in (
                ("input_percent", "both"),
                ("input_wait_percent", "wait"),
                ("input_transfer_percent", "transfer"),
            ):
                values = all_known(own, name)
                share = (
                    None if values is None else pytest.approx(100 * sum(values) / whole)
                )
                assert row[field] == share, field
    assert devices == {}


def test_the_run_shares_its_time_as_all_counted_rows_do() -> None:
    result, measured = analysed(blueprint.profile(fed("a"), fed("b", later=9)))
    whole = wait = transfer = 0
    for host, of_host in zip(measured.hosts, result.by_host, strict=True):
        rows = measured_rows(host, ()).to_dicts()
        own = sum(row["window_ps"] for row in rows)
        waits = sum(row["input_ps"] + row["starved_ps"] for row in rows)
        copies = sum(row["copy_in_ps"] for row in rows)
        assert of_host.input_percent == pytest.approx(100 * (waits + copies) / own)
        assert of_host.input_wait_percent == pytest.approx(100 * waits / own)
        assert of_host.input_transfer_percent == pytest.approx(100 * copies / own)
        assert of_host.step_count == len(rows) / 2
        whole, wait, transfer = whole + own, wait + waits, transfer + copies
    assert result.input_percent == pytest.approx(100 * (wait + transfer) / whole)
    assert result.input_wait_percent == pytest.approx(100 * wait / whole)
    assert result.input_transfer_percent == pytest.approx(100 * transfer / whole)
    assert result.input_at_most_percent is not None
    assert result.input_at_most_percent >= result.input_percent
    shares = [step.input_percent_avg for step in result.steps if step.counted]
    assert result.input_percent_stats.mean == pytest.approx(mean(shares))  # type: ignore[type-var]
    assert (result.window, result.hosts_matched_by) == ("steps", "step_num")


def test_the_program_waits_as_long_as_its_fetches_last() -> None:
    """The last step does not count; a wait of 50 µs or less found its batch ready."""
    result, measured = analysed(blueprint.profile(fed("a")))
    lengths = [wait for _, wait in WAITS[:-1] if wait]
    wait = result.consumer_wait
    assert wait is not None
    assert wait.total_ms == pytest.approx(sum(lengths) / 1000)
    assert wait.per_step_ms == pytest.approx(sum(lengths) / 1000 / 5)
    assert (wait.waits, wait.slow_waits) == (len(lengths), 3)
    assert wait.longest_ms == 0.09
    assert [step.consumer_wait_ms for step in result.steps] == [
        pytest.approx(length / 1000) for _, length in WAITS
    ]
    rows = measured_rows(measured.hosts[0], ()).to_dicts()
    exposed = sum(row["input_ps"] for row in rows) / 2
    assert wait.exposed_ms == pytest.approx(exposed / MS)
    assert wait.exposed_per_step_ms == pytest.approx(exposed / MS / 5)
    assert wait.hidden_ms == pytest.approx(wait.total_ms - wait.exposed_ms)


def test_waits_of_two_hosts_are_added_up() -> None:
    one, _ = analysed(blueprint.profile(fed("a")))
    other, _ = analysed(blueprint.profile(fed("b", later=9)))
    both, _ = analysed(blueprint.profile(fed("a"), fed("b", later=9)))
    waits = one.consumer_wait, other.consumer_wait, both.consumer_wait
    first, second, together = waits
    assert first is not None
    assert second is not None
    assert together is not None
    for field in ("total_ms", "exposed_ms", "hidden_ms", "waits", "slow_waits"):
        parts = getattr(first, field) + getattr(second, field)
        assert getattr(together, field) == pytest.approx(parts), field
    assert together.longest_ms == max(first.longest_ms, second.longest_ms)
    assert together.per_step_ms == pytest.approx(together.total_ms / 10)


def test_input_ops_of_all_hosts_are_divided_by_category() -> None:
    profile = blueprint.profile(fed("a"), fed("b", later=9))
    result, _ = analysed(profile)
    rows = []
    for host in profile.hosts:
        ops = profile.derived(host, input_ops)
        assert isinstance(ops, InputOps)
        rows += [row | {"host": host} for row in ops.rows.to_dicts()]
    whole = sum(row["self_ps"] for row in rows)
    spent = {
        category: sum(row["self_ps"] for row in rows if row["category"] == category)
        for category in INPUT_CATEGORIES
    }
    assert result.host_breakdown_us == {
        category: time / US for category, time in spent.items()
    }
    assert result.host_breakdown_percent == {
        category: pytest.approx(100 * time / whole) for category, time in spent.items()
    }
    assert result.largest_category == max(spent, key=spent.__getitem__)
    rows.sort(key=lambda row: (-row["self_ps"], row["name"], row["host"]))
    columns = (
        *("host", "name", "count", "total_time_us", "total_time_percent"),
        *("self_time_us", "self_time_percent", "category"),
    )
    assert result.input_ops.select(columns).rows() == [
        (
            *(row["host"], row["name"], row["count"], row["total_ps"] / US),
            pytest.approx(100 * row["total_ps"] / whole),
            row["self_ps"] / US,
            pytest.approx(100 * row["self_ps"] / whole),
            row["category"],
        )
        for row in rows
    ]
    for host in profile.hosts:
        calls = sum(row["count"] for row in rows if row["host"] == host)
        assert result.inputs[host]["input_op_calls"] == calls


def test_waiting_between_markers_is_added_up_over_hosts() -> None:
    def outside(host: str, wait: int) -> TraceData:
        lines: list[blueprint.Line] = []
        for step in range(5):
            at = 1000 * step
            lines += [
                ("main", "train", at, 700, {"_r": 1, "step_num": step}),
                ("main", "a/MatMul:MatMul", at + 10, 600),
            ]
            if step < 3:
                lines.append(("main", "IteratorGetNext", at + 750, wait))
        return blueprint.trace(lines, host=host)

    profile = blueprint.profile(outside("a", 100), outside("b", 40))
    result, _ = analysed(profile)
    waits = [profile.derived(host, input_between_steps) for host in profile.hosts]
    assert [(one.wait_ps, one.gaps, one.gaps_with_wait) for one in waits] == [
        (300 * US, 4, 3),
        (120 * US, 4, 3),
    ]
    assert result.between_steps is not None
    assert result.between_steps.wait_ms == pytest.approx(0.42)
    assert (result.between_steps.gaps, result.between_steps.gaps_with_wait) == (8, 6)
    assert result.between_steps.outside_markers


def test_input_ops_of_no_time_have_no_shares() -> None:
    trace = blueprint.trace(
        [("main", "Iterator::Batch", 0, 0), ("main", "a/MatMul:MatMul", 5, 9)]
    )
    result, _ = analysed(blueprint.profile(trace))
    codes = {one.field: one.code for one in result.missing}
    for name in ("total_time_percent", "self_time_percent"):
        assert result.input_ops[name].to_list() == [None]
        assert f"input_ops.{name}" in codes
    assert result.largest_category is None
