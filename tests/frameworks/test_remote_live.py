"""Real servers and clients of TensorFlow, JAX and XProf, and ours, in all pairs."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import ROOT, interpreter, steps_of

import stepscope as ss
from stepscope.remote import client
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.framework

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
a, b, logdir = sys.argv[1:]
trace = tf.profiler.experimental.client.trace
trace(f"grpc://{a}", logdir + "/single", 500)
trace(f"grpc://{a},grpc://{b}", logdir + "/called", 500)
trace(f"grpc://{a}", logdir + "/listed", 500, worker_list=f"{a},{b}")
"""
_OF_XPROF: Final = """
import sys
from xprof.convert import _pywrap_profiler_plugin as plugin
a, b, logdir = sys.argv[1:]
levels = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 0}
plugin.trace(a, logdir + "/single", "", True, 500, 3, levels)
plugin.trace(f"{a},{b}", logdir + "/called", "", True, 500, 3, levels)
plugin.trace(a, logdir + "/listed", f"{a},{b}", True, 500, 3, levels)
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


def test_our_client_records_one_server_and_all_kinds_at_once(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    with (
        running("tensorflow", "tensorflow", ports[0]),
        running("jax", "jax", ports[1]),
        running("torch", "own", "torch") as own,
    ):
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


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[str, str]]:
    """Addresses of a program of TensorFlow and of one without any framework."""
    with (
        running("tensorflow", "own", "tensorflow") as one,
        running("torch", "own", "plain") as other,
    ):
        yield one, other


@pytest.mark.parametrize("name", list(CLIENTS))
def test_their_client_records_one_of_our_servers_and_two(
    name: str, servers: tuple[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [interpreter(name), "-c", CLIENTS[name], *servers, tmp_path],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **SURROUNDINGS},
    )
    assert done.returncode == 0, done.stderr
    one, other = (address.replace(":", "_") for address in servers)
    asked = {"single": {one}, "called": {one, other}, "listed": {one, other}}
    for how, hosts in asked.items():
        # On a busy machine a client may ask again, in a run of its own.
        files = list((tmp_path / how).rglob("*.xplane.pb"))
        assert {file.name.removesuffix(".xplane.pb") for file in files} == hosts
        assert all(len(steps_of(ss.open(file))) > 1 for file in files)


@pytest.mark.framework(seconds=30)
def test_a_capture_holds_up_keras_hardly_longer_than_tensorflows_server_does(
    tmp_path: Path,
) -> None:
    """Ended on the main thread it took as long as the recording had lasted."""
    port, lasting_ms, turns = free_port(), 3000, 3
    longest_s: dict[str, list[float]] = {"TensorFlow's": [], "ours": []}
    with talking("tensorflow", "keras", port) as (ours, answer):
        addresses = {"TensorFlow's": f"localhost:{port}", "ours": ours}
        for turn in range(turns):
            for name, address in addresses.items():
                answer()
                outcome = client.trace(address, tmp_path / f"{turn}", lasting_ms)
                assert outcome.problems() == ""
                longest_s[name].append(float(answer()))
    # Other programs have the cores once in a while, but not in every turn.
    usual_s = statistics.median(longest_s["TensorFlow's"])
    assert min(longest_s["ours"]) < 2 * usual_s, longest_s
