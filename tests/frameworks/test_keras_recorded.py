"""The callback in real Keras `fit`s: exactly the steps that were asked for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from collections.abc import Callable

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


#: Window, batches per execution, and what else the data do.
FITS = {
    "1": ("10,15", 1, "train"),
    "5": ("10,15", 5, "train"),
    "validate": ("12,15", 1, "validate"),
    "fail": ("10,30", 1, "fail"),
}


class Recorded(NamedTuple):
    """Where a `fit` was recorded, and what its program knows of it."""

    logdir: Path
    facts: dict[str, Any]


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, str], Recorded]:
    """Each `fit` of a back end; a program of it makes them all."""

    @cache
    def of(backend: str) -> dict[str, Recorded]:
        folder = tmp_path_factory.mktemp(backend)
        done = run_program(
            interpreter(ENVIRONMENTS[backend]),
            PROGRAM,
            json.dumps([[str(folder / name), *asked] for name, asked in FITS.items()]),
            environment={"KERAS_BACKEND": backend},
        )
        facts: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        assert {it["backend"] for it in facts} == {backend}
        return {
            name: Recorded(folder / name, it)
            for name, it in zip(FITS, facts, strict=True)
        }

    return lambda backend, fit: of(backend)[fit]


def numbers_and_batches(profile: ProfileData) -> list[tuple[int, int]]:
    (host,) = profile.hosts
    return list(profile.derived(host, steps).rows.select("step", "batches").rows())


@pytest.mark.sweep(every=2)
@pytest.mark.parametrize(("backend", "per_execution"), RUNS)
def test_ten_to_fifteen_are_recorded_on_every_back_end(
    recorded: Callable[[str, str], Recorded], backend: str, per_execution: int
) -> None:
    logdir, facts = recorded(backend, str(per_execution))
    assert facts["error"] is None
    assert facts["warnings"] == []
    path = only_file(logdir)
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
    recorded: Callable[[str, str], Recorded], backend: str
) -> None:
    profile = ss.open(only_file(recorded(backend, "validate").logdir))
    assert steps_of(profile) == [
        *(("train", 12), ("train", 13)),
        *(("test", 1), ("test", 2), ("test", 3)),
        *(("train", 14), ("train", 15)),
    ]


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_fit_that_raises_keeps_what_was_recorded(
    recorded: Callable[[str, str], Recorded], backend: str
) -> None:
    """The data raise after 12 batches; the program catches that and records anew."""
    logdir, facts = recorded(backend, "fail")
    assert facts["error"] is not None
    found = steps_of(ss.open(only_file(logdir)))
    assert found[:3] == [("train", 10), ("train", 11), ("train", 12)]


def test_pytorch_itself_refuses_several_batches_per_execution(
    recorded: Callable[[str, str], Recorded],
) -> None:
    logdir, facts = recorded("torch", "5")
    assert "steps_per_execution" in facts["error"]
    assert list(logdir.rglob("*.xplane.pb")) == []


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_asynchronous_dispatch_stays_on(
    recorded: Callable[[str, str], Recorded], backend: str
) -> None:
    without, with_ours = recorded(backend, "1").facts["asynchronous"]
    assert without == with_ours
    assert with_ours is True
