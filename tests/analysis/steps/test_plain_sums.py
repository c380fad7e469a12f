"""Steps and their summary, against plain sums over the rows of each device."""

from __future__ import annotations

from collections import Counter
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint

import stepscope
from stepscope.analysis.steps.measured_hosts import (
    MeasuredRun,
    measured_any_device,
    measured_run,
    start_unix_ns,
)
from stepscope.analysis.steps.rows import HostSteps, step_number_at
from stepscope.analysis.steps.summary import (
    StepSummary,
    judged_input,
    step_list,
    step_summary,
)
from stepscope.derive.step_time.owners import CATEGORIES, OWNERS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

MS = 1_000_000_000
Row = dict[str, Any]


def uneven(host: str, late: int) -> TraceData:
    """Five steps of two devices: no two of them take as long, or wait as long."""
    lines: list[blueprint.Line] = []
    for step in range(5):
        at = 1000 * step + 40 * step * step
        lines.append(("main", "train", at, 800, {"_r": 1, "step_num": 3 + step}))
        lines.append(("main", "IteratorGetNext", at + 10, 30 * step + 7))
        for device, begin, dur, track in (
            (0, 200, 301 + late, "7(Compute)"),
            (1, 260 + step, 207, "7(Compute)"),
            (0, 400, 150, "8(MemcpyH2D)"),
            (1, 610, 53 * step, "8(Compute)"),
        ):
            number = len(lines)
            stats = {"correlation_id": number}
            lines.append(("main", "cuLaunchKernel", at + begin - 100, 3, stats))
            name = "MemcpyH2D" if "Memcpy" in track else "sgemm"
            lines.append((f"gpu:{device}/{track}", name, at + begin, dur, stats))
    return blueprint.trace(lines, host=host, devices={0: {}, 1: {}})


MADE: dict[str, Callable[[], Any]] = {
    "two hosts of two devices": lambda: (uneven("a", 0), uneven("b", 90)),
    "one device": lambda: (blueprint.a1(),),
    "no device": lambda: (blueprint.a2(), blueprint.renamed(blueprint.a2(), "second")),
    "one step": lambda: (blueprint.a7(),),
    "no step": lambda: (blueprint.trace([("main", "a/MatMul:MatMul", 0, 5)]),),
}
RECORDED = ("gpu/check_torch", "jax_cpu/annotations")


@pytest.fixture(params=[*MADE, *RECORDED], scope="module")
def measured(
    request: pytest.FixtureRequest, shared_profile: Callable[[str], Path]
) -> MeasuredRun:
    if request.param in MADE:
        profile: ProfileData = blueprint.profile(*MADE[request.param]())
    else:
        profile = stepscope.open(shared_profile(request.param))
    found = measured_run(profile)
    assert isinstance(found, MeasuredRun)
    return found


def counted_rows(host: HostSteps) -> list[Row]:
    """Complete windows of the main kind; else all complete windows; else all."""
    rows = host.rows.to_dicts()
    complete = [row for row in rows if not row["open_end"]]
    usual = [
        row
        for row in complete
        if not {"unrecorded", "other_kind", "warm_up"} & set(row["flags"])
    ]
    return usual or complete or rows


def why_of(hosts: Iterable[HostSteps]) -> dict[str, Unavailable]:
    """Owner → the first host's reason."""
    reasons: dict[str, Unavailable] = {}
    for host in hosts:
        for owner, why in host.missing.items():
            reasons.setdefault(owner, why)
    return reasons


def known_owners(rows: list[Row], why: dict[str, Unavailable]) -> list[str]:
    return [
        owner.name
        for owner in OWNERS
        if rows
        and all(row[f"{owner.name}_ps"] is not None for row in rows)
        and (owner.name not in why or any(row[f"{owner.name}_ps"] for row in rows))
    ]


def category_times(rows: list[Row], why: dict[str, Unavailable]) -> list[Row]:
    """Of each row: category → time, as the summary shows it."""
    known = known_owners(rows, why)
    busy = {"compute_16", "compute_32", "collectives", "copy_within", "copy_in"}
    shown = {}
    for category in CATEGORIES:
        own = [owner.name for owner in OWNERS if owner.category == category]
        full = [name for name in own if name in known]
        on_devices = category in {"output", "device_collectives"}
        lost = [
            name
            for name in own
            if name in why and (on_devices or why[name].code != "NO_DEVICE_PLANE")
        ]
        spent = any(row[f"{name}_ps"] for name in full for row in rows)
        if category == "device_collectives" and not busy & set(known):
            continue
        if full and (not lost or spent or category == "other"):
            shown[category] = full
    times = []
    for row in rows:
        of_row = {
            category: sum(row[f"{name}_ps"] for name in full)
            for category, full in shown.items()
        }
        # What is not shown by itself is unexplained.
        of_row["other"] += row["window_ps"] - sum(of_row.values())
        times.append(of_row)
    return times


def ms(ps: float | None) -> Any:
    return None if ps is None else pytest.approx(ps / MS, abs=2e-9)


def complete_sum(rows: list[Row], name: str) -> int | None:
    values = [row[name] for row in rows]
    return None if None in values else sum(values)


def mean_of(rows: list[Row], name: str) -> float | None:
    total = complete_sum(rows, name)
    return None if total is None else total / len(rows)


def largest(rows: list[Row], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return max(known, default=None)


def by_window(rows: list[Row]) -> list[list[Row]]:
    windows: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        windows.setdefault((row["host"], row["window"]), []).append(row)
    return list(windows.values())


def test_a_step_is_the_mean_of_its_devices(measured: MeasuredRun) -> None:
    for host in measured.hosts:
        windows = by_window(host.rows.to_dicts())
        why = dict(host.missing)
        steps = step_list(measured.run, host)
        assert len(steps) == len(windows)
        categories = [
            category_times(host.rows.to_dicts(), why)[place : place + len(rows)]
            for place, rows in zip(starts_of(windows), windows, strict=True)
        ]
        for step, rows, times in zip(steps, windows, categories, strict=True):
            first = rows[0]
            assert (step.step, step.name, step.host, step.batches, step.flags) == (
                *(first["step"], first["name"], host.host, first["batches"]),
                tuple(first["flags"]),
            )
            assert step.start_ms == ms(first["start_ps"])
            assert step.duration_ms == ms(first["window_ps"])
            assert step.gap_ms == ms(first["gap_ps"])
            assert step.device_step_time_ms == ms(largest(rows, "device_step_time_ps"))
            assert step.device_working_ms == ms(mean_of(rows, "device_working_ps"))
            known = "input" not in why
            waits = mean_of(rows, "idle_input_ps") if known else None
            assert step.idle_input_ms == ms(waits)
            busy = [
                row["device_busy_ps"]
                for row in rows
                if row["device_busy_ps"] is not None
            ]
            assert step.device_busy_ms == ms(mean_of(rows, "device_busy_ps"))
            assert step.device_busy_least_ms == ms(min(busy, default=None))
            assert step.device_busy_most_ms == ms(max(busy, default=None))
            assert step.breakdown_ms == {
                category: ms(mean(row[category] for row in times))
                for category in times[0]
            }
            # Rounding loses nothing.
            total = sum(round(time * MS) for time in step.breakdown_ms.values())
            assert total == first["window_ps"]


def starts_of(windows: list[list[Row]]) -> list[int]:
    lengths = [len(rows) for rows in windows]
    return [sum(lengths[:number]) for number in range(len(lengths))]


def statistics_of(values: list[int]) -> dict[str, Any]:
    if not values:
        return dict.fromkeys(("mean", "std", "min", "max", "median", "p95"))
    ordered = sorted(values)
    return {
        "mean": ms(mean(values)),
        "std": ms(stdev(values)) if len(values) > 1 else None,
        "min": ms(ordered[0]),
        "max": ms(ordered[-1]),
        "median": ms(median(values)),
        "p95": ms(ordered[-(-95 * len(values) // 100) - 1]),
    }


def test_the_summary_has_the_means_of_all_counted_rows(measured: MeasuredRun) -> None:
    for hosts in (measured.hosts, measured.hosts[-1:]):
        found, _ = step_summary(measured.run, hosts)
        rows = [row for host in hosts for row in counted_rows(host)]
        windows = by_window(rows)
        stepped = all(host.windows.has_steps for host in hosts)
        assert found.step_count == (len(windows) if stepped else 0)
        assert found.row_count == len(rows)
        whole = sum(row["window_ps"] for row in rows)
        walls = [window[0]["window_ps"] for window in windows]
        assert as_dict(found.step_time_ms) == statistics_of(walls if stepped else [])
        for name in ("host_period", "device_step_time"):
            values = [largest(window, f"{name}_ps") for window in windows]
            known = [value for value in values if value is not None]
            statistics = getattr(found, f"{name}_ms")
            assert (statistics and as_dict(statistics)) == (
                statistics_of(known) if known else None
            )
        batches = [window[0]["batches"] for window in windows]
        assert found.batch_time_ms == (
            None if None in batches else ms(sum(walls) / sum(batches))
        )
        check_breakdown(found, rows, why_of(hosts), whole)
        judged = judged_input(measured.run, hosts, ())
        sides = {"highly": "host", "moderately": "both", "not": "device"}
        assert found.bottleneck == next(
            (side for word, side in sides.items() if judged.word.startswith(word)),
            "unknown",
        )


def check_breakdown(
    found: StepSummary, rows: list[Row], why: dict[str, Unavailable], whole: int
) -> None:
    times = category_times(rows, why)
    assert found.breakdown_ms == {
        name: ms(mean(row[name] for row in times)) for name in times[0]
    }
    assert found.breakdown_percent == {
        name: pytest.approx(100 * sum(row[name] for row in times) / whole)
        for name in times[0]
    }
    assert found.breakdown_std_ms == {
        name: ms(stdev(row[name] for row in times)) if len(times) > 1 else None
        for name in times[0]
    }
    assert found.kernel_launch_percent == found.breakdown_percent.get("kernel_launch")
    assert found.breakdown_detail_ms == {
        name: ms(mean(row[f"{name}_ps"] for row in rows))
        for name in known_owners(rows, why)
    }
    busy = complete_sum(rows, "device_busy_ps")
    share = None if busy is None else pytest.approx(100 * busy / whole)
    assert found.device_execution_percent == share
    idle = None if busy is None else pytest.approx(100 - 100 * busy / whole)
    assert found.idle_percent == idle


def as_dict(statistics: Any) -> dict[str, Any]:
    return {name: getattr(statistics, name) for name in statistics.__struct_fields__}


def test_time_hidden_by_other_work_is_that_of_the_counted_rows(
    measured: MeasuredRun,
) -> None:
    found, _ = step_summary(measured.run, measured.hosts)
    hidden: list[Row] = []
    for host in measured.hosts:
        if host.account.overlapped is None:
            assert found.overlapped_ms is None
            return
        counted = {(row["window"], row["device"]) for row in counted_rows(host)}
        hidden += [
            row
            for row in host.account.overlapped.to_dicts()
            if (row["window"], row["device"]) in counted
        ]
    assert found.overlapped_ms == {
        name.removesuffix("_ps"): ms(mean(row[name] for row in hidden))
        for name in hidden[0]
        if name.endswith("_ps")
    }


def test_the_devices_of_a_host_as_one(measured: MeasuredRun) -> None:
    found, _ = step_summary(measured.run, measured.hosts)
    rows = [
        row
        for host in measured.hosts
        for row in measured_any_device(host, ()).to_dicts()
    ]
    if found.device_execution_percent is None:
        assert found.any_device is None
        return
    assert found.any_device is not None
    times = category_times(rows, why_of(measured.hosts))
    assert found.any_device.breakdown_ms == {
        name: ms(mean(row[name] for row in times)) for name in times[0]
    }
    busy, whole = (
        sum(row[name] for row in rows) for name in ("device_busy_ps", "window_ps")
    )
    assert found.any_device.device_execution_percent == pytest.approx(
        100 * busy / whole
    )


def test_excluded_flags_leave_out_windows_and_the_rest_is_counted() -> None:
    lines = [
        ("main", "train", 100 * step, 90, {"_r": 1, "step_num": step})
        for step in range(8)
    ]
    lines += [("main", "XlaCompile", 310, 50), ("main", "XlaCompile", 520, 10)]
    found = measured_run(blueprint.profile(blueprint.trace(lines)))
    assert isinstance(found, MeasuredRun)
    whole, _ = step_summary(found.run, found.hosts)
    flags = Counter(
        flag for row in found.hosts[0].rows["flags"].to_list() for flag in row
    )
    assert flags["compile"] == 2
    few, _ = step_summary(found.run, found.hosts, excluded_flags=("compile",))
    assert (whole.step_count, few.step_count) == (7, 5)
    # A flag that excludes no window changes nothing.
    same, _ = step_summary(found.run, found.hosts, excluded_flags=("unrecorded",))
    assert same == whole


@pytest.mark.parametrize(
    ("time_us", "number"),
    [(-1, None), (0, 100), (999, 100), (1000, 101), (7899, 107), (7900, None)],
)
def test_an_instant_is_in_the_step_whose_window_it_is_in(
    time_us: int, number: int | None
) -> None:
    profile = blueprint.profile(blueprint.a1())
    assert step_number_at(profile, "vm", time_us * 1_000_000) == number


@pytest.mark.parametrize("table", ["events", "tracks"])
def test_without_a_table_no_instant_is_in_a_step(table: str) -> None:
    why = Unavailable(code="CORRUPT", reason="It is damaged.", remedy="Copy it again.")
    profile = blueprint.profile(blueprint.a1()).without(table, why)
    assert step_number_at(profile, "vm", 0) is None
    assert measured_run(profile) == why


def test_the_clock_of_a_host_is_that_of_its_recording() -> None:
    trace = blueprint.trace([("main", "a", 0, 5)])
    environment = trace.table("environment")
    assert not isinstance(environment, Unavailable)
    clock = environment.with_columns(start_unix_ns=pl.lit(1_700_000_000, pl.Int64))
    profile = blueprint.profile(blueprint.substitute(trace, environment=clock))
    assert start_unix_ns(profile, "vm") == 1_700_000_000
    without = blueprint.profile(blueprint.trace([("main", "a", 0, 5)]))
    assert start_unix_ns(without, "vm") is None
