"""A program that ends while it is recorded: it ends when it would, and that is said."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from stepscope.remote import client

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

#: Its standard input says how it ends.
PROGRAM = """
import signal, sys, time
import stepscope as ss
from stepscope.capture.recording.session import current_session
from stepscope.remote.messages import ProfileRequest

def ends(how):
    if how == "exits":
        sys.exit(3)
    if how == "raises":
        raise ValueError("of the program")
    if how == "stops":
        server.stop()
    while True:
        # Not `signal.pause`: it would sleep on if SIGTERM came just before it.
        time.sleep(0.05)

server = ss.server.start(0)
how = sys.stdin.readline().strip()
if how == "handles":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
print(server.address, flush=True)
while current_session() is None:
    sum(range(1000))
for number in range(1000):
    with ss.StepTrace(number):
        sum(range(1000))
print("trained", flush=True)
ends(how)
"""
ENDED = "the program ended while it was recorded"


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("exits", 3, ENDED),
        ("raises", 1, ENDED),
        ("killed by SIGTERM", -signal.SIGTERM, ENDED),
        ("handles", 4, ENDED),
        ("stops", -signal.SIGTERM, "the program "),
    ],
)
def test_a_program_that_ends_drops_what_a_client_asked_for_and_says_so(
    how: str, status: int, text: str, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(f"{how}\n")
        program.stdin.flush()
        address = program.stdout.readline().strip()
        outcomes: list[client.Outcome] = []

        def record() -> None:
            with pytest.raises(client.CaptureFailed) as failed:
                client.trace(address, tmp_path / "logs", 600_000)
            outcomes.append(failed.value.outcome)

        thread = threading.Thread(target=record)
        thread.start()
        assert program.stdout.readline() == "trained\n"
        if how in ("killed by SIGTERM", "handles"):
            program.terminate()
        if how == "stops":
            thread.join()
            program.terminate()
        assert program.wait(60) == status
        thread.join()
        assert program.stderr is not None
        said = program.stderr.read()
    (host,) = outcomes[0].all
    assert (host.state, host.attempts) == ("error", 1)
    assert host.text.startswith(text)
    assert "\n" not in host.text
    assert ("Traceback" in said) == (how == "raises")
