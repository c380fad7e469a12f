"""A small network trained with NumPy alone, with a planted fault: a slow function.

`clip_gradients` sums the squares of all gradients one by one, in Python. NumPy can do
that in one call: `np.square(gradient).sum()`. The program uses stepscope only to mark
its steps, as any Python program can.
"""

import numpy as np

import stepscope as ss

STEPS, BATCH, PIXELS, HIDDEN, CLASSES = 30, 32, 3072, 256, 10
MOST = 1.0

rng = np.random.default_rng(0)
images = rng.random((1024, PIXELS), dtype=np.float32)
labels = (images[:, : PIXELS // 2].mean(1) > images.mean(1)).astype(np.int64)
first = rng.normal(0, 0.02, (PIXELS, HIDDEN)).astype(np.float32)
second = rng.normal(0, 0.05, (HIDDEN, CLASSES)).astype(np.float32)


def load_batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.arange(step * BATCH, (step + 1) * BATCH) % len(images)
    return images[chosen], labels[chosen]


def forward(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(x @ first, 0)
    scores = hidden @ second
    # Subtracting the maximum prevents an overflow of `exp` and a logarithm of 0.
    scores -= scores.max(1, keepdims=True)
    return hidden, scores - np.log(np.exp(scores).sum(1, keepdims=True))


def backward(
    x: np.ndarray, y: np.ndarray, hidden: np.ndarray, log_chances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    wrong = np.exp(log_chances)
    wrong[np.arange(BATCH), y] -= 1
    of_first = x.T @ ((wrong @ second.T) * (hidden > 0)) / BATCH
    return of_first, hidden.T @ wrong / BATCH


def clip_gradients(gradients: tuple[np.ndarray, np.ndarray]) -> float:
    squares = 0.0
    for gradient in gradients:
        for row in gradient.tolist():
            for value in row:
                squares += value * value
    return min(1.0, MOST / max(squares**0.5, 1e-12))


def update(gradients: tuple[np.ndarray, np.ndarray], scale: float) -> None:
    first[:] -= 0.01 * scale * gradients[0]
    second[:] -= 0.01 * scale * gradients[1]


def train_step(step: int) -> float:
    x, y = load_batch(step)
    hidden, log_chances = forward(x)
    gradients = backward(x, y, hidden, log_chances)
    update(gradients, clip_gradients(gradients))
    return float(-log_chances[np.arange(BATCH), y].mean())


loss = float("nan")
for step in range(STEPS):
    with ss.StepTrace(step):
        loss = train_step(step)
print(f"trained {STEPS} steps with NumPy, loss {loss:.3f}")
