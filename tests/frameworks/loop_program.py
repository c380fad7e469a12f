"""A training loop of each framework, recorded with stepscope; a program, no test.

    loop_program.py tensorflow|jax|torch FOLDER RECORDINGS

RECORDINGS is JSON: for the name of each, what is done and the profiler's options. One
after the other goes into FOLDER/NAME, with what the program knows in truth.json.

`record` trains a few steps without recording, then some while `ss.Profile` records
them. It tells the numbers of its steps and their losses, and what the run warned of.

`faults` trains the same again and again: without recording, with it, and with one call
of the framework's collector failing each time. It tells the losses of every time.

`nested` records while the framework's own profiler does.

`exported` records as `record` does where PyTorch hands out no events, as older versions
do not, but only exports them.

`planes` records with PyTorch's collector alone and has PyTorch export the same.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

import stepscope as ss
from stepscope.capture.base.clock import ClockPair
from stepscope.capture.collectors.torch import collector as torch_collector
from stepscope.capture.collectors.torch.collector import TorchCollector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEED = 20
ROWS, FEATURES, CLASSES = 16, 32, 10
WARM_UP, STEPS, FIRST = 2, 6, 40

#: Calls that a recording makes: module and name in it.
CALLS = {
    "tensorflow": (
        (
            "stepscope.capture.collectors.tensorflow",
            "TensorFlowCollector.why_unavailable",
        ),
        (
            "stepscope.capture.collectors.tensorflow",
            "TensorFlowCollector.start_collecting",
        ),
        (
            "stepscope.capture.collectors.tensorflow",
            "TensorFlowCollector.hand_over",
        ),
        ("stepscope.capture.collectors.tensorflow", "_InProcess.__init__"),
        ("stepscope.capture.collectors.tensorflow", "_InProcess.stop_session"),
        (
            "stepscope.capture.collectors.tensorflow",
            "TensorFlowCollector.make_annotation",
        ),
        ("stepscope.capture.collectors.frameworks", "levels_in_force"),
    ),
    "jax": (
        ("stepscope.capture.collectors.jax", "JaxCollector.why_unavailable"),
        ("stepscope.capture.collectors.jax", "JaxCollector.start_collecting"),
        ("stepscope.capture.collectors.jax", "JaxCollector.hand_over"),
        ("stepscope.capture.collectors.jax", "_Session.__init__"),
        ("stepscope.capture.collectors.jax", "_Session.stop_session"),
        ("stepscope.capture.collectors.jax", "JaxCollector.make_annotation"),
        ("stepscope.capture.collectors.frameworks", "levels_in_force"),
    ),
    "torch": (
        (
            "stepscope.capture.collectors.torch.collector",
            "TorchCollector.why_unavailable",
        ),
        (
            "stepscope.capture.collectors.torch.collector",
            "TorchCollector.start_collecting",
        ),
        ("stepscope.capture.collectors.torch.collector", "TorchCollector.hand_over"),
        ("stepscope.capture.collectors.torch.collector", "_Recording._start_profiler"),
        ("stepscope.capture.collectors.torch.collector", "_Forward.__call__"),
        ("stepscope.capture.collectors.torch.collector", "build_planes"),
    ),
}
CALLS_OF_ALL = (
    ("stepscope.capture.collectors.model", "ModelCollector.why_unavailable"),
    ("stepscope.capture.collectors.model", "ModelCollector.hand_over"),
)


def examples() -> tuple[np.ndarray, np.ndarray]:
    """The same rows and labels every time."""
    random = np.random.default_rng(SEED)
    count = ROWS * (WARM_UP + STEPS)
    rows = random.normal(size=(count, FEATURES)).astype("float32")
    return rows, random.integers(0, CLASSES, count)


def tensorflow_step() -> Callable[[], Callable[[], float]]:
    """Return what begins a training in TensorFlow and gives its step.

    The step reads a batch and returns the loss.
    """
    import keras
    import tensorflow as tf

    def begin() -> Callable[[], float]:
        keras.utils.set_random_seed(SEED)
        model = keras.Sequential(
            [
                keras.Input((FEATURES,)),
                keras.layers.Dense(64, activation="relu", name="hidden"),
                keras.layers.Dense(CLASSES, name="answer"),
            ]
        )
        measure = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        data = tf.data.Dataset.from_tensor_slices(examples())
        data = data.map(lambda row, label: (row * 2.0, label)).batch(ROWS)

        @tf.function
        def update(rows: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = measure(labels, model(rows))
            variables = model.trainable_variables
            for variable, slope in zip(
                variables, tape.gradient(loss, variables), strict=True
            ):
                variable.assign_sub(0.1 * slope)
            return loss

        batches = iter(data)
        # The model lives as long as its step does.
        return lambda: float(update(*next(batches)))

    return begin


def jax_step() -> Callable[[], Callable[[], float]]:
    """Return what begins a training in JAX and gives its step."""
    import jax
    import jax.numpy as jnp

    def loss_of(weights: Any, rows: Any, labels: Any) -> Any:
        hidden = jax.nn.relu(rows @ weights["hidden"]["kernel"])
        logits = hidden @ weights["answer"]["kernel"] + weights["answer"]["bias"]
        chances = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()

    @jax.jit
    def update(weights: Any, rows: Any, labels: Any) -> Any:
        loss, slopes = jax.value_and_grad(loss_of)(weights, rows, labels)
        return loss, jax.tree.map(lambda it, slope: it - 0.1 * slope, weights, slopes)

    def begin() -> Callable[[], float]:
        keys = jax.random.split(jax.random.key(SEED))
        weights = {
            "hidden": {"kernel": jax.random.normal(keys[0], (FEATURES, 64)) * 0.1},
            "answer": {
                "kernel": jax.random.normal(keys[1], (64, CLASSES)) * 0.1,
                "bias": jnp.zeros(CLASSES),
            },
        }
        ss.describe(weights)
        rows, labels = examples()
        state = {"weights": weights, "at": 0}

        def step() -> float:
            here = slice(state["at"], state["at"] + ROWS)
            state["at"] = here.stop
            loss, state["weights"] = update(state["weights"], rows[here], labels[here])
            return float(loss)

        return step

    return begin


def torch_step() -> Callable[[], Callable[[], float]]:
    """Return what begins a training in PyTorch and gives its step."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    def begin() -> Callable[[], float]:
        torch.manual_seed(SEED)
        torch.set_num_threads(1)
        network = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES)
        )
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        rows, labels = (torch.from_numpy(it) for it in examples())
        batches = iter(DataLoader(TensorDataset(rows, labels), batch_size=ROWS))

        def step() -> float:
            some, answers = next(batches)
            loss = nn.functional.cross_entropy(network(some), answers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    return begin


STEPS_OF = {"tensorflow": tensorflow_step, "jax": jax_step, "torch": torch_step}


def marked(step: Callable[[], float]) -> list[float]:
    """The losses of the steps to record, each of them marked."""
    losses = []
    for number in range(FIRST, FIRST + STEPS):
        with ss.Trace("train", step_num=number, _r=1):
            losses.append(step())
    return losses


def record(framework: str, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Record one training."""
    step = STEPS_OF[framework]()()
    warmed = [step() for _ in range(WARM_UP)]
    with ss.Profile(folder, options=ss.ProfilerOptions(**options)) as profile:
        losses = marked(step)
    return {
        "steps": list(range(FIRST, FIRST + STEPS)),
        "losses": warmed + losses,
        "warnings": list(profile.run.warnings),
        "path": str(profile.run.path),
    }


def exported(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Record one training with a PyTorch that only exports."""
    with mock.patch.object(torch_collector, "live_activities", return_value=None):
        return record("torch", folder, options)


def planes(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Record with PyTorch's collector alone, and export what PyTorch itself has."""
    step = torch_step()()
    collector = TorchCollector()
    collector.start_collecting(ss.ProfilerOptions(**options), ClockPair.now())
    profiler = collector._recording._profiler
    losses = [step() for _ in range(STEPS)]
    collector.halt_collecting()
    # What PyTorch has is gone when it was collected.
    profiler.export_chrome_trace(str(folder / "exported.pt.trace.json"))
    collected = collector.hand_over()
    (folder / "planes.xplane.pb").write_bytes(collected.xspace)
    return {"losses": losses, "warnings": collected.warnings}


def nested(framework: str, folder: Path) -> dict[str, Any]:
    """Record while the framework's own profiler does; what that one wrote as well."""
    own = folder / "own"
    own.mkdir()
    if framework == "tensorflow":
        import tensorflow as tf

        start, stop = (
            lambda: tf.profiler.experimental.start(str(own)),
            tf.profiler.experimental.stop,
        )
    elif framework == "jax":
        import jax

        start, stop = lambda: jax.profiler.start_trace(own), jax.profiler.stop_trace
    else:
        import torch.profiler

        profiler = torch.profiler.profile()
        start = profiler.start

        def stop() -> None:
            profiler.stop()
            profiler.export_chrome_trace(str(own / "own.pt.trace.json"))

    start()
    truth = record(framework, folder / "ours", {})
    stop()
    sizes = [path.stat().st_size for path in own.rglob("*.*") if path.is_file()]
    return {**truth, "own_bytes": sum(sizes)}


def failing(name: str) -> Callable[..., None]:
    """What raises whenever it is called."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(f"{name} was made to fail")

    return fail


def faults(framework: str, folder: Path) -> dict[str, Any]:
    """Train without recording, with it, and with each call failing once."""
    begin = STEPS_OF[framework]()

    def losses(record_into: Path | None) -> tuple[list[float], Sequence[str], str]:
        step = begin()
        warmed = [step() for _ in range(WARM_UP)]
        if record_into is None:
            return warmed + marked(step), (), ""
        with ss.Profile(record_into) as profile:
            found = warmed + marked(step)
        return found, profile.run.warnings, str(profile.run.path)

    answers: dict[str, Any] = {"nothing": losses(None), "none": losses(folder / "none")}
    for number, (module, name) in enumerate((*CALLS[framework], *CALLS_OF_ALL)):
        owner, _, attribute = name.rpartition(".")
        target = importlib.import_module(module)
        target = getattr(target, owner) if owner else target
        # An error that is raised anew each time keeps nothing of what raised it alive.
        broken = mock.Mock(side_effect=failing(name))
        with mock.patch.object(target, attribute, broken):
            answers[name] = losses(folder / str(number))
        assert broken.called, name
    # Whatever failed, the next recording is a whole one.
    answers["after"] = losses(folder / "after")
    return answers


def main(arguments: Sequence[str]) -> None:
    framework, folder = arguments[0], Path(arguments[1])
    for name, (what, options) in json.loads(arguments[2]).items():
        write_truth(what, framework, folder / name, options)


def write_truth(
    what: str, framework: str, folder: Path, options: dict[str, Any]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if what == "record":
        truth = record(framework, folder, options)
    elif what == "nested":
        truth = nested(framework, folder)
    elif what == "exported":
        truth = exported(folder, options)
    elif what == "planes":
        truth = planes(folder, options)
    else:
        truth = faults(framework, folder)
    (folder / "truth.json").write_text(json.dumps(truth), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
