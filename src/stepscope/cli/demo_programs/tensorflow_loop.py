"""A small network trained with Keras `fit`, without any use of stepscope."""

import zlib

import keras
import numpy as np
import tensorflow as tf

STEPS, BATCH, PIXELS, HIDDEN, CLASSES = 40, 128, 3072, 512, 10

rng = np.random.default_rng(0)
images = rng.integers(0, 32, (256, PIXELS), dtype=np.uint8)
packed = [zlib.compress(image.tobytes()) for image in images]
labels = rng.integers(0, CLASSES, 256)


def unpack(text: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.io.decode_raw(tf.io.decode_compressed(text, "ZLIB"), tf.uint8)
    return tf.cast(tf.reshape(pixels, [PIXELS]), tf.float32) / 32, label


data = tf.data.Dataset.from_tensor_slices((packed, labels)).repeat().map(unpack)
model = keras.Sequential(
    [
        keras.layers.Input((PIXELS,)),
        keras.layers.Dense(HIDDEN, activation="relu"),
        keras.layers.Dense(CLASSES, activation="softmax"),
    ]
)
model.compile("sgd", "sparse_categorical_crossentropy")
history = model.fit(data.batch(BATCH), steps_per_epoch=STEPS, verbose=0)
print(f"trained {STEPS} steps with TensorFlow, loss {history.history['loss'][0]:.3f}")
