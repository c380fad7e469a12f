"""Programs that use their framework's profiler themselves: it is theirs, not ours.

The truth is what each program does without us: its output, its status, its own profile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.support.programs.frameworks import interpreter, only_file

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.framework

JAX = """
import sys, jax, jax.numpy as jnp
@jax.jit
def train_step(w): return w - 0.01 * (w @ w)
w = jnp.ones((64, 64)) / 64
def step():
    global w
    w = train_step(w)
    w.block_until_ready()
def result(): return float(w.sum())
def start(): jax.profiler.start_trace("own")
stop = jax.profiler.stop_trace
"""
TENSORFLOW = """
import sys, tensorflow as tf
w = tf.Variable(tf.ones((64, 64)) / 64)
@tf.function
def train_step(): w.assign_sub(0.01 * (w @ w))
step = train_step
def result(): return float(tf.reduce_sum(w))
def start(): tf.profiler.experimental.start("own")
stop = tf.profiler.experimental.stop
"""
TORCH = """
import os, sys, torch
torch.manual_seed(0)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    global loss
    loss = (model(torch.ones(8, 16)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
def result(): return loss.item()
profiler = torch.profiler.profile()
start = profiler.start
def stop():
    profiler.stop()
    os.makedirs("own", exist_ok=True)
    profiler.export_chrome_trace("own/own.pt.trace.json")
"""
#: Steps that the program records itself, of forty.
LOOP = """
first, last = map(int, sys.argv[1:])
for number in range(1, 41):
    if number == first: start()
    step()
    if number == last: stop()
print(f"{result():.9e}")
sys.exit(3)
"""
SCHEDULE = (
    TORCH.replace(
        "torch.profiler.profile()",
        """torch.profiler.profile(
    schedule=torch.profiler.schedule(
        wait=int(sys.argv[1]), warmup=4, active=3, repeat=1
    ),
    on_trace_ready=lambda it: it.export_chrome_trace("own.pt.trace.json"),
)""",
    )
    + """
profiler.start()
for _ in range(40):
    step()
    profiler.step()
profiler.stop()
os.makedirs("own"); os.rename("own.pt.trace.json", "own/own.pt.trace.json")
print(f"{result():.9e}")
"""
)
KERAS = """
import numpy as np, keras
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(4)])
model.compile("sgd", "mse")
callback = keras.callbacks.TensorBoard("own", profile_batch=(10, 14))
history = model.fit(
    np.ones((8 * 40, 16)), np.ones((8 * 40, 4)), batch_size=8, verbose=0,
    callbacks=[callback],
)
print(f"{history.history['loss'][-1]:.9e}")
"""
SERVER = f"""{JAX}
import socket
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
early = sys.argv[1] == "early"
def serve(): jax.profiler.start_server(port)
if early: serve()
for number in range(1, 41):
    if number == 10 and not early: serve()
    step()
jax.profiler.stop_server()
print(f"{{result():.9e}}")
"""
#: Name → how it begins, part of a name that only the framework writes in each step.
PROGRAMS = {
    "jax": (JAX, "PjitFunction(train_step)"),
    "tensorflow": (TENSORFLOW, "MatMul"),
    "torch": (TORCH, "Optimizer.step#SGD.step"),
}
#: Name of a run → environment, program, and what it is called with.
RUNS = {
    **{f"{it} in ours": (it, PROGRAMS[it][0] + LOOP, "12", "20") for it in PROGRAMS},
    **{f"{it} earlier": (it, PROGRAMS[it][0] + LOOP, "3", "12") for it in PROGRAMS},
    **{f"schedule {wait}": ("torch", SCHEDULE, wait) for wait in ("3", "10")},
    "keras": ("tensorflow", KERAS),
    **{f"server {when}": ("jax", SERVER, when) for when in ("early", "within")},
}
QUIET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
#: Steps 6 to 25 are recorded.
WINDOW = ("--skip-steps", "5", "--steps", "20", "--max-s", "60")


class Done(NamedTuple):
    """What became of a program, and where it ran."""

    folder: Path
    status: int
    out: str
    err: str

    def own_names(self) -> list[str]:
        """Names of the events of the program's own profile."""
        (path,) = (
            it
            for ending in ("*.xplane.pb", "*.json")
            for it in (self.folder / "own").rglob(ending)
        )
        if path.suffix == ".json":
            events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
            return [str(event.get("name")) for event in events]
        return names_in(path)

    def our_names(self) -> list[str]:
        return names_in(only_file(self.folder / "stepscope-logs"))


def names_in(path: Path) -> list[str]:
    profile = ss.open(path)
    (host,) = profile.hosts
    trace = profile.trace(host)
    types = trace.table("event_types")["name"]
    return types.gather(trace.table("events")["type"].to_physical()).to_list()


#: Runs programs of one framework as scripts, each in its folder; how each ended.
WITHOUT_US = """
import contextlib, io, json, os, runpy, sys
ended = []
for folder, *arguments in json.loads(sys.argv[1]):
    os.chdir(folder)
    sys.argv = ["train.py", *arguments]
    status = 0
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            runpy.run_path("train.py", run_name="__main__")
        except SystemExit as end:
            status = end.code
    ended.append((status, said.getvalue()))
print(json.dumps(ended))
"""


def in_folder(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **QUIET},
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Done]:
    """What a run does without us; a framework is imported once."""

    @cache
    def of(environment: str) -> dict[str, Done]:
        base = tmp_path_factory.mktemp(environment)
        asked = {}
        for name, (where, text, *arguments) in RUNS.items():
            if where == environment:
                folder = base / name
                folder.mkdir()
                (folder / "train.py").write_text(text, encoding="utf-8")
                asked[name] = (str(folder), *arguments)
        given = json.dumps(list(asked.values()))
        done = in_folder(base, interpreter(environment), "-c", WITHOUT_US, given)
        assert done.returncode == 0, done.stderr
        ended = json.loads(done.stdout.splitlines()[-1])
        return {
            name: Done(base / name, status, out, done.stderr)
            for name, (status, out) in zip(asked, ended, strict=True)
        }

    return lambda name: of(RUNS[name][0])[name]


def under_us(folder: Path, name: str, alone: Done) -> Done:
    """A run under `stepscope run`; it does what it does alone."""
    environment, text, *arguments = RUNS[name]
    (folder / "train.py").write_text(text, encoding="utf-8")
    ours = (sys.executable, "-m", "stepscope", "run", *WINDOW, "--no-report", "--")
    done = in_folder(folder, *ours, interpreter(environment), "train.py", *arguments)
    assert (done.returncode, done.stdout) == (alone.status, alone.out), done.stderr
    assert "Traceback" not in done.stderr
    return Done(folder, done.returncode, done.stdout, done.stderr)


def count(names: list[str], sign: str) -> int:
    return sum(sign in name for name in names)


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_its_profiler_that_starts_in_our_window_is_whole_and_ours_steps_aside(
    name: str, tmp_path: Path, alone: Callable[[str], Done]
) -> None:
    _, sign = PROGRAMS[name]
    without = alone(f"{name} in ours")
    ours = under_us(tmp_path, f"{name} in ours", without)
    assert without.status == 3
    # Steps 12 to 20, each as often as without us.
    theirs = count(without.own_names(), sign)
    assert count(ours.own_names(), sign) == theirs >= 9
    # Ours has the framework's part of the steps before, and all steps' annotations.
    found = ours.our_names()
    assert 5 <= count(found, sign) <= 7 * (theirs // 9)
    assert found.count("step") == 20
    assert ours.err.count("the program started the program's own") == 1
    assert "steps 6 to 25" in ours.err


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("name", ["tensorflow", "jax", "torch"])
def test_its_profiler_that_runs_already_is_left_alone(
    name: str, tmp_path: Path, alone: Callable[[str], Done]
) -> None:
    _, sign = PROGRAMS[name]
    without = alone(f"{name} earlier")
    ours = under_us(tmp_path, f"{name} earlier", without)
    assert count(ours.own_names(), sign) == count(without.own_names(), sign) >= 10
    found = ours.our_names()
    assert count(found, sign) == 0
    assert found.count("step") == 20
    assert ours.err.count("runs already") == 1


@pytest.mark.parametrize(
    "warm_up_begins", ["3", pytest.param("10", marks=pytest.mark.thorough)]
)
def test_a_schedule_of_pytorch_warms_up_and_records_as_without_us(
    warm_up_begins: str, tmp_path: Path, alone: Callable[[str], Done]
) -> None:
    """It is prepared before our window opens, or within it."""
    without = alone(f"schedule {warm_up_begins}")
    ours = under_us(tmp_path, f"schedule {warm_up_begins}", without)
    sign = "Optimizer.step#SGD.step"
    assert count(ours.own_names(), sign) == count(without.own_names(), sign) == 3
    assert count(ours.own_names(), "aten::") == count(without.own_names(), "aten::")


def test_the_tensorboard_callback_of_keras_profiles_as_without_us(
    tmp_path: Path, alone: Callable[[str], Done]
) -> None:
    without = alone("keras")
    ours = under_us(tmp_path, "keras", without)
    sign = "multi_step_on_iterator"
    assert count(ours.own_names(), sign) == count(without.own_names(), sign) > 0
    assert ours.our_names().count("step") == 20


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("when", ["within", "early"])
def test_a_profiler_server_of_jax_is_left_to_who_captures_there(
    when: str, tmp_path: Path, alone: Callable[[str], Done]
) -> None:
    """It is started before our window opens, or within it."""
    ours = under_us(tmp_path, f"server {when}", alone(f"server {when}"))
    assert ours.err.count("JAX profiler server") == 1
    assert (count(ours.our_names(), "PjitFunction") > 0) is (when == "within")
