"""A program that fails while it is recorded fails as it does alone: line for line.

The truth is the traceback that the program prints without us.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

#: All fail in their 14th step, of which 10 are skipped and 10 would be recorded.
OWN_PROFILER = """
import torch
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, 21):
    optimizer.zero_grad()
    (model(torch.ones(8, 16)) ** 2).mean().backward()
    optimizer.step()
    if step == 14:
        torch.profiler._KinetoProfile(experimental_config="none").start()
"""
JAX = """
import jax, jax.numpy as jnp
@jax.jit
def train_step(w, x):
    if x.shape[0] == 14:
        raise ArithmeticError("planted")
    return w - 0.1 * (x * w).mean()
w = jnp.ones(16)
for step in range(1, 21):
    w = train_step(w, jnp.ones((14 if step == 14 else 8, 16)))
"""
TF_FUNCTION = """
import tensorflow as tf
weights = tf.Variable(tf.ones((16, 4)))
@tf.function
def train_step(x):
    if x.shape[0] == 14:
        raise ArithmeticError("planted")
    weights.assign_sub(0.01 * tf.ones_like(weights))
    return tf.reduce_mean(x @ weights)
for step in range(1, 21):
    train_step(tf.ones((14 if step == 14 else 8, 16)))
"""
KERAS = """
import numpy as np, keras
class Planted(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 13:
            raise ArithmeticError("planted")
model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(4)])
model.compile("sgd", "mse")
x, y = np.ones((8 * 20, 16)), np.ones((8 * 20, 4))
model.fit(x, y, batch_size=8, verbose=0, callbacks=[Planted()])
"""
PROGRAMS = {
    "own_profiler": ("torch", OWN_PROFILER),
    "jax": ("jax", JAX),
    "tf_function": ("tensorflow", TF_FUNCTION),
    "keras": ("tensorflow", KERAS),
}
QUIET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def traceback_of(folder: Path, command: list[str]) -> list[str]:
    """The lines of the last traceback that a failing command prints."""
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **QUIET},
    )
    assert done.returncode == 1, done.stderr
    lines = done.stderr.splitlines()
    (first, *_) = [at for at, it in enumerate(lines) if it.startswith("Traceback")]
    frames = [it.strip() for it in lines[first:] if it.strip().startswith("File ")]
    assert frames, done.stderr
    return frames


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("own_profiler", marks=pytest.mark.thorough),
        *(name for name in PROGRAMS if name != "own_profiler"),
    ],
)
def test_an_error_shows_the_frames_that_it_has_without_us(
    name: str, tmp_path: Path
) -> None:
    environment, program = PROGRAMS[name]
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    alone = [str(interpreter(environment)), "train.py"]
    run = [sys.executable, "-m", "stepscope", "run", "--no-report", "--"]
    assert traceback_of(tmp_path, [*run, *alone]) == traceback_of(tmp_path, alone)
