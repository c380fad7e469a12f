"""`StepscopeTracker` in loops with Accelerate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.programs.trainers import Trained, recorded_steps, train

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.framework, pytest.mark.integration]

LAUNCHERS = {
    "alone": (),
    "accelerate launch": (
        # Its launcher for several processes on CPUs would need MPI.
        *("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"),
        *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
    ),
}


@pytest.fixture(scope="module", params=LAUNCHERS)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Trained]:
    """Launcher, folder and output of one program with all trainings."""
    folder = tmp_path_factory.mktemp("accelerate")
    done = train("accelerate_program.py", folder, launcher=LAUNCHERS[request.param])
    assert done.status == 0, done.errors
    return request.param, folder, done


def test_losses_models_and_checkpoints_are_equal_to_the_bit(
    trained: tuple[str, Path, Trained],
) -> None:
    facts = trained[2].facts
    assert len(facts["without"]["losses"]) == 48
    assert any("optimizer" in name for name in facts["without"]["files"])
    assert facts["with"] == facts["without"]
    assert facts["resumed with"] == facts["resumed without"]


def test_optimizer_steps_are_recorded_by_each_rank_into_one_run(
    trained: tuple[str, Path, Trained],
) -> None:
    launcher, folder, _ = trained
    found = recorded_steps(folder / "logs")
    assert len(found) == (1 if launcher == "alone" else 2)
    # The end of the first step is the first that is seen.
    assert set(map(tuple, found.values())) == {tuple(range(6, 16))}
    assert set(map(tuple, recorded_steps(folder / "logs 2").values())) == {(2, 3, 4)}


def test_the_first_rank_prints_headline_advice_and_place(
    trained: tuple[str, Path, Trained],
) -> None:
    _, folder, done = trained
    lines = done.last_lines()
    assert lines[0] == " ".join(ss.report(folder / "logs").headline.split())
    assert lines[-1] == f"all findings: stepscope report {folder / 'logs'}"
