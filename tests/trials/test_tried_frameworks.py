"""`stepscope try` on programs as their users write them, with their frameworks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.programs.frameworks import interpreter

pytestmark = [pytest.mark.framework, pytest.mark.integration]

#: Each sample takes 4 ms, in the process that trains.
LOADS = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((4,), float(index % 7)), torch.zeros(1)
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(Slow(), batch_size=8):
    loss = (model(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

#: Two ranks of gloo, in lock step.
RANKS = """
import time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    time.sleep(0.01)
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""

#: The mapped function sleeps, and one call follows the other.
FITS = """
import time
import keras, numpy as np, tensorflow as tf
def slow(x):
    time.sleep(0.01)
    return x
def load(x, y):
    x = tf.py_function(slow, [x], tf.float32)
    x.set_shape((8,))
    return x, y
data = tf.data.Dataset.from_tensor_slices(
    (np.ones((400, 8), "float32"), np.ones((400, 1), "float32"))
).map(load).batch(4)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=100, verbose=2)
"""


def tried(
    folder: Path, text: str, *command: str, rule: str, options: tuple[str, ...] = ()
) -> dict[str, Any]:
    (folder / "program.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "stepscope", "try", rule, "--format", "json"),
            *(*options, "--", *command, "program.py"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=230,
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "-1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "POLARS_MAX_THREADS": "1",
        },
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def rows(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["change"]: row for row in answer["trials"]}


def test_a_slow_dataset_gets_workers(tmp_path: Path) -> None:
    answer = tried(tmp_path, LOADS, interpreter("torch"), rule="input.bound")
    found = rows(answer)
    two = found["DataLoader(num_workers=2)"]
    assert two["outcome"] in {"kept", "replaced"}, answer
    assert two["promise"] is not None
    # 32 ms of sleep a batch are divided among two processes.
    assert two["step_time"]["base_ms"] > 32
    assert two["step_time"]["new_ms"] < 0.75 * two["step_time"]["base_ms"]
    assert any("num_workers=" in line for line in answer["write"])


def test_ranks_of_torchrun_are_timed_together(tmp_path: Path) -> None:
    torchrun = Path(interpreter("torch")).with_name("torchrun")
    if not torchrun.exists():
        pytest.skip("this environment has no torchrun")
    answer = tried(
        tmp_path, RANKS, str(torchrun), "--nproc-per-node", "2", rule="gap.gc"
    )
    found = rows(answer)
    assert answer["as_is_ms"] > 10
    assert found["gc.freeze()"]["step_time"] is not None, answer
    assert not any(
        b"program.py" in line and str(tmp_path).encode() in line
        for line in command_lines()
    )


def command_lines() -> list[bytes]:
    lines = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            lines.append(
                (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
            )
        except OSError:
            continue
    return lines


def test_keras_fit_maps_in_parallel_and_its_printed_loss_is_compared(
    tmp_path: Path,
) -> None:
    answer = tried(
        tmp_path,
        FITS,
        interpreter("tensorflow"),
        rule="input.bound",
        options=("--allow-numerics",),
    )
    found = rows(answer)
    assert found["dataset.map(num_parallel_calls=AUTOTUNE)"]["step_time"] is not None, (
        answer
    )
    assert found["dataset.prefetch(AUTOTUNE)"]["step_time"] is not None
    order = found["options.deterministic = False"]
    assert order["numerics"]
    assert order["step_time"] is not None
