"""`StepscopeCallback` in trainings of `transformers.Trainer`."""

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
    done = train("huggingface_program.py", folder, launcher=LAUNCHERS[request.param])
    assert done.status == 0, done.errors
    return request.param, folder, done


def test_losses_models_and_checkpoints_are_equal_to_the_bit(
    trained: tuple[str, Path, Trained],
) -> None:
    facts = trained[2].facts
    # 24 losses, and an evaluation every six steps.
    assert len(facts["without"]["losses"]) >= 24 + 4
    assert {name.partition("/")[0] for name in facts["without"]["files"]} == {
        *("checkpoint-12", "checkpoint-24")
    }
    assert facts["with"] == facts["without"]
    assert facts["resumed with"] == facts["resumed without"]


def test_optimizer_steps_are_recorded_by_each_rank_into_one_run(
    trained: tuple[str, Path, Trained],
) -> None:
    launcher, folder, _ = trained
    found = recorded_steps(folder / "logs")
    assert set(map(tuple, found.values())) == {tuple(range(5, 15))}
    assert len(found) == (2 if launcher == "torchrun" else 1)
    if launcher == "torchrun":
        assert [host.rpartition(".")[2] for host in found] == ["0", "1"]
    ranks = len(found)
    ranges = recorded_ranges(folder / "logs")
    # Each step has two batches and one update; steps 6 and 12 are followed by more.
    assert ranges["evaluate"] == 2 * ranks
    assert ranges["save_checkpoint"] == ranks


def test_a_resumed_training_continues_the_numbers(
    trained: tuple[str, Path, Trained],
) -> None:
    found = recorded_steps(trained[1] / "logs 2")
    assert set(map(tuple, found.values())) == {(13, 14, 15)}


def test_epochs_with_worker_processes_are_recorded(
    trained: tuple[str, Path, Trained],
) -> None:
    """Two ranks have epochs of four steps; the next epoch begins inside a step."""
    found = recorded_steps(trained[1] / "logs 3")
    assert set(map(tuple, found.values())) == {tuple(range(6, 12))}
    assert recorded_ranges(trained[1] / "logs 3")["evaluate"] >= len(found)


def test_the_first_rank_prints_headline_advice_and_place(
    trained: tuple[str, Path, Trained],
) -> None:
    _, folder, done = trained
    report = ss.report(folder / "logs")
    lines = done.last_lines()
    assert lines[0] == " ".join(report.headline.split())
    assert lines[-1] == f"all findings: stepscope report {folder / 'logs'}"
    advice = report.first_advice
    expected = [] if advice is None else advice.splitlines()
    assert lines[1:-1] == [" ".join(line.split()) for line in expected]


def test_a_training_that_raises_ends_as_without_and_is_recorded(tmp_path: Path) -> None:
    failed = train("huggingface_program.py", tmp_path, "fail")
    without = train("huggingface_program.py", tmp_path, "fail-without")
    assert failed.status == without.status == 1
    for done in (failed, without):
        assert "ValueError: the data ended badly" in done.errors.splitlines()
    (steps,) = recorded_steps(tmp_path / "logs").values()
    # The loader fetches one batch ahead.
    assert steps == [2, 3, 4]
