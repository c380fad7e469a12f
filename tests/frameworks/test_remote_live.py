"""Real servers and clients of TensorFlow, JAX and XProf, and ours, in all pairs."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import ROOT, interpreter, steps_of

import stepscope as ss
from stepscope.remote import client, listening_programs
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.framework, pytest.mark.integration]

PROGRAMS: Final = Path(__file__).parent / "programs"
SURROUNDINGS: Final = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "PYTHONPATH": str(ROOT / "src"),
}
#: The client calls one address, then both, then one of them that calls the other.
_OF_TENSORFLOW: Final = """
import sys
import tensorflow as tf
a, b, single, called, listed = sys.argv[1:]
trace = tf.profiler.experimental.client.trace
trace(f"grpc://{a}", single, 500)
trace(f"grpc://{a},grpc://{b}", called, 500)
trace(f"grpc://{a}", listed, 500, worker_list=f"{a},{b}")
"""
_OF_XPROF: Final = """
import sys
from xprof.convert import _pywrap_profiler_plugin as plugin
a, b, single, called, listed = sys.argv[1:]
levels = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 0}
plugin.trace(a, single, "", True, 500, 3, levels)
plugin.trace(f"{a},{b}", called, "", True, 500, 3, levels)
plugin.trace(a, listed, f"{a},{b}", True, 500, 3, levels)
"""
CLIENTS: Final = {"tensorflow": _OF_TENSORFLOW, "xprof": _OF_XPROF}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def running(framework: str, program: str, *arguments: object) -> Iterator[str]:
    """A program until the block is left; what it prints when it is ready."""
    with talking(framework, program, *arguments) as (line, _):
        yield line


@contextmanager
def talking(
    framework: str, program: str, *arguments: object
) -> Iterator[tuple[str, Callable[[], str]]]:
    """As `running`, and what the program answers to a line."""
    command = [
        interpreter(framework),
        PROGRAMS / f"listening_{program}.py",
        *map(str, arguments),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **SURROUNDINGS},
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline().strip()
            assert line, "the program ended before it was ready"

            def answer() -> str:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("\n")
                process.stdin.flush()
                return process.stdout.readline()

            yield line, answer
        finally:
            process.communicate(timeout=60)
    assert process.returncode == 0


#: State of a socket that listens, in /proc/net/tcp.
LISTENS: Final = "0A"
#: 0.0.0.0, :: and 127.0.0.1, as a machine that is little-endian writes them.
EVERYWHERE: Final = {"0" * 8, "0" * 32}
LOOPBACK: Final = "0100007F"


def listening(process: int) -> set[tuple[str, int]]:
    """Address, as the system writes it, and port of what a process listens at."""
    handles = Path(f"/proc/{process}/fd").iterdir()
    targets = {str(handle.readlink()) for handle in handles if handle.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        lines = Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]
        for _, local, _, state, *others in map(str.split, lines):
            if state == LISTENS and f"socket:[{others[5]}]" in targets:
                host, _, port = local.partition(":")
                found.add((host, int(port, 16)))
    return found


def test_our_client_records_one_server_and_all_kinds_at_once(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    with (
        running("tensorflow", "tensorflow", ports[0]) as tensorflow,
        running("jax", "jax", ports[1]) as jax,
        running("torch", "own", "torch") as own,
    ):
        for process in map(int, (tensorflow, jax)):
            # As SECURITY.md says; ours listens on loopback, as the next test shows.
            assert {host for host, _ in listening(process)} <= EVERYWHERE
        hosts = (*(f"localhost:{port}" for port in ports), own)
        singles = [client.trace(host, tmp_path / "single", 500) for host in hosts[:2]]
        outcome = client.trace(hosts, tmp_path / "all", 1000)
    assert outcome.problems() == ""
    assert outcome.hosts == hosts
    profile = ss.open(outcome.directory)
    assert len(profile.hosts) == 3
    for single in singles:
        assert single.problems() == ""
        found = steps_of(ss.open(single.directory))
        assert len(found) > 1
        assert {marker for marker, _ in found} == {"train"}
    # What listens in a PyTorch program records PyTorch: its profiler was started from
    # another thread, and on the main one.
    ops = profile.table(own.replace(":", "_"), "event_types")
    assert not isinstance(ops, Unavailable)
    assert "aten::mm" in ops["name"].to_list()


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_tracer_levels_of_a_client_open_no_port(tmp_path: Path) -> None:
    """TensorFlow takes them only through its own server, which lets everybody in."""
    options = ss.ProfilerOptions(host_tracer_level=3, python_tracer_level=1)
    with running("tensorflow", "own", "tensorflow") as own:
        listener = listening_programs.server_at_address(own)
        assert listener is not None
        before = listening(listener.process)
        ((host, port),) = before
        # The address of IPv6 that means one of IPv4 ends with it.
        assert (host[-8:], port) == (LOOPBACK, int(own.rpartition(":")[2]))
        outcome = client.trace(own, tmp_path, 500, options=options)
        assert listening(listener.process) == before
    assert outcome.problems() == ""
    profile = ss.open(outcome.directory)
    (host,) = profile.hosts
    said = str(profile.trace(host).quality_notes())
    assert said.count("is not started for a client") == 1
    # What was there is recorded all the same.
    assert len(steps_of(profile)) > 1


@pytest.fixture(scope="module")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of the first of both servers."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def servers(logdir: Path) -> Iterator[tuple[str, str]]:
    """Addresses of a program of TensorFlow and of one without any framework.

    The first writes files for its clients, and calls the other for them.
    """
    with (
        running("torch", "own", "plain", logdir / "other") as other,
        running("tensorflow", "own", "tensorflow", logdir, other) as one,
    ):
        yield one, other


@pytest.mark.parametrize("name", list(CLIENTS))
def test_their_client_records_one_of_our_servers_and_two(
    name: str, servers: tuple[str, str], logdir: Path, tmp_path: Path
) -> None:
    """A client writes what it is sent, or has the server that it asks write it."""
    folders = [tmp_path / "single", tmp_path / "called", logdir / name]
    done = subprocess.run(
        [interpreter(name), "-c", CLIENTS[name], *servers, *folders],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **SURROUNDINGS},
    )
    assert done.returncode == 0, done.stderr
    one, other = (address.replace(":", "_") for address in servers)
    for folder, hosts in zip(folders, ({one}, {one, other}, {one, other}), strict=True):
        # On a busy machine a client may ask again, in a run of its own.
        files = list(folder.rglob("*.xplane.pb"))
        assert {file.name.removesuffix(".xplane.pb") for file in files} == hosts
        assert all(len(steps_of(ss.open(file))) > 1 for file in files)


#: Each call connects anew, and names no session.
_CONTINUOUS: Final = """
import sys
from xprof.api import continuous_profiling_snapshot as profiler
address, logdir = sys.argv[1:]
profiler.start_continuous_profiling(address, {"host_tracer_level": 2})
for number in range(2):
    profiler.get_snapshot(address, f"{logdir}/{number}")
profiler.stop_continuous_profiling(address)
profiler.start_continuous_profiling(address, {"host_tracer_level": 2})
profiler.stop_continuous_profiling(address)
"""


def test_xprof_takes_snapshots_of_the_recording_that_it_began(
    servers: tuple[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [interpreter("xprof"), "-c", _CONTINUOUS, servers[1], tmp_path],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **SURROUNDINGS},
    )
    assert done.returncode == 0, done.stderr
    for number in range(2):
        assert list((tmp_path / str(number)).rglob("*.xplane.pb")) != []


@pytest.mark.framework(seconds=30)
def test_a_capture_holds_up_keras_for_a_part_of_the_time_that_it_records(
    tmp_path: Path,
) -> None:
    """Ended on the main thread it took as long as the recording had lasted."""
    lasting_ms, turns = 3000, 3
    longest_s = []
    with talking("tensorflow", "keras", free_port()) as (ours, answer):
        for turn in range(turns):
            answer()
            outcome = client.trace(ours, tmp_path / f"{turn}", lasting_ms)
            assert outcome.problems() == ""
            longest_s.append(float(answer()))
    # Other programs have the cores once in a while, but not in every turn.
    assert min(longest_s) < lasting_ms / 1000 / 2, longest_s


@pytest.mark.parametrize("name", list(CLIENTS))
def test_their_client_is_told_why_a_server_refuses_it_and_the_way_out(
    name: str, tmp_path: Path
) -> None:
    """A default server wants a token, which they cannot send."""
    with running("torch", "own", "plain") as own:
        done = subprocess.run(
            [interpreter(name), "-c", CLIENTS[name], own, own, *[tmp_path] * 3],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, **SURROUNDINGS, "TF_CPP_MIN_LOG_LEVEL": "0"},
        )
    assert done.returncode != 0
    assert "this server requires a token" in done.stderr
    assert 'ss.server.start(open_to="machine")' in done.stderr
    assert list(tmp_path.rglob("*.xplane.pb")) == []
