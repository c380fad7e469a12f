"""A Keras program that listens with TensorFlow's server and with ours; no test.

listening_keras.py PORT — trains until its standard input closes. TensorFlow's server
has the port. It prints the address of ours, and, for each line that it reads, how long
the longest batch took since the line before, in seconds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from itertools import pairwise
from queue import Empty, SimpleQueue

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf

import stepscope as ss

BATCHES = 200
asked: SimpleQueue[str] = SimpleQueue()
ended_s: list[float] = []


class Batches(keras.callbacks.Callback):
    """Notes when each batch ended, and answers."""

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        del batch, logs
        ended_s.append(time.perf_counter())
        try:
            line = asked.get_nowait()
        except Empty:
            return
        if not line:
            self.model.stop_training = True
            return
        lasted_s = (after - before for before, after in pairwise(ended_s))
        longest_s = max(lasted_s, default=0.0)
        sys.stdout.write(f"{longest_s}\n")
        sys.stdout.flush()
        del ended_s[:-1]


def read() -> None:
    for line in sys.stdin:
        asked.put(line)
    asked.put("")


layers = [keras.layers.Dense(64, activation="relu") for _ in range(10)]
model = keras.Sequential([*layers, keras.layers.Dense(1)])
model.compile("sgd", "mse")
inputs = np.ones((32 * BATCHES, 32), "float32")
targets = np.ones((32 * BATCHES, 1), "float32")
model.fit(inputs, targets, batch_size=32, verbose=0)
tf.profiler.experimental.server.start(int(sys.argv[1]))
server = ss.server.start(0)
sys.stdout.write(server.address + "\n")
sys.stdout.flush()
threading.Thread(target=read, daemon=True).start()
model.fit(
    *(inputs, targets),
    batch_size=32,
    epochs=1_000_000,
    verbose=0,
    callbacks=[Batches()],
)
