"""Named ranges, and one of them closely, against a plain walk over all calls."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest
from tests.support.traces import blueprint

from stepscope.analysis import model_views
from stepscope.analysis.model_views import AnnotationDetailResult, Options
from stepscope.analysis.model_views.annotation_rows import top_annotations

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

HOSTS = ("a", "b")
STEP_US = 200
STEPS = 3
LAST_END_US = 100 + STEP_US * (STEPS - 1) + 180


class Call(NamedTuple):
    """One range on a thread; times are in µs."""

    host: str
    thread: str
    name: str
    start: int
    dur: int

    @property
    def end(self) -> int:
        return self.start + self.dur


def nested(chance: random.Random, thread: str, begin: int, end: int) -> list[Any]:
    """Ranges and ops in each other."""
    lines: list[Any] = []
    at = begin
    while end - at > 12:
        dur = chance.randint(8, max(8, (end - at) // 2))
        name = chance.choice(["load", "load", "compute", "save", "net/MatMul:MatMul"])
        name = "load" if ":" in name and thread == "worker" else name
        lines.append((thread, name, at, dur))
        if ":" not in name:
            lines += nested(chance, thread, at + 2, at + dur - 1)
        at += dur + chance.randint(1, 9)
    return lines


def recorded_lines(seed: int) -> list[blueprint.Line]:
    chance = random.Random(seed)  # noqa: S311 - no secret
    lines: list[blueprint.Line] = nested(chance, "main", 0, 90)
    for step in range(STEPS):
        begin = 100 + STEP_US * step
        lines.append(("main", "train", begin, 180, {"_r": 1, "step_num": 4 + step}))
        lines += nested(chance, "main", begin + 3, begin + 170)
    lines += nested(chance, "worker", 5, 100 + STEP_US * STEPS)
    free: dict[str, int] = defaultdict(int)
    for number in range(45):
        stats = {"correlation_id": number + 1}
        at = 1 + 15 * number
        # Never where a range begins or ends.
        lines.append(("main", "cuLaunchKernel", at + 0.5, 0, stats))
        track = f"gpu:{chance.choice([0, 1])}/{chance.choice([7, 8])}(Compute)"
        start = max(free[track], at + chance.randint(1, 30))
        dur = chance.randint(0, 30)
        free[track] = start + dur
        lines.append((track, chance.choice(["gemm", "add"]), start, dur, stats))
    return lines


class HostRanges:
    """The calls of ranges on one host, and the work that each launched itself."""

    def __init__(self, host: str, lines: list[blueprint.Line]) -> None:
        self.host = host
        threads = [line for line in lines if not line[0].startswith("gpu")]
        named = [
            line
            for line in threads
            if line[1] != "cuLaunchKernel" and ":" not in line[1]
        ]
        self.calls = [Call(host, *line[:4]) for line in named]
        self.ops = [line for line in threads if ":" in line[1]]
        works = {
            line[4]["correlation_id"]: line
            for line in lines
            if line[0].startswith("gpu")
        }
        self.work: dict[Call | None, list[blueprint.Line]] = defaultdict(list)
        for track, name, at, dur, *stats in threads:
            if name == "cuLaunchKernel":
                around = self.around(track, at, at + dur)
                innermost = around[-1] if around else None
                self.work[innermost].append(works[stats[0]["correlation_id"]])

    def around(self, thread: str, begin: int, end: int) -> list[Call]:
        """The ranges around a time on a thread, the outermost first."""
        found = [
            call
            for call in self.calls
            if call.thread == thread and call.start <= begin and end <= call.end
        ]
        return sorted(found, key=lambda call: -call.dur)

    def path(self, call: Call) -> tuple[str, ...]:
        return tuple(one.name for one in self.around(call.thread, call.start, call.end))

    def inside(self, call: Call) -> list[Call]:
        """The call itself and all in it."""
        return [
            one
            for one in self.calls
            if call in self.around(one.thread, one.start, one.end)
        ]

    def self_us(self, call: Call) -> int:
        inner = [
            one
            for one in self.inside(call)
            if len(self.path(one)) == len(self.path(call)) + 1
        ]
        return call.dur - sum(one.dur for one in inner)

    def own_work(self, call: Call) -> list[blueprint.Line]:
        return self.work.get(call, [])

    def launched(self, call: Call) -> list[blueprint.Line]:
        return [line for one in self.inside(call) for line in self.own_work(one)]

    def step(self, call: Call) -> int | None:
        """The last one that began before, unless the last one had ended."""
        number = (call.start - 100) // STEP_US
        return 4 + number if 100 <= call.start < LAST_END_US else None


Case = tuple[AnnotationDetailResult, list[HostRanges]]


@pytest.fixture(params=[10, 20], scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    lines = {
        host: recorded_lines(request.param + number)
        for number, host in enumerate(HOSTS)
    }
    profile = blueprint.profile(
        *(blueprint.trace(lines[host], host=host) for host in HOSTS)
    )
    result = model_views.analyse(profile, Options(op="load", most_calls=None))
    assert isinstance(result, AnnotationDetailResult)
    return result, [HostRanges(host, lines[host]) for host in HOSTS]


def loads(host: HostRanges, *, outermost: bool = False) -> list[Call]:
    """The calls of the range that is looked at; of those in each other the outer."""
    return [
        call
        for call in host.calls
        if call.name == "load" and not (outermost and "load" in host.path(call)[:-1])
    ]


def time_of(lines: list[blueprint.Line]) -> int:
    return sum(line[3] for line in lines)


@pytest.mark.slow(seconds=0.3)
def test_every_call_of_a_range_is_listed_with_its_work(case: Case) -> None:
    result, hosts = case
    rows = [
        {
            "host": host.host,
            "thread": call.thread,
            "step": host.step(call),
            "start_ms": call.start / 1000,
            "host_us": call.dur,
            "host_self_us": host.self_us(call),
            "device_us": time_of(host.launched(call)),
            "launches": len(host.launched(call)),
        }
        for host in hosts
        for call in loads(host)
    ]
    rows.sort(key=lambda row: (-row["host_us"], row["start_ms"], row["host"]))
    found = result.detail.calls.with_columns(pl.col("start_ms").round(6))
    assert found["rank"].to_list() == list(range(1, len(rows) + 1))
    assert found.select(list(rows[0])).to_dicts() == rows
    assert result.detail.call_count == len(rows)


def test_of_a_range_in_itself_the_outer_call_counts(case: Case) -> None:
    result, hosts = case
    detail = result.detail
    outer = [(host, call) for host in hosts for call in loads(host, outermost=True)]
    assert len(outer) < detail.call_count
    assert detail.host_us == sum(call.dur for _, call in outer)
    assert detail.device_us == sum(time_of(host.launched(call)) for host, call in outer)
    assert detail.launches == sum(len(host.launched(call)) for host, call in outer)
    by_step: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for host, call in outer:
        step = host.step(call)
        if step is not None:
            work = host.launched(call)
            for place, value in enumerate((1, call.dur, time_of(work), len(work))):
                by_step[host.host, step][place] += value
    assert detail.by_step is not None
    assert detail.by_step.rows() == [
        (*key, *sums) for key, sums in sorted(by_step.items())
    ]


def test_the_ops_and_the_kernels_inside_are_united_by_name(case: Case) -> None:
    result, hosts = case
    kernels: dict[str, list[int]] = defaultdict(list)
    ops = []
    for host in hosts:
        for call in loads(host, outermost=True):
            for line in host.launched(call):
                kernels[line[1]].append(line[3])
        for thread, _, start, dur in host.ops:
            around = host.around(thread, start, start + dur)
            if "load" in [call.name for call in around]:
                ops.append(dur)
    assert result.detail.kernels is not None
    columns = ("name", "kind", "occurrences", "total_us")
    assert result.detail.kernels.select(columns).rows() == sorted(
        ((name, "kernel", len(us), sum(us)) for name, us in kernels.items()),
        key=lambda row: -row[3],
    )
    assert result.detail.ops is not None
    expected = [("net/MatMul", "MatMul", len(ops), sum(ops))] if ops else []
    assert result.detail.ops.rows() == expected


def busy_us(lines: list[blueprint.Line]) -> int:
    """Microseconds, one by one, with work on each device."""
    return len({(line[0][:5], at) for line in lines for at in us_of(line)})


def us_of(line: blueprint.Line) -> range:
    return range(line[2], line[2] + line[3])


class Ranges:
    """The calls of all hosts by their paths, and the rows of the tree of these."""

    def __init__(self, hosts: list[HostRanges]) -> None:
        self.by_path: dict[tuple[str, ...], list[tuple[HostRanges, Call]]]
        self.by_path = defaultdict(list)
        for host in hosts:
            for call in host.calls:
                self.by_path[host.path(call)].append((host, call))
        roots = [path for path in self.by_path if len(path) == 1]
        self.whole = sum(map(self.total, roots))
        self.rows: list[dict[str, Any]] = []
        self.add_all(roots, None)

    def total(self, path: tuple[str, ...]) -> int:
        return sum(call.dur for _, call in self.by_path[path])

    def add_all(self, paths: list[tuple[str, ...]], above: int | None) -> None:
        for path in sorted(paths, key=lambda path: (-self.total(path), path)):
            number = len(self.rows)
            self.rows.append({"id": number, "parent": above, **self.row(path)})
            inside = [inner for inner in self.by_path if inner[:-1] == path]
            self.add_all(inside, number)

    def row(self, path: tuple[str, ...]) -> dict[str, Any]:
        calls = self.by_path[path]
        # Calls that begin in a step count, also in a call that began before.
        stepped = [
            (host, inner)
            for host, call in calls
            for inner in host.inside(call)
            if host.step(inner) is not None
        ]
        # Calls of the same path are never in each other, so no work is met twice.
        work = [
            (host.host, line) for host, call in calls for line in host.launched(call)
        ]
        own = [line for host, call in calls for line in host.own_work(call)]
        of_steps = [line for host, call in stepped for line in host.own_work(call)]
        busy = [
            busy_us([line for name, line in work if name == host]) for host in HOSTS
        ]
        in_steps = sum(host.self_us(call) for host, call in stepped)
        return {
            "depth": len(path),
            "name": path[-1],
            "library": False,
            "occurrences": len(calls),
            "total_us": self.total(path),
            "self_us": sum(host.self_us(call) for host, call in calls),
            "percent": pytest.approx(100 * self.total(path) / self.whole),
            "total_device_us": time_of([line for _, line in work]),
            "device_us": time_of(own),
            "device_busy_us": sum(busy),
            "launches": len(work),
            "step_us": pytest.approx(in_steps / (2 * STEPS)),
            "step_device_us": pytest.approx(time_of(of_steps) / (2 * STEPS)),
        }


@pytest.fixture(scope="module")
def both() -> tuple[ProfileData, list[HostRanges]]:
    lines = {host: recorded_lines(30 + number) for number, host in enumerate(HOSTS)}
    profile = blueprint.profile(
        *(blueprint.trace(lines[host], host=host) for host in HOSTS)
    )
    return profile, [HostRanges(host, lines[host]) for host in HOSTS]


@pytest.mark.slow(seconds=0.5)
def test_the_tree_of_ranges_has_the_sums_of_all_calls(
    both: tuple[ProfileData, list[HostRanges]],
) -> None:
    profile, hosts = both
    result = model_views.analyse(profile, Options())
    assert isinstance(result, model_views.ModelViewsResult)
    rows = Ranges(hosts).rows
    assert result.annotation.select(list(rows[0])).to_dicts() == rows
    assert result.unannotated_device_us == sum(
        time_of(host.work[None]) for host in hosts
    )


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_the_longest_ranges_are_united_over_their_places(
    both: tuple[ProfileData, list[HostRanges]], limit: int
) -> None:
    profile, hosts = both
    calls = [(host, call) for host in hosts for call in host.calls]
    tops = []
    for name in ("load", "compute", "save"):
        named = [(host, call) for host, call in calls if call.name == name]
        outer = [call for host, call in named if name not in host.path(call)[:-1]]
        tops.append((name, len(named), sum(call.dur for call in outer)))
    tops.sort(key=lambda row: -row[2])
    found = top_annotations(profile, limit)
    assert [(one.name, one.occurrences, one.total_us) for one in found] == tops[:limit]
