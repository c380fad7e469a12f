"""The arithmetic of the experiments: outcomes, precision, recall, gains in ranges."""

from __future__ import annotations

import importlib
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


def test_nothing_lies_above_a_range_that_is_open_there(scored: Any) -> None:
    gain = scored.Gain(30, 10, 20, open_above=True)
    assert (gain.side, gain.may_be_inside, gain.width) == ("inside", True, None)
    less = scored.Gain(7, 10, 20, doubt_ms=2, open_above=True)
    assert (less.side, less.may_be_inside) == ("below", False)


def test_share_inside_and_width(scored: Any) -> None:
    gains = [scored.Gain(*it) for it in ((5, 4, 8), (9, 4, 8), (3, 0, 4), (7, 2, 6))]
    assert scored.inside(gains) == 0.5
    # A range from zero has no width: 2, 2 and 3 are left.
    assert scored.median_width(gains) == 2
    assert scored.inside([]) is None
    assert scored.median_width(gains[2:3]) is None


def test_a_gain_is_doubted_by_twice_its_standard_error(scored: Any) -> None:
    # Steps of 10 and 30 ms, the twin's half as long: -5 and +5 from the mean gain.
    assert scored.gained([(10, 2), (30, 2)]) == (10, pytest.approx(10))
    assert scored.gained([(10, 2), (30, 2)], often=0.5) == (5, pytest.approx(5))
    # The twin took 1 and 3 steps of 20 ms: dT/dn = -20/2² ms a step, so -5 and +5.
    assert scored.gained([(20, 1), (20, 3)]) == (10, pytest.approx(10))
    assert scored.gained([(20, 2), (20, 2)]) == (10, 0)


def test_steps_that_are_not_hit_are_no_doubt(scored: Any) -> None:
    steps, hit = [(10, 2), (110, 2), (12, 2), (114, 2)], [False, True, False, True]
    # Half of the deviations counts. Within the groups the squares are ½ and 2, with
    # two degrees of freedom: 5/4, of four steps.
    gain, doubt = scored.gained(steps, hit)
    assert (gain, doubt) == (30.75, pytest.approx(2 * (5 / 16) ** 0.5))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 1, 1), (0.5, 2, 1), (1, 1.5, 0.25), (-1, 3, 2), (3, 9, 0)],
)
def test_steps_that_a_twin_took_meanwhile(
    start: float, end: float, expected: float
) -> None:
    recorded = importlib.import_module("experiments_recorded")
    assert recorded.taken_between([0, 1, 3], start, end) == expected


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
    _write_clock(run.folder(tmp_path), begun)
    assert run.steps_ms(tmp_path) == pytest.approx([100] * 9)


def test_steps_before_those_of_the_twin_beside_them_are_left_out(
    tmp_path: Path,
) -> None:
    recorded = importlib.import_module("experiments_recorded")
    run = recorded.Run("plain", "callback", "whole")
    run.folder(tmp_path).mkdir()
    _write_clock(run.folder(tmp_path), [float(step) for step in range(14)])
    assert run.beside_ms(tmp_path) == []
    # Of its steps of 250 ms the first three are left out: the timed ones begin at 6 s.
    twin = run.twin_beside
    assert twin.folder(tmp_path) == run.folder(tmp_path) / "beside"
    twin.folder(tmp_path).mkdir()
    _write_clock(twin.folder(tmp_path), [5.25 + step / 4 for step in range(40)])
    assert run.beside_ms(tmp_path) == [(1000, 4)] * 6
    assert recorded.Run("plain", "healthy", "whole").twin_beside is None


def _write_clock(folder: Path, begun: list[float]) -> None:
    (folder / "clock").write_text("".join(f"{second}\n" for second in begun))


def test_there_are_sixty_runs_and_each_fault_has_its_twin() -> None:
    recorded = importlib.import_module("experiments_recorded")
    runs = list(recorded.runs())
    assert len(set(runs)) == len(runs) >= 60
    for run in runs:
        assert run.is_twin or recorded.Run(run.framework, run.twin, run.size) in runs
