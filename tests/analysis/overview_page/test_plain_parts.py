"""Parts of the overview against plain sums over all hosts and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from tests.support.traces import blueprint

import stepscope
from stepscope.analysis.overview_page.account import account_entries
from stepscope.analysis.overview_page.collectives import collective_kinds
from stepscope.analysis.overview_page.environment import run_environment
from stepscope.analysis.overview_page.ops import (
    Eager,
    Placement,
    graph_functions,
    op_placements,
    precision_shares,
    top_ops_of,
)
from stepscope.analysis.steps.measured_hosts import (
    MeasuredRun,
    measured_rows,
    measured_run,
)
from stepscope.derive.account.parts import AccountParts, account_parts
from stepscope.derive.collectives.calls import collectives
from stepscope.derive.device.precision import Precision, PrecisionEvidence, precision
from stepscope.derive.host.function_calls import function_calls
from stepscope.derive.step_time.owners import OWNERS
from stepscope.trace.quality import QualityNote, notes_frame
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

US = 1_000_000
ABSENT = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")
HALF = "ampere_bf16_s16816gemm_bf16_128x128"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32"
Row = dict[str, Any]


def trained(host: str, later: int) -> TraceData:
    """Three steps of two devices: kernels of twelve ops, copies, and collectives."""
    lines: list[blueprint.Line] = []
    for step in range(3):
        at = 2000 * step
        lines.append(("main", "train", at, 1900, {"_r": 1, "step_num": step}))
        for number in range(12):
            op = f"layer_{number:02}/MatMul:MatMul"
            ids = {"correlation_id": len(lines), "tf_op": op}
            name = HALF if number % 3 else "sgemm"
            start, device = at + 100 + 60 * number, number % 2
            lines += [
                ("main", "cuLaunchKernel", start - 30, 5, {**ids, "tf_op": ""}),
                (f"gpu:{device}/7(Compute)", name, start, 20 + number + later, ids),
            ]
        for device, size, dur in ((0, 8000, 50 + later), (1, 8000, 90), (0, None, 30)):
            stats: Row = {"correlation_id": len(lines)}
            lines.append(
                ("main", "cuLaunchKernel", at + 1000 + len(lines) % 60, 1, {**stats})
            )
            if size:
                stats |= {"Collective name": "allreduce", "In msg nelems": size // 4}
                stats |= {"Out msg nelems": size // 4, "dtype": "Float"}
                stats["Group size"] = 4
            begin = at + 1200 + (0 if size else 200)
            track = f"gpu:{device}/9(Compute)"
            lines.append((track, REDUCE, begin, dur, stats))
    return blueprint.trace(
        lines, host=host, devices={0: blueprint.A100, 1: blueprint.A100}
    )


TWO = ("a", "b")


@pytest.fixture(scope="module")
def two() -> ProfileData:
    return blueprint.profile(trained("a", 0), trained("b", 7))


def test_the_ten_longest_ops_share_the_time_of_all_named_ones(two: ProfileData) -> None:
    top, missing = top_ops_of(two)
    assert top is not None
    times = {
        f"layer_{number:02}/MatMul": 3 * (2 * (20 + number) + 7) for number in range(12)
    }
    # Device work without an op, as collectives are here, has no name to show.
    whole = sum(times.values())
    ordered = sorted(times, key=lambda name: (-times[name], name))[:10]
    running = 0
    for rank, (name, op) in enumerate(zip(ordered, top, strict=True), 1):
        running += times[name]
        assert (op.rank, op.name, op.category) == (rank, name, "MatMul")
        assert op.self_time_us == times[name]
        assert op.self_time_percent == pytest.approx(100 * times[name] / whole)
        assert op.cumulative_percent == pytest.approx(100 * running / whole)
        assert (op.host_or_device, op.hosts, op.occurrences) == ("Device", TWO, 6)
        assert op.tensor_core_used == (int(name[6:8]) % 3 > 0)
        assert op.flop_rate_gflops is None
    assert [one.field for one in missing] == ["top_ops.flop_rate_gflops"]


@pytest.fixture(params=["made", "gpu/check_torch", "torch_train", "tf_eager"])
def profile(
    request: pytest.FixtureRequest,
    two: ProfileData,
    shared_profile: Callable[[str], Path],
) -> ProfileData:
    if request.param == "made":
        return two
    return stepscope.open(shared_profile(request.param))


def test_kernel_time_is_divided_by_precision(profile: ProfileData) -> None:
    found = precision_shares(profile)
    spent = dict.fromkeys(("all", "narrow", "tf32", "wide", "default"), 0)
    counts = [0, 0]
    for host in profile.hosts:
        activity = profile.table(host, "device_activity")
        width = profile.derived(host, precision)
        if isinstance(activity, Unavailable) or not isinstance(width, Precision):
            continue
        for row, dur in enumerate(activity["dur_ps"].to_list()):
            if width.bits[row] > 0:
                narrow = width.bits[row] == 16
                default = width.evidence[row] == PrecisionEvidence.DEFAULT
                spent["all"] += dur
                spent["narrow"] += dur * bool(narrow)
                spent["tf32"] += dur * bool(width.tf32[row])
                spent["wide"] += dur * bool(width.fp64[row])
                spent["default"] += dur * bool(default)
                counts = [counts[0] + bool(narrow), counts[1] + 1]
    if not spent["all"]:
        assert isinstance(found, Unavailable)
        return
    assert not isinstance(found, Unavailable)
    shares = {name: 100 * time / spent["all"] for name, time in spent.items()}
    assert found.kernels_total_count == counts[1]
    assert found.default_evidence_percent == pytest.approx(shares["default"])
    if found.compute_16bit_percent is not None:
        assert found.compute_16bit_percent == pytest.approx(shares["narrow"])
        assert found.compute_32bit_percent == pytest.approx(100 - shares["narrow"])
        assert found.kernels_16bit_count == counts[0]
    for value, name in (
        (found.compute_tf32_percent, "tf32"),
        (found.compute_64bit_percent, "wide"),
    ):
        assert value == pytest.approx(shares[name]) or (
            value is None and not shares[name]
        )


def test_half_of_the_kernels_are_narrow_by_their_names(two: ProfileData) -> None:
    found = precision_shares(two)
    assert not isinstance(found, Unavailable)
    wide = sum(2 * (20 + number) + 7 for number in range(0, 12, 3))
    whole = sum(2 * (20 + number) + 7 for number in range(12))
    assert found.compute_16bit_percent == pytest.approx(100 - 100 * wide / whole)
    assert (found.kernels_16bit_count, found.kernels_total_count) == (48, 72)


def test_every_cause_of_a_device_is_listed_longest_first(profile: ProfileData) -> None:
    measured = measured_run(profile)
    assert isinstance(measured, MeasuredRun)
    expected = []
    for host in measured.hosts:
        rows = measured_rows(host, ()).to_dicts()
        parts = profile.derived(host.host, account_parts)
        for device in sorted({row["device"] for row in rows}, key=str):
            own = [row for row in rows if row["device"] == device]
            whole = sum(row["window_ps"] for row in own)
            of_device = []
            for owner in OWNERS:
                times = [row[f"{owner.name}_ps"] for row in own]
                if None in times or not sum(times):
                    continue
                of_device.append(
                    (
                        *(host.host, device, owner.name, owner.category),
                        pytest.approx(sum(times) / len(own) / 1e9),
                        pytest.approx(100 * sum(times) / whole),
                    )
                )
            of_device.sort(key=lambda entry: -entry[4].expected)
            expected += of_device
        if isinstance(parts, AccountParts):
            assert parts.windows * len({row["device"] for row in rows}) == len(rows)
    found = account_entries(measured.run, measured.hosts, ())
    assert [
        (one.host, one.device, one.owner, one.category, one.ms, one.percent)
        for one in found
    ] == expected
    for entry in found:
        if entry.parts:
            named = sum(part.ms for part in entry.parts)
            assert named <= entry.ms + 1e-9
            assert len([part for part in entry.parts if part.name]) <= 20
        if entry.between_ms is not None:
            assert 0 <= entry.between_ms <= entry.ms + 1e-9


@pytest.mark.parametrize("step_count", [3, None])
def test_collectives_are_united_by_kind(
    two: ProfileData, step_count: int | None
) -> None:
    found = collective_kinds(
        two, TWO, step_count=step_count, parameters=2**20, gib_per_s=2.0
    )
    assert not isinstance(found, Unavailable)
    (only,) = found
    rows = [
        row
        for host in TWO
        for row in require_available(two.derived(host, collectives)).to_dicts()
    ]
    assert len(rows) == 4
    sums = {
        name: sum(row[name] for row in rows)
        for name in ("count", "total_ps", "exposed_ps", "bytes", "sized_ps")
    }
    # By hand: per host and step 50 (57) and 30 µs on device 0, 90 on device 1.
    assert (only.kind, only.count) == ("all-reduce", sums["count"])
    assert sums["total_ps"] == 3 * (50 + 57 + 2 * 30 + 2 * 90) * US
    assert only.mean_us == pytest.approx(3 * 347 / 18)
    assert only.min_over_devices_us == pytest.approx((50 + 30) / 2)
    assert only.count == 18
    assert only.count_per_step == (None if step_count is None else 18 / 4 / 3)
    assert only.exposed_us == pytest.approx(sums["exposed_ps"] / US)
    assert only.bytes == sums["bytes"] == 12 * 8000
    sized_us = 3 * (50 + 57 + 2 * 90)
    assert only.gib_per_s == pytest.approx(12 * 8000 / GIB / (sized_us * 1e-6))
    # An all-reduce of 4 members sends 2 x 3/4 of its bytes over a link.
    assert only.bus_gib_per_s == pytest.approx(1.5 * only.gib_per_s)
    assert only.expected_us == pytest.approx(2**20 * 4 / (2 * GIB) * 1e6)
    for parameters, rate in ((None, 2.0), (2**20, None)):
        (other,) = collective_kinds(  # type: ignore[misc]
            two, TWO, step_count=3, parameters=parameters, gib_per_s=rate
        )
        assert other.expected_us is None


def test_where_ops_run_is_added_up_over_hosts() -> None:
    host_only = [
        ("main", "a/MatMul:MatMul", 0, 30, {"is_eager": 1}),
        ("main", "a/Relu:Relu", 40, 10),
        ("main", "Iterator::Map", 60, 20),
    ]
    one = op_placements(blueprint.profile(blueprint.trace(host_only)))
    assert one.placement is not None
    assert (one.placement.host_self_time_percent, one.placement.device_executions) == (
        *(None, None),
    )
    both = blueprint.profile(
        blueprint.trace(
            [
                ("main", "a/MatMul:MatMul", 0, 30, {"is_eager": 1}),
                ("main", "cuLaunchKernel", 5, 5, {"correlation_id": 1}),
                ("main", "a/Relu:Relu", 40, 10, {"is_eager": 0}),
                ("main", "Iterator::Map", 60, 20),
                (
                    *("gpu:0/7(Compute)", "gemm", 20, 60),
                    {"correlation_id": 1, "tf_op": "a/MatMul:MatMul"},
                ),
            ],
            host="a",
        ),
        blueprint.trace(
            [
                ("main", "a/Relu:Relu", 0, 50, {"is_eager": 1}),
                ("main", "cuLaunchKernel", 60, 5, {"correlation_id": 1}),
                (
                    *("gpu:0/7(Compute)", "gemm", 70, 40),
                    {"correlation_id": 1, "tf_op": "b/MatMul:MatMul"},
                ),
            ],
            host="b",
        ),
    )
    found = op_placements(both)
    # On hosts 40 and 50 µs, on devices 60 and 40; one op of each host has no work.
    assert found.placement == Placement(
        host_op_percent=50.0,
        device_op_percent=50.0,
        host_self_time_percent=pytest.approx(100 * 90 / 190),
        device_self_time_percent=pytest.approx(100 * 100 / 190),
        host_executions=2,
        device_executions=2,
        dataset_executions=1,
    )
    assert found.eager is not None
    assert found.eager.host_percent == pytest.approx(100 * 80 / 90)
    assert isinstance(found.eager, Eager)
    assert found.is_training is False


def test_calls_of_functions_share_the_time_of_all_hosts(
    shared_profile: Callable[[str], Path],
) -> None:
    profile = stepscope.open(shared_profile("tf_custom_loop"))
    found = graph_functions(profile)
    assert not isinstance(found, Unavailable)
    rows = [
        row
        for host in profile.hosts
        for row in require_available(profile.derived(host, function_calls)).to_dicts()
    ]
    whole = sum(row["self_ps"] for row in rows)
    assert sum(one.self_time_us for one in found.calls) == pytest.approx(whole / US)
    assert sum(one.calls for one in found.calls) == sum(row["calls"] for row in rows)
    assert len(found.calls) == len({(row["name"], row["mode"]) for row in rows})
    for one in found.calls:
        own = [
            row for row in rows if (row["name"], row["mode"]) == (one.name, one.mode)
        ]
        spent = sum(row["self_ps"] for row in own)
        assert one.self_time_us == spent / US
        assert one.percent == pytest.approx(100 * spent / whole)
    times = [one.self_time_us for one in found.calls]
    assert times == sorted(times, reverse=True)


def test_the_environment_lists_files_and_devices_of_every_host(
    two: ProfileData,
) -> None:
    found, missing = run_environment(two)
    assert (found.hosts, found.tasks, found.hostnames) == (2, 2, TWO)
    assert (found.device_count, found.used_device_count) == (4, 4)
    assert found.device_type == "Nvidia GPU (Ampere)"
    assert [(one.host, one.device, one.used) for one in found.devices] == [
        (host, device, True) for host in TWO for device in (0, 1)
    ]
    for one in found.devices:
        assert (one.cores, one.compute_capability) == (108, "8.0")
        assert one.memory_bandwidth_bytes_per_s == 1_555_200_000_000
        assert (one.type, one.memory_bytes) == ("Nvidia GPU (Ampere)", None)
    for one, host in zip(found.captures, TWO, strict=True):
        events = two.table(host, "events")
        assert not isinstance(events, Unavailable)
        ends = events["start_ps"] + events["dur_ps"]
        length = int(np.max(ends.to_numpy())) - int(events["start_ps"].to_numpy().min())
        assert one.host == host
        assert one.duration_ms == pytest.approx(length / 1e9)
        assert one.events == events.height
        assert one.start_unix_ns is None
    assert found.dropped_events is None
    assert [one.field for one in missing] == ["environment.dropped_events"]


def test_devices_that_are_listed_and_idle_are_not_used() -> None:
    trace = blueprint.trace(
        [("gpu:0/7(Compute)", "k", 0, 5)], devices={0: blueprint.A100, 1: {}}
    )
    found, _ = run_environment(blueprint.profile(trace))
    assert [one.used for one in found.devices] == [True, False]
    assert (found.device_count, found.used_device_count) == (2, 1)


def test_a_host_whose_table_is_lost_leaves_the_count_of_devices_unknown(
    two: ProfileData,
) -> None:
    lost = blueprint.profile(
        trained("a", 0), trained("b", 7).without("devices", ABSENT)
    )
    found, missing = run_environment(lost)
    assert (found.device_count, found.device_type, found.used_device_count) == (
        *(None, None, None),
    )
    fields = {one.field: one.code for one in missing}
    for name in ("devices", "device_type", "device_count", "used_device_count"):
        assert fields[f"environment.{name}"] == "CORRUPT"
    cpu, _ = run_environment(blueprint.profile(blueprint.a2()))
    assert (cpu.device_count, cpu.device_type, cpu.devices) == (0, "CPU", ())
    without = two.without("environment", ABSENT)
    found, missing = run_environment(without)
    assert (found.captures, found.tasks) == ((), 2)
    assert "environment.captures" in {one.field for one in missing}


def test_functions_of_two_hosts_are_one_by_name_and_mode() -> None:
    def called(host: str, *calls: tuple[str, str, int, int]) -> TraceData:
        lines = [
            (
                *("main", name, 1000 * number, dur),
                {"tf_function_call": mode, "tracing_count": count},
            )
            for number, (name, mode, dur, count) in enumerate(calls)
        ]
        return blueprint.trace(lines, host=host)

    one = called("a", ("f", "eager", 100, 2), ("g", "concrete", 60, 1))
    other = called("b", ("f", "eager", 40, 5), ("f", "traced-nonXla", 60, 0))
    found = require_available(graph_functions(blueprint.profile(one, other)))
    # Of 260 µs in all.
    assert found.expensive_percent == pytest.approx(100 * 200 / 260)
    shown = [
        (each.name, each.mode, each.calls, each.self_time_us, each.tracing_count)
        for each in found.calls
    ]
    assert shown == [
        ("f", "eager", 2, 140, 5),
        ("f", "traced-nonXla", 1, 60, 0),
        ("g", "concrete", 1, 60, 1),
    ]
    assert [each.percent for each in found.calls] == [
        pytest.approx(100 * time / 260) for time in (140, 60, 60)
    ]


def test_dropped_events_and_lengths_that_hosts_record() -> None:
    def recorded(host: str, begin: int | None, end: int | None, *counts: Any) -> Any:
        trace = blueprint.trace([("main", "a", 0, 5)], host=host)
        environment = require_available(trace.table("environment"))
        notes = [
            QualityNote(kind=kind, severity="warning", message="Lost.", count=count)
            for kind, count in counts
        ]
        return blueprint.substitute(
            trace,
            quality=notes_frame(tuple(notes)),
            environment=environment.with_columns(
                begin_ps=pl.lit(begin, pl.Int64), end_ps=pl.lit(end, pl.Int64)
            ),
        )

    dropped = ("dropped_events", 7)
    one = recorded("a", 2 * US, 9 * US, dropped, ("dropped_events", None))
    other = recorded("b", None, 9 * US, ("dropped_events", 4), ("clock_jump", 90))
    third = recorded("c", 2 * US, None, ("dropped_events", None))
    found, _ = run_environment(blueprint.profile(one, other, third))
    assert found.dropped_events == 11
    lengths = [each.duration_ms for each in found.captures]
    assert lengths == [pytest.approx(0.007), None, None]
    unknown, missing = run_environment(blueprint.profile(third))
    assert unknown.dropped_events is None
    assert "environment.dropped_events" in {each.field for each in missing}
