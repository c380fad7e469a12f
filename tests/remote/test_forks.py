"""What a program forks while clients record it, and what such a child can do itself."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from stepscope.remote import client

if TYPE_CHECKING:
    from pathlib import Path


#: Listens, and forks children that do little and end; how many ended badly or not.
FORKING = """
import collections, multiprocessing, sys
import stepscope as ss

def work():
    sum(range(1000))

print(ss.server.start(0).address, flush=True)
sys.stdin.readline()
context = multiprocessing.get_context("fork")
ended = collections.Counter()
for _ in range(100):
    children = [context.Process(target=work) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(20)
        ended[child.exitcode] += 1
        child.kill()
print(dict(ended), flush=True)
"""


@pytest.mark.slow(seconds=5)
def test_what_a_recorded_program_forks_neither_dies_nor_hangs(tmp_path: Path) -> None:
    """By its usual settings gRPC let one child in 25 die of SIGSEGV."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        over = threading.Event()
        recorded: list[str] = []

        def record() -> None:
            while not over.is_set():
                try:
                    outcome = client.trace(address, tmp_path, 20)
                except client.CaptureFailed as failure:
                    outcome = failure.outcome
                recorded.extend(one.state for one in outcome.all)

        recorder = threading.Thread(target=record)
        recorder.start()
        print(file=program.stdin, flush=True)
        try:
            ended = program.stdout.readline()
        finally:
            over.set()
            recorder.join()
    assert ended == "{0: 300}\n"
    assert "ok" in recorded


#: A child that was forked since its parent listens wants to listen, and to record.
CHILD = """
import os
import stepscope as ss
from stepscope.errors import BadUsage

server = ss.server.start(0)
if os.fork():
    os.wait()
else:
    for ask in (ss.server.start, lambda: ss.client.trace(server.address, ".", 10)):
        try:
            ask()
        except BadUsage as told:
            print(told, flush=True)
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("set_by_user", [{}, {"GRPC_ENABLE_FORK_SUPPORT": "false"}])
def test_a_child_is_told_that_grpc_does_not_outlive_a_fork(
    tmp_path: Path, set_by_user: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, **set_by_user},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    told = done.stdout.splitlines()
    assert len(told) == 2
    for one in told:
        assert one.startswith("recording from outside cannot begin here: this process")
        assert one.endswith("have the program spawn its children instead.")
