"""A small classifier of images in TensorFlow, with five slow spots and a fix for each.

python examples/from_slow_to_fast/train_tensorflow.py [--fixes 5] [--steps 100]

`--fixes N` applies the first N fixes. docs/from-slow-to-fast.md says what each brought.
"""

import argparse
import tempfile
import zlib
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

STORED, SIDE, CLASSES, BATCH, COUNT = 160, 32, 10, 32, 320
MEAN, DEVIATION = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)


def pack_images() -> tuple[list[bytes], np.ndarray]:
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, COUNT)
    images = random.integers(0, 64, (COUNT, STORED, STORED, 3), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[16 * label : 16 * label + 16] += 8  # a brighter bar, by the class
    return [zlib.compress(image.tobytes()) for image in images], labels


def decode(packed: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.io.decode_raw(tf.io.decode_compressed(packed, "ZLIB"), tf.uint8)
    image = tf.reshape(pixels, (STORED, STORED, 3))
    image = tf.image.resize(image, (SIDE, SIDE), "lanczos3", antialias=True)
    return (image / 255 - MEAN) / DEVIATION, label


def load_batches(fixes: int) -> tf.data.Dataset:
    data = tf.data.Dataset.from_tensor_slices(pack_images()).map(decode)
    if fixes >= 4:
        data = data.cache()
    return data.shuffle(COUNT, seed=0).repeat().batch(BATCH).prefetch(tf.data.AUTOTUNE)


def build_model() -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Input((SIDE, SIDE, 3)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPool2D(),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPool2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(CLASSES),
        ]
    )


def main(fixes: int, steps: int) -> None:
    keras.utils.set_random_seed(0)
    model, optimizer = build_model(), keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def train_step(images: tf.Tensor, labels: tf.Tensor, rate: float) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        if fixes < 5:
            tf.print("gradients of the second layer:", gradients[2], summarize=-1)
        optimizer.learning_rate.assign(rate)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    take_step = tf.function(train_step) if fixes >= 1 else train_step
    state = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path, loss = Path(tempfile.mkdtemp()) / "checkpoint", tf.constant(0.0)
    batches = iter(load_batches(fixes))
    for step in range(steps):
        rate = 0.002 * 0.99**step
        images, labels = next(batches)
        loss = take_step(images, labels, tf.constant(rate) if fixes >= 2 else rate)
        if step % (40 if fixes >= 3 else 4) == 0:
            state.write(path)
            print(f"step {step}: loss {float(loss):.4f}")
    print(f"loss {float(loss):.6f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixes", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    main(options.fixes, options.steps)
