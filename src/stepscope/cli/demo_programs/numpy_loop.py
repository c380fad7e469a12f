"""A small network trained with NumPy alone; it unpacks each sample when it needs it.

Its steps are marked by hand, as any Python program can.
"""

import zlib

import numpy as np

import stepscope as ss

STEPS, BATCH, PIXELS, HIDDEN, CLASSES = 40, 128, 3072, 512, 10

rng = np.random.default_rng(0)
images = rng.integers(0, 32, (256, PIXELS), dtype=np.uint8)
packed = [zlib.compress(image.tobytes()) for image in images]
labels = (images[:, : PIXELS // 2].mean(1) > images.mean(1)).astype(np.int64)
first = rng.normal(0, 0.05, (PIXELS, HIDDEN)).astype(np.float32)
second = rng.normal(0, 0.05, (HIDDEN, CLASSES)).astype(np.float32)


@ss.trace_function("load_batch")
def load_batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.arange(step * BATCH, (step + 1) * BATCH) % len(packed)
    rows = [np.frombuffer(zlib.decompress(packed[i]), np.uint8) for i in chosen]
    return np.stack(rows).astype(np.float32) / 32, labels[chosen]


loss = float("nan")
for step in range(STEPS):
    with ss.StepTrace(step):
        x, y = load_batch(step)
        with ss.Trace("forward"):
            hidden = np.maximum(x @ first, 0)
            scores = hidden @ second
            scores -= scores.max(1, keepdims=True)
            chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            loss = float(-np.log(chances[np.arange(BATCH), y]).mean())
        with ss.Trace("backward"):
            chances[np.arange(BATCH), y] -= 1
            of_second = hidden.T @ chances / BATCH
            of_first = x.T @ ((chances @ second.T) * (hidden > 0)) / BATCH
        with ss.Trace("update"):
            first -= 0.1 * of_first
            second -= 0.1 * of_second
print(f"trained {STEPS} steps with NumPy, loss {loss:.3f}")
