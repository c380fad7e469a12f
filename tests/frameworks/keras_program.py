"""Small Keras `fit`s with our callback, one after the other.

    python keras_program.py FITS

FITS is JSON: a list of [LOGDIR, WINDOW, BATCHES_PER_EXECUTION, train|validate|fail].
Prints as JSON what it knows of each.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCHES, BATCH, FEATURES, EPOCHS, FAILS_AT = 13, 8, 4, 2, 12


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    for _ in range(FAILS_AT):
        inputs = random.normal(size=(BATCH, FEATURES)).astype("float32")
        yield inputs, inputs.sum(axis=1, keepdims=True)
    raise ValueError("the data ended badly")


def fit(logdir: str, window: str, per_execution: int, mode: str) -> dict[str, Any]:
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=per_execution)
    callback = ss.keras.ProfilerCallback(logdir, window)
    inputs = np.ones((BATCHES * BATCH, FEATURES), "float32")
    targets = np.ones((BATCHES * BATCH, 1), "float32")
    asked = {"verbose": 0, "callbacks": [callback], "epochs": EPOCHS}
    error = None
    try:
        if mode == "fail":
            model.fit(batches(), steps_per_epoch=40, **asked)
        else:
            held_out = (inputs[: 3 * BATCH], targets[: 3 * BATCH])
            validation = held_out if mode == "validate" else None
            model.fit(
                *(inputs, targets),
                batch_size=BATCH,
                validation_data=validation,
                validation_batch_size=BATCH,
                **asked,
            )
    except Exception as raised:  # noqa: BLE001 - each back end has its own
        error = str(raised)
    # Another recording can begin: the callback's has ended.
    ss.start(f"{logdir}-after")
    ss.stop(save=False)
    lists = keras.callbacks.CallbackList
    return {
        "backend": keras.config.backend(),
        "error": error,
        "warnings": None if callback.run is None else list(callback.run.warnings),
        "asynchronous": [lists(kept)._async_train for kept in ([], [callback])],
    }


def main(fits: list[list[Any]]) -> list[dict[str, Any]]:
    found = []
    for one in fits:
        found.append(fit(*one))
        # The next recording is to describe its own model alone.
        keras.backend.clear_session()
        gc.collect()
    return found


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(main(json.loads(sys.argv[1])))}\n")
