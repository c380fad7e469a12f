"""Records a loop again and again, each time with another call of a collector failing.

    python tests/capture/fault_rounds.py numpy|jax|torch|tensorflow [PART PARTS]

Of calls of the same function from the same place the first fails; with PART and PARTS,
each PARTS-th of these calls, from number PART on. The loop has to
compute what it computes unrecorded, no error may reach it, the failure has to be
reported, and the process has to be free afterwards: a recording in which nothing fails,
made now and then, has nothing to warn of. Prints what is wrong, and how many calls were
tried, as JSON.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import logging
import shutil
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

from faults import Faults

import stepscope as ss
from stepscope._core import recorder
from stepscope.capture.recording import session

if TYPE_CHECKING:
    from collections.abc import Callable

    Train = Callable[[], float]

STEPS = 3
#: A recording in which nothing fails comes after so many.
CLEAN_EVERY = 5
#: Where an annotation is handed on to a framework: where that fails nothing is lost,
#: because the annotation is kept on our side.
HANDING_ON = "_annotation"
#: Calls that clean up and cannot fail in truth: `Event.set`, `list.remove`,
#: `HostCollector.forget_in_child`, which only removes from a list, and what Python
#: calls whenever an object goes. Without them nothing can be promised.
NEVER_FAIL = {"set", "remove", "list.remove", "forget_in_child", "_remove"}


def rounds(train: Train, part: int, parts: int) -> tuple[int, list[str]]:
    """Fail one call after the other; (calls tried, what is wrong)."""
    logging.disable(logging.CRITICAL)
    train()
    # What importing a framework left is not looked through in every round again.
    gc.collect()
    gc.freeze()
    # A collection that Python begins by chance calls others' callbacks (JAX has one)
    # from whatever line of ours runs: each round collects once, where it says so.
    gc.disable()
    truth = train()
    # What a first recording imports and sets up is not tried.
    problems = _clean(train, truth, "the first recording")
    counted = Faults(0)
    _round(train, truth, counted)
    tried = 0
    for at in list(counted.first.values())[part::parts]:
        faults = Faults(at)
        found = _round(train, truth, faults)
        tried += faults.name is not None
        after = f"call {at} ({faults.name} in {faults.where})"
        if faults.name not in NEVER_FAIL:
            problems += [f"{after}: {problem}" for problem in found]
        if tried % CLEAN_EVERY == 0:
            problems += _clean(train, truth, f"after {after}")
    problems += _clean(train, truth, "after all")
    logging.disable(logging.NOTSET)
    return tried, problems


def _round(train: Train, truth: float, faults: Faults) -> list[str]:
    """What is wrong with a recording in which a call fails."""
    logdir = tempfile.mkdtemp()
    threads = set(threading.enumerate())
    problems, told = [], False
    try:
        with faults.injected():
            ss.start(logdir)
            loss = train()
            gc.collect()
            recording = session.current_session()
            assert recording is not None
            recording.flush()
            run = ss.stop()
        told = any(f"call {faults.at}:" in warning for warning in run.warnings)
        if loss != truth:
            problems.append(f"the loss is {loss!r}, not {truth!r}")
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        problems.append(f"the program got {error!r}")
    if faults.name is not None and not told and HANDING_ON not in faults.where:
        problems.append("it is not told")
    problems += left_over(threads)
    shutil.rmtree(logdir)
    return problems


def left_over(threads: set[threading.Thread]) -> list[str]:
    """What of a recording still stands after its end; takes it away."""
    found = []
    if session.current_session() is not None:
        found.append("a recording is still under way")
        session.current_session().stop(save=False)  # type: ignore[union-attr]
    if recorder.is_recording():
        found.append("annotations are still kept")
        recorder.stop_recording()
    ours = [it for it in gc.callbacks if "stepscope" in getattr(it, "__module__", "")]
    if ours:
        found.append("collections are still noted")
        for callback in ours:
            gc.callbacks.remove(callback)
    mine = [
        thread
        for thread in set(threading.enumerate()) - threads
        if thread.name.startswith("stepscope")
    ]
    for thread in mine:
        # A thread that was told to end may take a moment.
        thread.join(5)
    return found + [f"the thread {it.name} still runs" for it in mine if it.is_alive()]


def _clean(train: Train, truth: float, when: str) -> list[str]:
    """What is wrong with a recording in which nothing fails."""
    logdir = tempfile.mkdtemp()
    try:
        with ss.Profile(logdir) as run:
            loss = train()
        problems = [f"{when}: warns {warning}" for warning in run.warnings]
        if loss != truth or run.path is None:
            problems.append(f"{when}: loss {loss!r}, file {run.path}")
    except Exception as error:  # noqa: BLE001 - any failure counts
        problems = [f"{when}: the program got {error!r}"]
    shutil.rmtree(logdir)
    return problems


def of_numpy() -> Train:
    np: Any = importlib.import_module("numpy")
    rows = np.random.default_rng(3).normal(size=(64, 8))

    def train() -> float:
        weights = np.zeros(8)
        for step in range(STEPS):
            with ss.StepTrace(step):
                error = rows @ weights - 1
                weights -= 0.01 * (rows.T @ error)
        return float(error @ error)

    return train


def of_jax() -> Train:
    jax: Any = importlib.import_module("jax")
    rows = jax.random.normal(jax.random.key(0), (64, 8))

    @jax.jit
    def update(weights: Any) -> tuple[Any, Any]:
        loss, slope = jax.value_and_grad(lambda w: ((rows @ w - 1) ** 2).sum())(weights)
        return weights - 0.01 * slope, loss

    def train() -> float:
        weights: Any = jax.numpy.zeros(8)
        for step in range(STEPS):
            with ss.StepTrace(step):
                weights, loss = update(weights)
                loss = float(loss)
        return loss

    return train


def of_torch() -> Train:
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(3)
    rows = torch.randn(64, 8)

    def train() -> float:
        weights = torch.zeros(8, requires_grad=True)
        optimizer = torch.optim.SGD([weights], lr=0.001)
        for step in range(STEPS):
            with ss.StepTrace(step):
                optimizer.zero_grad()
                loss = ((rows @ weights - 1) ** 2).sum()
                loss.backward()
                optimizer.step()
        return float(loss.detach())

    return train


def of_tensorflow() -> Train:
    tf: Any = importlib.import_module("tensorflow")
    rows = tf.constant([[float(i * j % 7) for j in range(8)] for i in range(64)])
    weights = tf.Variable(tf.zeros((8, 1)))

    @tf.function
    def update() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((rows @ weights - 1) ** 2)
        weights.assign_sub(0.0001 * tape.gradient(loss, weights))
        return loss

    def train() -> float:
        weights.assign(tf.zeros((8, 1)))
        for step in range(STEPS):
            with ss.StepTrace(step):
                loss = update()
        return float(loss)

    return train


LOOPS = {
    "numpy": of_numpy,
    "jax": of_jax,
    "torch": of_torch,
    "tensorflow": of_tensorflow,
}


def main() -> int:
    """Run the rounds of a framework and print what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("framework", choices=LOOPS)
    parser.add_argument("part", type=int, nargs="?", default=0)
    parser.add_argument("parts", type=int, nargs="?", default=1)
    options = parser.parse_args()
    train = LOOPS[options.framework]()
    tried, problems = rounds(train, options.part, options.parts)
    print(json.dumps({"tried": tried, "problems": problems}))  # noqa: T201 - a program
    return 0


if __name__ == "__main__":
    sys.exit(main())
