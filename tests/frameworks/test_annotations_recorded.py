"""Ranges that real programs name: each is a row, nested as the program nests them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest
from tests.support.programs.frameworks import interpreter, run_program

import stepscope as ss
from stepscope.analysis.model_views import AnnotationDetailResult, ModelViewsResult

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

#: Steps that are recorded; every third one saves.
STEPS: Final = 6
#: Every program's loop; `step` and `named` are the framework's words for a range.
LOOP: Final = """
import sys, time
import stepscope as ss
{before}
ss.start(sys.argv[1])
for at in range(6):
    with {step}:
        with {load}:
            with {decode}:
                time.sleep(0.004)
        with {compute}:
            work()
    if at % 3 == 2:
        with {save}:
            time.sleep(0.002)
ss.stop()
"""
PLAIN: Final = "def work():\n    time.sleep(0.002)\n"
TORCH: Final = """
import torch
layer = torch.nn.Linear(64, 64)
def work():
    layer(torch.ones(32, 64)).sum().backward()
"""
JAX: Final = """
import jax, jax.numpy as jnp
product = jax.jit(lambda it: (it @ it).sum())
rows = jnp.ones((64, 64))
def work():
    product(rows).block_until_ready()
work()
"""
TENSORFLOW: Final = """
import tensorflow as tf
rows = tf.ones((64, 64))
@tf.function
def product():
    return tf.reduce_sum(rows @ rows)
def work():
    product().numpy()
work()
"""
#: Framework → what comes before the loop, a step, and a range of a name.
WORDS: Final = {
    "plain": (PLAIN, "ss.StepTrace(at)", "ss.Trace({!r})"),
    "torch": (TORCH, "ss.StepTrace(at)", "torch.profiler.record_function({!r})"),
    "jax": (
        JAX,
        "jax.profiler.StepTraceAnnotation('train', step_num=at)",
        "jax.profiler.TraceAnnotation({!r})",
    ),
    "tensorflow": (
        TENSORFLOW,
        "tf.profiler.experimental.Trace('train', step_num=at, _r=1)",
        "tf.profiler.experimental.Trace({!r})",
    ),
}
#: Frameworks whose loops are recorded among the integrations.
LATER: Final = ("jax", "tensorflow")


@pytest.fixture(
    scope="module",
    params=[
        *("plain", "torch"),
        *(pytest.param(name, marks=pytest.mark.integration) for name in LATER),
    ],
)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    framework = request.param
    before, step, named = WORDS[framework]
    folder = tmp_path_factory.mktemp(framework)
    program = folder / "program.py"
    ranges = {
        name: named.format(name) for name in ("load", "decode", "compute", "save")
    }
    program.write_text(LOOP.format(before=before, step=step, **ranges))
    python = sys.executable if framework == "plain" else interpreter(framework)
    run_program(python, program, folder / "log")
    return framework, folder / "log"


def views(path: Path, **options: object) -> ModelViewsResult:
    result = ss.open(str(path)).tool("model_views", **options)
    assert isinstance(result, ModelViewsResult), result
    return result


def test_the_ranges_of_the_program_and_no_others(recorded: tuple[str, Path]) -> None:
    rows = views(recorded[1]).annotation
    names = dict(rows.select("id", "name").iter_rows())
    found = {
        (names.get(parent), name): occurrences
        for parent, name, occurrences in rows.filter(~rows["library"])
        .select("parent", "name", "occurrences")
        .iter_rows()
    }
    assert found == {
        (None, "train"): STEPS,
        ("train", "load"): STEPS,
        ("load", "decode"): STEPS,
        ("train", "compute"): STEPS,
        (None, "save"): STEPS // 3,
    }


def test_times_are_at_least_what_the_program_slept(recorded: tuple[str, Path]) -> None:
    rows = views(recorded[1]).annotation
    total = dict(rows.select("name", "total_us").iter_rows())
    own = dict(rows.select("name", "self_us").iter_rows())
    assert total["decode"] >= STEPS * 4000
    assert total["load"] >= total["decode"]
    assert own["load"] == pytest.approx(total["load"] - total["decode"], abs=0.01)
    assert total["save"] >= STEPS // 3 * 2000
    # No device is there: unknown, not 0.
    assert rows["device_us"].null_count() == len(rows)


def test_one_of_them_closely(recorded: tuple[str, Path]) -> None:
    framework, path = recorded
    result = views(path, op="compute")
    assert isinstance(result, AnnotationDetailResult)
    detail = result.detail
    assert detail.call_count == STEPS
    assert detail.by_step is not None
    assert detail.by_step["step"].to_list() == list(range(STEPS))
    if framework == "torch":
        # The others hand their ops to threads of a runtime.
        assert detail.ops is not None
        assert "aten::linear" in detail.ops["name"].to_list()
