"""How a recording process ends: each way leaves its own exit status and a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.storing import STORED

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

#: Whoever happens to make them.
COLLECTIONS = {"garbage collection", "garbage collection of the recorder"}
PROGRAM = """
import os, signal, sys, time
import stepscope as ss
logdir, ending = sys.argv[1:]
ss.start(logdir, ss.ProfilerOptions(collectors=("host",)))
loss = 0
for step in range(60):
    with ss.StepTrace(step):
        time.sleep(0.01)
        loss += step
print(loss, flush=True)
{ending}
"""
#: `no_processor_s()`: how long all threads together were ready and had no processor.
WAITED = """
def no_processor_s():
    import pathlib
    waited = 0
    for thread in pathlib.Path("/proc/self/task").glob("*"):
        waited += int((thread / "schedstat").read_text().split()[1])
    return waited / 1e9
"""
#: How the program ends, what its exit status is, and whether its file is finished.
ENDINGS = {
    "by its end": ("", 0, True),
    "by sys.exit": ("sys.exit(7)", 7, True),
    "by an exception": ("raise RuntimeError('mine')", 1, True),
    "by SIGTERM": (
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
        -signal.SIGTERM,
        True,
    ),
    "by SIGINT": ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, True),
    "by SIGKILL": (
        "assert stored(logdir); os.kill(os.getpid(), signal.SIGKILL)",
        -signal.SIGKILL,
        False,
    ),
    "by os._exit": ("assert stored(logdir); os._exit(3)", 3, False),
    "by its own handler": (
        (
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); "
            "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"
        ),
        9,
        True,
    ),
}


def run(
    program: str, *arguments: object, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def steps_of(logdir: Path) -> list[int]:
    return [step.step for step in ss.open(logdir).tool("overview_page").steps]


@pytest.mark.parametrize("ending", sorted(ENDINGS))
@pytest.mark.sweep(every=4)
def test_the_exit_status_is_the_programs_own_and_what_it_did_is_kept(
    tmp_path: Path, ending: str
) -> None:
    code, status, finished = ENDINGS[ending]
    done = run(STORED + PROGRAM.replace("{ending}", code), tmp_path, ending)
    assert done.returncode == status, done.stderr
    assert done.stdout == f"{sum(range(60))}\n"
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.name.endswith(".xplane.pb" if finished else ".xplane.pb.part")
    assert steps_of(tmp_path) == list(range(60))


#: A framework that drops its recording where the program did not end it before.
FRAMEWORK = """
import sys
from stepscope.capture.recording import session
from stepscope.capture.collectors.registry import COLLECTORS, make_collector
from stepscope.capture.collectors.contract import Collected
from stepscope.capture.collectors.frameworks import OpenRecordings
from stepscope.xspace.writing.write import XSpaceBuilder

left_over = OpenRecordings()

class Framework:
    name = "framework"

    def why_unavailable(self):
        return None

    def start_collecting(self, options, clock):
        self.clock, self.dropped = clock, False
        left_over.add_recording(self.drop_events)

    def drop_events(self):
        self.dropped = True

    def hand_over(self):
        if self.dropped:
            raise RuntimeError("the framework dropped what it recorded")
        left_over.forget_recording(self.drop_events)
        space = XSpaceBuilder("box", start_ns=None)
        line = space.plane("/host:CPU").line(1, name="pool")
        line.event("of the framework", dur_ps=1_000)
        return Collected(space.to_bytes())

COLLECTORS["framework"] = ("", "")
session.make_collector = lambda name: (
    Framework() if name == "framework" else make_collector(name)
)
"""


@pytest.mark.parametrize("ending", ["by its end", "by sys.exit", "by an exception"])
@pytest.mark.parametrize("recordings", [1, 2])
@pytest.mark.sweep(every=6)
def test_what_a_framework_recorded_is_kept_without_a_stop(
    tmp_path: Path, ending: str, recordings: int
) -> None:
    code, status, _ = ENDINGS[ending]
    earlier = """
import stepscope as ss
ss.start(sys.argv[1] + "/first", ss.ProfilerOptions(collectors=("framework",)))
assert not ss.stop().warnings
"""
    before = FRAMEWORK + earlier * (recordings - 1)
    program = PROGRAM.replace("{ending}", code).replace(
        'collectors=("host",)', 'collectors=("host", "framework")'
    )
    done = run(before + program, tmp_path / "last", ending)
    assert done.returncode == status, done.stderr
    assert "lost" not in done.stderr
    (path,) = (tmp_path / "last" / "plugins").rglob("*.xplane.pb")
    names = set().union(*names_by_host(path).values())
    assert {"train", "of the framework"} <= names


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells who waited")
def test_a_killed_process_loses_no_more_than_the_last_moment(tmp_path: Path) -> None:
    ending = """
begun, waited = time.monotonic(), no_processor_s()
assert stored(logdir)
print(time.monotonic() - begun, no_processor_s() - waited, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    program = WAITED + STORED + PROGRAM.replace("{ending}", ending)
    done = run(program, tmp_path, "at once")
    assert done.returncode == -signal.SIGKILL, done.stderr
    stored_s, waited_s = map(float, done.stdout.split()[1:])
    # What is recorded is stored five times a second, or when a busy machine lets it.
    assert stored_s < 0.4 + waited_s
    assert steps_of(tmp_path) == list(range(60))


FORKS = """
import os, sys, time
import stepscope as ss
logdir, how = sys.argv[1:]

def work(number):
    for _ in range(5):
        with ss.Trace(f"child {number}"):
            time.sleep(0.002)
    return number * number

ss.start(logdir, ss.ProfilerOptions(collectors=("host",)))
with ss.Trace("parent before"):
    time.sleep(0.002)
if how == "pool":
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(2) as pool:
        squares = pool.map(work, range(4))
        pool.close()
        pool.join()
    assert squares == [0, 1, 4, 9]
elif how == "fork":
    child = os.fork()
    if child == 0:
        work(0)
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
else:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
with ss.Trace("parent after"):
    time.sleep(0.002)
run = ss.stop()
print(len(run.warnings))
"""


def names_by_host(logdir: Path) -> dict[str, set[str]]:
    profile = ss.open(logdir)
    found = {}
    for host in profile.hosts:
        trace = profile.trace(host)
        types = trace.table("events")["type"].to_list()
        names = trace.table("event_types")["name"].to_list()
        found[host] = {names[it] for it in types} - COLLECTIONS
    return found


@pytest.mark.parametrize("how", ["pool", "fork", "silent"])
@pytest.mark.sweep(every=3)
def test_a_forked_child_that_annotates_has_a_file_of_its_own(
    tmp_path: Path, how: str
) -> None:
    done = run(FORKS, tmp_path, how)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    found = names_by_host(tmp_path)
    parents = [host for host, names in found.items() if "parent before" in names]
    assert len(parents) == 1
    assert found.pop(parents[0]) == {"parent before", "parent after"}
    children = set().union(*found.values())
    expected = {
        "pool": {f"child {number}" for number in range(4)},
        "fork": {"child 0"},
        "silent": set(),
    }
    assert children == expected[how]
    assert len(list(tmp_path.rglob("plugins/profile/*"))) == 1
    assert list(tmp_path.rglob("*.part")) == []


def test_a_child_stops_when_its_parent_does(tmp_path: Path) -> None:
    """The child goes on annotating long after; its file is finished before."""
    program = """
import os, sys, time
import stepscope as ss
ss.start(sys.argv[1], ss.ProfilerOptions(collectors=("host",)))
ready, tell = os.pipe()
child = os.fork()
if child == 0:
    with ss.Trace("child"):
        pass
    os.write(tell, b"x")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.01)
        # The same fork's file, finished, ends the wait.
        from pathlib import Path
        if len(list(Path(sys.argv[1]).rglob("*.xplane.pb"))) == 2:
            with ss.Trace("too late"):
                pass
            os._exit(0)
    os._exit(1)
os.read(ready, 1)
ss.stop()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run(program, tmp_path)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert set().union(*names_by_host(tmp_path).values()) == {"child"}


#: A child gets the signal before anyone in it could forget what its parent listens to.
EARLY_CHILD = """
import os, signal, sys, threading
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
from stepscope.capture.base.process_end import process_end
heard = threading.Event()
process_end.watch(end=heard.set, forked=lambda: None)
child = os.fork()
if not child:
    os._exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
# Longer than the main thread has to come to its handler.
print(heard.wait(1.0), flush=True)
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
print(signal.SIGTERM in blocked, flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_signal_for_a_child_that_just_began_is_not_its_parents() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", EARLY_CHILD],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.split() == [str(-signal.SIGTERM), "False", "False"], ended
    assert ended.returncode == 0


#: SIGTERM comes while another thread starts a recording, and that start ends at the
#: moment when the signal's handler looks whether it has to wait.
ENDED_MEANWHILE = """
import contextlib, os, signal, threading
from stepscope.capture.base.process_end import process_end

calls = []
signal.signal(signal.SIGTERM, lambda *_: calls.append("program"))
process_end.watch(end=lambda: calls.append("stored"), forked=lambda: None)
start = contextlib.ExitStack()
start.enter_context(process_end.undisturbed())
get_ident = threading.get_ident

def end_start():
    start.close()
    return get_ident()

threading.get_ident = end_start
os.kill(os.getpid(), signal.SIGTERM)
threading.get_ident = get_ident
print(*calls)
"""


def test_a_signal_is_not_lost_where_a_start_ends_while_it_is_handled() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDED_MEANWHILE],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("stored program\n", 0), done.stderr
