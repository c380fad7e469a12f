"""Records the TensorFlow profiles under tests/data and the one that `demo` explains.

    P=$(python build_tools/framework_venv.py tensorflow)
    $P tests/data/record/record_tensorflow.py keras_fit|custom_loop|eager [FOLDER]

Every recording times its own steps with `time.perf_counter`; that is the truth which
tests hold the profile against.
"""

import os

# Read by TensorFlow when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from storing import store, write_truth

ROOT = Path(__file__).resolve().parents[3]
# Tests record anew into a folder of their own.
ELSEWHERE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
DATA = ELSEWHERE or ROOT / "tests" / "data"
SEED = 20

# keras_fit
PHOTO_SIDE = 320
IMAGE_SIDE = 64
PHOTOS = 240
BATCH = 16
FIRST_BATCH, LAST_BATCH = 6, 13

# custom_loop and eager
ROWS = 256
FEATURES = 128
CLASSES = 10
WARM_UP_STEPS = 5
LOOP_STEPS = 20
EAGER_STEPS = 25


class StepClock:
    """When each step began and ended, by the script's own clock."""

    def __init__(self) -> None:
        self.begins: list[float] = []
        self.ends: list[float] = []

    def describe(self) -> dict[str, object]:
        """What truth.json says of the steps, in milliseconds."""
        pairs = list(zip(self.begins, self.ends, strict=True))
        windows = itertools.pairwise(self.begins)
        return {
            "recorded_with": {
                "tensorflow": tf.__version__,
                "keras": keras.__version__,
                "python": ".".join(map(str, sys.version_info[:3])),
            },
            "steps": len(pairs),
            "step_ms": [round((end - begin) * 1e3, 6) for begin, end in pairs],
            "begin_to_begin_ms": [round((b - a) * 1e3, 6) for a, b in windows],
        }


class NoteBegin(keras.callbacks.Callback):
    """Stands after the TensorBoard callback, which opens its marker at the begin."""

    def __init__(self, clock: StepClock) -> None:
        super().__init__()
        self.clock = clock

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        del logs
        if FIRST_BATCH <= batch + 1 <= LAST_BATCH:
            self.clock.begins.append(time.perf_counter())


class NoteEnd(keras.callbacks.Callback):
    """Stands before the TensorBoard callback, which closes its marker at the end."""

    def __init__(self, clock: StepClock) -> None:
        super().__init__()
        self.clock = clock

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        del logs
        if FIRST_BATCH <= batch + 1 <= LAST_BATCH:
            self.clock.ends.append(time.perf_counter())


def record_keras_fit() -> None:
    """Keras `fit` with the TensorBoard callback; the input pipeline is the bottleneck.

    Large JPEG files are decoded and shrunk one after another inside the step: no
    parallel map and no prefetch, and tf.data's own rewrites, which would add both
    where the machine has cores to spare, are off.
    """
    with tempfile.TemporaryDirectory() as folder:
        records = write_photos(Path(folder) / "photos.tfrecord")
        photos = tf.data.TFRecordDataset(str(records)).map(decode).batch(BATCH)
        options = tf.data.Options()
        options.autotune.enabled = False
        options.experimental_optimization.apply_default_optimizations = False
        logdir = Path(folder) / "log"
        fed = fit(photos.with_options(options), logdir)
        # The same model fed from memory: what the step takes without its input.
        held = tf.data.Dataset.from_tensors(next(iter(photos)))
        unfed = fit(held.repeat(PHOTOS // BATCH), Path(folder) / "log_held").describe()
        truth = fed.describe() | {
            "first_step_num": FIRST_BATCH - 1,
            "map_calls_per_step": BATCH,
            "step_ms_fed_from_memory": unfed["step_ms"],
        }
        store(logdir, DATA / "tf_keras_fit")
        write_truth(DATA / "tf_keras_fit", truth)


def write_photos(path: Path) -> Path:
    """Smooth random pictures as JPEG, so that decoding costs what photographs cost."""
    random = np.random.default_rng(SEED)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for label in random.integers(0, CLASSES, PHOTOS):
            coarse = random.uniform(0, 255, (16, 16, 3))
            photo = tf.image.resize(coarse, (PHOTO_SIDE, PHOTO_SIDE), "bicubic")
            jpeg = tf.io.encode_jpeg(tf.cast(tf.clip_by_value(photo, 0, 255), tf.uint8))
            features = {
                "photo": tf.train.BytesList(value=[jpeg.numpy()]),
                "label": tf.train.Int64List(value=[label]),
            }
            example = tf.train.Example(
                features=tf.train.Features(
                    feature={
                        "photo": tf.train.Feature(bytes_list=features["photo"]),
                        "label": tf.train.Feature(int64_list=features["label"]),
                    }
                )
            )
            writer.write(example.SerializeToString())
    return path


def decode(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    fields = tf.io.parse_single_example(
        record,
        {
            "photo": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        },
    )
    photo = tf.io.decode_jpeg(fields["photo"], channels=3)
    small = tf.image.resize(photo, (IMAGE_SIDE, IMAGE_SIDE))
    return tf.image.random_flip_left_right(small, SEED) / 255.0, fields["label"]


def fit(photos: tf.data.Dataset, logdir: Path) -> StepClock:
    keras.utils.set_random_seed(SEED)
    model = keras.Sequential(
        [
            keras.Input((IMAGE_SIDE, IMAGE_SIDE, 3)),
            keras.layers.Conv2D(48, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(96, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(CLASSES),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    board = keras.callbacks.TensorBoard(
        str(logdir), write_graph=False, profile_batch=(FIRST_BATCH, LAST_BATCH)
    )
    clock = StepClock()
    callbacks = [NoteEnd(clock), board, NoteBegin(clock)]
    model.fit(photos, callbacks=callbacks, shuffle=False, verbose=0)
    return clock


def record_custom_loop() -> None:
    """A hand-written loop with `Trace` markers; parallel map and prefetch: healthy."""
    rows = np.random.default_rng(SEED).normal(size=(8, ROWS, FEATURES))
    examples = tf.data.Dataset.from_tensor_slices(rows.astype("float32")).repeat()
    examples = examples.map(normalise, num_parallel_calls=2).prefetch(2)
    update = tf.function(make_update(make_network()))
    batches = iter(examples)
    for _ in range(WARM_UP_STEPS):
        update(next(batches))

    def step(number: int) -> None:
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            # Reading the loss's value waits for the step's end.
            update(next(batches)).numpy()

    record(step, LOOP_STEPS, DATA / "tf_custom_loop", {"first_step_num": 0})


def record_eager() -> None:
    """Eager training without any marker: steps must be found from the repetition."""
    rows = np.random.default_rng(SEED).normal(size=(ROWS, FEATURES))
    batch = tf.constant(rows.astype("float32"))
    update = make_update(make_network())
    for _ in range(WARM_UP_STEPS):
        update(batch)

    def step(number: int) -> None:
        del number
        update(batch).numpy()

    record(step, EAGER_STEPS, DATA / "tf_eager", {})


def record(
    step: Callable[[int], None], steps: int, target: Path, truth: dict[str, object]
) -> None:
    """Profile the steps, timing each from outside, and keep the profile."""
    clock = StepClock()
    with tempfile.TemporaryDirectory() as logdir:
        tf.profiler.experimental.start(logdir)
        for number in range(steps):
            clock.begins.append(time.perf_counter())
            step(number)
            clock.ends.append(time.perf_counter())
        tf.profiler.experimental.stop()
        store(Path(logdir), target)
        write_truth(target, clock.describe() | truth)


def normalise(rows: tf.Tensor) -> tf.Tensor:
    mean, variance = tf.nn.moments(rows, axes=[1], keepdims=True)
    return (rows - mean) * tf.math.rsqrt(variance + 1e-6)


def make_network() -> list[tf.Variable]:
    random = np.random.default_rng(SEED)
    shapes = [(FEATURES, 256), (256, 256), (256, CLASSES)]
    return [
        tf.Variable(random.normal(0, 0.05, shape).astype("float32"), name=f"layer_{i}")
        for i, shape in enumerate(shapes)
    ]


def make_update(weights: list[tf.Variable]) -> Callable[[tf.Tensor], tf.Tensor]:
    def update(rows: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = rows
            for weight in weights[:-1]:
                hidden = tf.nn.relu(tf.matmul(hidden, weight))
            loss = tf.reduce_mean(tf.square(tf.matmul(hidden, weights[-1])))
        gradients = tape.gradient(loss, weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss

    return update


RECORDINGS = {
    "keras_fit": record_keras_fit,
    "custom_loop": record_custom_loop,
    "eager": record_eager,
}

if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in RECORDINGS:
        sys.exit(f"usage: record_tensorflow.py {'|'.join(RECORDINGS)} [FOLDER]")
    RECORDINGS[sys.argv[1]]()
