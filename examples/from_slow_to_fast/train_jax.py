"""A small classifier of signals in JAX, with five slow spots and a fix for each.

python examples/from_slow_to_fast/train_jax.py [--fixes 5] [--steps 100]

`--fixes N` applies the first N fixes. docs/from-slow-to-fast.md says what each brought.
"""

import argparse
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import stepscope as ss

CLASSES, BATCH, COUNT, LONGEST, PATCH, WIDTH = 4, 32, 512, 1024, 16, 96
WINDOW = 9
Tree = dict[str, jax.Array]


def write_signals() -> tuple[list[np.ndarray], np.ndarray]:
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, COUNT)
    lengths = np.minimum(256 + random.exponential(256, COUNT), LONGEST).astype(int)
    waves = [
        np.sin(np.arange(n) / (2 + k)) for n, k in zip(lengths, labels, strict=True)
    ]
    return [wave + random.normal(0, 1, len(wave)) for wave in waves], labels


def smooth_samples(signal: np.ndarray) -> np.ndarray:
    padded = np.pad(signal, WINDOW // 2)
    means = [sum(padded[i : i + WINDOW]) / WINDOW for i in range(len(signal))]
    return np.array(means, np.float32)


def smooth_signal(signal: np.ndarray) -> np.ndarray:
    return np.convolve(signal, np.full(WINDOW, 1 / WINDOW), "same").astype(np.float32)


def build_batch(signals: list[np.ndarray], fixes: int) -> tuple[np.ndarray, np.ndarray]:
    smooth = smooth_signal if fixes >= 2 else smooth_samples
    counts = np.array([len(signal) // PATCH for signal in signals])
    longest = LONGEST // PATCH if fixes >= 1 else counts.max()
    batch = np.zeros((len(signals), longest * PATCH), np.float32)
    for row, signal, count in zip(batch, signals, counts, strict=True):
        row[: count * PATCH] = smooth(signal)[: count * PATCH]
    return batch.reshape(len(signals), longest, PATCH), counts


def draw_weights() -> Tree:
    sizes = {"patch": (PATCH, WIDTH), "first": (WIDTH, WIDTH)}
    sizes |= {"second": (WIDTH, WIDTH), "classes": (WIDTH, CLASSES)}
    weights = {}
    for number, (name, size) in enumerate(sizes.items()):
        drawn = jax.random.normal(jax.random.key(number), size)
        weights[name] = drawn / size[0] ** 0.5
        weights[f"{name}_bias"] = jnp.zeros(size[1])
    return weights


def loss_of(
    weights: Tree, batch: jax.Array, counts: jax.Array, labels: jax.Array
) -> jax.Array:
    hidden = batch
    for name in ("patch", "first", "second"):
        hidden = jax.nn.relu(hidden @ weights[name] + weights[f"{name}_bias"])
    is_real = jnp.arange(batch.shape[1]) < counts[:, None]
    pooled = (hidden * is_real[:, :, None]).sum(1) / counts[:, None]
    scores = pooled @ weights["classes"] + weights["classes_bias"]
    return -jax.nn.log_softmax(scores)[jnp.arange(len(labels)), labels].mean()


def update(weights: Tree, gradients: Tree, means: Tree, squares: Tree) -> list[Tree]:
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, squares, gradients)
    weights = jax.tree.map(
        lambda w, m, v: w - 0.003 * m / (jnp.sqrt(v) + 1e-6), weights, means, squares
    )
    return [weights, means, squares]


def summarise(trees: dict[str, Tree]) -> dict[str, np.ndarray]:
    return {
        f"{kind} {name}": np.histogram(np.asarray(values), bins="auto")[0]
        for kind, tree in trees.items()
        for name, values in tree.items()
    }


def main(fixes: int, steps: int) -> None:
    signals, labels = write_signals()
    weights = draw_weights()
    means = squares = jax.tree.map(jnp.zeros_like, weights)
    differentiate = jax.jit(jax.value_and_grad(loss_of))
    apply = jax.jit(update) if fixes >= 3 else update
    random, checkpoint = np.random.default_rng(1), Path(tempfile.mkdtemp()) / "state"
    losses, summaries = [], []
    for step in range(steps):
        with ss.StepTrace(step):
            chosen = random.integers(0, COUNT, BATCH)
            batch, counts = build_batch([signals[i] for i in chosen], fixes)
            loss, gradients = differentiate(weights, batch, counts, labels[chosen])
            weights, means, squares = apply(weights, gradients, means, squares)
            losses.append(float(loss))
            state = {"weights": weights, "means": means, "squares": squares}
            if step % (10 if fixes >= 5 else 1) == 0:
                summaries.append(summarise({**state, "gradients": gradients}))
            if step % (40 if fixes >= 4 else 4) == 0:
                arrays = {f"{a} {b}": state[a][b] for a in state for b in weights}
                np.savez_compressed(checkpoint, **arrays)
                print(f"step {step}: loss {losses[-1]:.4f}")
    print(f"loss {losses[-1]:.6f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixes", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    main(options.fixes, options.steps)
