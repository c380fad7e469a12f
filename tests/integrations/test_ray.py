"""`record_workers` in a loop of Ray Train with two workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import ROOT
from tests.support.programs.trainers import Trained, recorded_steps, train

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.framework, pytest.mark.integration]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained]:
    """Folder and output of one program with all trainings."""
    folder = tmp_path_factory.mktemp("ray")
    done = train("ray_program.py", folder)
    assert done.status == 0, done.errors
    return folder, done


def test_losses_and_models_are_equal_to_the_bit(trained: tuple[Path, Trained]) -> None:
    facts = trained[1].facts
    assert len(facts["without"]["losses"]) == 48
    assert facts["with"] == facts["without"]


def test_workers_record_into_one_run(trained: tuple[Path, Trained]) -> None:
    found = recorded_steps(trained[0] / "logs")
    assert [host.rpartition(".")[2] for host in found] == ["0", "1"]
    assert set(map(tuple, found.values())) == {tuple(range(6, 16))}


def test_the_first_worker_prints_headline_and_place(
    trained: tuple[Path, Trained],
) -> None:
    folder, done = trained
    place = f"all findings: stepscope report {folder / 'logs'}"
    headline = " ".join(ss.report(folder / "logs").headline.split())
    printed = done.output + done.errors
    assert printed.count(place) == 1
    assert printed.count(headline) == 1


def test_the_recipe_for_clusters_records_each_worker(tmp_path: Path) -> None:
    done = train(ROOT / "examples" / "cluster" / "ray_train.py", tmp_path / "logs")
    assert done.status == 0, done.errors
    found = recorded_steps(tmp_path / "logs")
    assert [host.rpartition(".")[2] for host in found] == ["0", "1"]
