"""The arithmetic of the experiments: outcomes, precision, recall, gains in ranges."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def on_path(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))


@pytest.fixture
def scored() -> Any:
    return importlib.import_module("experiments_scored")


def said(scored: Any, text: str, *failing: str) -> Any:
    return scored.Said(
        text=text,
        finding=failing[0] if failing else None,
        owner=None,
        failing=failing,
        fired=failing,
        saving_ms=None,
    )


@pytest.mark.parametrize(
    ("text", "failing", "expected"),
    [
        ("Work holds 90 %: `validate` (a.py:3).", ("host.work",), "named"),
        ("100 % is host compute, mostly `validate` (a.py:3).", (), "named"),
        ("Work holds 90 %: `forward` (a.py:3).", ("host.work",), "wrong"),
        ("100 % is host compute, mostly `forward` (a.py:3).", (), "silent"),
        ("Work holds 90 %: `validate_all` (a.py:3).", ("host.work",), "wrong"),
    ],
)
def test_outcome(
    scored: Any, text: str, failing: tuple[str, ...], expected: str
) -> None:
    assert scored.outcome("`validate`", said(scored, text, *failing)) == expected


def test_the_function_is_the_first_with_a_file(scored: Any) -> None:
    text = "set `log`; `write_logs` (a.py:120), most of it in `emit`, then `b` (b.py:1)"
    assert said(scored, text).function == "write_logs"
    assert said(scored, "129 tiny ops").function is None


def test_precision_counts_twins_that_were_blamed(scored: Any) -> None:
    outcomes = ["named"] * 6 + ["silent"] * 2 + ["wrong"]
    twins = [said(scored, ""), said(scored, "", "launch.small", "gap.gc")]
    found = scored.score(outcomes, twins)
    assert found == scored.Score(named=6, silent=2, wrong=1, false_alarms=1)
    assert found.precision == 0.75
    assert found.recall == pytest.approx(6 / 9)


def test_nothing_blamed_has_no_precision(scored: Any) -> None:
    assert scored.score(["silent"], []).precision is None
    assert scored.score(["silent"], []).recall == 0
    assert scored.score([], []).recall is None


@pytest.mark.parametrize(
    ("measured", "side"),
    [(9.9, "below"), (10, "inside"), (15, "inside"), (20, "inside"), (20.1, "above")],
)
def test_the_ends_belong_to_a_range(scored: Any, measured: float, side: str) -> None:
    assert scored.Gain(measured, 10, 20).side == side


def test_share_inside_and_width(scored: Any) -> None:
    gains = [scored.Gain(*it) for it in ((5, 4, 8), (9, 4, 8), (3, 0, 4), (7, 2, 6))]
    assert scored.inside(gains) == 0.5
    # A range from zero has no width: 2, 2 and 3 are left.
    assert scored.median_width(gains) == 2
    assert scored.inside([]) is None
    assert scored.median_width(gains[2:3]) is None


def test_a_gain_is_doubted_by_twice_its_standard_error(scored: Any) -> None:
    # Variances 2 and 8, of two steps each: 2 × √(1 + 4).
    gain, doubt = scored.gained([19, 21], [8, 12])
    assert (gain, doubt) == (10, pytest.approx(2 * 5**0.5))
    gain, doubt = scored.gained([19, 21], [8, 12], often=0.5)
    assert (gain, doubt) == (5, pytest.approx(5**0.5))


def test_steps_that_are_not_hit_are_no_doubt(scored: Any) -> None:
    steps, hit = [10, 110, 12, 114], [False, True, False, True]
    # Within the groups the squares are 2 and 8, with two degrees of freedom: 5.
    gain, doubt = scored.gained(steps, [11, 11], hit)
    assert (gain, doubt) == (50.5, pytest.approx(2 * (5 / 4) ** 0.5))


@pytest.mark.parametrize(
    ("measured", "expected"), [(7.9, "no"), (8, "yes"), (22, "yes"), (22.1, "no")]
)
def test_doubt_widens_both_ends(scored: Any, measured: float, expected: str) -> None:
    gain = scored.Gain(measured, 10, 20, doubt_ms=2)
    assert gain.may_be_inside is (expected == "yes")


def test_a_fault_of_every_sixth_step_is_in_two_of_eleven() -> None:
    recorded = importlib.import_module("experiments_recorded")
    fault = recorded.Fault("a validation", "`validate`", 6)
    # Steps 5 and 11, counted from 0: of 2 to 12, and of 3 to 11.
    assert sum(fault.hit(range(2, 13))) == sum(fault.hit(range(3, 12))) == 2
    assert recorded.share_recorded(fault) == pytest.approx(9 / 11)
    assert recorded.share_recorded(recorded.Fault("a sleep", "`nap`")) == 1


def test_rules_that_never_fired_keep_their_order(scored: Any) -> None:
    assert scored.never(["c", "a", "b"], ["a", "other"]) == ["c", "b"]


def test_the_steps_in_which_the_recording_begins_and_ends_are_left_out(
    tmp_path: Path,
) -> None:
    recorded = importlib.import_module("experiments_recorded")
    run = recorded.Run("plain", "callback", "whole")
    assert run.steps_ms(tmp_path) == []
    # Thirteen steps of 100 ms; those of 0-based number 2 and 12 take a second more.
    begun, now = [], 0.0
    for step in range(14):
        begun.append(now)
        now += 1.1 if step in {2, 12} else 0.1
    run.folder(tmp_path).mkdir()
    (run.folder(tmp_path) / "clock.json").write_text(json.dumps(begun))
    assert run.steps_ms(tmp_path) == pytest.approx([100] * 9)


def test_there_are_sixty_runs_and_each_fault_has_its_twin() -> None:
    recorded = importlib.import_module("experiments_recorded")
    runs = list(recorded.runs())
    assert len(set(runs)) == len(runs) >= 60
    for run in runs:
        assert run.is_twin or recorded.Run(run.framework, run.twin, run.size) in runs
