"""`stepscope try` on programs that need no framework, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from stepscope.compare.store import read_promises

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc"),
]

#: Collects by hand in each step, which takes as long as the heap is large.
COLLECTS = """
import gc, sys
import stepscope as ss
heap = [[number] for number in range(200_000)]
for step in range(int(sys.argv[1])):
    with ss.StepTrace(step):
        sum(range(20_000))
        gc.collect()
print("trained", sys.argv[1])
sys.exit(int(sys.argv[2]))
"""

#: Two processes that train, and one that leaves the group and would stay.
SPAWNS = """
import multiprocessing, subprocess, sys, time
import stepscope as ss

def train():
    for step in range(100_000):
        with ss.StepTrace(step):
            time.sleep(0.005)

if __name__ == "__main__":
    stays = [sys.executable, "-c", "import time; time.sleep(300)"]
    subprocess.Popen(stays, start_new_session=True)
    context = multiprocessing.get_context(sys.argv[1])
    ranks = [context.Process(target=train) for _ in range(2)]
    [rank.start() for rank in ranks]
    [rank.join() for rank in ranks]
"""

TESTS = """
import time
import stepscope as ss

def test_trains():
    for step in range(60):
        with ss.StepTrace(step):
            time.sleep(0.004)
"""


class Done(NamedTuple):
    """What `stepscope try` printed and returned."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "stepscope", "try", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "POLARS_MAX_THREADS": "1", "MARKED": str(Path.cwd())},
    )


def run(*arguments: object) -> Done:
    with started(*arguments) as process:
        out, err = process.communicate(timeout=200)
    return Done(process.returncode, out, err)


def script(text: str, name: str = "program.py") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def programs_left() -> list[int]:
    """Processes of this test: all that the command started inherit its environment."""

    def environments() -> Iterator[tuple[int, bytes]]:
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                yield int(path.parent.name), path.read_bytes()
            except OSError:
                continue

    mark = f"MARKED={Path.cwd()}".encode()
    return [number for number, text in environments() if mark in text]


def test_what_helps_a_program_that_collects_by_hand_is_kept_and_stored(
    folder: Path,
) -> None:
    options = ("host.work", "--store", "--format", "json")
    done = run(*options, "--", script(COLLECTS), 10**6, 0)
    assert done.status == 0, done.err
    answer = json.loads(done.out)
    (row,) = answer["trials"]
    assert (row["knob"], row["outcome"]) == ("any.gc_freeze", "kept")
    change = row["step_time"]
    assert change["new_ms"] < change["base_ms"] / 2
    assert change["low_ms"] < change["change_ms"] < change["high_ms"] < 0
    assert answer["write"] == ["gc.freeze()  # after the first step"]
    # Stepscope ended the program after its window.
    assert answer["status"] is None
    stored_in = folder / "stepscope-logs.promises.json"
    assert Path(answer["stored_in"]) == stored_in
    kept = read_promises(stored_in)
    (run_name, stored), (changed, _) = kept.runs.items()
    assert stored.promises
    # The recording with the kept change judges what the first one promised.
    assert stored.answers.keys() == {changed}
    assert Path("stepscope-logs", "plugins", "profile", run_name).is_dir()


def test_status_and_output_of_the_last_turn_are_kept(folder: Path) -> None:
    done = run("host.work", "--", script(COLLECTS), 25, 3)
    assert done.status == 3
    assert [path.name for path in folder.iterdir()] == ["program.py"]
    # The program's output is apart from the answer.
    assert "trained 25" in done.err
    assert "Write into the program" in done.out


def test_a_program_that_fails_keeps_its_status_and_error() -> None:
    done = run("--", script("import sys; print('so far'); sys.exit('no data')"))
    assert (done.status, done.out) == (1, "")
    assert "so far" in done.err
    assert "no data" in done.err
    assert "(exit status 1): nothing is tried" in done.err


def test_a_program_without_steps_is_told_so() -> None:
    done = run("--", script("print('done')"))
    assert (done.status, done.out) == (2, "")
    assert "no_steps.md" in done.err


@pytest.mark.parametrize(
    "method",
    [
        "spawn",
        *(
            pytest.param(method, marks=pytest.mark.integration)
            for method in ("fork", "forkserver")
        ),
    ],
)
def test_all_processes_are_timed_and_none_is_left(method: str) -> None:
    done = run("gap.gc", "--format", "json", "--", script(SPAWNS), method)
    assert done.status == 0, done.err
    answer = json.loads(done.out)
    assert answer["as_is_ms"] >= 5
    assert answer["trials"][0]["step_time"] is not None, answer
    assert programs_left() == []


def test_an_interruption_ends_everything_in_a_second() -> None:
    with started("gap.gc", "--", script(SPAWNS), "fork") as process:
        assert process.stderr is not None
        # A change has been tried, and the processes of the next turn have started.
        for line in process.stderr:
            if "gc.freeze()" in line:
                break
        while len(programs_left()) < 4:
            time.sleep(0.02)
        began_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.stdout is not None
        printed = process.stdout.read()
        process.wait()
        took_s = time.monotonic() - began_s
    assert process.returncode == 130
    assert "Tried changes" in printed
    assert "interrupted" in printed
    assert programs_left() == []
    assert took_s < 1.0 + 0.2 * os.getloadavg()[0]


@pytest.mark.integration
def test_a_program_that_pytest_runs() -> None:
    script(TESTS, "test_training.py")
    done = run("gap.gc", "--", sys.executable, "-m", "pytest", "-q", "test_training.py")
    assert done.status == 0, done.err
    assert "1 passed" in done.err
    assert "gc.freeze()" in done.out
