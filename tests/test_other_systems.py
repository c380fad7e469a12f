"""Reading profiles uses nothing that macOS or Windows lack: it works without it here.

Each command runs in a process from which the modules, names and files are removed that
Python does not have there; it has to print what it prints on Linux.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow(seconds=2)


class Lack(NamedTuple):
    """What Python does not have on a system, compared with Linux."""

    modules: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


#: From the availability notes of Python's documentation.
LACKS = {
    "darwin": Lack(
        names=(
            *("os.sched_getaffinity", "os.sched_setaffinity", "os.memfd_create"),
            *("os.pipe2", "os.posix_fadvise", "time.CLOCK_BOOTTIME"),
            *("signal.sigtimedwait", "mmap.MADV_DONTFORK"),
        )
    ),
    "win32": Lack(
        modules=("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"),
        names=(
            *("os.fork", "os.forkpty", "os.register_at_fork", "os.killpg"),
            *("os.sched_getaffinity", "os.sched_setaffinity", "os.sysconf"),
            *("os.getuid", "os.geteuid", "os.getgid", "os.getpgid", "os.setsid"),
            *("os.pread", "os.pwrite", "os.preadv", "os.mkfifo", "os.chown"),
            *("os.O_CLOEXEC", "os.O_NONBLOCK", "os.O_NOFOLLOW", "os.O_DIRECTORY"),
            *("os.WIFSIGNALED", "os.WTERMSIG", "os.uname", "os.getloadavg"),
            *("os.set_blocking", "os.pipe2", "os.memfd_create"),
            *("signal.SIGHUP", "signal.SIGQUIT", "signal.SIGUSR1", "signal.SIGUSR2"),
            *("signal.SIGKILL", "signal.SIGCHLD", "signal.SIGALRM", "signal.SIGPIPE"),
            *("signal.pthread_sigmask", "signal.setitimer", "signal.pthread_kill"),
            *("time.clock_gettime", "time.clock_gettime_ns", "time.CLOCK_MONOTONIC"),
            *("mmap.MADV_WILLNEED", "mmap.MADV_DONTNEED", "mmap.PROT_READ"),
            *("socket.AF_UNIX", "socket.SO_REUSEPORT"),
        ),
    ),
}
#: Runs a command line without all that. Windows changes line ends in files that are
#: opened without a flag, so there each file has to be opened with it.
PROGRAM = """
import mmap, os, re, signal, socket, sys, sysconfig, time
sysconfig.get_config_vars()  # from a file that is named after the system
system, modules, names = {system!r}, {modules!r}, {names!r}
for name in modules:
    sys.modules[name] = None
for name in names:
    owner, _, attribute = name.partition(".")
    if hasattr(sys.modules[owner], attribute):
        delattr(sys.modules[owner], attribute)
def refuse_files_of_linux(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and re.match(
        "/(proc|sys)(/|$)", str(arguments[0])
    ):
        raise FileNotFoundError(2, "No such file", arguments[0])
sys.addaudithook(refuse_files_of_linux)
if system == "win32":
    os.O_BINARY = 1 << 28
    open_file = os.open
    def open_binary_file(path, flags, *arguments, **named):
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        assert flags & os.O_BINARY or writes or os.path.isdir(path), path
        return open_file(path, flags & ~os.O_BINARY, *arguments, **named)
    os.open = open_binary_file
from stepscope.__main__ import run
sys.platform = system
sys.argv = ["stepscope", *{arguments!r}]
run()
"""
JAX = "tests/data/jax_cpu/annotations"
TORCH = "tests/data/torch_train"
COMMANDS = (
    ("report", "--full", "src/stepscope/cli/demo_profiles/torch_input_bound"),
    ("report", "--format", "json", "tests/data/nsight_cpu"),
    ("show", "overview_page", "--format", "json", TORCH),
    ("show", "trace_viewer", "--format", "json", JAX),
    ("diff", TORCH, TORCH),
    ("doctor", JAX),
    ("serve", "--help"),
)


def run_program(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            # It would read /proc.
            "POLARS_SKIP_CPU_CHECK": "1",
        },
    )


def answer_on(system: str, arguments: tuple[str, ...]) -> str:
    lack = LACKS.get(system, Lack())
    done = run_program(
        PROGRAM.format(
            system=system,
            modules=lack.modules,
            names=lack.names,
            arguments=arguments,
        )
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_that_reads_answers_as_on_linux(arguments: tuple[str, ...]) -> None:
    answers = {name: answer_on(name, arguments) for name in ("linux", *LACKS)}
    assert answers["linux"]
    assert set(answers.values()) == {answers["linux"]}


@pytest.mark.parametrize("system", LACKS)
def test_the_machine_is_checked(system: str) -> None:
    assert "compiled" in answer_on(system, ("doctor",))


@pytest.mark.parametrize("system", LACKS)
def test_trials_say_which_system_they_need(system: str) -> None:
    with pytest.raises(AssertionError, match="this command needs Linux"):
        answer_on(system, ("try", "--", "python", "train.py"))


def test_what_is_removed_is_missed() -> None:
    """A program that uses what Windows lacks fails in the same surroundings."""
    lack = LACKS["win32"]
    program = PROGRAM.partition("from stepscope")[0].format(
        system="win32", modules=lack.modules, names=lack.names
    )
    for use in ("import fcntl", "os.fork()", "open('/proc/self/stat')"):
        assert run_program(program + use).returncode == 1
    opened = run_program(f"{program}os.open({__file__!r}, os.O_RDONLY)")
    assert "AssertionError" in opened.stderr
    read = run_program(f"{program}os.open({__file__!r}, os.O_RDONLY | os.O_BINARY)")
    assert (read.returncode, read.stderr) == (0, "")


def test_the_server_starts_without_it() -> None:
    """Only its modules, since it would wait for requests."""
    lack = LACKS["win32"]
    program = PROGRAM.partition("sys.argv")[0].format(
        system="win32", modules=lack.modules, names=lack.names
    )
    done = run_program(f"{program}import stepscope.cli.serve, stepscope.serve.app")
    assert done.stderr == ""


def test_the_page_names_the_tested_versions_of_frameworks() -> None:
    page = (ROOT / "docs" / "supported-systems.md").read_text(encoding="utf-8")
    pins = (ROOT / "build_tools" / "framework_venv.py").read_text(encoding="utf-8")
    tested = dict(re.findall(r"^\| (\w+) \| ([\d.]+) \|", page, re.MULTILINE))
    assert tested == {
        "TensorFlow": pinned("tensorflow-cpu", pins),
        "Keras": pinned("keras", pins),
        "JAX": pinned("jax", pins),
        "PyTorch": pinned("torch", pins),
    }


def pinned(package: str, pins: str) -> str:
    (version,) = set(re.findall(rf'"{package}==([\d.]+)"', pins))
    return version
