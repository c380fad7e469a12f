"""Every example runs as it stands, and its recording is what it says."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.programs.frameworks import (
    check_every_tool,
    interpreter,
    only_file,
    run_program,
    steps_of,
    xprof_steps,
)

import stepscope as ss

pytestmark = pytest.mark.framework

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Example(NamedTuple):
    """One example in one environment, with the steps that it marks.

    `signs` are names of which each must be in some event of what was recorded: they
    come from the framework, not from us.
    """

    program: str
    environment: str
    steps: range
    signs: tuple[str, ...]
    keras_backend: str = ""


RUNS = {
    "tensorflow": Example(
        "tensorflow_loop.py", "tensorflow", range(20), ("MatMul", "Iterator::")
    ),
    "keras_tensorflow": Example(
        "keras_fit.py", "tensorflow", range(10, 16), ("MatMul",), "tensorflow"
    ),
    "keras_jax": Example(
        "keras_fit.py", "keras_jax", range(10, 16), ("PjitFunction",), "jax"
    ),
    "keras_torch": Example(
        "keras_fit.py", "keras_torch", range(10, 16), ("aten::",), "torch"
    ),
    "jax": Example("jax_loop.py", "jax", range(20), ("PjitFunction(train_step)",)),
    "torch": Example(
        "pytorch_loop.py",
        "torch",
        range(4, 14),
        ("aten::linear", "Optimizer.step", "DataLoader"),
    ),
    "jax_fed_by_tf_data": Example(
        "jax_fed_by_tf_data.py",
        "jax_tfdata",
        range(20),
        ("PjitFunction(train_step)", "Iterator::"),
    ),
}


#: The same program on other back ends, on which `test_keras_recorded.py` records too.
REPEATED = ("keras_jax", "keras_torch")


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough if name in REPEATED else ())
        for name in sorted(RUNS)
    ],
)
def test_an_example_records_its_steps_and_its_framework(
    name: str, tmp_path: Path
) -> None:
    example = RUNS[name]
    done = run_program(
        interpreter(example.environment),
        EXAMPLES / example.program,
        tmp_path,
        environment={"KERAS_BACKEND": example.keras_backend or "tensorflow"},
    )
    assert str(tmp_path) in done.stdout
    # The recording has no warning, which would be logged. Keras' callback says at the
    # end what a report lacks here.
    said = [line for line in done.stderr.splitlines() if "stepscope:" in line]
    last = [True] if "keras" in name else []
    assert ["needs polars" in line for line in said] == last, said
    path = only_file(tmp_path)
    profile = ss.open(path)
    assert [number for _, number in steps_of(profile)] == list(example.steps)
    (host,) = profile.hosts
    trace = profile.trace(host)
    names = "\n".join(trace.table("event_types")["name"])
    assert [sign for sign in example.signs if sign not in names] == []
    check_every_tool(profile)
    # Once each, also where two frameworks record.
    assert xprof_steps(path) == [*example.steps]


#: Examples that other tests run, and where.
ELSEWHERE = {
    "plain_python.py": "capture/test_plain_example.py",
    "flight_recorder.py": "capture/test_flight_recorder.py",
    "logged_to_trackers.py": "frameworks/test_trackers.py",
}


def test_every_example_is_run_by_a_test() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == {run.program for run in RUNS.values()} | set(ELSEWHERE)
    tests = Path(__file__).resolve().parents[1]
    for program, test in ELSEWHERE.items():
        assert program in (tests / test).read_text(), program
