"""Every knob takes effect inside a real program, or is seen to arrive there."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import interpreter

from stepscope.trials.inside.turn_files import TurnPlan
from stepscope.trials.knobs import Change, knob_changes, load_knobs
from stepscope.trials.turns import Program, Turn

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

#: Knob → name of the program below in which it is seen.
SEEN_IN = {
    "torch.num_workers": "torch",
    "torch.persistent_workers": "torch",
    "torch.prefetch_factor": "torch",
    "torch.pin_memory": "torch",
    "torch.threads": "torch",
    "torch.tf32": "torch",
    "torch.autocast": "torch",
    "torch.cudnn_benchmark": "torch",
    "torch.compile": "torch_compiled",
    "torch.fused_optimizer": "torch",
    "torch.foreach_optimizer": "torch_compiled",
    "torch.zero_grad": "torch",
    "any.gc_freeze": "plain",
    "any.gc_threshold": "plain",
    "tensorflow.autotune": "keras",
    "tensorflow.prefetch": "keras",
    "tensorflow.private_threads": "keras",
    "tensorflow.deterministic": "keras",
    "keras.steps_per_execution": "keras",
    "keras.jit_compile": "keras",
    "keras.mixed_precision": "keras",
    "tensorflow.xla_auto_jit": "keras",
    "tensorflow.gpu_thread_mode": "keras",
    "tensorflow.gpu_thread_count": "keras",
    "jax.matmul_precision": "jax",
    "jax.compilation_cache": "jax",
    "any.openmp_threads": "plain",
    "any.affinity": "plain",
}

PLAIN = """
import gc, json, os
import stepscope as ss
for step in range(12):
    with ss.StepTrace(step):
        sum(range(1000))
print(json.dumps({
    "frozen": gc.get_freeze_count(), "threshold": gc.get_threshold()[0],
    "omp": os.environ["OMP_NUM_THREADS"], "cores": len(os.sched_getaffinity(0)),
}))
"""

TORCH = """
import json, torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)
class Endless(IterableDataset):
    def __iter__(self):
        yield from range(4)
data = TensorDataset(torch.randn(48, 8))
loader = DataLoader(data, batch_size=4)
streamed = DataLoader(Endless())
seen = {"streamed": streamed.num_workers, "streamed_items": len(list(streamed))}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 2)
    def forward(self, x):
        seen["dtype"] = str(self.inner(x).dtype)
        return self.inner(x)
model = Model()
optimizer = torch.optim.AdamW(model.parameters())
for (x,) in loader:
    optimizer.zero_grad(set_to_none=False)
    seen["grad_is_none"] = model.inner.weight.grad is None
    loss = model(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    print("loss:", loss.item())
print(json.dumps(seen | {
    "workers": loader.num_workers, "persistent": loader.persistent_workers,
    "prefetch": loader.prefetch_factor, "pin": loader.pin_memory,
    "threads": torch.get_num_threads(), "fused": optimizer.defaults["fused"],
    "foreach": optimizer.defaults["foreach"],
    "matmul": torch.get_float32_matmul_precision(),
    "benchmark": torch.backends.cudnn.benchmark,
    "compiled": model._compiled_call_impl is not None,
}))
"""

KERAS = """
import json, os
import keras, numpy as np, tensorflow as tf
seen = {}
def double(x, y):
    return x * 2, y
def made(dataset):
    names = []
    while True:
        names.append(type(dataset).__name__)
        inputs = dataset._inputs()
        if not inputs:
            return names
        dataset = inputs[0]
data = tf.data.Dataset.from_tensor_slices(
    (np.ones((96, 8), "float32"), np.ones((96, 1), "float32"))
).map(double).batch(4)
for _ in data.take(1):
    pass
iterator = iter(data)
options = iterator._dataset.options()
seen["threads"] = options.threading.private_threadpool_size
seen["deterministic"] = options.deterministic
seen["stages"] = made(iterator._dataset)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(data, verbose=0)
seen["steps_per_execution"] = model.steps_per_execution
seen["jit"] = model.jit_compile
seen["policy"] = keras.config.dtype_policy().name
for name in ("TF_XLA_FLAGS", "TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT"):
    seen[name] = os.environ[name]
print(json.dumps(seen))
"""

JAX = """
import json, os
import jax, jax.numpy as jnp
@jax.jit
def step(w):
    return w - 0.1 * (w @ w)
w = jnp.eye(8)
for _ in range(12):
    w = step(w)
w.block_until_ready()
folder = os.environ["JAX_COMPILATION_CACHE_DIR"]
print(json.dumps({
    "precision": jax.config.jax_default_matmul_precision,
    "cached": len(os.listdir(folder)) if os.path.isdir(folder) else 0,
}))
"""


def changes_of(name: str, folder: Path) -> tuple[Change, ...]:
    """A change per knob that is seen in a program: to the knob's first value."""
    return tuple(
        knob_changes(knob, {}, str(folder))[0]
        for knob in load_knobs()
        if SEEN_IN[knob] == name
    )


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.trials.knobs.core_count", lambda: 2)


def run_turn(
    python: str, text: str, folder: Path, changes: tuple[Change, ...]
) -> tuple[Turn, dict[str, Any]]:
    (folder / "program.py").write_text(text, encoding="utf-8")
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    program = Program((python, str(folder / "program.py")), folder, environment)
    turn = program.time_steps(changes, 200, TurnPlan("", warm_s=0.0))
    assert turn.status == 0, turn.err
    assert turn.faults == ()
    return turn, json.loads(turn.out.splitlines()[-1])


def test_every_knob_is_seen_in_a_program() -> None:
    assert {*load_knobs()} == SEEN_IN.keys()


def test_knobs_of_any_program(tmp_path: Path) -> None:
    changes = changes_of("plain", tmp_path)
    turn, seen = run_turn(sys.executable, PLAIN, tmp_path, changes)
    expected = {"any.gc_freeze", "any.gc_threshold", "any.openmp_threads"}
    if len(os.sched_getaffinity(0)) > 1:
        expected |= {"any.affinity"}
    assert turn.applied == expected
    assert seen["frozen"] > 100
    assert (seen["threshold"], seen["omp"], seen["cores"]) == (100_000, "1", 1)
    assert turn.times is not None
    assert len(turn.times.window_ps) >= 3


@pytest.mark.framework
def test_knobs_of_pytorch(tmp_path: Path) -> None:
    changes = changes_of("torch", tmp_path)
    turn, seen = run_turn(interpreter("torch"), TORCH, tmp_path, changes)
    assert turn.applied == {change.knob for change in changes}
    assert seen == {
        "streamed": 0,
        "streamed_items": 4,
        "dtype": "torch.bfloat16",
        "grad_is_none": True,
        "workers": 2,
        "persistent": True,
        "prefetch": 4,
        "pin": True,
        "threads": 2,
        "fused": True,
        "foreach": None,
        "matmul": "high",
        "benchmark": True,
        "compiled": False,
    }
    assert turn.frameworks == {"torch"}
    assert len(turn.losses) == 12


@pytest.mark.framework
@pytest.mark.integration
def test_knobs_of_pytorch_that_exclude_others(tmp_path: Path) -> None:
    changes = changes_of("torch_compiled", tmp_path)
    turn, seen = run_turn(interpreter("torch"), TORCH, tmp_path, changes)
    assert turn.applied == {"torch.compile", "torch.foreach_optimizer"}
    assert (seen["compiled"], seen["foreach"], seen["workers"]) == (True, True, 0)


@pytest.mark.framework
def test_knobs_of_tensorflow_and_keras(tmp_path: Path) -> None:
    changes = changes_of("keras", tmp_path)
    turn, seen = run_turn(interpreter("tensorflow"), KERAS, tmp_path, changes)
    assert turn.applied == {change.knob for change in changes}
    assert seen["stages"][0] in {"_OptionsDataset", "_PrefetchDataset"}
    assert "_PrefetchDataset" in seen["stages"]
    assert "_ParallelMapDataset" in seen["stages"]
    assert (seen["threads"], seen["deterministic"]) == (2, False)
    assert (seen["steps_per_execution"], seen["jit"]) == (4, True)
    assert seen["policy"] == "mixed_bfloat16"
    assert seen["TF_XLA_FLAGS"] == "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    assert seen["TF_GPU_THREAD_MODE"] == "gpu_private"
    assert seen["TF_GPU_THREAD_COUNT"] == "1"


@pytest.mark.framework
def test_knobs_of_jax(tmp_path: Path) -> None:
    changes = changes_of("jax", tmp_path)
    turn, seen = run_turn(interpreter("jax"), JAX, tmp_path, changes)
    assert turn.applied == {change.knob for change in changes}
    assert seen["precision"] == "bfloat16"
    assert seen["cached"] > 0
