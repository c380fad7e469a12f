"""Workers of a step, and over all steps, against a plain comparison in Python."""

from __future__ import annotations

import random
from collections import defaultdict
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.analysis import pod_viewer
from stepscope.analysis.pod_viewer import Options, PodViewerResult
from stepscope.analysis.pod_viewer.comparison import (
    LATE_START,
    SlowestWorker,
    WorkerName,
    compare_steps,
    slowest_worker,
)
from stepscope.analysis.steps.measured_hosts import MeasuredRun, measured_run
from stepscope.derive.collectives.waits import HostClock
from stepscope.derive.step_time.owners import OWNERS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

MS = 1_000_000_000
Row = dict[str, Any]
SOURCES = ("reference", "collectives", "recorded", "steps", "none")
SCHEMA = {
    "slot": pl.Int64,
    "host": pl.String,
    "device": pl.Int32,
    "window": pl.Int32,
    "window_ps": pl.Int64,
    "device_busy_ps": pl.Int64,
    "work_ps": pl.Int64,
    "begin_ps": pl.Int64,
    "collective_wait_ps": pl.Int64,
    "waited_for_ps": pl.Int64,
    "aligned_start_ps": pl.Int64,
    "compute_ps": pl.Int64,
    "device_collectives_ps": pl.Int64,
}


def drawn_rows(chance: random.Random, *, devices: bool) -> list[Row]:
    """A few steps of a few workers; times are small, so that many are equal."""
    workers = [
        (host, device if devices else None)
        for host in "ab"[: chance.randint(1, 2)]
        for device in range(chance.randint(1, 3) if devices else 1)
    ]
    scale = chance.choice([1, 10_000])
    unknown = chance.choice([0.0, 0.0, 0.3])

    def some(limit: int) -> int | None:
        return None if chance.random() < unknown else scale * chance.randint(0, limit)

    rows = []
    for slot in range(4):
        for host, device in workers:
            if chance.random() < 0.15:
                continue
            window = 1000 * scale + chance.choice([0, 0, 4, 5, 6]) * scale
            rows.append(
                {
                    "slot": slot,
                    "host": host,
                    "device": device,
                    "window": slot,
                    "window_ps": window,
                    "device_busy_ps": scale * chance.randint(0, 300),
                    "work_ps": some(9) if devices else None,
                    "begin_ps": some(9),
                    "collective_wait_ps": some(6),
                    "waited_for_ps": chance.choice([None, 0, some(14)]),
                    "aligned_start_ps": some(5),
                    "compute_ps": scale * chance.randint(0, 9),
                    "device_collectives_ps": scale * chance.randint(6, 9),
                }
            )
    return rows


def drawn_clocks(chance: random.Random) -> dict[str, HostClock]:
    clocks = {}
    for host in "ab":
        clocks[host] = HostClock(
            host=host,
            source=chance.choice(SOURCES[:2] if chance.random() < 0.7 else SOURCES),
            shift_ps=None,
            doubt_ps=chance.choice([0, 3, 8]),
            bound_ps=None,
            offset_ps=None,
            samples=1,
        )
    return clocks


def name_of(row: Row) -> WorkerName:
    return WorkerName(host=row["host"], device=row["device"])


def first_largest(rows: list[Row], column: str) -> Row:
    """The first of the rows with the largest value; unknown is less than any."""
    return max(rows, key=lambda row: -1 if row[column] is None else row[column])


def first_smallest(rows: list[Row], column: str) -> Row:
    return min(
        rows, key=lambda row: float("inf") if row[column] is None else row[column]
    )


def verdict(rows: list[Row]) -> tuple[str, Row, Row] | None:
    """The evidence, the slowest and the fastest worker of a step."""
    least = max(0.005 * median(row["window_ps"] for row in rows), 1.0)
    if len(rows) < 2:
        return None
    awaited = first_largest(rows, "waited_for_ps")
    if (awaited["waited_for_ps"] or 0) / (len(rows) - 1) >= least:
        return "collectives", awaited, first_largest(rows, "collective_wait_ps")
    scale = "work_ps"
    if any(row["work_ps"] is None for row in rows):
        scale = "window_ps"
    values = [row[scale] for row in rows]
    if max(values) - min(values) < least:
        return None
    basis = "device_work" if scale == "work_ps" else "step_time"
    return basis, first_largest(rows, scale), first_smallest(rows, scale)


@pytest.mark.parametrize("devices", [True, False])
def test_a_step_compares_its_workers_as_the_definitions_say(*, devices: bool) -> None:
    seen = set()
    for seed in range(40):
        chance = random.Random(seed)  # noqa: S311 - no secret
        drawn = drawn_rows(chance, devices=devices)
        clocks = drawn_clocks(chance)
        united: dict[tuple[str, int], int] = {
            (row["host"], row["window"]): chance.choice([0, 100, 200]) for row in drawn
        }
        found = compare_steps(
            pl.DataFrame(drawn, schema=SCHEMA),
            clocks,
            pl.DataFrame(
                [(*key, value) for key, value in united.items()],
                schema={"host": pl.String, "window": pl.Int32, "united_ps": pl.Int64},
                orient="row",
            ),
        )
        slots = {row["slot"] for row in drawn}
        assert found.keys() == slots
        for slot in slots:
            rows = [row for row in drawn if row["slot"] == slot]
            check_starts(found[slot], rows, clocks)
            work = [row["work_ps"] for row in rows]
            compared = len(rows) > 1 and None not in work and median(work) > 0
            assert found[slot].imbalance == (
                pytest.approx(max(work) / median(work) - 1) if compared else None
            )
            assert found[slot].concurrency == concurrency_of(rows, united)
            said = verdict(rows)
            assert found[slot].slowest_by == (said and said[0])
            assert found[slot].slowest == (said and name_of(said[1]))
            assert found[slot].fastest == (said and name_of(said[2]))
            seen.add(said and said[0])
    assert seen == {None, "collectives", "device_work" if devices else "step_time"} | (
        {"step_time"} if devices else set()
    )


@pytest.mark.parametrize(
    ("windows", "work", "awaited", "evidence"),
    [
        # 0.5 % of the median step of 200,000 ps are 1,000 ps.
        ((199_500, 200_500), (None, None), (None, None), "step_time"),
        ((199_501, 200_500), (None, None), (None, None), None),
        ((200_000, 200_000), (4_000, 5_000), (None, None), "device_work"),
        ((200_000, 200_000), (4_001, 5_000), (None, None), None),
        ((200_000, 200_000), (9_000, 10_000), (0, 1_000), "collectives"),
        ((200_000, 200_000), (4_001, 5_000), (0, 999), None),
        # However short a step is, a picosecond must lie between.
        ((100, 100), (7, 8), (None, None), "device_work"),
        ((100, 100), (8, 8), (0, 0), None),
    ],
)
def test_workers_are_alike_below_the_threshold(
    windows: tuple[int, int],
    work: tuple[int | None, int | None],
    awaited: tuple[int | None, int | None],
    evidence: str | None,
) -> None:
    known = zip("ab", windows, work, awaited, strict=True)
    rows = [
        {"slot": 3, "host": host, "window": 3, "window_ps": window, "work_ps": worked}
        | {"device_busy_ps": 1, "waited_for_ps": waited}
        for host, window, worked, waited in known
    ]
    any_device = {"host": pl.String, "window": pl.Int32, "united_ps": pl.Int64}
    found = compare_steps(
        pl.DataFrame(rows, schema=SCHEMA), {}, pl.DataFrame(schema=any_device)
    )
    assert found[3].slowest_by == evidence
    slowest = None if evidence is None else WorkerName(host="b", device=None)
    assert found[3].slowest == slowest


def concurrency_of(
    rows: list[Row], united: dict[tuple[str, int], int]
) -> dict[str, Any]:
    busy = defaultdict(list)
    for row in rows:
        busy[row["host"], row["window"]].append(row["device_busy_ps"])
    return {
        key[0]: pytest.approx(sum(times) / united[key])
        for key, times in busy.items()
        if len(times) > 1 and united[key]
    }


def check_starts(found: Any, rows: list[Row], clocks: dict[str, HostClock]) -> None:
    begun = [row for row in rows if row["begin_ps"] is not None]
    one_host = len({row["host"] for row in rows}) == 1
    tied = all(clocks[row["host"]].source not in {"none", "steps"} for row in rows)
    if len(begun) < 2 or not (one_host or tied):
        assert (found.start_skew_ms, found.start_skew_doubt_ms) == (None, None)
        return
    first, last = first_smallest(begun, "begin_ps"), first_largest(begun, "begin_ps")
    assert found.start_skew_ms == (last["begin_ps"] - first["begin_ps"]) / MS
    doubts = [clocks[row["host"]].doubt_ps or 0 for row in (first, last)]
    assert found.start_skew_doubt_ms == (0.0 if one_host else sum(doubts) / MS)


@pytest.mark.parametrize("on_one_clock", [True, False])
def test_the_slowest_over_all_steps_is_where_the_strongest_evidence_adds_up(
    *, on_one_clock: bool
) -> None:
    causes = set()
    for seed in range(40):
        chance = random.Random(seed)  # noqa: S311 - no secret
        drawn = drawn_rows(chance, devices=seed % 3 > 0)
        named: list[tuple[WorkerName | None, str | None]] = []
        for slot in sorted({row["slot"] for row in drawn}):
            said = verdict([row for row in drawn if row["slot"] == slot])
            named.append((said and name_of(said[1]), said and said[0]))
        found = slowest_worker(
            pl.DataFrame(drawn, schema=SCHEMA),
            named,
            ("compute", "device_collectives"),
            on_one_clock=on_one_clock,
        )
        bases = [basis for _, basis in named if basis is not None]
        if not bases:
            assert isinstance(found, Unavailable)
            continue
        assert isinstance(found, SlowestWorker)
        order = ("collectives", "device_work", "step_time")
        assert found.by == min(bases, key=order.index)
        scale = {
            "collectives": "waited_for_ps",
            "device_work": "work_ps",
            "step_time": "window_ps",
        }[found.by]
        totals: dict[WorkerName, int] = defaultdict(int)
        for row in drawn:
            totals[name_of(row)] += row[scale] or 0
        slowest = max(totals, key=totals.__getitem__)
        assert (found.host, found.device) == (slowest.host, slowest.device)
        assert found.steps == sum(name == slowest for name, _ in named)
        assert found.of_steps == len(named)
        waited = totals[slowest] / MS if found.by == "collectives" else None
        assert found.waited_for_ms == waited
        excess = excess_of(drawn, slowest, on_one_clock=on_one_clock)
        assert found.excess_ms == {
            name: pytest.approx(value / MS) for name, value in excess.items()
        }
        most = max(excess.values(), default=0)
        if most <= 1e-6:
            assert found.cause is None or excess[found.cause] == pytest.approx(0)
        else:
            assert excess[str(found.cause)] == pytest.approx(most)
        causes.add(found.cause)
    assert {None, "compute", "device_collectives"} <= causes
    assert (LATE_START in causes) == on_one_clock


def excess_of(
    rows: list[Row], slowest: WorkerName, *, on_one_clock: bool
) -> dict[str, float]:
    """Category → how much more the slowest spends than the median of the others."""
    spent: dict[str, dict[WorkerName, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        name = name_of(row)
        spent["compute"][name].append(row["compute_ps"])
        waited = row["device_collectives_ps"] - (row["collective_wait_ps"] or 0)
        spent["device_collectives"][name].append(waited)
        begins = [
            other["aligned_start_ps"]
            for other in rows
            if other["slot"] == row["slot"] and other["aligned_start_ps"] is not None
        ]
        if on_one_clock and row["aligned_start_ps"] is not None:
            spent[LATE_START][name].append(row["aligned_start_ps"] - min(begins))
    excess = {}
    for category, by_worker in spent.items():
        means = {name: mean(values) for name, values in by_worker.items()}
        others = [value for name, value in means.items() if name != slowest]
        if slowest in means and others:
            excess[category] = means[slowest] - median(others)
    return excess


def uneven(host: str, late: int) -> TraceData:
    """Four steps of two devices, with a collective; a warm-up is left out."""
    lines: list[blueprint.Line] = []
    for step in range(4):
        at = 1000 * step + late
        lines.append(("main", "train", at, 900, {"_r": 1, "step_num": step}))
        for device in (0, 1):
            comes = 300 + 40 * device + 30 * step + 2 * late
            for name, stream, begin, end in (
                ("sgemm", 7, 150 + 10 * device, comes),
                ("ncclDevKernel_AllReduce_Sum_f32", 9, comes, 700),
            ):
                ids = {"correlation_id": len(lines)}
                lines.append(("main", "cuLaunchKernel", at + 10 + len(lines), 0, ids))
                track = f"gpu:{device}/{stream}(Compute)"
                lines.append((track, name, at + begin, end - begin, ids))
    return blueprint.trace(lines, host=host, devices={0: {}, 1: {}})


def profiles() -> dict[str, ProfileData]:
    return {
        "two hosts": blueprint.profile(uneven("a", 0), uneven("b", 20)),
        "one host": blueprint.profile(uneven("a", 5)),
        "hosts without devices": blueprint.profile(
            blueprint.a2(), blueprint.renamed(blueprint.a2(), "second")
        ),
        "no steps": blueprint.profile(blueprint.trace([("main", "a:A", 0, 5)])),
    }


@pytest.mark.parametrize("name", profiles())
def test_workers_and_summaries_are_the_rows_of_the_hosts(name: str) -> None:
    profile = profiles()[name]
    result = pod_viewer.analyse(profile, Options())
    assert isinstance(result, PodViewerResult)
    measured = measured_run(profile)
    assert isinstance(measured, MeasuredRun)
    owned = {
        (row["host"], row["device"], row["start_ps"]): row
        for host in measured.hosts
        for row in host.rows.to_dicts()
    }
    for step in result.steps:
        nodes = [profile.hosts.index(host) for host in step.hosts]
        assert nodes == sorted(nodes)
        for worker in step.workers:
            row = owned[worker.host, worker.device, round(worker.start_ms * MS)]
            assert worker.total_ms == row["window_ps"] / MS
            assert worker.step == step.step == row["step"]
            assert worker.flags == tuple(row["flags"])
            assert worker.chip_id == worker.device
            assert worker.node_id == profile.hosts.index(worker.host)
            assert worker.breakdown_detail_ms == {
                owner.name: row[f"{owner.name}_ps"] / MS
                for owner in OWNERS
                if owner.name in worker.breakdown_detail_ms
            }
            assert worker.bottleneck == max(
                worker.breakdown_ms, key=worker.breakdown_ms.__getitem__
            )
            lasted = row["device_step_time_ps"]
            assert worker.device_step_time_ms == (lasted and lasted / MS)
    check_summaries(result)
    for field in ("imbalance", "start_skew_ms"):
        values = [getattr(step, field) for step in result.steps if step.counted]
        known = [value for value in values if value is not None]
        expected = pytest.approx(median(known)) if known else None
        assert getattr(result, field) == expected


def check_summaries(result: PodViewerResult) -> None:
    """Each is the mean over the counted steps of its worker."""
    for summary in result.workers:
        own = [
            (step, worker)
            for step in result.steps
            for worker in step.workers
            if step.counted
            and (worker.host, worker.device) == (summary.host, summary.device)
        ]
        assert own
        stepped = own[0][0].step is not None
        assert summary.steps == (len(own) if stepped else 0)
        assert summary.slowest_in == sum(
            step.slowest == WorkerName(host=summary.host, device=summary.device)
            for step, _ in own
        )
        for field in (
            *("total_ms", "device_work_ms", "device_step_time_ms", "waited_for_ms"),
            *("collective_wait_ms", "collective_transfer_ms", "collective_untold_ms"),
        ):
            known = [
                getattr(worker, field)
                for _, worker in own
                if getattr(worker, field) is not None
            ]
            expected = pytest.approx(mean(known)) if known else None
            assert getattr(summary, field) == expected, field
        assert summary.breakdown_ms == {
            category: pytest.approx(
                mean(worker.breakdown_ms[category] for _, worker in own)
            )
            for category in own[0][1].breakdown_ms
        }
        assert summary.bottleneck == max(
            summary.breakdown_ms, key=summary.breakdown_ms.__getitem__
        )
