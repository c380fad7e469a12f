"""A small network trained with JAX, without any use of stepscope."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np

STEPS, BATCH, PIXELS, HIDDEN, CLASSES = 40, 128, 3072, 512, 10

rng = np.random.default_rng(0)
images = rng.integers(0, 32, (256, PIXELS), dtype=np.uint8)
packed = [zlib.compress(image.tobytes()) for image in images]
labels = rng.integers(0, CLASSES, 256)


def load_batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.arange(step * BATCH, (step + 1) * BATCH) % len(packed)
    rows = [np.frombuffer(zlib.decompress(packed[i]), np.uint8) for i in chosen]
    return np.stack(rows).astype(np.float32) / 32, labels[chosen]


def loss_of(weights: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    scores = jax.nn.relu(x @ weights["first"]) @ weights["second"]
    return -jax.nn.log_softmax(scores)[jnp.arange(BATCH), y].mean()


@jax.jit
def train_step(
    weights: dict[str, jax.Array], x: jax.Array, y: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), loss


keys = jax.random.split(jax.random.key(0))
weights = {
    "first": 0.05 * jax.random.normal(keys[0], (PIXELS, HIDDEN)),
    "second": 0.05 * jax.random.normal(keys[1], (HIDDEN, CLASSES)),
}
for step in range(STEPS):
    weights, loss = train_step(weights, *load_batch(step))
print(f"trained {STEPS} steps with JAX, loss {loss:.3f}")
