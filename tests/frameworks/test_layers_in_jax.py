"""Eager loops over equal layers in JAX: a step is an iteration, or nobody knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import interpreter, run_program

import stepscope as ss
from stepscope.derive.steps.chosen import Steps, steps

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

#: Layers run op by op, each op a compiled program of its own, but for what `jit` takes.
PROGRAM: Final = """
import sys
import jax, jax.numpy as jnp
import stepscope as ss

layers = [jnp.full((128, 128), 0.01) for _ in range(6)]
ones = jnp.ones((128, 128))

def through(x, of):
    for layer in of:
        x = jnp.tanh(x @ layer)
    return x

whole = jax.jit(lambda x: through(x, layers))
short = jax.jit(lambda x: jnp.tanh(x @ layers[0]) @ layers[1])

def iterate(how):
    for _ in range(30):
        if how == "whole":
            x = whole(ones).block_until_ready()
        elif how == "short":
            x = short(ones).block_until_ready()
        elif how == "one":
            x = through(ones, layers[:1])
        else:
            x = through(ones, layers)
        if how in ("read", "one"):
            float(x[0, 0])
    return x

how = sys.argv[2]
iterate(how).block_until_ready()
with ss.Profile(sys.argv[1]):
    iterate(how).block_until_ready()
"""


@pytest.mark.parametrize(
    ("how", "count"),
    [
        # 180 layers, and nothing that says how many of them are an iteration.
        ("layers", None),
        # The end of each is read back.
        ("read", 30),
        # So is that of a single layer, and a short step is compiled whole.
        ("whole", 30),
        ("short", 30),
        ("one", 30),
    ],
)
def test_a_step_is_an_iteration_and_no_layer(
    tmp_path: Path, how: str, count: int | None
) -> None:
    program = tmp_path / "layers.py"
    program.write_text(PROGRAM)
    run_program(interpreter("jax"), program, tmp_path / "log", how)
    profile = ss.open(tmp_path / "log")
    (host,) = profile.hosts
    found = profile.derived(host, steps)
    if count is None:
        assert not isinstance(found, Steps), found.rows
    else:
        assert isinstance(found, Steps), found
        assert abs(len(found.rows) - count) <= 1
