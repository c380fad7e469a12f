"""`stepscope run` on programs that need no framework, as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.support.programs.storing import STORED

import stepscope as ss
from stepscope.analysis.overview_page import OverviewPageResult
from stepscope.reporting.compose import judge_profile
from stepscope.rundir import scan_directory

if TYPE_CHECKING:
    from stepscope.rundir import Run

#: Each runs programs of its own.
pytestmark = pytest.mark.slow

MARKED = """
import sys, time
import stepscope as ss
for i in range(100, 100 + int(sys.argv[1])):
    with ss.Trace("train", step_num=i, _r=1):
        with ss.Trace("load"):
            time.sleep(0.001)
print("trained", sys.argv[1:])
"""


#: Of steps as short as these more would be recorded.
TEN = ("--steps", 10)


class Done(NamedTuple):
    """What became of a program under `stepscope run`."""

    status: int
    out: str
    err: str
    runs: tuple[Run, ...]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the program."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(
    *command: object,
    options: tuple[object, ...] = (),
    report: bool = False,
    **extra: str,
) -> Done:
    """Run a command under `stepscope run` in the working directory."""
    asked = ["run", *options, *([] if report else ["--no-report"]), "--", *command]
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, asked)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **extra},
    )
    return Done(done.returncode, done.stdout, done.stderr, runs_here())


def runs_here() -> tuple[Run, ...]:
    logdir = Path("stepscope-logs")
    return scan_directory(logdir).runs if logdir.is_dir() else ()


def script(text: str, name: str = "program.py") -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


def steps_of(run: Run) -> list[int]:
    overview = ss.open(run.directory).tool("overview_page")
    return [step.step for step in getattr(overview, "steps", ())]


def annotations_of(run: Run) -> list[str]:
    """Names of all events of a run, over all hosts."""
    profile = ss.open(run.directory)
    names: list[str] = []
    for host in profile.hosts:
        trace = profile.trace(host)
        types = trace.table("event_types")["name"]
        names += types.gather(trace.table("events")["type"].to_physical()).to_list()
    return names


@pytest.mark.usefixtures("folder")
def test_ten_steps_are_skipped_and_ten_recorded() -> None:
    done = run(script(MARKED), 40, options=TEN, report=True)
    assert done.status == 0
    (recorded,) = done.runs
    assert steps_of(recorded) == list(range(110, 120))
    assert "steps 11 to 20" in done.err


@pytest.mark.usefixtures("folder")
def test_more_are_recorded_where_ten_are_over_in_an_instant() -> None:
    # On a busy machine fewer fit into that time, but those that were asked for.
    done = run(script(MARKED), 60)
    (recorded,) = done.runs
    found = steps_of(recorded)
    assert found == list(range(110, 110 + len(found)))
    assert len(found) >= 10
    assert f"steps 11 to {10 + len(found)};" in done.err


@pytest.mark.usefixtures("folder")
def test_how_many_steps_are_skipped_and_recorded_can_be_chosen() -> None:
    done = run(script(MARKED), 40, options=("--skip-steps", 3, "--steps", 4))
    (recorded,) = done.runs
    assert steps_of(recorded) == [103, 104, 105, 106]


@pytest.mark.usefixtures("folder")
def test_no_step_need_be_skipped() -> None:
    done = run(script(MARKED), 5, options=("--skip-steps", 0, "--steps", 2))
    (recorded,) = done.runs
    assert steps_of(recorded) == [100, 101]


@pytest.mark.usefixtures("folder")
def test_standard_output_is_the_programs_own() -> None:
    done = run(script(MARKED), 30, report=True)
    assert done.out == "trained ['30']\n"
    assert "Where the step time went" in done.err
    assert str(Path("stepscope-logs").absolute()) in done.err


@pytest.mark.usefixtures("folder")
def test_a_program_that_ends_within_the_window_is_reported_with_what_there_is() -> None:
    done = run(script(MARKED), 14, report=True)
    assert done.status == 0
    (recorded,) = done.runs
    assert steps_of(recorded) == [110, 111, 112, 113]
    assert "steps 11 to 14" in done.err


@pytest.mark.usefixtures("folder")
def test_a_program_that_ends_before_the_window_still_shows_its_steps() -> None:
    done = run(script(MARKED), 6, report=True)
    assert done.status == 0
    (recorded,) = done.runs
    assert steps_of(recorded) == list(range(100, 106))
    assert "ended after step 6" in done.err


ENDINGS = {
    "sys.exit": ("sys.exit(3)", 3),
    "a word": ("sys.exit('bad')", 1),
    "exception": ("raise ValueError('no such batch')", 1),
    "interrupted": ("raise KeyboardInterrupt", 130),
    "terminated": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", 143),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    "at once": ("os._exit(7)", 7),
}


# Every ending is always tried, with one of the numbers of steps.
@pytest.mark.usefixtures("folder")
@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("steps", [4, 14])
def test_the_exit_status_is_the_programs_own(ending: str, steps: int) -> None:
    code, status = ENDINGS[ending]
    # Without stepscope nothing is stored.
    wait = f"{STORED}\nif os.path.exists('stepscope-logs'): stored('stepscope-logs')\n"
    text = f"import os, signal\n{MARKED}\nsys.stdout.flush()\n{wait}{code}\n"
    plain = subprocess.run(
        [sys.executable, script(text), str(steps)],
        capture_output=True,
        text=True,
        check=False,
    )
    done = run("program.py", steps)
    expected = plain.returncode
    assert done.status == (expected if expected >= 0 else 128 - expected) == status
    assert done.out == plain.stdout
    # Tracebacks and last words as ever.
    assert plain.stderr in done.err
    (recorded,) = done.runs
    found = steps_of(recorded)
    first = 100 if steps == 4 else 110
    assert found == list(range(first, 100 + steps))


@pytest.mark.usefixtures("folder")
def test_modules_and_code_are_programs_too() -> None:
    script(MARKED, "trainer.py")
    assert run("-m", "trainer", 30, options=TEN).out == "trained ['30']\n"
    assert run("-c", "print('code')").out == "code\n"
    done = run(sys.executable, "trainer.py", 30, options=TEN)
    assert done.out == "trained ['30']\n"
    assert sorted(len(steps_of(found)) for found in runs_here()) == [0, 10, 10]


@pytest.mark.usefixtures("folder")
def test_a_python_child_of_any_command_is_recorded() -> None:
    script(MARKED)
    done = run("sh", "-c", f"{sys.executable} program.py 30; exit 5", options=TEN)
    assert done.status == 5
    (recorded,) = done.runs
    assert steps_of(recorded) == list(range(110, 120))


FAMILY = """
import multiprocessing as mp, os, sys, time
import stepscope as ss

def work(base):
    for i in range(base, base + 30):
        with ss.StepTrace(i):
            time.sleep(0.001)

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    children = [context.Process(target=work, args=(n,)) for n in (100, 200)]
    for child in children: child.start()
    for child in children: child.join()
    print([child.exitcode for child in children])
"""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_each_process_that_steps_has_a_file_of_its_own_in_one_run(method: str) -> None:
    done = run(script(FAMILY), method, options=TEN)
    assert (done.status, done.out) == (0, "[0, 0]\n")
    (recorded,) = done.runs
    profile = ss.open(recorded.directory)
    assert len(profile.hosts) == 2
    found = sorted(
        tuple(step.step for step in ss.open(path).tool("overview_page").steps)
        for host in recorded.hosts
        for path in host.paths
    )
    assert found == [tuple(range(110, 120)), tuple(range(210, 220))]


@pytest.mark.usefixtures("folder")
def test_without_steps_a_window_of_time_is_recorded() -> None:
    text = """
import time, stepscope as ss
from pathlib import Path
begin = time.monotonic()
def is_stored():
    return list(Path("stepscope-logs").rglob("*.xplane.pb"))
def work():
    with ss.Trace(f"at {time.monotonic() - begin:.1f}"):
        time.sleep(0.05)
while not is_stored() and time.monotonic() - begin < 60: work()
for _ in range(20): work()
print(time.monotonic() - begin)
"""
    done = run(script(text), options=("--wait-s", 1, "--record-s", 0.8))
    assert "0.8 s were recorded after 1 s" in done.err
    (recorded,) = done.runs
    times = [float(name[3:]) for name in annotations_of(recorded) if name[:3] == "at "]
    assert times
    assert min(times) >= 0.5
    # However late a busy machine is: what comes after the window is not recorded.
    assert max(times) <= float(done.out) - 0.9


@pytest.mark.usefixtures("folder")
def test_steps_that_come_late_replace_what_time_had_opened() -> None:
    # Steps that come while what time had opened is being stored would not be seen.
    wait = """
import time
from pathlib import Path
while not list(Path("stepscope-logs").rglob("*.xplane.pb")):
    time.sleep(0.05)
time.sleep(0.5)
"""
    text = f"{wait}{MARKED}"
    done = run(script(text), 30, options=("--wait-s", 0.1, "--record-s", 0.2, *TEN))
    (recorded,) = done.runs
    assert len(recorded.hosts) == 1
    assert steps_of(recorded) == list(range(110, 120))


@pytest.mark.usefixtures("folder")
def test_plain_python_that_ends_early_is_recorded_too() -> None:
    done = run(script("import sys\nprint('plain')\nsys.exit(4)\n"), report=True)
    assert (done.status, done.out) == (4, "plain\n")
    assert len(done.runs) == 1
    assert "ended before the window began" in done.err
    assert "--wait-s 0 records from its start" in done.err
    assert "nothing to report" in done.err
    assert "Findings" not in done.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("ending", "with_what"),
    [
        (
            "raise ValueError('no data: train.csv\\n\\x1b[31m')",
            "ValueError: no data: train.csv [31m (exit status 1)",
        ),
        ("sys.exit(3)", "exit status 3"),
    ],
)
def test_a_program_that_fails_before_its_first_step_is_told_so_first(
    ending: str, with_what: str
) -> None:
    """Most were told that collections of garbage hold them up."""
    said = f"The program ended with {with_what} before its first step: "
    text = """
import gc, sys, time
kept = [[i] for i in range(100_000)]
end_s = time.process_time() + 1
while time.process_time() < end_s:
    gc.collect()
"""
    done = run(script(text + ending), report=True)
    assert done.status
    told = " ".join(done.err.split())
    assert said in told
    # Nothing else is said before, and no other change is proposed.
    assert told.index(said) < told.index("Do first (capture.steps): Let the program")
    assert "Do first (gap.gc)" not in told
    assert "Then (" not in told
    # Whoever opens the recording later is told as well.
    (recorded,) = done.runs
    assert judge_profile(ss.open(recorded.directory)).headline.text.startswith(said)


@pytest.mark.usefixtures("folder")
def test_plain_python_that_ends_early_is_explained_by_its_functions() -> None:
    text = """
import time

def spin():
    end = time.process_time() + 1
    while time.process_time() < end:
        pass

spin()
"""
    done = run(script(text), report=True)
    (recorded,) = done.runs
    assert "samples of its functions were recorded" in done.err
    assert "mostly `spin` (program.py:4)" in " ".join(done.err.split())
    overview = ss.open(recorded.directory).tool("overview_page")
    assert isinstance(overview, OverviewPageResult)
    busy = overview.breakdown_ms["host_compute"]
    assert busy is not None
    # The recorder began some time after the program did.
    assert busy >= 100


PLAIN = """
import pathlib, time

def work():
    time.sleep(0.01)

def main():
    end = time.monotonic() + 60
    while not is_stored() and time.monotonic() < end:
        for _ in range(10): work()

def is_stored():
    return list(pathlib.Path("stepscope-logs").rglob("*.xplane.pb"))

main()
"""
BY_TIME = ("--wait-s", 0.3, "--record-s", 0.8)


@pytest.mark.usefixtures("folder")
def test_plain_python_that_is_recorded_by_time_shows_its_python_calls_if_asked() -> (
    None
):
    done = run(script(PLAIN), options=(*BY_TIME, "--python-tracer-level", 1))
    (recorded,) = done.runs
    # Each takes 10 ms or more, of 0.8 s.
    calls = annotations_of(recorded).count("$program.py:4 work")
    assert 10 <= calls <= 90
    overview = ss.open(recorded.directory).tool("overview_page")
    assert isinstance(overview, OverviewPageResult)
    python_ms = overview.breakdown_detail_ms["host_compute"]
    assert python_ms is not None
    # They follow one another, and little else is called.
    assert python_ms >= 10 * calls
    assert python_ms <= sum(filter(None, overview.breakdown_ms.values()))


#: It calls small functions of a library a million times a second.
COLOURS = """
import colorsys, pathlib, time

def brighten(pixels):
    total = 0.0
    for red in pixels:
        hue, light, full = colorsys.rgb_to_hls(red / 4000, 0.25, 0.75)
        total += colorsys.hls_to_rgb(hue, light, full)[0]
    return total

def is_stored():
    return list(pathlib.Path("stepscope-logs").rglob("*.xplane.pb"))

end = time.monotonic() + 60
while not is_stored() and time.monotonic() < end:
    brighten(range(4001))
"""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "function"), [(PLAIN, "`work`"), (COLOURS, "`brighten`")]
)
def test_by_time_functions_of_the_program_are_sampled_and_none_is_lost(
    text: str, function: str
) -> None:
    done = run(script(text), options=BY_TIME, report=True)
    verdict = done.err.split("Where the step time went", maxsplit=1)[0]
    assert f"{function} (program.py:" in " ".join(verdict.split())
    assert "lost" not in done.err
    assert "Python call" not in done.err


@pytest.mark.usefixtures("folder")
def test_an_interpreter_that_cannot_record_is_named() -> None:
    text = "import sys\nsys.modules['msgspec'] = None\nimport time\ntime.sleep(0.5)"
    done = run(script(f"{text}\nprint('done')\n"))
    assert (done.status, done.out) == (0, "done\n")
    assert f"the program runs in {sys.executable}, which cannot record" in done.err
    assert f"stepscope there too, with {sys.executable} -m pip install" in done.err


@pytest.mark.usefixtures("folder")
def test_the_program_finds_python_as_it_would_be_without_us() -> None:
    text = """
import signal, sys
print(sys.path, sys.argv, sys.flags, __name__, sys.gettrace(), sys.getprofile())
print([signal.getsignal(number) for number in signal.valid_signals()])
finders = [getattr(it, "__name__", type(it).__name__) for it in sys.meta_path]
print([name for name in finders if name != "Arrivals"])
"""
    plain = subprocess.run(
        [sys.executable, script(text), "x"], capture_output=True, text=True, check=True
    )
    assert run("program.py", "x").out == plain.stdout


@pytest.mark.usefixtures("folder")
def test_a_sitecustomize_of_the_user_is_still_imported() -> None:
    Path("own").mkdir()
    script("import sys; sys.own_customization = 'here'\n", "own/sitecustomize.py")
    done = run(
        script("import sys; print(sys.own_customization)"),
        PYTHONPATH=str(Path("own").absolute()),
    )
    assert done.out == "here\n"


@pytest.mark.usefixtures("folder")
def test_a_log_directory_that_cannot_be_written_to_costs_the_recording_alone() -> None:
    Path("file").touch()
    done = run(script(MARKED), 30, options=("--logdir", "file/logs"), report=True)
    assert (done.status, done.out) == (0, "trained ['30']\n")
    assert "cannot be written to" in done.err
    # What was not recorded is not said to be kept anywhere.
    assert ".part" not in done.err
    assert "kept in memory" not in done.err
    assert "Traceback" not in done.err
    assert done.runs == ()


@pytest.mark.usefixtures("folder")
def test_a_fault_of_ours_is_a_line_and_nothing_else() -> None:
    done = run(script(MARKED), 30)
    assert done.status == 0
    broken = subprocess.run(
        [sys.executable, "program.py", "3"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "STEPSCOPE_RUN": "nonsense",
            "PYTHONPATH": str(
                Path(ss.__file__).parent / "capture" / "launching" / "injected"
            ),
        },
    )
    assert (broken.returncode, broken.stdout) == (0, "trained ['3']\n")
    assert broken.stderr.count("\n") == 1
    assert broken.stderr.startswith("stepscope: this process is not recorded")


@pytest.mark.usefixtures("folder")
def test_a_program_that_records_itself_is_left_alone() -> None:
    text = MARKED.replace(
        "for i", "recording = ss.Profile('own-logs')\nrecording.__enter__()\nfor i"
    )
    done = run(
        script(text + "\nrecording.__exit__(None, None, None)\n"), 30, report=True
    )
    assert (done.status, done.out) == (0, "trained ['30']\n")
    assert "records itself" in done.err
    (own,) = scan_directory(Path("own-logs")).runs
    assert steps_of(own) == list(range(100, 130))
    assert done.runs == ()


@pytest.mark.usefixtures("folder")
def test_a_signal_to_the_launcher_reaches_the_program() -> None:
    text = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-m", "stepscope", "run", script(text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 9


@pytest.mark.usefixtures("folder")
def test_nothing_is_left_but_the_log_directory(tmp_path: Path) -> None:
    script(MARKED)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run("program.py", 30, report=True, TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []
    (recorded,) = runs_here()
    assert [path.suffixes[-2:] for path in recorded.directory.iterdir()] == [
        [".xplane", ".pb"]
    ]


LEFT_THREADS = """
import atexit, sys, threading, time
def left():
    names = sorted(it.name for it in threading.enumerate())
    print([name for name in names if name.startswith("stepscope")])
atexit.register(left)
import stepscope as ss
busy = "import time; end = time.monotonic() + 1\\nwhile time.monotonic() < end: pass"
with ss.Trace("train", step_num=1, _r=1):
    # Code in which the main thread is not disturbed, so that it is waited for.
    exec(busy, {"__name__": "logging.busy"})
if sys.argv[1:] == ["exception"]:
    raise ValueError("the program's own")
"""


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("wait_s", ["0.5", "20"])
@pytest.mark.parametrize("how", ["end", "exception"])
def test_no_thread_of_ours_is_left_when_the_interpreter_ends(
    folder: Path, how: str, wait_s: str
) -> None:
    (folder / "train.py").write_text(LEFT_THREADS, encoding="utf-8")
    options = ("--wait-s", wait_s)
    done = run(sys.executable, "train.py", how, options=options)
    assert done.status == (how == "exception")
    assert done.out == "[]\n"
