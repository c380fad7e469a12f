"""`stepscope run --serve`: a program that listens though it never asked for it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import stepscope as ss
from stepscope.capture.launching.counting import FIT, StepCounter
from stepscope.capture.launching.window import Phase
from stepscope.cli.main import main
from stepscope.errors import BadUsage
from stepscope.remote import listening_programs
from stepscope.remote.autoserve import ServePlan
from stepscope.remote.marked_steps import MarkedSteps
from stepscope.remote.processes import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "host", "port"),
    [
        ("0", "127.0.0.1", 0),
        ("6009", "127.0.0.1", 6009),
        ("localhost:6009", "localhost", 6009),
        ("[::1]:0", "[::1]", 0),
    ],
)
def test_only_this_machine_reaches_a_port_by_default(
    given: str, host: str, port: int
) -> None:
    assert ServePlan.parse_place(given) == ServePlan(host, port, None)


def test_other_machines_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPSCOPE_TOKEN", raising=False)
    made = ServePlan.parse_place("0.0.0.0:6009")
    assert made.token
    assert made.token != ServePlan.parse_place("0.0.0.0:6009").token
    monkeypatch.setenv("STEPSCOPE_TOKEN", "mine")
    assert ServePlan.parse_place("node-1:6009") == ServePlan("node-1", 6009, "mine")


#: Asked for no token, whoever the host is.
OPEN = ServePlan("0.0.0.0", 9, None, "network")  # noqa: S104 - nothing is bound


def test_an_open_program_makes_no_token() -> None:
    assert ServePlan.parse_place("0.0.0.0:9", "network") == OPEN
    assert ServePlan.parse_place("9", "machine") == ServePlan(
        "127.0.0.1", 9, None, "machine"
    )
    with pytest.raises(BadUsage, match='give open_to="network"'):
        ServePlan.parse_place("0.0.0.0:9", "machine")


def test_whom_a_program_is_open_to_is_said_only_of_one_that_listens() -> None:
    done = CliRunner().invoke(main, ["run", "--open", "machine", "--", "-c", "pass"])
    assert done.exit_code == 2
    assert "add --serve" in done.stderr


@pytest.mark.parametrize("place", ["train.py", "-1", "65536", "h:", "h:x", ""])
def test_what_is_no_place_to_listen_at(place: str) -> None:
    with pytest.raises(
        BadUsage, match=r"not a place to listen at.*-- before the command"
    ):
        ServePlan.parse_place(place)


@pytest.mark.parametrize(
    "plan", [ServePlan("[::1]", 0), ServePlan("h", 9, "t=1"), OPEN]
)
def test_a_plan_comes_through_the_environment_as_it_was(plan: ServePlan) -> None:
    assert ServePlan.from_environment({VARIABLE: plan.to_text()}) == plan
    assert ServePlan.from_environment({}) is None


@pytest.mark.parametrize(
    "option", [("--steps", 5), ("--no-report",), ("--logdir", "x")]
)
def test_what_to_record_is_said_to_the_one_who_records(option: tuple[object]) -> None:
    words = ["run", "--serve", *map(str, option), "--", "-c", "pass"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert f"{option[0]} cannot be given with --serve" in done.stderr
    assert done.stderr.count("\n") == 1


class Counted:
    """Steps that are counted and annotated, and what became of the annotating."""

    def __init__(self) -> None:
        self.overs = 0
        self.steps = MarkedSteps(self._over)
        self.counter = StepCounter(self.steps)

    def _over(self) -> None:
        self.overs += 1

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.counter.begins(FIT)
            sum(range(1000))
        self.counter.ends(FIT)


def test_steps_that_are_counted_are_annotated_for_every_recording(
    tmp_path: Path,
) -> None:
    counted = Counted()
    counted.train(3)
    for _ in range(2):
        with ss.Profile(tmp_path) as run:
            counted.train(2)
        assert run.path is not None
    recorded = [
        [it.step for it in ss.open(path).tool("overview_page").steps]
        for path in sorted(tmp_path.rglob("*.xplane.pb"))
    ]
    assert recorded == [[4, 5], [6, 7]]
    assert counted.overs == 0
    assert counted.steps.counted == FIT


def test_a_program_that_annotates_its_steps_is_left_to_do_so(tmp_path: Path) -> None:
    counted = Counted()
    with ss.Profile(tmp_path) as run:
        for number in range(100, 103):
            with ss.StepTrace(number):
                counted.counter.begins(FIT)
                sum(range(1000))
    counted.counter.ends(FIT)
    assert run.path is not None
    steps = [it.step for it in ss.open(run.path).tool("overview_page").steps]
    assert steps == [100, 101, 102]
    assert counted.overs == 1
    assert counted.steps.phase is Phase.OVER


PROGRAM = """
import sys, time
import stepscope as ss
number = 0
until = time.monotonic() + 60
while time.monotonic() < until:
    with ss.StepTrace(number):
        time.sleep(0.002)
    number += 1
    if number == 20:
        print("trains", flush=True)
"""
LISTENS = re.compile(r"process (\d+) \(program\.py\) listens at (127\.0\.0\.1:\d+)")


@contextlib.contextmanager
def served(folder: Path, text: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A program under `stepscope run --serve`; it is ended if it has not ended."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    words = ["run", *options, "--", "program.py"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def place_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Number and address of the program, which it says itself."""
    found = LISTENS.search(said_until(process, LISTENS))
    assert found is not None
    return int(found[1]), found[2]


def said_until(process: subprocess.Popen[str], wanted: re.Pattern[str]) -> str:
    """What it says on standard error up to a line; gRPC says something there too."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if wanted.search(line):
            return said
    raise AssertionError(said)


def capture(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["capture", *map(str, arguments)])


@pytest.mark.slow
def test_a_program_is_recorded_by_its_number_as_often_as_one_likes(
    tmp_path: Path,
) -> None:
    with served(tmp_path, PROGRAM, "--serve") as process:
        number, address = place_of(process)
        # Before its first steps there would be none to count.
        assert process.stdout is not None
        assert process.stdout.readline() == "trains\n"
        for turn in range(2):
            logdir = tmp_path / str(turn)
            done = capture("--attach", number, "--steps", 3, "--logdir", logdir)
            assert done.exit_code == 0, done.stderr
            assert address in done.stderr
            (file,) = logdir.rglob("*.xplane.pb")
            steps = [it.step for it in ss.open(file).tool("overview_page").steps]
            assert len(steps) >= 3
            assert steps == list(range(steps[0], steps[0] + len(steps)))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    # Killed by a signal it leaves its file, which is known to be stale.
    done = capture("--attach", number)
    assert done.exit_code == 2
    assert f"there is no process {number}" in done.stderr
    assert listening_programs.listening_processes() == ()


UNTIL_IT_LISTENS = """
import os, sys, time
file = f"{os.environ['XDG_RUNTIME_DIR']}/stepscope/{os.getpid()}.json"
while not os.path.exists(file):
    time.sleep(0.05)
print("trained")
sys.exit(7)
"""


@pytest.mark.slow
def test_the_program_ends_as_it_would_and_leaves_no_file(tmp_path: Path) -> None:
    with served(tmp_path, UNTIL_IT_LISTENS, "--serve=0") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (7, "trained\n")
    said = [line for line in err.splitlines() if line.startswith("stepscope:")]
    assert len(said) == 1
    assert LISTENS.search(said[0])
    assert list((tmp_path / "runtime" / "stepscope").iterdir()) == []


@pytest.mark.slow
def test_a_port_that_is_taken_is_said_and_another_one_is_found(
    tmp_path: Path, ours: Any
) -> None:
    port = ours.address.rpartition(":")[2]
    with served(tmp_path, PROGRAM, "--serve", port, "--open", "machine") as process:
        said = said_until(process, re.compile(f"another port: {port} is in use"))
        assert "any user of this machine can record this program" in said
        _, address = place_of(process)
        assert not address.endswith(f":{port}")


FORKS = """
import os, sys, time
import stepscope as ss
started = ss.server.start(0)
child = os.fork()
if not child:
    sys.exit(5)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
print(ss.client.trace(started.address, sys.argv[1], 50).all[0].state)
"""


@pytest.mark.slow
def test_a_forked_child_ends_and_leaves_the_server_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "5\nok\n", done.stderr
    assert done.stderr == ""


CHILDREN = """
import multiprocessing, os, sys, time
import stepscope as ss

def train(ended):
    number = 0
    while not ended.wait(0.002):
        with ss.StepTrace(number):
            sum(range(1000))
        number += 1

if __name__ == "__main__":
    if sys.argv[1] == "late":
        # A child that is forked before this has a server gets one of its own.
        file = f"{os.environ['XDG_RUNTIME_DIR']}/stepscope/{os.getpid()}.json"
        while not os.path.exists(file):
            time.sleep(0.05)
    method = "fork" if sys.argv[1] == "late" else sys.argv[1]
    context = multiprocessing.get_context(method)
    ended = context.Event()
    ranks = [context.Process(target=train, args=(ended,)) for _ in range(2)]
    for rank in ranks:
        rank.start()
    print(*[rank.pid for rank in ranks], flush=True)
    sys.stdin.read()
    ended.set()
    for rank in ranks:
        rank.join()
"""


@contextlib.contextmanager
def children(folder: Path, method: str) -> Iterator[tuple[Any, list[int]]]:
    """A program under `--serve` with two children that train; it ends by itself."""
    (folder / "children.py").write_text(CHILDREN, encoding="utf-8")
    words = ["run", "--serve", "--", "children.py", method]
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", *words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, [int(it) for it in process.stdout.readline().split()]
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "named"),
    [("spawn", " SpawnProcess-"), ("forkserver", " ForkServerProcess-")],
)
def test_children_of_multiprocessing_are_recorded_as_hosts_of_one_run(
    tmp_path: Path, method: str, named: str
) -> None:
    with children(tmp_path, method) as (process, ranks):
        said = until_they_listen(process, ranks)
        attached = [word for rank in ranks for word in ("--attach", rank)]
        done = capture(*attached, "--steps", 3, "--logdir", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 2
    for index, rank in enumerate(ranks, start=1):
        assert f"process {rank} (children.py{named}{index}) listens at" in said


def until_they_listen(process: Any, ranks: list[int]) -> str:
    """What is said until each of these processes listens, in any order."""
    said = ""
    for rank in ranks:
        if f"--attach {rank}\n" not in said:
            said += said_until(process, re.compile(f"--attach {rank}\n"))
    return said


@pytest.mark.slow
def test_a_child_that_is_forked_later_is_told_its_parent(tmp_path: Path) -> None:
    with children(tmp_path, "late") as (_, ranks):
        done = capture("--attach", ranks[0])
    assert done.exit_code == 2
    assert f"process {ranks[0]} was forked from process" in done.stderr
    assert "children.py), which listens" in done.stderr


def test_the_command_says_who_has_no_server() -> None:
    done = capture("--attach", os.getpid(), "--format", "json")
    assert done.exit_code == 2
    assert f"process {os.getpid()} has no profiler server" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow(seconds=0.3)
def test_a_program_that_wants_a_token_is_attached_to_without_one(
    tmp_path: Path,
) -> None:
    started = ss.server.start(0, token="mine")  # noqa: S106 - of a test
    try:
        done = capture(
            *("--attach", os.getpid(), "--ms", 20, "--format", "json"),
            *("--logdir", tmp_path),
        )
    finally:
        started.stop()
    assert json.loads(done.stdout)["hosts"][0]["state"] == "ok", done.stderr
