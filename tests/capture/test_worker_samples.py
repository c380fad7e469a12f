"""Functions of worker processes: real ones, looked at from outside while they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import stepscope as ss
from stepscope.derive.host.function_frames import (
    FunctionFrames,
    non_step_frames,
    worker_frames,
)
from stepscope.derive.host.function_lines import worker_lines
from stepscope.derive.host.placed_frames import function_frames
from stepscope.derive.input_pipeline.worker_functions import (
    WorkerFunctions,
    worker_functions,
)
from stepscope.unavailable import Unavailable
from stepscope.xspace.vocabulary import UNSAMPLED

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

#: What every program begins with: two functions whose shares are known by the clock.
BEGIN = """
import json, multiprocessing, os, signal, sys, time
from concurrent.futures import ProcessPoolExecutor
import stepscope as ss

def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(200))

def slow(_):
    end = time.perf_counter() + 0.06
    while time.perf_counter() < end:
        sum(range(200))

def quick(_):
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end:
        sum(range(200))

def work(item):
    slow(item)
    quick(item)
    return os.getpid()

OPTIONS = ss.ProfilerOptions(collectors=("host", "process", "workers"))

def recorded(steps, step):
    with ss.Profile(sys.argv[1], OPTIONS) as run:
        for number in range(steps):
            with ss.StepTrace(number):
                step(number)
    return run

def tell(run, **more):
    print(json.dumps({"path": str(run.path), "warnings": run.warnings, **more}))

"""


class Told(NamedTuple):
    """What a program printed, and its profile."""

    profile: ProfileData
    warnings: list[str]
    more: dict[str, object]

    def workers(self) -> WorkerFunctions | Unavailable:
        (host,) = self.profile.hosts
        found: WorkerFunctions | Unavailable = self.profile.derived(
            host, worker_functions
        )
        return found

    def seen(self) -> WorkerFunctions:
        found = self.workers()
        assert not isinstance(found, Unavailable), found
        return found


def run(folder: Path, body: str, *, begin: str = "") -> Told:
    program = folder / "program.py"
    main = textwrap.indent(textwrap.dedent(body), "    ")
    program.write_text(f"{BEGIN}{begin}\nif __name__ == '__main__':\n{main}\n")
    done = subprocess.run(
        [sys.executable, program, folder / "logs"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    return Told(ss.open(told.pop("path")), told.pop("warnings"), told)


def check_work(found: WorkerFunctions, *, workers: int) -> None:
    """`slow` takes three quarters of the work by the program's own clock."""
    assert found.workers == workers
    assert found.most is not None
    assert (found.most.function, Path(found.most.file or "").name) == (
        *("slow", "program.py"),
    )
    line = BEGIN[: BEGIN.index("def slow")].count("\n") + 1
    assert found.most.line == line
    assert found.most.hot_line in {line + 2, line + 3}
    assert 0.6 <= found.most.time_ps / found.works_ps <= 0.9
    total = sum(one.time_ps for one in found.functions)
    assert total == found.works_ps
    assert found.works_ps + found.waits_ps + found.gives_ps == found.sampled_ps


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_functions_of_a_pool_that_began_before_are_found(
    tmp_path: Path, how: str
) -> None:
    told = run(
        tmp_path,
        f"""
        with multiprocessing.get_context({how!r}).Pool(2) as pool:
            ids = set(pool.map(work, range(8), 1))
            run = recorded(8, lambda _: pool.map(work, range(4), 1))
        tell(run, ids=sorted(ids))
        """,
    )
    assert told.warnings == []
    check_work(told.seen(), workers=2)
    lines = told.profile.trace(told.profile.hosts[0]).table("tracks")["id"].to_list()
    ids = told.more["ids"]
    assert isinstance(ids, list)
    assert {2**30 + 2**27 + int(it) for it in ids} <= set(lines)


def test_functions_of_an_executor_are_found(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(work, range(4)))
            run = recorded(8, lambda _: list(pool.map(work, range(4))))
        tell(run)
        """,
    )
    check_work(told.seen(), workers=2)


def test_workers_that_have_nothing_to_do_wait_for_work(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(quick, range(4), 1)
            run = recorded(10, lambda _: time.sleep(0.05))
        tell(run)
        """,
    )
    found = told.seen()
    assert found.waits_ps == found.sampled_ps > 0
    assert (found.functions, found.most) == ((), None)


def test_their_time_is_none_of_the_program(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
        with multiprocessing.get_context("fork").Pool(2) as pool:
            run = recorded(8, lambda _: pool.map(work, range(4), 1))
        tell(run)
        """,
    )
    (host,) = told.profile.hosts
    for other in (function_frames, non_step_frames):
        found = told.profile.derived(host, other)
        assert isinstance(found, Unavailable), found
    frames = told.profile.derived(host, worker_frames)
    lines = told.profile.derived(host, worker_lines)
    assert isinstance(frames, FunctionFrames)
    assert not isinstance(lines, Unavailable)
    assert not {"<module>", "recorded"} & {it.function for it in frames.names.values()}
    assert int((lines.end_ps - lines.start_ps).sum()) == int(
        (frames.end_ps - frames.start_ps).sum()
    )


def test_a_worker_that_ends_or_is_killed_is_looked_at_until_then(
    tmp_path: Path,
) -> None:
    told = run(
        tmp_path,
        """
        context = multiprocessing.get_context("fork")
        def forever():
            while True:
                work(0)
        ended = context.Value("d")
        def once():
            busy(0.5)
            ended.value = time.monotonic()
        mortal = [context.Process(target=it, daemon=True) for it in (forever, once)]
        last = context.Process(target=forever, daemon=True)
        times = []
        def step(number):
            if number == 0:
                times.append(time.monotonic())
                [it.start() for it in (*mortal, last)]
            if number == 7:
                os.kill(mortal[0].pid, signal.SIGKILL)
                times.append(time.monotonic())
            time.sleep(0.15)
        run = recorded(14, step)
        times.append(time.monotonic())
        codes = [it.exitcode for it in (*mortal, last)]
        last.kill()
        times.insert(1, ended.value)
        tell(run, codes=codes, lasted=[it - times[0] for it in times[1:]])
        """,
    )
    assert told.more["codes"] == [-9, 0, None]
    assert told.warnings == []
    frames = told.profile.derived(told.profile.hosts[0], worker_frames)
    assert isinstance(frames, FunctionFrames)
    ends = [
        int(frames.end_ps[frames.track == track].max()) / 1e12
        for track in set(frames.track.tolist())
    ]
    lasted = told.more["lasted"]
    assert isinstance(lasted, list)
    once, killed, whole = lasted
    assert whole - killed > 1
    # The one that ended, the one that was killed, and the one that goes on.
    assert sorted(ends) == [
        pytest.approx(it, abs=0.4) for it in sorted((once, killed, whole))
    ]


def test_more_workers_than_are_looked_at_at_once_take_turns(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
        context = multiprocessing.get_context("fork")
        many = [context.Process(target=busy, args=(60,)) for _ in range(12)]
        [it.start() for it in many]
        run = recorded(10, lambda _: time.sleep(0.2))
        [it.kill() for it in many]
        tell(run)
        """,
    )
    found = told.seen()
    assert found.workers == 12
    assert found.most is not None
    assert found.most.function == "busy"


#: Reason → what makes it so.
HINDERED = {
    "permission": """
import stepscope.capture.collectors.workers.memory as it
opened = it.os.open
def refuse(path, *rest):
    if str(path).endswith("/mem") and "/self/" not in str(path):
        raise PermissionError(1, "no")
    return opened(path, *rest)
it.os.open = refuse
""",
    "python": """
import stepscope.capture.collectors.workers.layout as it
it._KNOWN = ()
it._COOKIE = b"another"
""",
    "other_python": """
import stepscope.capture.collectors.workers.worker as it
it.place_of_runtime = lambda *_: None
it._executable_path = str
""",
}


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("reason", HINDERED)
def test_why_workers_were_not_looked_at_is_said_and_nothing_else_stops(
    tmp_path: Path, reason: str
) -> None:
    told = run(
        tmp_path,
        """
        with multiprocessing.get_context("fork").Pool(2) as pool:
            run = recorded(8, lambda _: pool.map(work, range(4), 1))
        tell(run)
        """,
        begin=HINDERED[reason],
    )
    assert told.warnings == [UNSAMPLED[reason].warning]
    why = told.workers()
    assert isinstance(why, Unavailable)
    assert why.code == "NOT_RECORDED"
    assert UNSAMPLED[reason].reason in why.reason
    assert why.remedy == UNSAMPLED[reason].remedy
    overview = told.profile.tool("overview_page")
    assert len(overview.steps) == 8


def test_without_workers_nothing_is_said_of_them(tmp_path: Path) -> None:
    told = run(tmp_path, "tell(recorded(4, lambda _: busy(0.05)))")
    assert told.warnings == []
    assert told.profile.table(told.profile.hosts[0], "environment")["cores"].item() == (
        len(os.sched_getaffinity(0))
    )
    why = told.workers()
    assert isinstance(why, Unavailable)
    assert why.code == "NO_SAMPLES"


def test_no_samples_where_none_are_asked_for(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
        chosen = OPTIONS.collectors
        OPTIONS = ss.ProfilerOptions(python_sampling_hz=0, collectors=chosen)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            run = recorded(8, lambda _: pool.map(work, range(4), 1))
        tell(run)
        """,
    )
    why = told.workers()
    assert isinstance(why, Unavailable)
    assert why.code == "NOT_RECORDED"
