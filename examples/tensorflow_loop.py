"""Record a TensorFlow training loop that is fed by tf.data.

python examples/tensorflow_loop.py [LOGDIR]
stepscope report LOGDIR
"""

import sys

import tensorflow as tf

import stepscope as ss

STEPS, WARM_UP, BATCH, FEATURES = 20, 3, 64, 32


def dataset() -> tf.data.Dataset:
    inputs = tf.random.stateless_normal((BATCH * 8, FEATURES), seed=(0, 1))
    targets = tf.reduce_sum(inputs, axis=1, keepdims=True)
    examples = tf.data.Dataset.from_tensor_slices((inputs, targets)).repeat()
    return examples.shuffle(64, seed=0).batch(BATCH).prefetch(2)


def main(logdir: str) -> None:
    weights = tf.Variable(tf.zeros((FEATURES, 1)), name="weights")

    @tf.function
    def train_step(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ weights - targets) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    batches = iter(dataset())
    for _ in range(WARM_UP):
        train_step(*next(batches))
    with ss.Profile(logdir):
        for step in range(STEPS):
            # Fetching the batch belongs to the step.
            with ss.Trace("train", step_num=step, _r=1):
                loss = train_step(*next(batches))
    print(f"loss {float(loss):.4f}; recorded into {logdir}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "logs")
