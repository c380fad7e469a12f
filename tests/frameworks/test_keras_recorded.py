"""The callback in real Keras `fit`s: exactly the steps that were asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from stepscope.derive.steps.chosen import steps

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

pytestmark = pytest.mark.framework

PROGRAM = Path(__file__).parent / "keras_program.py"
#: Back end → the environment that has it.
ENVIRONMENTS = {"tensorflow": "tensorflow", "jax": "keras_jax", "torch": "keras_torch"}
#: PyTorch's `compile` refuses more than one batch per execution.
RUNS = [("tensorflow", 1), ("tensorflow", 5), ("jax", 1), ("jax", 5), ("torch", 1)]
#: Epochs of 13 batches. Batches per execution → step number and batches of each
#: execution that holds one of the batches 10 to 15.
EXPECTED = {
    1: [(number, 1) for number in range(10, 16)],
    5: [(6, 5), (11, 3), (14, 5)],
}


def recorded(
    logdir: Path, backend: str, window: str, per_execution: int, mode: str = "train"
) -> dict[str, Any]:
    done = run_program(
        interpreter(ENVIRONMENTS[backend]),
        PROGRAM,
        *(logdir, window, per_execution, mode),
        environment={"KERAS_BACKEND": backend},
    )
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert facts["backend"] == backend
    return facts


def numbers_and_batches(profile: ProfileData) -> list[tuple[int, int]]:
    (host,) = profile.hosts
    return list(profile.derived(host, steps).rows.select("step", "batches").rows())


@pytest.mark.parametrize(("backend", "per_execution"), RUNS)
def test_ten_to_fifteen_are_recorded_on_every_back_end(
    tmp_path: Path, backend: str, per_execution: int
) -> None:
    facts = recorded(tmp_path, backend, "10,15", per_execution)
    assert facts["error"] is None
    assert facts["warnings"] == []
    path = only_file(tmp_path)
    profile = ss.open(path)
    assert {marker for marker, _ in steps_of(profile)} == {"train"}
    assert numbers_and_batches(profile) == EXPECTED[per_execution]
    overview = profile.tool("overview_page")
    assert overview.batch_time_ms is not None
    (host,) = profile.hosts
    described = profile.table(host, "parameters")
    assert described["shape"].to_list() == [[4, 1], [1]]
    assert described["trainable"].to_list() == [True, True]
    check_every_tool(profile)
    assert xprof_steps(path) == [number for number, _ in EXPECTED[per_execution]]


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_validation_within_the_range_is_marked_test(
    tmp_path: Path, backend: str
) -> None:
    recorded(tmp_path, backend, "12,15", 1, "validate")
    profile = ss.open(only_file(tmp_path))
    assert steps_of(profile) == [
        *(("train", 12), ("train", 13)),
        *(("test", 1), ("test", 2), ("test", 3)),
        *(("train", 14), ("train", 15)),
    ]


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_fit_that_raises_keeps_what_was_recorded(
    tmp_path: Path, backend: str
) -> None:
    """The data raise after 12 batches; the program catches that and records anew."""
    facts = recorded(tmp_path, backend, "10,30", 1, "fail")
    assert facts["error"] is not None
    found = steps_of(ss.open(only_file(tmp_path)))
    assert found[:3] == [("train", 10), ("train", 11), ("train", 12)]


def test_pytorch_itself_refuses_several_batches_per_execution(tmp_path: Path) -> None:
    facts = recorded(tmp_path, "torch", "10,15", 5)
    assert "steps_per_execution" in facts["error"]
    assert list(tmp_path.rglob("*.xplane.pb")) == []


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_asynchronous_dispatch_stays_on(tmp_path: Path, backend: str) -> None:
    facts = recorded(tmp_path, backend, "10,15", 1)
    without, with_ours = facts["asynchronous"]
    assert without == with_ours
    assert with_ours is True
