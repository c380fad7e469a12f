"""Trains a few steps with one framework, recorded by stepscope; a program, no test.

    gpu_training.py jax|torch|tensorflow FOLDER [--pretend-cpu]

FOLDER gets `ours/` (the log directory), `own.*` (what the framework's own profiler
handed over of the very same recording: an XSpace, or for PyTorch the trace that it
exports), `averages.json` (PyTorch's key averages of a second recording of as many
steps) and `facts.json`. Each step copies a batch to the device, computes a gradient and
reads the loss back, so that there are kernels and copies both ways. Runs in an
environment that has the framework, with stepscope's `src` on the path.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

import stepscope as ss
from stepscope.capture.collectors.registry import COLLECTORS, make_collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[np.ndarray], float]

SEED, ROWS, FEATURES, HIDDEN = 20, 256, 512, 1024
WARM_UP, STEPS = 5, 6
OWN_TRACE = "own.pt.trace.json"


class NoDevice(Exception):
    """The framework sees no GPU; the message says so."""


def batches(count: int) -> list[np.ndarray]:
    random = np.random.default_rng(SEED)
    return [
        random.normal(size=(ROWS, FEATURES)).astype("float32") for _ in range(count)
    ]


def weights() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(SEED + 1)
    shapes = (FEATURES, HIDDEN), (HIDDEN, 1)
    first, second = (random.normal(size=it).astype("float32") / 30 for it in shapes)
    return first, second


def jax_step(*, pretend: bool) -> tuple[Step, str]:
    import jax
    import jax.numpy as jnp

    if jax.default_backend() == "cpu" and not pretend:
        raise NoDevice("JAX sees no GPU: install jax[cuda12], jax[cuda13] or its ROCm")
    state = [jax.device_put(it) for it in weights()]

    @jax.jit
    def update(state: Any, rows: Any) -> Any:
        def loss_of(both: Any) -> Any:
            return ((jax.nn.relu(rows @ both[0]) @ both[1] - 1) ** 2).mean()

        loss, slopes = jax.value_and_grad(loss_of)(state)
        return loss, jax.tree.map(lambda it, slope: it - 0.01 * slope, state, slopes)

    def step(rows: np.ndarray) -> float:
        nonlocal state
        loss, state = update(state, jax.device_put(jnp.asarray(rows)))
        return float(loss)

    return step, f"jax {jax.__version__} on {jax.devices()[0].device_kind}"


def torch_step(*, pretend: bool) -> tuple[Step, str]:
    import torch

    if not torch.cuda.is_available() and not pretend:
        raise NoDevice("PyTorch sees no GPU: install a build with CUDA or ROCm")
    device = torch.device("cpu" if pretend else "cuda")
    both = [torch.tensor(it, device=device, requires_grad=True) for it in weights()]
    optimizer = torch.optim.SGD(both, lr=0.01)

    def step(rows: np.ndarray) -> float:
        batch = torch.from_numpy(rows).to(device)
        optimizer.zero_grad()
        loss = ((torch.relu(batch @ both[0]) @ both[1] - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    kind = "the CPU" if pretend else torch.cuda.get_device_name(0)
    return step, f"torch {torch.__version__} on {kind}"


def tensorflow_step(*, pretend: bool) -> tuple[Step, str]:
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    if not devices and not pretend:
        raise NoDevice("TensorFlow sees no GPU: install tensorflow[and-cuda]")
    both = [tf.Variable(it) for it in weights()]

    @tf.function
    def update(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(rows @ both[0])
            loss = tf.reduce_mean((hidden @ both[1] - 1.0) ** 2)
        for variable, slope in zip(both, tape.gradient(loss, both), strict=True):
            variable.assign_sub(0.01 * slope)
        return loss

    def step(rows: np.ndarray) -> float:
        return float(update(tf.constant(rows)))

    kind = devices[0].name if devices else "the CPU"
    return step, f"tensorflow {tf.__version__} on {kind}"


STEP_OF = {"jax": jax_step, "torch": torch_step, "tensorflow": tensorflow_step}


def marked(step: Step) -> list[float]:
    losses = []
    for number, rows in enumerate(batches(STEPS)):
        with ss.StepTrace(number):
            losses.append(step(rows))
    return losses


def recorded(framework: str, folder: Path, step: Step) -> dict[str, Any]:
    """Record with stepscope, and keep what the framework handed over to it."""
    kind = type(make_collector(framework))
    assert kind.__module__.endswith(f".{COLLECTORS[framework][0]}")
    stop = kind.hand_over

    def stop_and_keep(collector: Any) -> Any:
        profiler = getattr(getattr(collector, "_recording", None), "_profiler", None)
        with kept_alive(profiler), exports_kept(folder / OWN_TRACE, profiler):
            collected = stop(collector)
        if profiler is None:
            (folder / "own.xplane.pb").write_bytes(collected.xspace)
        return collected

    with (
        mock.patch.object(kind, "hand_over", stop_and_keep),
        ss.Profile(folder / "ours") as run,
    ):
        losses = marked(step)
    return {"losses": losses, "warnings": list(run.warnings), "path": str(run.path)}


@contextlib.contextmanager
def kept_alive(profiler: Any) -> Iterator[None]:
    """Let what PyTorch's profiler recorded outlive the end of the recording."""
    if profiler is None:
        yield
        return
    recording = sys.modules[type(make_collector("torch")).__module__]._Recording
    with mock.patch.object(recording, "_let_go"):
        yield


@contextlib.contextmanager
def exports_kept(path: Path, profiler: Any) -> Iterator[None]:
    """Keep the trace that PyTorch's profiler exports, which it does once.

    Of a version that hands out its events nobody has exported one by then.
    """
    if profiler is None:
        yield
        return
    export = profiler.export_chrome_trace

    def export_and_keep(asked: str) -> None:
        export(asked)
        shutil.copy(asked, path)

    with mock.patch.object(profiler, "export_chrome_trace", export_and_keep):
        yield
    if not path.exists():
        export(str(path))


def key_averages(folder: Path, step: Step) -> None:
    """PyTorch's own summary of another recording of as many steps."""
    import torch.profiler

    with torch.profiler.profile() as profiler:
        marked(step)
    rows = [
        {
            "name": row.key,
            "count": row.count,
            "on_device": "CPU" not in str(row.device_type),
            "device_us": getattr(row, "self_device_time_total", 0.0),
        }
        for row in profiler.key_averages()
        # A range of the program's that spans kernels is none.
        if not getattr(row, "is_user_annotation", False)
    ]
    (folder / "averages.json").write_text(json.dumps(rows), encoding="utf-8")


def main() -> int:
    """Train, record, and write what is known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("framework", choices=STEP_OF)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pretend-cpu", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"framework": options.framework}
    try:
        step, facts["what"] = STEP_OF[options.framework](pretend=options.pretend_cpu)
    except (ImportError, NoDevice) as error:
        facts["unavailable"] = f"{error}"
    else:
        for rows in batches(WARM_UP):
            step(rows)
        facts |= recorded(options.framework, options.folder, step)
        if options.framework == "torch":
            key_averages(options.folder, step)
    (options.folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
