"""A training loop in TensorFlow with one thing wrong, or nothing; a program, no test.

tensorflow_program.py FAULT
"""

from __future__ import annotations

import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

STEPS, ROWS, FEATURES = 24, 128, 512


def decode(row: Any) -> Any:
    """A map that sorts each row many times."""
    for _ in range(30):
        row = tf.sort(row) + tf.reverse(row, [0])
    return row


def dataset(fault: str) -> Any:
    rows = np.random.default_rng(0).normal(size=(ROWS * STEPS, FEATURES))
    data = tf.data.Dataset.from_tensor_slices(rows.astype("float32"))
    if fault == "sequential_map":
        data = data.map(decode)
    return data.map(lambda row: (row, row[:1])).batch(ROWS)


def main(fault: str) -> None:
    layers = [keras.layers.Dense(FEATURES, activation="relu") for _ in range(8)]
    model = keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(dataset(fault), verbose=0)


if __name__ == "__main__":
    main(sys.argv[1])
