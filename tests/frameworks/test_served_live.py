"""`stepscope run --serve` on real frameworks: their steps are found and recorded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import ROOT, interpreter

import stepscope as ss
from stepscope.remote import client, listening_programs
from stepscope.remote.processes import process_ancestors

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

TORCH: Final = """
import torch
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10**9):
    loss = (model(torch.ones(8, 16)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if step == 20: print("trains", flush=True)
"""
JAX: Final = """
import jax, jax.numpy as jnp
@jax.jit
def train_step(state, x):
    return state - 0.01 * jax.grad(lambda s: ((x @ s) ** 2).mean())(state)
state = jnp.ones((16, 4))
for step in range(10**9):
    state = train_step(state, jnp.ones((8, 16))).block_until_ready()
    if step == 20: print("trains", flush=True)
"""
KERAS: Final = """
import keras, numpy
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(4)])
model.compile("sgd", "mse")
class Says(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1: print("trains", flush=True)
x, y = numpy.ones((160, 16)), numpy.ones((160, 4))
model.fit(x, y, batch_size=8, epochs=10**6, verbose=0, callbacks=[Says()])
"""
#: Program, the environment that it runs in, and one of the ops that it is made of.
PROGRAMS: Final = {
    "torch": (TORCH, "torch", "aten::addmm"),
    "jax": (JAX, "jax_tfdata", "dot"),
    "keras": (KERAS, "tensorflow", "MatMul"),
}


def listeners(process: int, count: int) -> tuple[listening_programs.Listening, ...]:
    """Who listens of a process and those that it started, once so many do.

    They may begin to after their first steps.
    """
    end = time.monotonic() + 60
    while True:
        found = [
            one
            for one in listening_programs.listening_processes()
            if process in (one.process, *process_ancestors(one.process))
        ]
        if len(found) == count:
            return tuple(found)
        assert time.monotonic() < end
        time.sleep(0.05)


def served(*command: object) -> subprocess.Popen[str]:
    """A program under `stepscope run --serve`."""
    words = ("run", "--serve", "--", *command)
    return subprocess.Popen(
        [sys.executable, "-m", "stepscope", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "-1",
            "JAX_PLATFORMS": "cpu",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT / "src"),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
    )


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_knows_nothing_of_it_is_recorded_by_steps(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, environment, op = PROGRAMS[name]
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    script = tmp_path / "program.py"
    script.write_text(text, encoding="utf-8")
    process = served(interpreter(environment), script)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "trains\n"
        (found,) = listeners(process.pid, 1)
        outcome = client.trace(found.address, tmp_path / "logs", 60_000, steps=5)
    finally:
        process.terminate()
        said = process.communicate(timeout=60)[1]
    assert re.search(f"process {found.process} .* listens at {found.address}", said)
    profile = ss.open(outcome.directory)
    overview = profile.tool("overview_page")
    steps = [step.step for step in overview.steps]
    assert len(steps) >= 5
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    (host,) = profile.hosts
    names = profile.trace(host).table("event_types")["name"]
    assert names.str.contains(op, literal=True).any()


@pytest.mark.integration
def test_ranks_of_torchrun_are_recorded_by_the_number_of_who_started_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    script = tmp_path / "program.py"
    script.write_text(TORCH, encoding="utf-8")
    launcher = (interpreter("torch"), "-m", "torch.distributed.run", "--standalone")
    process = served(*launcher, "--nproc-per-node", 2, script)
    try:
        assert process.stdout is not None
        # One of each rank. Each has listened since before it imported PyTorch, or
        # begins to when that is done.
        assert [process.stdout.readline() for _ in range(2)] == ["trains\n"] * 2
        listeners(process.pid, 2)
        ranks = listening_programs.servers_of_process(process.pid)
        hosts = [rank.address for rank in ranks]
        outcome = client.trace(hosts, tmp_path / "logs", 60_000, steps=5)
    finally:
        process.terminate()
        said = process.communicate(timeout=60)[1]
    # The launcher itself, which trains nothing, says nothing.
    assert said.count("listens at") == 2
    assert all(
        f"process {rank.process} ({script}) listens at" in said for rank in ranks
    )
    profile = ss.open(outcome.directory)
    assert len(profile.hosts) == 2
    for host in profile.hosts:
        names = profile.trace(host).table("event_types")["name"]
        assert names.str.contains("aten::addmm", literal=True).any()
