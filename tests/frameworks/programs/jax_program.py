"""A training loop in JAX with one thing wrong, or nothing; a program, no test.

jax_program.py FAULT
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from clock import SEED, STEPS, rows_or, step_begins

import stepscope as ss

ROWS, FEATURES, LAYERS = rows_or(64), 512, 4
FOLDER = Path(tempfile.mkdtemp())
RANDOM = np.random.default_rng(SEED)
INPUTS = RANDOM.normal(size=(ROWS, FEATURES)).astype("float32")
TEXT = "word " * FEATURES


def loss_of(weights: Any, rows: Any) -> Any:
    hidden = rows
    for weight in weights:
        hidden = jax.nn.relu(hidden @ weight)
    return jnp.mean((hidden - rows) ** 2)


def update(weights: Any, rows: Any) -> Any:
    loss, slopes = jax.value_and_grad(loss_of)(weights, rows)
    return jax.tree.map(lambda it, slope: it - 0.1 * slope, weights, slopes), loss


train_step = jax.jit(update)


def show(slopes: Any) -> None:
    """What looks at gradients from within a compiled step."""
    for _ in range(6):
        np.sort(np.asarray(slopes), axis=None)


@jax.jit
def watched_step(weights: Any, rows: Any) -> Any:
    weights, loss = update(weights, rows)
    jax.debug.callback(show, weights[0])
    return weights, loss


def transform(rows: np.ndarray) -> np.ndarray:
    """A transform that sorts each batch many times."""
    for _ in range(120):
        rows = np.sort(rows, axis=1) - np.sort(rows, axis=0)
    return rows


def read_norms(weights: Any) -> list[float]:
    """Fetches every weight many times, and works on it here."""
    return [float(np.square(np.asarray(it)).sum()) for it in weights * 40]


def log_metrics() -> None:
    time.sleep(0.06)


def save_checkpoint(weights: Any) -> None:
    for at in range(8):
        np.savez(FOLDER / f"{at}.npz", *[np.asarray(weight) for weight in weights])


#: Fault → what is called in place of the compiled step.
STEPS_OF = {"eager": update, "debug": watched_step}


def take_step(step: int, weights: Any, fault: str, rows: np.ndarray) -> Any:
    if fault == "recompile":
        rows = np.resize(rows, (ROWS + step, FEATURES))
    if fault == "slow_transform":
        rows = transform(rows)
    step_of = STEPS_OF.get(fault, train_step)
    weights, loss = step_of(weights, rows)
    loss.block_until_ready()
    if fault == "read_back":
        read_norms(weights)
    if fault == "callback":
        log_metrics()
    if fault == "checkpoint" and step % 2:
        save_checkpoint(weights)
    return weights


def main(fault: str) -> None:
    keys = jax.random.split(jax.random.key(SEED), LAYERS)
    weights = [jax.random.normal(key, (FEATURES, FEATURES)) * 0.05 for key in keys]
    for step in range(STEPS):
        step_begins()
        # What lies before the mark of a step is in no step for who looks at marks only.
        rows = transform(INPUTS) if fault == "outside" else INPUTS
        with ss.StepTrace(step):
            if fault == "inlined":
                _ = [word for text in [TEXT] * 4096 for word in text.split()]  # inlined
            weights = take_step(step, weights, fault, rows)


if __name__ == "__main__":
    main(sys.argv[1])
