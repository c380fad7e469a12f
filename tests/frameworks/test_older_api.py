"""Programs in the words of TensorFlow's older profiler, on real frameworks.

Each trains a model whose sizes are known, as its framework would, and asks as the
older API's programs ask. The truth is arithmetic: the elements of the variables, and
the operations of the products of matrices.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.programs.frameworks import ROOT, interpreter, run_program

import stepscope as ss

pytestmark = pytest.mark.framework

#: Rows of a batch, and sizes of the two layers.
ROWS, INPUTS, HIDDEN, CLASSES = 16, 32, 64, 10
PARAMETERS = INPUTS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
#: Operations of the products of matrices in a step: both layers forward, the slopes of
#: both kernels, and that of what the second layer is given.
PRODUCTS = 2 * ROWS * (2 * INPUTS * HIDDEN + 3 * HIDDEN * CLASSES)
STEPS = 12
#: Framework → op types of those products, where the sizes of operands are recorded.
TYPES = {
    "jax": {"dot_general", "transpose"},  # the forward ones are fused with a transpose
    "torch": {"aten::addmm", "aten::mm"},
}
#: Framework → an op type that every step runs.
OPS = {
    "tensorflow": "_MklMatMul",
    "jax": "dot_general",
    "torch": "aten::addmm",
    "plain": "MatMul",
}

TENSORFLOW = """
import tensorflow as tf
model = tf.keras.Sequential([
    tf.keras.Input((32,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(10),
])
graph = tf.Graph()
@tf.function
def train_step(rows):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(rows) ** 2)
    variables = model.trainable_variables
    for variable, slope in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(0.1 * slope)
def train():
    train_step(tf.ones((16, 32)))
"""
JAX = """
import jax, jax.numpy as jnp
weights = {
    "hidden": {"kernel": jnp.ones((32, 64)), "bias": jnp.zeros(64)},
    "answer": {"kernel": jnp.ones((64, 10)), "bias": jnp.zeros(10)},
}
ss.describe(weights)
graph = None
def loss_of(weights, rows):
    first, second = weights["hidden"], weights["answer"]
    hidden = jax.nn.relu(rows @ first["kernel"] + first["bias"])
    return ((hidden @ second["kernel"] + second["bias"]) ** 2).mean()
@jax.jit
def train_step(weights, rows):
    return jax.tree.map(
        lambda it, slope: it - 1e-6 * slope, weights, jax.grad(loss_of)(weights, rows)
    )
def train():
    global weights
    weights = jax.block_until_ready(train_step(weights, jnp.ones((16, 32))))
"""
TORCH = """
import torch
model = torch.nn.Sequential(
    torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
graph = None
def train():
    loss = (model(torch.ones(16, 32)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
PLAIN = """
graph = None
def train():
    with ss.Trace("model/dense/MatMul:MatMul"):
        sum(range(20_000))
"""
MODELS = {"tensorflow": TENSORFLOW, "jax": JAX, "torch": TORCH, "plain": PLAIN}

BEGIN = """
import json, sys
import stepscope as ss
logdir = sys.argv[1]
given = {}
"""
#: The four ways in which such programs ask.
ASKED = """
train()

profiler = ss.Profiler(logdir)
for step_num in range(12):
    train()
    profiler.add_step(step_num)
given["steps"] = profiler.profile_name_scope(
    'train', 10, options=ss.ProfileOptionBuilder.time_and_memory()
)
given["graph"] = profiler.profile_graph(graph)
profiler.add_step(step_num)
profiler.save()

profiler = ss.Profiler(logdir)
for step_num in range(12):
    train()
given["variables"] = profiler.profile_operations(
    options=ss.ProfileOptionBuilder.trainable_variables_parameter()
)
given["lines"] = profiler.profile_python(options={})

profiler = ss.Profiler(logdir)
for step_num in range(12):
    train()
    profiler.add_step(step_num)
options = ss.ProfileOptionBuilder.time_and_memory()
options['show_trainable_variables'] = True
options['max_depth'] = 5
given["custom"] = profiler.profile_name_scope('train', 5, options=options)

profiler = ss.Profiler(logdir=logdir)
for step_num in range(12):
    with profiler.add_step(step_num):
        train()
options = ss.ProfileOptionBuilder.float_operation()
given["operations"] = profiler.profile(options)
profiler.profile_name = "profile_001"
profiler.save(save_path=logdir + "/copy/profile.pb")

def told(view):
    if isinstance(view.result, ss.Unavailable):
        return {"text": view.text, "unavailable": view.result.reason}
    tables = {
        name: getattr(view.result, name).to_dicts()
        for name in ("scope", "graph", "op", "code")
    }
    missing = {one.field: one.reason for one in view.result.missing}
    steps = view.result.steps and list(view.result.steps.values())[0]
    return {"text": view.text, "missing": missing, "steps": steps, **tables}

with open(logdir + "/told.json", "w") as file:
    json.dump({name: told(view) for name, view in given.items()}, file)
"""


class Told(NamedTuple):
    """What one program was given, and what it printed."""

    framework: str
    logdir: Path
    views: dict[str, Any]
    out: str
    err: str


def installed_beside(folder: Path) -> str:
    """Where to find what reads recordings, as beside a whole install of stepscope.

    An environment of a framework has what recording takes; this adds the rest of what
    stepscope depends on, from the environment of the tests.
    """
    folder.mkdir()
    for package in ("polars", "_polars_runtime_32"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        (folder / package).symlink_to(Path(spec.origin).parent)
    return os.pathsep.join([str(ROOT / "src"), str(folder)])


def python_of(framework: str) -> str:
    return sys.executable if framework == "plain" else interpreter(framework)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.integration] * (name == "torch"))
        for name in MODELS
    ],
)
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Told:
    framework: str = request.param
    python = python_of(framework)
    folder = tmp_path_factory.mktemp(framework)
    program = folder / "train.py"
    program.write_text(BEGIN + MODELS[framework] + ASKED, encoding="utf-8")
    path = installed_beside(folder / "beside")
    done = run_program(python, program, folder, environment={"PYTHONPATH": path})
    views = json.loads((folder / "told.json").read_text("utf-8"))
    return Told(framework, folder, views, done.stdout, done.stderr)


def summed(rows: list[dict[str, Any]], column: str) -> int:
    return sum(row[column] or 0 for row in rows if row["depth"] == 1)


def test_the_last_steps_of_a_name_are_shown_with_times(told: Told) -> None:
    view = told.views["steps"]
    # Twelve were added, ten asked for.
    assert view["steps"] == list(range(2, 12))
    rows = {row["name"]: row for row in view["op"]}
    assert rows[OPS[told.framework]]["total_us"] >= 1
    assert all(row["total_us"] >= 1 for row in view["scope"])
    # No framework here records allocations of a CPU: unknown, and it says why.
    assert {row["allocated_bytes"] for row in view["scope"]} == {None}
    assert view["missing"]["scope.allocated_bytes"]


def test_the_graph_shows_every_execution(told: Told) -> None:
    view = told.views["graph"]
    (ran,) = [row for row in view["op"] if row["name"] == OPS[told.framework]]
    assert ran["occurrences"] % STEPS == 0
    assert ran["occurrences"] > 0
    # Only TensorFlow's program hands over a graph.
    assert ("graph is ignored" in told.err) == (told.framework == "tensorflow")


def test_parameters_of_trained_variables_add_up(told: Told) -> None:
    view = told.views["variables"]
    if told.framework == "plain":
        assert view["op"] == []
        assert "the sizes of the variables" in view["missing"]["op.parameters"]
        assert "The sizes of the variables" in " ".join(view["text"].split())
        return
    assert [(row["name"], row["parameters"]) for row in view["op"]] == [
        ("Variable", PARAMETERS)
    ]
    assert summed(view["scope"], "parameters") == PARAMETERS


def test_a_dictionary_that_the_program_changed_is_obeyed(told: Told) -> None:
    view = told.views["custom"]
    assert view["steps"] == list(range(7, 12))
    assert max(row["depth"] for row in view["scope"]) <= 5
    expected = 0 if told.framework == "plain" else PARAMETERS
    assert summed(view["scope"], "parameters") == expected
    assert any(row["total_us"] >= 1 for row in view["scope"])


def test_operations_are_counted_or_it_is_said_why_not(told: Told) -> None:
    view = told.views["operations"]
    if told.framework not in TYPES:
        assert view["scope"] == []
        assert "operand sizes were not recorded" in view["missing"]["scope.flops"]
        assert "operand sizes were not recorded" in " ".join(view["text"].split())
        return
    counted = {row["name"]: row["flops"] for row in view["op"]}
    products = sum(counted[name] for name in TYPES[told.framework])
    assert products == STEPS * PRODUCTS
    assert summed(view["scope"], "flops") >= products


def test_lines_that_were_not_recorded_are_said_why(told: Told) -> None:
    view = told.views["lines"]
    lines = {row["name"] for row in view["code"]}
    if "(no source line)" in lines:
        # Where the Python tracer was on, it is not asked for again.
        way_out = (
            "python_tracer_level=1",
            "Compile the step",
            "run outside Python functions",
        )
        assert any(it in " ".join(view["text"].split()) for it in way_out)
    if told.framework == "jax":
        # Compiled programs record the lines of their ops.
        assert any("train.py:" in line for line in lines)


def test_views_print_themselves_in_their_order_and_others_do_not(told: Told) -> None:
    printed = ("steps", "variables", "custom", "operations")
    assert told.out == "".join(told.views[name]["text"] for name in printed)


def test_each_profiler_leaves_one_run_and_the_copy_opens(told: Told) -> None:
    runs = list((told.logdir / "plugins").rglob("*.xplane.pb"))
    assert len(runs) == 4
    copy = ss.open(told.logdir / "copy" / "profile.pb")
    steps = copy.tool("overview_page").steps
    assert [step.step for step in steps] == list(range(STEPS))


def test_where_nothing_reads_recordings_one_line_says_where_to_look(
    tmp_path: Path,
) -> None:
    program = tmp_path / "train.py"
    program.write_text(BEGIN + TORCH + ASKED, encoding="utf-8")
    done = subprocess.run(
        [interpreter("torch"), program, tmp_path],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert "BadUsage: reading a recording needs polars" in said
    (path,) = tmp_path.rglob("*.xplane.pb")
    assert f"stepscope show model_views {path}" in said
    # What was recorded is there, for whoever can read it.
    assert len(ss.open(path).tool("overview_page").steps) == STEPS
