"""SIGTERM in every kind of window: the framework's part is stored, the status kept."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import interpreter, only_file

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

#: What a program does over and over, and part of a name that only the framework writes.
PROGRAMS = {
    "jax": (
        """
import jax, jax.numpy as jnp
x = jnp.ones((64, 64)) / 64
train_step = jax.jit(lambda x: x @ x)
def step():
    global x
    x = train_step(x)
def other(): jnp.sin(x).block_until_ready()
""",
        "Pjit",
    ),
    "tensorflow": (
        """
import tensorflow as tf
x = tf.ones((64, 64)) / 64
train_step = tf.function(lambda x: x @ x)
def step():
    global x
    x = train_step(x)
def other(): tf.sin(x).numpy()
""",
        "TFE_Py",
    ),
    "torch": (
        """
import torch
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    loss = (model(torch.ones(8, 16)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
def other(): torch.sin(torch.ones(64, 64))
""",
        "aten::",
    ),
}
LOOP = """
import os, signal, sys, threading, time
what = {"steps": step, "time": other}[sys.argv[1]]
# Whether the collector of the framework has begun, and all others have.
def is_recorded():
    sessions = sys.modules.get("stepscope.capture.recording.session")
    recording = sessions and sessions.current_session()
    under_way = recording and recording._under_way
    return bool(under_way) and sys.argv[2] in [it.name for it in under_way._started]
made = 0
enough = threading.Event()
def end():
    enough.wait()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end, daemon=True).start()
while True:
    what()
    made += is_recorded()
    if made == 20: enough.set()
    time.sleep(0.01)
"""
WINDOWS = {
    "steps": ("--skip-steps", "2", "--steps", "100000", "--max-s", "600"),
    "time": ("--wait-s", "1", "--record-s", "600"),
}
QUIET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def recorded(
    folder: Path, name: str, text: str, window: str
) -> subprocess.CompletedProcess[str]:
    """What became of a program of an environment under `stepscope run`."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    asked = ["run", *WINDOWS[window], "--no-report", "--", interpreter(name)]
    return subprocess.run(
        [sys.executable, "-m", "stepscope", *asked, "train.py", window, name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **QUIET},
    )


def names_in(path: Path) -> list[str]:
    profile = ss.open(path)
    (host,) = profile.hosts
    return profile.trace(host).table("event_types")["name"].to_list()


# Every framework and every window are in some of those that are always tried.
@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    ("name", "window"),
    [
        *(("jax", "steps"), ("jax", "time")),
        *(("tensorflow", "time"), ("tensorflow", "steps")),
        *(("torch", "steps"), ("torch", "time")),
    ],
)
def test_the_frameworks_part_is_stored(name: str, window: str, tmp_path: Path) -> None:
    program, sign = PROGRAMS[name]
    done = recorded(tmp_path, name, program + LOOP, window)
    assert done.returncode == 143, done.stderr
    assert "SIGTERM ended the recording" in done.stderr
    assert "was killed" not in done.stderr
    found = names_in(only_file(tmp_path / "stepscope-logs"))
    assert any(sign in it for it in found), done.stderr


LONG_CALL = """
import ctypes, time
before = other
def other():
    before()
    if made == 19:
        enough.set()
        # A call that keeps the main thread outside of Python, as a framework may.
        ctypes.CDLL(None).sleep(100)
"""
#: The long call has begun when the signal comes.
LATE = "enough.wait()\n    time.sleep(2)"


def test_a_call_that_does_not_return_holds_up_neither_storing_nor_the_end(
    tmp_path: Path,
) -> None:
    program, sign = PROGRAMS["torch"]
    loop = LOOP.replace("enough.wait()", LATE)
    done = recorded(tmp_path, "torch", program + LONG_CALL + loop, "time")
    assert done.returncode == 143, done.stderr
    assert "SIGTERM ended the recording" in done.stderr
    found = names_in(only_file(tmp_path / "stepscope-logs"))
    assert any(sign in it for it in found), done.stderr


OWN_HANDLER = """
import os, signal, sys
def mine(*_):
    print("mine", flush=True)
    os._exit(9)
signal.signal(signal.SIGTERM, mine)
"""


def test_the_programs_own_handler_runs_after_storing(tmp_path: Path) -> None:
    program, sign = PROGRAMS["torch"]
    done = recorded(tmp_path, "torch", OWN_HANDLER + program + LOOP, "steps")
    assert (done.returncode, done.stdout) == (9, "mine\n"), done.stderr
    found = names_in(only_file(tmp_path / "stepscope-logs"))
    assert any(sign in it for it in found), done.stderr


#: Its main thread waits in one call until something was stored.
WAITS = """
import os, pathlib, threading, time, torch
reading, writing = os.pipe()
def tell():
    while not list(pathlib.Path("stepscope-logs").rglob("*.xplane.pb")):
        time.sleep(0.1)
    os.write(writing, b"stored")
threading.Thread(target=tell).start()
os.read(reading, 1)
print("done")
"""


def test_a_main_thread_that_never_comes_back_starts_no_profiler(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(WAITS, encoding="utf-8")
    asked = ["run", "--wait-s", "0.3", "--record-s", "0.5", "--no-report", "--"]
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *asked, interpreter("torch"), "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **QUIET},
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert (
        done.stderr.count("PyTorch was not recorded: its profiler must start on") == 1
    )
    only_file(tmp_path / "stepscope-logs")
