"""A training loop in NumPy with one thing wrong, or nothing; a program, no test.

plain_program.py FAULT
"""

from __future__ import annotations

import gc
import logging
import pickle
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from clock import SEED, STEPS, rows_or, step_begins

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, FEATURES = rows_or(128), 512
RANDOM = np.random.default_rng(SEED)
WEIGHTS = RANDOM.normal(size=(FEATURES, FEATURES)).astype("float32")
INPUTS = RANDOM.normal(size=(ROWS, FEATURES)).astype("float32")
FOLDER = Path(tempfile.mkdtemp())
WORDS = [f"word{number % 977}" for number in range(40_000)]


def forward(inputs: np.ndarray) -> np.ndarray:
    hidden = inputs
    for _ in range(6):
        hidden = np.tanh(hidden @ WEIGHTS * 0.01)
    return hidden


def backward(inputs: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    slopes = inputs.T @ (hidden - inputs)
    for _ in range(3):
        slopes = slopes * 0.5 + inputs.T @ hidden
    return slopes


def train_step(inputs: np.ndarray) -> float:
    hidden = forward(inputs)
    slopes = backward(inputs, hidden)
    return float(slopes[0, 0] + hidden[0, 0])


def normalize_slowly(inputs: np.ndarray) -> np.ndarray:
    """A transform that sorts each batch several times."""
    for _ in range(32):
        inputs = np.sort(inputs, axis=1) - np.sort(inputs, axis=0)
    return inputs


def read_shard() -> None:
    """What a store does that is slow at the beginning of a file."""
    time.sleep(0.15)


class Loader:
    """Makes batches in the loop's own thread."""

    def __init__(
        self,
        transform: Callable[[np.ndarray], np.ndarray] | None,
        *,
        batches_of_shard: int | None,
    ) -> None:
        self.transform = transform
        self.batches_of_shard = batches_of_shard
        self.made = 0

    def next_batch(self) -> np.ndarray:
        self.made += 1
        if self.batches_of_shard and self.made % self.batches_of_shard == 0:
            read_shard()
        return INPUTS if self.transform is None else self.transform(INPUTS)


def count_words() -> int:
    """A tokenizer-like double loop in Python."""
    counts: dict[str, int] = {}
    for word in WORDS:
        for letter in word[:5]:
            counts[letter] = counts.get(letter, 0) + 1
    return len(counts)


def validate() -> None:
    """What only some steps do, for as long as many of them take."""
    end, total = time.perf_counter() + 0.5, 0.0
    while time.perf_counter() < end:
        total += sum(WEIGHTS[0])


def save_checkpoint() -> None:
    state = {str(number): WEIGHTS + number for number in range(40)}
    with (FOLDER / "state.pkl").open("wb") as file:
        pickle.dump(state, file)


class Logs:
    """Callbacks between steps."""

    def on_batch_end(self) -> None:
        time.sleep(0.05)


class Node:
    def __init__(self, below: Node | None) -> None:
        self.below, self.me = below, self


HELD = threading.Lock()


def hold_lock() -> None:
    while True:
        with HELD:
            time.sleep(0.04)
        time.sleep(0.002)


def read_shared() -> float:
    with HELD:
        return float(INPUTS[0, 0])


def write_logs() -> None:
    logger = logging.getLogger("train")
    for number in range(6000):
        logger.info("row %d of %s has %f", number, "batch", number / 7)


def start_holding() -> None:
    threading.Thread(target=hold_lock, daemon=True).start()


def start_logging() -> None:
    logging.basicConfig(filename=FOLDER / "log.txt", level=logging.INFO)


def make_nodes() -> None:
    NODES.extend(Node(None) for _ in range(300_000))


NODES: list[Node] = []
#: Fault → what it needs before the first step.
FIRST: dict[str, Callable[[], object]] = {
    "collect": make_nodes,
    "lock": start_holding,
    "logging": start_logging,
}
#: Fault → what each step does beside its own work.
BESIDE: dict[str, Callable[[], object]] = {
    "collect": gc.collect,
    "lock": read_shared,
    "logging": write_logs,
    "python_loop": count_words,
}


def take_step(fault: str, loader: Loader) -> None:
    inputs = loader.next_batch()
    if fault in BESIDE:
        BESIDE[fault]()
    train_step(inputs)


def main(fault: str) -> None:
    loader = Loader(
        normalize_slowly if fault == "slow_loader" else None,
        batches_of_shard=4 if fault == "slow_shard" else None,
    )
    logs = Logs()
    if fault in FIRST:
        FIRST[fault]()
    for step in range(STEPS):
        step_begins()
        with ss.StepTrace(step):
            if fault == "inlined":
                _ = [word.upper() for word in WORDS for _ in range(12)]  # inlined
            take_step(fault, loader)
        if fault == "callback":
            logs.on_batch_end()
        if fault == "checkpoint" and step % 3 == 2:
            save_checkpoint()
        if fault == "bursts" and step % 6 == 5:
            validate()


if __name__ == "__main__":
    main(sys.argv[1])
