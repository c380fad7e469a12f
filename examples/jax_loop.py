"""Record a JAX training loop.

python examples/jax_loop.py [LOGDIR]
stepscope report LOGDIR
"""

import sys

import jax
import jax.numpy as jnp

import stepscope as ss

STEPS, WARM_UP, BATCH, FEATURES = 20, 3, 64, 32


def loss_of(weights: jax.Array, inputs: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.mean((inputs @ weights - targets) ** 2)


@jax.jit
def train_step(
    weights: jax.Array, inputs: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    loss, gradient = jax.value_and_grad(loss_of)(weights, inputs, targets)
    return weights - 0.1 * gradient, loss


def main(logdir: str) -> None:
    inputs = jax.random.normal(jax.random.key(0), (BATCH, FEATURES))
    targets = inputs.sum(axis=1, keepdims=True)
    weights = jnp.zeros((FEATURES, 1))
    for _ in range(WARM_UP):
        weights, loss = train_step(weights, inputs, targets)
    with ss.Profile(logdir):
        for step in range(STEPS):
            with ss.StepTrace(step):
                weights, loss = train_step(weights, inputs, targets)
        # JAX runs ahead: what is not done when the recording ends is not in it.
        weights.block_until_ready()
    print(f"loss {float(loss):.4f}; recorded into {logdir}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "logs")
