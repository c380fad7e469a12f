"""A PyTorch program that ends while a client records it."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import ROOT, interpreter

import stepscope as ss
from stepscope.remote import client

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM: Final = """
import atexit, sys, time
import torch
import stepscope as ss
from stepscope.capture.recording.session import current_session

torch.set_num_threads(1)
server = ss.server.start(0)
print(server.address, flush=True)
row = torch.ones(4)
while current_session() is None:
    time.sleep(0.01)
for _ in range(200_000):
    row + 1
atexit.register(print, "its own exit function", flush=True)
print(time.process_time(), flush=True)
sys.exit(3)
"""


@pytest.mark.framework(seconds=25)
def test_a_pytorch_program_that_ends_does_not_wait_for_its_recording(
    tmp_path: Path,
) -> None:
    """PyTorch takes 20 µs an op to end a recording: one program ended 82 s late."""
    outcomes: list[client.Outcome] = []

    def record(address: str) -> None:
        with pytest.raises(client.CaptureFailed) as failed:
            ss.client.trace(address, tmp_path / "logs", 600_000)
        outcomes.append(failed.value.outcome)

    with subprocess.Popen(
        [interpreter("torch"), "-c", PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ) as program:
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        thread = threading.Thread(target=record, args=(address,))
        thread.start()
        computed_s = float(program.stdout.readline())
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        thread.join()
        assert program.stdout.read() == "its own exit function\n"
    assert program.returncode == 3
    # Of its own processor time, which no other program adds to.
    assert usage.ru_utime + usage.ru_stime - computed_s < 2
    (host,) = outcomes[0].all
    assert host.text == "the program ended while it was recorded"
