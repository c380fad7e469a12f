"""`stepscope run` on real frameworks: programs that know nothing of it.

Each program counts its own steps and prints its result. The truth is what it prints: it
must print the same without us.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.support.programs.frameworks import interpreter

import stepscope as ss
from stepscope.rundir import scan_directory

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.framework

TORCH = """
import sys, torch
torch.manual_seed(0)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    loss = (model(torch.ones(8, 16)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print(f"{loss.item():.9e}")
sys.exit(int(sys.argv[2]))
"""
GAN = """
import sys, torch
torch.manual_seed(0)
one, two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
first, second = (torch.optim.Adam(m.parameters()) for m in (one, two))
for _ in range(int(sys.argv[1])):
    for optimizer in (first, second):
        loss = two(one(torch.ones(4, 8))).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
print(f"{loss.item():.9e}")
sys.exit(int(sys.argv[2]))
"""
JAX = """
import sys, jax, jax.numpy as jnp
@jax.jit
def initial(key): return {"w": jax.random.normal(key, (16, 4)), "b": jnp.zeros(4)}
@jax.jit
def prepared(x): return x * 2
@jax.jit
def train_step(state, x):
    slope = jax.grad(lambda s: ((x @ s["w"] + s["b"]) ** 2).mean())(state)
    return jax.tree.map(lambda s, g: s - 0.01 * g, state, slope)
state = initial(jax.random.key(0))
for _ in range(int(sys.argv[1])):
    batches = [prepared(jnp.ones((8, 16))) for _ in range(3)]
    state = train_step(state, batches[0])
print(f"{float(state['w'].sum()):.9e}")
sys.exit(int(sys.argv[2]))
"""
JAX_CELLS = """
import sys, jax, jax.numpy as jnp
@jax.jit
def cell(h, w): return jnp.tanh(h * 0.5 + w)
@jax.jit
def update(w, h): return w + 0.1 * h
w = jnp.zeros(4)
for _ in range(int(sys.argv[1])):
    h = jnp.zeros(4)
    for _ in range(4):
        h = cell(h, w)
    w = update(w, h)
print(f"{float(w.sum()):.9e}")
sys.exit(int(sys.argv[2]))
"""
#: Over two devices, the older way: JAX compiles a function of its own around the step.
JAX_PMAP = """
import sys
import jax, jax.numpy as jnp
def train_step(w, x):
    slope = jax.lax.pmean(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), "devices")
    return w - 0.01 * slope
step = jax.pmap(train_step, axis_name="devices")
w = jnp.ones((2, 16, 4))
for _ in range(int(sys.argv[1])):
    w = step(w, jnp.ones((2, 8, 16)))
print(f"{float(w.sum()):.9e}")
sys.exit(int(sys.argv[2]))
"""
TF_FUNCTION = """
import sys, tensorflow as tf
tf.random.set_seed(0)
weights = tf.Variable(tf.ones((16, 4)))
@tf.function
def squared(x): return x * x
@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(squared(x @ weights))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss
for _ in range(int(sys.argv[1])):
    loss = train_step(tf.ones((8, 16)))
print(f"{float(loss):.9e}")
sys.exit(int(sys.argv[2]))
"""
KERAS = """
import os, sys, numpy as np, keras
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(4)])
executions = int(os.environ.get("EXECUTIONS", "1"))
model.compile("sgd", "mse", steps_per_execution=executions)
x, y = np.ones((8 * 12, 16)), np.ones((8 * 12, 4))
model.evaluate(x, y, batch_size=8, verbose=0)
epochs = int(sys.argv[1]) // 12
history = model.fit(
    x, y, batch_size=8, epochs=epochs, validation_data=(x, y), verbose=0
)
print(f"{history.history['loss'][-1]:.9e}")
sys.exit(int(sys.argv[2]))
"""
KERAS_LOOP = """
import sys, keras, tensorflow as tf
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(4)])
optimizer = keras.optimizers.SGD(0.1)
policy = tf.function(model)
for _ in range(int(sys.argv[1])):
    for _ in range(3):
        policy(tf.ones((1, 16)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.ones((8, 16))) ** 2)
    slopes = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(slopes, model.trainable_variables))
print(f"{float(loss):.9e}")
sys.exit(int(sys.argv[2]))
"""
#: Name → environment, program, what is counted.
PROGRAMS = {
    "torch": ("torch", TORCH, "optimizer"),
    "gan": ("torch", GAN, "optimizer"),
    "jax": ("jax", JAX, "calls of train_step"),
    "jax_cells": ("jax", JAX_CELLS, "calls of update"),
    "jax_pmap": ("jax", JAX_PMAP, "calls of train_step"),
    "tf_function": ("tensorflow", TF_FUNCTION, "tf.function train_step"),
    "keras": ("tensorflow", KERAS, "Keras fit"),
    "keras_loop": ("tensorflow", KERAS_LOOP, "updates of the optimizer"),
}
#: Loops that differ little from others.
MORE = {"gan", "jax_pmap", "keras_loop"}
#: Further loops, which `make test-integrations` runs.
OF_INTEGRATIONS = {"jax_cells", "keras"}
#: The one after which a report is asked for: its import takes longer than the program.
REPORTED = "tf_function"
QUIET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


#: A busy machine may slow the window down; what is done then has its own tests, and so
#: have short steps, of which more are recorded unless their number is given.
UNHURRIED = ("--max-slowdown", "1000", "--steps", "10")


class Done(NamedTuple):
    """What became of a program under `stepscope run`."""

    status: int
    out: str
    err: str
    steps: dict[str, list[int]]


def record(
    folder: Path,
    *command: object,
    options: tuple[str, ...] = ("--no-report", *UNHURRIED),
    **extra: str,
) -> Done:
    """Run a command under `stepscope run`, and read what was recorded by host."""
    given = [*options, "--", *map(str, command)]
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "run", *given],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **QUIET, **extra},
    )
    steps = {}
    logdir = folder / "stepscope-logs"
    for run in scan_directory(logdir).runs if logdir.is_dir() else ():
        for host in run.hosts:
            overview = ss.open(host.paths[0]).tool("overview_page")
            steps[host.host] = [step.step for step in getattr(overview, "steps", ())]
    return Done(done.returncode, done.stdout, done.stderr, steps)


#: Runs programs of one framework as scripts, one after the other; what each prints.
WITHOUT_US = """
import contextlib, io, json, runpy, sys
out, (count, status, *programs) = [], sys.argv[1:]
for program in programs:
    sys.argv = [program, count, status]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        with contextlib.suppress(SystemExit):
            runpy.run_path(program, run_name="__main__")
    out.append(said.getvalue())
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], str]:
    """What a program prints without us; a framework is imported once."""

    @cache
    def of(environment: str) -> dict[str, str]:
        folder = tmp_path_factory.mktemp(environment)
        texts = [text for where, text, _ in PROGRAMS.values() if where == environment]
        texts += [NOT_JITTED, NAN] if environment == "jax" else []
        for number, text in enumerate(texts):
            (folder / f"{number}.py").write_text(text, encoding="utf-8")
        programs = [f"{number}.py" for number in range(len(texts))]
        done = subprocess.run(
            [interpreter(environment), "-c", WITHOUT_US, "36", "3", *programs],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
            env={**os.environ, **QUIET},
        )
        said = json.loads(done.stdout.splitlines()[-1])
        return dict(zip(texts, said, strict=True))

    return lambda environment, text: of(environment)[text]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                *[pytest.mark.thorough] * (name in MORE),
                *[pytest.mark.integration] * (name in OF_INTEGRATIONS),
            ],
        )
        for name in PROGRAMS
    ],
)
def test_ten_steps_are_skipped_and_ten_recorded_and_nothing_changes(
    name: str, tmp_path: Path, alone: Callable[[str, str], str]
) -> None:
    environment, program, counted = PROGRAMS[name]
    python = interpreter(environment)
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    is_reported = name == REPORTED
    options = UNHURRIED if is_reported else ("--no-report", *UNHURRIED)
    done = record(tmp_path, python, "train.py", 36, 3, options=options)
    assert done.status == 3
    assert done.out == alone(environment, program)
    assert list(done.steps.values()) == [list(range(11, 21))]
    assert counted in done.err
    assert ("Where the step time went" in done.err) == is_reported


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    "name", ["torch", "jax", pytest.param("tf_function", marks=pytest.mark.thorough)]
)
def test_a_program_that_ends_early_shows_the_steps_there_were(
    name: str, tmp_path: Path
) -> None:
    environment, program, _ = PROGRAMS[name]
    python = interpreter(environment)
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    within = record(tmp_path, python, "train.py", 15, 0)
    assert list(within.steps.values()) == [list(range(11, 16))]
    assert "steps 11 to 15" in within.err
    before = record(tmp_path, python, "train.py", 6, 0)
    assert before.status == 0
    assert "ended after step 6" in before.err


def test_batches_of_one_execution_are_recorded_together(
    tmp_path: Path,
) -> None:
    python = interpreter("tensorflow")
    (tmp_path / "train.py").write_text(KERAS, encoding="utf-8")
    done = record(tmp_path, python, "train.py", 36, 0, EXECUTIONS="5")
    # Twelve batches of an epoch are executed as 5, 5 and 2.
    assert list(done.steps.values()) == [[11, 13, 18]]


NAN = """
import sys, jax, jax.numpy as jnp
@jax.jit
def train_step(x): return jnp.log(x)
def found(x):
    try:
        train_step(x)
    except FloatingPointError:
        return True
    return False
x = jnp.ones(3)
for _ in range(14): train_step(x)
with jax.debug_nans(True):
    print("within", found(-x))
print("after", found(-x))
jax.config.update("jax_debug_nans", True)
print("switched on", found(-x), found(x))
jax.config.update("jax_debug_nans", False)
print("switched off", found(-x))
"""


def test_looking_for_nan_works_as_ever_while_calls_are_counted(
    tmp_path: Path, alone: Callable[[str, str], str]
) -> None:
    python = interpreter("jax")
    (tmp_path / "train.py").write_text(NAN, encoding="utf-8")
    done = record(tmp_path, python, "train.py")
    assert done.out == alone("jax", NAN)
    assert "within True\nafter False\n" in done.out
    # A call that raised is no step.
    (steps,) = done.steps.values()
    assert steps[:5] == list(range(11, 16))


NOT_JITTED = """
import jax, jax.numpy as jnp
def loss(w, x): return jnp.mean(jnp.tanh(x @ w) ** 2)
w, x = jnp.ones((8, 8)), jnp.ones((4, 8))
for _ in range(30): w = w - 0.1 * jax.grad(loss)(w, x)
print(float(w.sum()))
"""


def test_what_jax_calls_for_a_gradient_is_no_step(
    tmp_path: Path, alone: Callable[[str, str], str]
) -> None:
    python = interpreter("jax")
    (tmp_path / "train.py").write_text(NOT_JITTED, encoding="utf-8")
    done = record(tmp_path, python, "train.py")
    assert done.out == alone("jax", NOT_JITTED)
    assert "no steps were found" in done.err


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize(
    "name", ["jax", pytest.param("torch", marks=pytest.mark.thorough), "tensorflow"]
)
def test_the_loops_of_the_demonstration_show_what_their_input_costs(
    name: str, tmp_path: Path
) -> None:
    shipped = Path(ss.__file__).parent / "cli" / "demo_programs" / f"{name}_loop.py"
    done = record(tmp_path, interpreter(name), shipped)
    assert done.status == 0, done.err
    assert list(done.steps.values()) == [list(range(11, 21))]
    assert done.out.startswith("trained 40 steps")


#: It waits before it ends. On a busy machine a thread of Gloo may come so late that it
#: frees a Python object of one of the last steps while the interpreter ends; then
#: PyTorch 2.13 aborts ("terminate called without an active exception"), with us and
#: without: https://github.com/pytorch/pytorch/issues/190489.
WORKER = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    loss = model(torch.ones(8, 16)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
if dist.get_rank() == 0:
    print(f"{loss.item():.9e}")
dist.destroy_process_group()
time.sleep(1)
"""


@pytest.mark.integration
def test_workers_of_torchrun_are_hosts_of_one_run(
    tmp_path: Path,
) -> None:
    torchrun = Path(interpreter("torch")).parent / "torchrun"
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    done = record(
        tmp_path,
        torchrun,
        "--standalone",
        "--nproc-per-node",
        2,
        "worker.py",
        OMP_NUM_THREADS="1",
    )
    assert done.status == 0, done.err
    assert len(done.steps) == 2
    assert all(steps == list(range(11, 21)) for steps in done.steps.values())
    (run,) = scan_directory(tmp_path / "stepscope-logs").runs
    assert [host.host.rpartition(".")[2] for host in run.hosts] == ["0", "1"]
    assert float(done.out) > 0
    assert "not recorded (only started other processes)" in done.err


@pytest.mark.integration
def test_a_worker_that_fails_keeps_the_status_of_torchrun(
    tmp_path: Path,
) -> None:
    torchrun = Path(interpreter("torch")).parent / "torchrun"
    text = WORKER + "\nimport sys; sys.exit(3)\n"
    (tmp_path / "worker.py").write_text(text, encoding="utf-8")
    done = record(
        tmp_path,
        torchrun,
        "--standalone",
        "--nproc-per-node",
        1,
        "worker.py",
        OMP_NUM_THREADS="1",
    )
    assert done.status == 1
    assert list(done.steps.values()) == [list(range(11, 21))]


LAUNCHED = """
import torch
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(40):
    loss = (model(torch.ones(8, 16)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
#: Ends once both workers have been recorded.
STEPLESS = """
import pathlib, time
end = time.monotonic() + 120
def recorded(): return list(pathlib.Path("stepscope-logs").rglob("*.xplane.pb"))
while len(recorded()) < 2 and time.monotonic() < end:
    sum(range(1000))
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("program", "wait_s"),
    [
        (LAUNCHED, 120),
        # The launcher has to be known as one before time opens its window.
        pytest.param(STEPLESS, 25, marks=pytest.mark.thorough),
    ],
)
def test_of_a_launcher_only_the_workers_are_recorded(
    program: str, wait_s: int, tmp_path: Path
) -> None:
    """Whether they step, or only compute until time opens their windows."""
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    command = [interpreter("torch"), "-m", "torch.distributed.run"]
    command += ["--standalone", "--nproc-per-node", "2", "train.py"]
    options = ("--no-report", "--wait-s", str(wait_s), "--record-s", "1")
    options += ("--steps", "10")
    done = record(tmp_path, *command, options=options, OMP_NUM_THREADS="1")
    assert done.status == 0, done.err
    expected = list(range(11, 21)) if program == LAUNCHED else []
    assert list(done.steps.values()) == [expected, expected]
    assert "not recorded (only started other processes)" in done.err


#: Steps of 20,000 ops each.
MANY_OPS = """
import torch
layer, row = torch.nn.Linear(4, 4), torch.ones(4)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for _ in range(22):
    for _ in range(20_000):
        row + row
    layer(row).sum().backward()
    optimizer.step()
"""


def test_steps_of_many_ops_are_fewer_and_counted_before_the_first(
    tmp_path: Path,
) -> None:
    """Ten of them would have more than 150,000 events; the tenth step is counted."""
    (tmp_path / "train.py").write_text(MANY_OPS, encoding="utf-8")
    command = (interpreter("torch"), "train.py")
    done = record(tmp_path, *command, options=("--no-report",), OMP_NUM_THREADS="1")
    assert done.status == 0, done.err
    assert list(done.steps.values()) == [list(range(11, 18))]
    assert "events of PyTorch, so fewer steps were recorded" in done.err


#: Steps are begun ahead of the device, so that the first ones take no time at all.
AHEAD = """
import jax, jax.numpy as jnp
@jax.jit
def train_step(state):
    def advance(_, state): return jnp.tanh(state @ state) * 0.5
    return jax.lax.fori_loop(0, 400, advance, state)
state = jnp.ones((128, 128))
for _ in range(170):
    state = train_step(state)
state.block_until_ready()
"""


def test_a_loop_that_runs_ahead_of_its_device_is_not_cut_short(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(AHEAD, encoding="utf-8")
    options = ("--steps", "70", "--max-s", "1000", "--no-report")
    done = record(tmp_path, interpreter("jax"), "train.py", options=options)
    (steps,) = done.steps.values()
    assert len(steps) == 70
    assert steps == list(range(steps[0], steps[0] + 70))
    assert "max-slowdown" not in done.err


#: The program has a hook of its own, which PyTorch calls after ours.
HOOKED = """
import sys, torch
from torch.optim.optimizer import register_optimizer_step_post_hook
torch.manual_seed(0)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = []
register_optimizer_step_post_hook(lambda *_: steps.append(1))
for _ in range(40):
    loss = (model(torch.ones(8, 16)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print(len(steps), f"{loss.item():.9e}")
"""


def test_hooks_of_the_program_go_on_when_the_window_closes(tmp_path: Path) -> None:
    """PyTorch's loop over its hooks failed, and the program with it."""
    script = tmp_path / "hooked.py"
    script.write_text(HOOKED)
    python = interpreter("torch")
    alone = subprocess.run(
        [python, script], capture_output=True, text=True, check=True, timeout=300
    )
    command = [sys.executable, "-m", "stepscope", "run", "--no-report", "--steps", "5"]
    recorded = subprocess.run(
        [*command, "--logdir", tmp_path / "logs", "--", python, script],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout == alone.stdout
    assert "steps 11 to 15" in recorded.stderr
