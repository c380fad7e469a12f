"""A training loop in TensorFlow with one thing wrong, or nothing; a program, no test.

tensorflow_program.py FAULT
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from clock import DIFFERENT, SEED, STEPS, rows_or, step_begins

import stepscope as ss

ROWS, FEATURES = rows_or(128), 512
FOLDER = Path(tempfile.mkdtemp())
LOG = FOLDER / "log.txt"


def decode(row: Any) -> Any:
    """A map that sorts each row many times."""
    for _ in range(30):
        row = tf.sort(row) + tf.reverse(row, [0])
    return row


def from_store(rows: np.ndarray) -> np.ndarray:
    """A store that answers after some time, though not as long as a step takes."""
    time.sleep(0.005)
    return rows


def parse_by_hand(rows: np.ndarray) -> np.ndarray:
    """A map in Python."""
    for _ in range(4):
        values = [float(str(it)) for it in rows.ravel().tolist()]
        rows = np.array(values, "float32").reshape(rows.shape)
    return rows


def parse(rows: Any, labels: Any) -> Any:
    parsed = tf.numpy_function(parse_by_hand, [rows], tf.float32)
    return tf.ensure_shape(parsed, (None, FEATURES)), labels


def read(rows: Any, labels: Any) -> Any:
    found = tf.numpy_function(from_store, [rows], tf.float32)
    return tf.ensure_shape(found, (None, FEATURES)), labels


class Callback(keras.callbacks.Callback):
    """Work after each batch."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def on_train_batch_begin(self, *_: object, **__: object) -> None:
        step_begins()

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        if self.fault == "callback":
            log_metrics()
        if self.fault == "checkpoint":
            save_checkpoint(self.model)


def log_metrics() -> None:
    time.sleep(0.2)


def save_checkpoint(model: Any) -> None:
    model.save_weights(FOLDER / "one.weights.h5")


def train_by_hand(model: Any, data: Any, fault: str) -> None:
    """A loop of its own: compiled once, again and again, or not at all."""

    def take_step(rows: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(rows) - labels) ** 2)
        slopes = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(
            zip(slopes, model.trainable_variables, strict=True)
        )
        return loss

    def take_loud_step(rows: Any, labels: Any) -> Any:
        loss = take_step(rows, labels)
        # The weights of the first layer are the last to be known.
        weights = model.trainable_variables[0][:ROWS]
        tf.print(weights, summarize=-1, output_stream=f"file://{LOG}")
        return loss

    step_of = take_loud_step if fault == "print" else take_step
    train_step = step_of if fault == "eager" else tf.function(step_of)
    ahead = data if fault == "no_prefetch" else data.prefetch(tf.data.AUTOTUNE)
    batches = iter(ahead)
    for step in range(STEPS):
        # A new number of rows is a new signature.
        first = step if fault == "retrace" else 0
        step_begins()
        with ss.StepTrace(step):
            rows, labels = next(batches)
            train_step(rows[first:], labels[first:])


def dataset(fault: str) -> Any:
    steps = min(STEPS, DIFFERENT)
    rows = np.random.default_rng(SEED).normal(size=(ROWS * steps, FEATURES))
    data = tf.data.Dataset.from_tensor_slices(rows.astype("float32"))
    if steps < STEPS:
        data = data.repeat().take(ROWS * STEPS)
    if fault == "sequential_map":
        data = data.map(decode)
    data = data.batch(ROWS).map(lambda rows: (rows, rows[:, :1]))
    if fault in {"prefetched", "no_prefetch"}:
        data = data.map(read)
        options = tf.data.Options()
        # Maps that tf.data makes parallel run ahead by themselves, and since 2.10 it
        # puts a prefetch at the end where there is none.
        options.experimental_optimization.map_parallelization = False
        options.experimental_optimization.inject_prefetch = False
        data = data.with_options(options)
    return data.map(parse) if fault == "numpy_function" else data


#: Faults of a loop of its own, and their twins; the others are those of Keras's `fit`.
LOOPS = {"by_hand", "eager", "no_prefetch", "prefetched", "print", "retrace"}


def main(fault: str) -> None:
    layers = [keras.layers.Dense(FEATURES, activation="relu") for _ in range(8)]
    model = keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = dataset(fault)
    if fault in LOOPS:
        train_by_hand(model, data, fault)
    else:
        model.fit(data, verbose=0, callbacks=[Callback(fault)])


if __name__ == "__main__":
    main(sys.argv[1])
