"""Record some batches of a Keras `fit`, on whichever back end Keras has.

KERAS_BACKEND=jax python examples/keras_fit.py [LOGDIR]      or tensorflow, torch
stepscope report LOGDIR
"""

import sys

import keras
import numpy as np

import stepscope as ss

BATCHES, BATCH, FEATURES = 24, 32, 16


def main(logdir: str) -> None:
    keras.utils.set_random_seed(0)
    inputs = np.random.default_rng(0).normal(size=(BATCHES * BATCH, FEATURES))
    targets = inputs.sum(axis=1, keepdims=True)
    model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    # Batches are counted from 1; both ends are recorded.
    profiler = ss.keras.ProfilerCallback(logdir, profile_batch="10,15")
    model.fit(inputs, targets, batch_size=BATCH, verbose=0, callbacks=[profiler])
    print(f"Keras on {keras.config.backend()}; recorded into {logdir}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "logs")
