"""The closer look at an op, against a plain walk over its calls, one by one."""

from __future__ import annotations

import random
from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from tests.support.traces import blueprint
from tests.support.traces.ops import FULL, SMALL, detail

from stepscope.derive.device.correlation import correlation
from stepscope.derive.steps.chosen import activity_steps, steps
from stepscope.unavailable import require_available
from stepscope.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepscope.analysis.framework_op_stats.detail import OpDetailResult
    from stepscope.derive.profile_data import ProfileData

US = 1_000_000
HOSTS = ("b", "vm")
#: Kernel or copy → its stream.
STREAMS = {"gemm": 7, "add": 7, "ncclDevKernel_AllReduce": 9, "MemcpyH2D": 8}
STEP_US = 420
STEPS = 3

Row = dict[str, Any]


def recorded_lines(seed: int) -> list[blueprint.Line]:
    """Ops in each other on a thread, and work on two devices, some of it of no call."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    lines: list[blueprint.Line] = [
        ("main", "train", 7 + STEP_US * step, 415, {"_r": 1, "step_num": 5 + step})
        for step in range(STEPS)
    ]
    free: dict[str, int] = defaultdict(int)
    for number in range(22):
        begin = 10 + 60 * number
        inner = chance.choice(["a:A", "b:B", None])
        if number % 4:
            lines.append(("main", chance.choice(["a:A", "c:C"]), begin, 50))
            if inner:
                lines.append(("main", inner, begin + 5, 30))
        for at in range(begin + 2, begin + 48, 12 if number % 3 else 30):
            ident = {"correlation_id": len(lines)}
            name = chance.choice(list(STREAMS))
            device = chance.choice([0, 0, 1])
            track = f"gpu:{device}/{STREAMS[name]}(Compute)"
            start = max(free[track], at + chance.choice([1, 3, 40]))
            dur = chance.randint(0, 25)
            free[track] = start + dur
            stats: dict[str, int | str] = dict(ident)
            if chance.random() < 0.9:
                function = chance.choice(["cuLaunchKernel", "cudaLaunchKernel"])
                lines.append(("main", function, at, chance.randint(1, 3), ident))
            if name in {"gemm", "add"}:
                stats["kernel_details"] = chance.choice([FULL, SMALL])
            if name == "MemcpyH2D" and chance.random() < 0.9:
                stats["memcpy_details"] = f"size:{chance.randint(1, 9)}000 dest:0"
            stats["tf_op"] = chance.choice(["a:A", "b:B"])
            lines.append((track, name, start, dur, stats))
    return lines


def profile_of(seed: int) -> ProfileData:
    return blueprint.profile(
        *(
            blueprint.trace(
                recorded_lines(seed + number),
                host=host,
                devices={0: blueprint.A100, 1: blueprint.A100},
            )
            for number, host in enumerate(HOSTS)
        )
    )


class HostCalls:
    """The calls of the op `a` on one host, each with its launches and activities."""

    def __init__(self, profile: ProfileData, host: str, seed: int) -> None:
        self.host = host
        lines = recorded_lines(seed)
        on_thread = [line for line in lines if line[0] == "main"]
        self.ops = [line for line in on_thread if ":" in line[1]]
        self.launches = {
            line[4]["correlation_id"]: line
            for line in on_thread
            if line[1].endswith("LaunchKernel")
        }
        self.activities = [line for line in lines if line[0].startswith("gpu")]
        self.calls: list[Row] = [
            {"start": start, "dur": dur, "launches": [], "work": [], "shown": True}
            for _, name, start, dur in self.ops
            if name == "a:A"
        ]
        table = require_available(profile.table(host, "device_activity"))
        places = table.select("device", "stream", "start_ps").rows()
        self.row = {place: row for row, place in enumerate(places)}
        self._add_work()

    def row_of(self, line: blueprint.Line) -> int:
        device, stream = line[0].removeprefix("gpu:").split("/")
        return self.row[int(device), int(stream[0]), line[2] * US]

    def _add_work(self) -> None:
        of_launch: dict[int, Row] = {}
        for ident, (_, _, start, dur, _) in self.launches.items():
            around = [
                call
                for call in self.calls
                if call["start"] <= start and start + dur <= call["start"] + call["dur"]
            ]
            if around:
                of_launch[ident] = min(around, key=lambda call: call["dur"])
                of_launch[ident]["launches"].append(self.launches[ident])
        turns: dict[tuple[str, str], int] = defaultdict(int)
        further: dict[tuple[str, int], Row] = {}
        for line in sorted(self.activities, key=lambda line: line[2]):
            track, name, start, _, stats = line
            ident = stats["correlation_id"]
            if ident in of_launch:
                of_launch[ident]["work"].append(line)
            elif stats["tf_op"] == "a:A":
                # The k-th execution of a kernel on a device is of the k-th call.
                device = track[:5]
                place = device, turns[device, name]
                turns[device, name] += 1
                call = further.setdefault(
                    place, {"launches": [], "work": [], "dur": None, "shown": False}
                )
                call["work"].append(line)
        for call in further.values():
            launches = [
                self.launches[line[4]["correlation_id"]]
                for line in call["work"]
                if line[4]["correlation_id"] in self.launches
            ]
            call["launches"] = launches
            call["start"] = min(line[2] for line in [*call["work"], *launches])
        # Host calls first, then those of devices, each by start.
        self.calls = [
            *sorted(self.calls, key=lambda call: call["start"]),
            *sorted(further.values(), key=lambda call: call["start"]),
        ]

    def waiting_us(self, call: Row) -> int | None:
        """Microseconds, one by one, in which a device idles before its last work."""
        if not call["work"] or not (call["shown"] or call["launches"]):
            return None
        waited = 0
        for device in {line[0][:5] for line in call["work"]}:
            end = max(
                line[2] + line[3] for line in call["work"] if line[0][:5] == device
            )
            busy = {
                at
                for line in self.activities
                if line[0][:5] == device
                for at in range(line[2], line[2] + line[3])
            }
            waited += len(set(range(call["start"], end)) - busy)
        return waited

    def self_us(self, call: Row) -> int | None:
        if not call["shown"]:
            return None
        inside = [
            dur
            for _, _, start, dur in self.ops
            if call["start"] < start < call["start"] + call["dur"]
        ]
        return int(call["dur"]) - sum(inside)


def hosts_of(profile: ProfileData, seed: int) -> list[HostCalls]:
    return [
        HostCalls(profile, host, seed + number) for number, host in enumerate(HOSTS)
    ]


@pytest.fixture(params=[1, 2], scope="module")
def case(request: pytest.FixtureRequest) -> tuple[OpDetailResult, list[HostCalls]]:
    profile = profile_of(10 * request.param)
    result = detail(profile, op="a", most_calls=None)
    hosts = hosts_of(profile, 10 * request.param)
    for host in hosts:
        # A step is that of the first activity that has one, else that of the start.
        numbers = require_available(profile.derived(host.host, steps)).rows
        of_activity = require_available(profile.derived(host.host, activity_steps))
        matched = require_available(profile.derived(host.host, correlation))
        for call in host.calls:
            rows = sorted(host.row_of(line) for line in call["work"])
            known = [int(of_activity[row]) for row in rows if of_activity[row] >= 0]
            begun = [
                number
                for number, start in enumerate(numbers["start_ps"])
                if start <= call["start"] * US
            ][-1:]
            on_host = call["shown"] or bool(call["launches"])
            of_call = known[:1] or (begun if on_host else [])
            call["step"] = numbers["step"][of_call[0]] if of_call else None
            call["idle"] = [
                (line[4]["correlation_id"], int(matched.latency_ps[row]) / US)
                for line in call["work"]
                if matched.queue_empty[row := host.row_of(line)]
            ]
    return result, hosts


def by_kind(work: Sequence[blueprint.Line], kind: str) -> list[blueprint.Line]:
    names = {
        "kernel": {"gemm", "add"},
        "collective": {"ncclDevKernel_AllReduce"},
        "copy": {"MemcpyH2D"},
    }
    return [line for line in work if line[1] in names[kind]]


def sizes_of(copies: Iterable[blueprint.Line]) -> list[int | None]:
    details = [line[4].get("memcpy_details") for line in copies]
    return [text and int(text.split(":")[1].split()[0]) for text in details]


def total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def test_every_call_has_its_times_its_work_and_its_step(
    case: tuple[OpDetailResult, list[HostCalls]],
) -> None:
    result, hosts = case
    expected = []
    for host in hosts:
        numbered = sorted(host.calls, key=lambda call: call["start"])
        for number, call in enumerate(numbered, 1):
            work = call["work"]
            expected.append(
                {
                    "host": host.host,
                    "call": number,
                    "op": "a",
                    "type": "A",
                    "step": call["step"],
                    "start_ms": call["start"] / 1000,
                    "host_us": call["dur"],
                    "host_self_us": host.self_us(call),
                    "device_us": sum(line[3] for line in work),
                    "waiting_us": host.waiting_us(call),
                    "kernels": len(by_kind(work, "kernel")),
                    "collectives": len(by_kind(work, "collective")),
                    "copies": len(by_kind(work, "copy")),
                    "copy_bytes": total(sizes_of(by_kind(work, "copy"))),
                    "launches": len(call["launches"]),
                    "shape": None,
                    "devices": sorted({int(line[0][4]) for line in work}),
                }
            )
    expected.sort(
        key=lambda row: (
            -row["device_us"],
            row["host_us"] is None,
            -(row["host_us"] or 0),
            *(row["start_ms"], row["host"], row["call"]),
        )
    )
    assert result.call_count == len(expected)
    assert result.calls["rank"].to_list() == list(range(1, len(expected) + 1))
    calls = result.calls.drop("rank").with_columns(pl.col("start_ms").round(6))
    assert calls.to_dicts() == expected


def work_by(
    hosts: list[HostCalls], kinds: Sequence[str], *more: str
) -> dict[tuple[str, ...], list[tuple[str, blueprint.Line]]]:
    """(name, op, stats …) → (host, line) of the work of all calls."""
    found = defaultdict(list)
    for host in hosts:
        for call in host.calls:
            for kind in kinds:
                for line in by_kind(call["work"], kind):
                    stats = [str(line[4].get(name, "")) for name in more]
                    key = line[1], line[4]["tf_op"][:1], *stats
                    found[key].append((host.host, line))
    return found


def sums_of(work: list[tuple[str, blueprint.Line]]) -> Row:
    times = [line[3] for _, line in work]
    return {
        "occurrences": len(work),
        "total_us": sum(times),
        "avg_us": pytest.approx(sum(times) / len(times)),
        "max_us": max(times),
        "hosts": sorted({host for host, _ in work}),
        "devices": sorted({int(line[0][4]) for _, line in work}),
    }


def test_kernels_are_united_by_name_op_and_launch_shape(
    case: tuple[OpDetailResult, list[HostCalls]],
) -> None:
    result, hosts = case
    work = work_by(hosts, ("kernel", "collective"), "kernel_details")
    whole = sum(line[3] for lines in work.values() for _, line in lines)
    fills = {FULL: ("full", "216,1,1", 216), SMALL: ("small_grid", "107,1,1", 107)}
    expected = []
    for (name, op, details), lines in work.items():
        fill, grid, blocks = fills.get(details, (None, None, None))
        least = min(line[3] for _, line in lines)
        spent = sum(line[3] for _, line in lines)
        expected.append(
            {
                "kernel_name": name,
                "op_name": op,
                "kind": "kernel" if fill else "collective",
                **sums_of(lines),
                "min_us": least,
                "percent": pytest.approx(100 * spent / whole),
                "fill": fill,
                "grid_dim": grid,
                "blocks": blocks,
                "multiprocessors": 108,
            }
        )
    expected.sort(
        key=lambda row: (
            *(
                -row["total_us"],
                row["kernel_name"],
                row["op_name"],
                row["grid_dim"] or "",
            ),
        )
    )
    assert result.kernels is not None
    assert result.kernels.select(list(expected[0])).to_dicts() == expected


def test_copies_are_united_by_name_and_op(
    case: tuple[OpDetailResult, list[HostCalls]],
) -> None:
    result, hosts = case
    expected = []
    for (name, op), lines in work_by(hosts, ("copy",)).items():
        size = total(sizes_of(line for _, line in lines))
        spent = sum(line[3] for _, line in lines)
        known = size is not None and spent
        rate = size / GIB / (spent * 1e-6) if known and size is not None else None
        expected.append(
            {
                "kind": "h2d",
                "name": name,
                "op_name": op,
                **sums_of(lines),
                "bytes": size,
                "gib_per_s": None if rate is None else pytest.approx(rate),
            }
        )
    expected.sort(key=lambda row: (-row["total_us"], row["op_name"]))
    assert result.copies is not None
    assert result.copies.select(list(expected[0])).to_dicts() == expected


def test_launches_are_united_by_function(
    case: tuple[OpDetailResult, list[HostCalls]],
) -> None:
    result, hosts = case
    expected = []
    for name in ("cuLaunchKernel", "cudaLaunchKernel"):
        times, activities, waits = [], 0, []
        for host in hosts:
            mine = {ident for ident, line in host.launches.items() if line[1] == name}
            for call in host.calls:
                times += [line[3] for line in call["launches"] if line[1] == name]
                idents = [line[4]["correlation_id"] for line in call["work"]]
                activities += len(mine.intersection(idents))
                waits += [wait for ident, wait in call["idle"] if ident in mine]
        expected.append(
            {
                "name": name,
                "calls": len(times),
                "total_us": sum(times),
                "avg_us": pytest.approx(sum(times) / len(times)),
                "max_us": max(times),
                "activities": activities,
                "idle_launches": len(waits),
                "median_wait_us": median(waits) if waits else None,
            }
        )
    expected.sort(key=lambda row: (-row["total_us"], row["name"]))
    assert result.launches is not None
    assert result.launches.drop("rank").to_dicts() == expected


def microseconds_of_steps(host: HostCalls) -> set[int]:
    """The last step ends with its marker, or with the last work that it launched."""
    begin = 7 + STEP_US * (STEPS - 1)
    launched = {
        ident for ident, line in host.launches.items() if begin <= line[2] < begin + 415
    }
    ends = [
        line[2] + line[3]
        for line in host.activities
        if line[4]["correlation_id"] in launched
    ]
    return set(range(7, max(begin + 415, *ends)))


def test_the_share_of_the_steps_is_that_of_counting_microseconds(
    case: tuple[OpDetailResult, list[HostCalls]],
) -> None:
    result, hosts = case
    whole, busy, exposed, called = 0, 0, 0, 0
    for host in hosts:
        inside = microseconds_of_steps(host)
        whole += len(inside)
        work = [line for call in host.calls for line in call["work"]]
        for device in (0, 1):
            own, others = set(), set()
            for line in host.activities:
                if int(line[0][4]) == device:
                    of = own if line in work else others
                    of |= set(range(line[2], line[2] + line[3])) & inside
            busy += len(own)
            exposed += len(own - others)
        calls = {
            at
            for call in host.calls
            if call["shown"]
            for at in range(call["start"], call["start"] + call["dur"])
        }
        called += len(calls & inside)
    share = result.share
    assert share.steps == len(HOSTS) * STEPS
    assert share.device_percent == 100 * busy / (2 * whole)
    assert share.exposed_percent == 100 * exposed / (2 * whole)
    assert share.host_percent == 100 * called / whole
