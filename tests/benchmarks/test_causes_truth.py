"""How the recorded steps of a generated program are divided among its causes."""

from __future__ import annotations

import importlib
import json
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def truths(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("causes_truth")


def told(
    steps_s: list[float], *, beside: str | None = None, starts: int = 0, **held: Any
) -> dict[str, Any]:
    return {
        "begun_s": list(accumulate(steps_s, initial=0.0)),
        "held_s": held,
        "places": {},
        "beside": beside,
        "starts": starts,
        "no_core": 0.0,
    }


def test_the_start_and_stop_of_a_recorder_are_no_part_of_steps(truths: Any) -> None:
    # Steps of 0.5 s, of which 0.2 s are slept; one takes a second more.
    found = truths.divide_steps(
        told([3, 0.5, 1.5, 0.5, 0.5], nap=[0.1, 0.2, 0.2, 0.2, 0.2]), 1, 5
    )
    assert found.steps == 4
    assert found.step_ms == pytest.approx(500)
    assert found.base_ms == pytest.approx(300)
    assert found.shares == {"nap": pytest.approx(0.4)}


def test_a_cause_of_some_steps_is_shared_among_all(truths: Any) -> None:
    found = truths.divide_steps(
        told([0.1, 0.1, 0.1, 0.5], save=[0, 0, 0, 0.4], fetch=[0.02] * 4), 0, 4
    )
    assert found.step_ms == pytest.approx(200)
    assert found.shares["save"] == pytest.approx(0.5)
    assert found.shares["fetch"] == pytest.approx(0.1)


def test_of_few_recorded_steps_the_rest_is_that_of_all(truths: Any) -> None:
    # Only the third step was recorded, and the recorder stopped in it.
    found = truths.divide_steps(
        told([9, 0.3, 2.0, 0.3, 0.3], nap=[0, 0, 0.1, 0.1, 0.1]), 2, 3
    )
    assert found.base_ms == pytest.approx(250)
    assert found.shares["nap"] == pytest.approx(0.1 / 0.35)


def test_what_starts_late_takes_what_steps_are_longer_by(truths: Any) -> None:
    steps_s = [0.9, 0.15, 0.15, 0.15, 0.15, 0.4, 0.4, 0.4]
    found = truths.divide_steps(
        told(steps_s, beside="hog", starts=5, nap=[0.05] * 8), 5, 8
    )
    assert found.base_ms == pytest.approx(100)
    assert found.step_ms == pytest.approx(400)
    assert found.shares["hog"] == pytest.approx(0.25 / 0.4)
    alone = truths.divide_steps(told(steps_s, beside="hog", starts=5), 5, 8)
    assert alone.shares == {"hog": pytest.approx(0.25 / 0.4)}


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        # The recorder counts from 1; its first and last step are left out of many.
        ({"first": 11, "last": 20}, (11, 19)),
        ({"first": 3, "last": 5}, (2, 5)),
        # A program that ended before it took so many has its last step.
        ({"first": 24, "last": 30}, (23, 24)),
        ({"first": None, "last": None}, (2, 23)),
    ],
)
def test_the_recorder_notes_which_steps_it_recorded(
    truths: Any, tmp_path: Path, note: dict[str, Any], expected: tuple[int, int]
) -> None:
    (tmp_path / "7.json").write_text(json.dumps(note))
    assert truths.recorded_steps(tmp_path, 24) == expected


def test_a_program_that_failed_has_no_truth(truths: Any, tmp_path: Path) -> None:
    assert truths.read_truth(tmp_path) is None
    (tmp_path / "truth").write_text(json.dumps(told([1, 0.5, 0.5], nap=[0, 0.1, 0.1])))
    assert truths.read_truth(tmp_path).shares == {"nap": pytest.approx(0.2)}
