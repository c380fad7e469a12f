"""Counters of a made-up /proc, whose numbers are known, and of the real one."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stepscope as ss
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.collectors import process
from stepscope.capture.collectors.process import ProcessCollector

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def write_proc(folder: Path, *, cpu_ticks: int, read_bytes: int, busy: int) -> None:
    """A /proc as the kernel writes it; the name of the program is a trap."""
    (folder / "self").mkdir(exist_ok=True)
    (folder / "pressure").mkdir(exist_ok=True)
    fields = ["S"] + ["0"] * 10 + [str(cpu_ticks), "0", "0", "0", "0", "0", "3", "0"]
    files = {
        "self/stat": f"1 (a) b (c) {' '.join(fields)}\n",
        "self/statm": "900 7 3 1 0 5 0\n",
        "self/io": f"rchar: 1\nread_bytes: {read_bytes}\nwrite_bytes: 0\n",
        "stat": f"cpu  {busy} 0 0 9 9 0 0 0 0 0\ncpu0 {busy} 0 0 9 9 0 0 0 0 0\nintr\n",
        "meminfo": "MemTotal: 99 kB\nMemAvailable:   40 kB\n",
        "pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n",
    }
    for name, content in files.items():
        (folder / name).write_text(content)


def samples_of(path: Path) -> dict[str, list[float]]:
    """Counter → its values in order, from the table of values."""
    profile = ss.open(path)
    (host,) = profile.hosts
    trace = profile.trace(host)
    tracks, events = trace.table("tracks"), trace.table("events")
    row = tracks["kind"].to_list().index("counters")
    names = trace.table("event_types")["name"].to_list()
    stats = trace.table("stats")
    values = dict(zip(stats["event"].to_list(), stats["value"].to_list(), strict=True))
    found: dict[str, list[float]] = {}
    for number, (track, kind) in enumerate(events.select("track", "type").iter_rows()):
        if track == row:
            bits = struct.pack("<q", values[number])
            found.setdefault(names[kind], []).append(struct.unpack("<d", bits)[0])
    return found


def test_levels_and_rates_are_those_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    write_proc(proc, cpu_ticks=100, read_bytes=1000, busy=10)
    moments = iter([10_000_000_000, 12_000_000_000])
    collector = ProcessCollector(proc)

    class Twice:
        """Lets the thread read a second time, two seconds later by its clock."""

        count = 0

        def wait(self, _: float) -> bool:
            self.count += 1
            write_proc(proc, cpu_ticks=100 + TICKS, read_bytes=5000, busy=10 + TICKS)
            return self.count == 2

        def set(self) -> None:
            """Ended by its count."""

    monkeypatch.setattr(collector, "_stop", Twice())
    monkeypatch.setattr(process.recorder, "clock_ns", lambda: next(moments))
    collector.start_collecting(ss.ProfilerOptions(), ClockPair(0, 9_000_000_000))
    collected = collector.hand_over()
    monkeypatch.undo()
    held = tmp_path / "held.xplane.pb"
    held.write_bytes(collected.xspace)
    assert collected.warnings == ()
    assert samples_of(held) == {
        "threads": [3.0, 3.0],
        "process RSS (bytes)": [7.0 * PAGE] * 2,
        "process CPU (percent)": [50.0],
        "process reads (bytes/s)": [2000.0],
        "process writes (bytes/s)": [0.0],
        "machine CPU (percent)": [50.0],
        "core 0 CPU (percent)": [50.0],
        "memory available (bytes)": [40.0 * 1024] * 2,
        "CPU pressure (percent)": [0.0],
    }


def test_a_container_that_hides_files_gives_the_others(tmp_path: Path) -> None:
    write_proc(tmp_path, cpu_ticks=0, read_bytes=0, busy=0)
    (tmp_path / "self" / "io").unlink()
    (tmp_path / "pressure" / "cpu").write_text("nonsense")
    collector = ProcessCollector(tmp_path)
    assert collector.why_unavailable() is None
    collector.start_collecting(ss.ProfilerOptions(counters_hz=100), ClockPair.now())
    time.sleep(0.1)
    collected = collector.hand_over()
    held = tmp_path / "held.xplane.pb"
    held.write_bytes(collected.xspace)
    assert collected.warnings == ()
    names = set(samples_of(held))
    assert "threads" in names
    assert not {"process reads (bytes/s)", "CPU pressure (percent)"} & names


def cgroup(folder: Path, names: tuple[str, ...], limit: object, used: int) -> None:
    """A memory cgroup as the kernel writes it, with 3 and 4 bytes of cached files."""
    folder.mkdir(parents=True, exist_ok=True)
    prefix = "total_" if "bytes" in names[0] else ""
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(
        f"anon 9\n{prefix}active_file 3\n{prefix}inactive_file 4\n"
    )


V1, V2 = (
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ("memory.max", "memory.current"),
)


@pytest.mark.parametrize(
    ("groups", "addresses", "left"),
    [
        ([], "unlimited", None),
        # 901 pages are allowed, and 900 are mapped.
        ([], 901 * PAGE, PAGE),
        # A batch job's own limit, within a container that has more left.
        ([("0::/job", "job", V2, 100), ("", "", V2, 900)], "unlimited", 57.0),
        ([("0::/job", "job", V2, "max"), ("", "", V2, 200)], "unlimited", 157.0),
        ([("4:memory:/a", "memory/a", V1, 100)], "unlimited", 57.0),
        ([("4:memory:/a", "memory/a", V1, 2**63 - PAGE)], "unlimited", None),
        # Within a container the name is that of a folder outside.
        ([("0::/outside/x", "", V2, 120)], "unlimited", 77.0),
        ([("0::/job", "job", V2, 10)], 901 * PAGE, 0.0),
    ],
)
def test_the_least_that_limits_leave_is_read(
    groups: list[tuple[str, str, tuple[str, ...], object]],
    addresses: object,
    left: float | None,
    tmp_path: Path,
) -> None:
    proc, mounted = tmp_path / "proc", tmp_path / "cgroup"
    proc.mkdir()
    write_proc(proc, cpu_ticks=0, read_bytes=0, busy=0)
    (proc / "self" / "limits").write_text(
        "Limit                     Soft Limit           Hard Limit           Units\n"
        f"Max address space         {addresses}            unlimited       bytes\n"
    )
    (proc / "self" / "cgroup").write_text(
        "\n".join(line for line, *_ in groups if line)
    )
    for _, folder, names, limit in reversed(groups):
        cgroup(mounted / folder, names, limit, used=50)
    levels, _ = process._MemoryLimits(proc, mounted)()
    assert levels.get("memory within limits (bytes)") == left


def test_where_there_is_no_proc_it_says_so(tmp_path: Path) -> None:
    why_not = ProcessCollector(tmp_path).why_unavailable()
    assert why_not is not None
    assert "no /proc" in why_not.reason
    # A start all the same harms nobody.
    collector = ProcessCollector(tmp_path)
    collector.start_collecting(ss.ProfilerOptions(), ClockPair.now())
    assert collector.hand_over().xspace == b""


@pytest.mark.slow(seconds=0.3)
def test_a_busy_program_is_seen_busy(tmp_path: Path) -> None:
    options = ss.ProfilerOptions(counters_hz=50, collectors=("host", "process"))
    with ss.Profile(tmp_path, options) as run:
        begin, begin_s = time.process_time(), time.monotonic()
        while time.process_time() - begin < 0.3:
            pass
        busy_percent = 100 * 0.3 / (time.monotonic() - begin_s)
    assert run.path is not None
    found = samples_of(run.path)
    # A busy machine gives it less of a processor than it could use.
    assert max(found["process CPU (percent)"]) > 0.2 * busy_percent
    assert all(bytes_ > 2**20 for bytes_ in found["process RSS (bytes)"])


def test_no_counters_where_none_are_asked_for(tmp_path: Path) -> None:
    with ss.Profile(tmp_path, ss.ProfilerOptions(counters_hz=0)) as run:
        time.sleep(0.05)
    assert run.path is not None
    profile = ss.open(run.path)
    (host,) = profile.hosts
    assert "counters" not in profile.trace(host).table("tracks")["kind"].to_list()


#: Records two workers until they have used 0.3 s, and a moment more, so that they are
#: counted once again; where, and the share of a processor that they were seen to use.
WITH_WORKERS = """
import multiprocessing, sys, time
from pathlib import Path
import stepscope as ss

def work():
    while True:
        pass

def used_s(worker):
    used = Path(f"/proc/{worker.pid}/schedstat").read_text(encoding="ascii")
    return int(used.split()[0]) / 1e9

options = ss.ProfilerOptions(counters_hz=50, collectors=("host", "process"))
context = multiprocessing.get_context("fork")
workers = [context.Process(target=work, daemon=True) for _ in range(2)]
with ss.Profile(sys.argv[1], options) as run:
    for worker in workers:
        worker.start()
    begin_s = time.monotonic()
    while sum(map(used_s, workers)) < 0.3:
        time.sleep(0.05)
    time.sleep(0.3)
    busy_percent = 100 * 0.3 / (time.monotonic() - begin_s)
print(run.path)
print(busy_percent)
"""


@pytest.mark.slow(seconds=0.8)
def test_workers_are_counted_with_what_they_use(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH_WORKERS, tmp_path],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    path, busy_percent = done.stdout.split()
    found = samples_of(Path(path))
    assert max(found["worker processes"]) == 2
    shown = max(found["worker processes CPU (percent)"])
    assert shown > 0.2 * float(busy_percent)


def test_without_workers_nothing_is_said_of_them(tmp_path: Path) -> None:
    options = ss.ProfilerOptions(counters_hz=50, collectors=("host", "process"))
    with ss.Profile(tmp_path, options) as run:
        time.sleep(0.1)
    assert run.path is not None
    assert not [name for name in samples_of(run.path) if "worker" in name]


def test_processes_that_the_program_started_count_with_those_that_they_started(
    tmp_path: Path,
) -> None:
    """Ended ones used 3 s, a shell 1 s, and the program that it started 5 s."""

    def write(process: str, own_s: int, ended_s: int, children: str) -> None:
        main = str(os.getpid()) if process == "self" else process
        folder = tmp_path / process / "task" / main
        folder.mkdir(parents=True, exist_ok=True)
        times = f"{own_s * TICKS} 0 {ended_s * TICKS} 0"
        (tmp_path / process / "stat").write_text(f"1 (a) S{' 0' * 10} {times} 0 0 1 0")
        (folder / "children").write_text(children)

    children = process._Children(tmp_path)
    assert children() == ({}, {})
    write("self", 9, 3, "70 ")
    write("70", 1, 0, "71 ")
    write("71", 5, 0, "")
    used = ({}, {"child processes CPU (percent)": 900.0})
    assert children() == used
    # What ended unawaited is no negative work.
    write("self", 9, 3, "")
    assert children() == used
