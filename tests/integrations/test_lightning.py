"""`StepscopeProfiler` in trainings of Lightning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.programs.trainers import (
    TORCHRUN,
    Trained,
    recorded_ranges,
    recorded_steps,
    train,
)

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.framework, pytest.mark.integration]

LAUNCHERS = {"alone": (), "torchrun": TORCHRUN}


@pytest.fixture(scope="module", params=LAUNCHERS)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Trained]:
    """Launcher, folder and output of one program with all trainings."""
    folder = tmp_path_factory.mktemp(request.param)
    done = train("lightning_program.py", folder, launcher=LAUNCHERS[request.param])
    assert done.status == 0, done.errors
    return request.param, folder, done


def test_losses_models_and_checkpoints_are_equal_to_the_bit(
    trained: tuple[str, Path, Trained],
) -> None:
    facts = trained[2].facts
    assert len(facts["without"]["losses"]) == 48
    assert len(facts["without"]["files"]) == 2
    for kind in ("", "resumed ", "manual "):
        assert facts[f"{kind}with"] == facts[f"{kind}without"]


def test_optimizer_steps_are_recorded_by_each_rank_into_one_run(
    trained: tuple[str, Path, Trained],
) -> None:
    launcher, folder, _ = trained
    found = recorded_steps(folder / "logs")
    assert set(map(tuple, found.values())) == {tuple(range(5, 15))}
    ranks = 2 if launcher == "torchrun" else 1
    assert len(found) == ranks
    ranges = recorded_ranges(folder / "logs")
    # Evaluations follow every fourth batch, which is every second step.
    assert ranges["evaluate"] == 5 * ranks
    assert ranges["run_training_batch"] == 2 * 10 * ranks
    assert ranges["[LightningModule]Regression.optimizer_step"] == 10 * ranks
    assert "run_training_epoch" not in ranges
    assert ranges["[Callback]ModelCheckpoint.on_train_batch_end"] >= 20 * ranks


def test_a_resumed_training_continues_the_numbers(
    trained: tuple[str, Path, Trained],
) -> None:
    found = recorded_steps(trained[1] / "logs 2")
    assert set(map(tuple, found.values())) == {(13, 14, 15)}


def test_with_manual_optimization_a_batch_is_a_step(
    trained: tuple[str, Path, Trained],
) -> None:
    found = recorded_steps(trained[1] / "logs 3")
    assert set(map(tuple, found.values())) == {(2, 3, 4)}


def test_the_first_rank_prints_headline_advice_and_place(
    trained: tuple[str, Path, Trained],
) -> None:
    _, folder, done = trained
    report = ss.report(folder / "logs")
    lines = done.last_lines()
    assert lines[0] == " ".join(report.headline.split())
    assert lines[-1] == f"all findings: stepscope report {folder / 'logs'}"


@pytest.mark.parametrize("trained", ["alone"], indirect=True)
def test_workers_that_are_spawned_again_are_seen(
    trained: tuple[str, Path, Trained], tmp_path: Path
) -> None:
    folder = trained[1]
    assert set(map(tuple, recorded_steps(folder / "logs 4").values())) == {
        tuple(range(13, 19))
    }
    kept = "Keep the worker processes from one epoch to the next"
    advice = ss.report(folder / "logs 4").first_advice or ""
    if kept not in advice:
        # The samples of a machine that others load may miss that workers start.
        train("lightning_program.py", tmp_path, launcher=LAUNCHERS["alone"])
        advice = ss.report(tmp_path / "logs 4").first_advice or ""
    assert kept in advice


def test_a_training_that_raises_ends_as_without_and_is_recorded(tmp_path: Path) -> None:
    failed = train("lightning_program.py", tmp_path, "fail")
    without = train("lightning_program.py", tmp_path, "fail-without")
    assert failed.status == without.status == 1
    for done in (failed, without):
        assert "ValueError: the loss ended badly" in done.errors.splitlines()
    (steps,) = recorded_steps(tmp_path / "logs").values()
    assert steps == [2, 3, 4, 5]
