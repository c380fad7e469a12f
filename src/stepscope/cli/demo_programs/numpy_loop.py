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
first = rng.normal(0, 0.02, (PIXELS, HIDDEN)).astype(np.float32)
second = rng.normal(0, 0.05, (HIDDEN, CLASSES)).astype(np.float32)


@ss.trace_function("load_batch")
def load_batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.arange(step * BATCH, (step + 1) * BATCH) % len(packed)
    rows = [np.frombuffer(zlib.decompress(packed[i]), np.uint8) for i in chosen]
    return np.stack(rows).astype(np.float32) / 32, labels[chosen]


@ss.trace_function("forward")
def forward(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(x @ first, 0)
    scores = hidden @ second
    # Shifted, so that no exponential overflows and no logarithm is of zero.
    scores -= scores.max(1, keepdims=True)
    return hidden, scores - np.log(np.exp(scores).sum(1, keepdims=True))


@ss.trace_function("backward")
def backward(
    x: np.ndarray, y: np.ndarray, hidden: np.ndarray, log_chances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    wrong = np.exp(log_chances)
    wrong[np.arange(BATCH), y] -= 1
    of_first = x.T @ ((wrong @ second.T) * (hidden > 0)) / BATCH
    return of_first, hidden.T @ wrong / BATCH


@ss.trace_function("update")
def update(of_first: np.ndarray, of_second: np.ndarray) -> None:
    first[:] -= 0.01 * of_first
    second[:] -= 0.01 * of_second


def train_step(step: int) -> float:
    x, y = load_batch(step)
    hidden, log_chances = forward(x)
    update(*backward(x, y, hidden, log_chances))
    return float(-log_chances[np.arange(BATCH), y].mean())


loss = float("nan")
for step in range(STEPS):
    with ss.StepTrace(step):
        loss = train_step(step)
print(f"trained {STEPS} steps with NumPy, loss {loss:.3f}")
