"""Programs that end while they record: the framework's own part is kept too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import (
    interpreter,
    only_file,
    run_program,
    steps_of,
)

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

PROGRAM = """
import sys
import stepscope as ss
{step}
train_step()
ss.start(sys.argv[1])
for number in range(5):
    with ss.StepTrace(number):
        train_step()
sys.exit(0)
"""
#: How a step is made, and part of a name that only the framework writes.
FRAMEWORKS = {
    "jax": (
        """
import jax
import jax.numpy as jnp
product = jax.jit(lambda x: x @ x)
def train_step():
    product(jnp.ones((64, 64))).block_until_ready()
""",
        "PjitFunction",
    ),
    "tensorflow": (
        """
import tensorflow as tf
product = tf.function(lambda x: x @ x)
def train_step():
    product(tf.ones((64, 64))).numpy()
""",
        "MatMul",
    ),
    "torch": (
        """
import torch
def train_step():
    torch.ones(64, 64) @ torch.ones(64, 64)
""",
        "aten::",
    ),
}


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize("framework", sorted(FRAMEWORKS))
def test_what_the_framework_recorded_is_kept(framework: str, tmp_path: Path) -> None:
    step, sign = FRAMEWORKS[framework]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("{step}", step), encoding="utf-8")
    done = run_program(interpreter(framework), program, tmp_path / "logs")
    assert "stepscope:" not in done.stderr, done.stderr
    profile = ss.open(only_file(tmp_path / "logs"))
    assert [number for _, number in steps_of(profile)] == [0, 1, 2, 3, 4]
    (host,) = profile.hosts
    names = profile.trace(host).table("event_types")["name"].to_list()
    assert any(sign in name for name in names)
