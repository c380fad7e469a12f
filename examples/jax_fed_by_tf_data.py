"""Record a JAX training loop whose batches come from tf.data: both in one profile.

python examples/jax_fed_by_tf_data.py [LOGDIR]
stepscope report LOGDIR
"""

import sys

import jax
import jax.numpy as jnp
import tensorflow as tf

import stepscope as ss

STEPS, WARM_UP, BATCH, FEATURES = 20, 3, 64, 32


def dataset() -> tf.data.Dataset:
    def example(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        inputs = tf.random.stateless_normal((FEATURES,), seed=[0, seed])
        return inputs, tf.reduce_sum(inputs, keepdims=True)

    seeds = tf.data.Dataset.range(BATCH * (STEPS + WARM_UP))
    return seeds.map(example).batch(BATCH).prefetch(2)


def loss_of(weights: jax.Array, inputs: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.mean((inputs @ weights - targets) ** 2)


@jax.jit
def train_step(
    weights: jax.Array, inputs: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(loss_of)(weights, inputs, targets)
    return weights - 0.1 * gradient, loss


def main(logdir: str) -> None:
    batches = dataset().as_numpy_iterator()
    weights = jnp.zeros((FEATURES, 1))
    for _ in range(WARM_UP):
        weights, loss = train_step(weights, *next(batches))
    with ss.Profile(logdir):
        for step in range(STEPS):
            with ss.StepTrace(step):
                weights, loss = train_step(weights, *next(batches))
        weights.block_until_ready()
    print(f"loss {float(loss):.4f}; recorded into {logdir}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "logs")
