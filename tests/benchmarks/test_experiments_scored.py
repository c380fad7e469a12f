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
    # Steps of 10 and 30 ms: the squares of 200 have one degree of freedom, two steps.
    assert scored.gained([10, 30], [5, 5], [5, 5]) == (15, pytest.approx(20))
    assert scored.gained([10, 30], [5, 5], [5, 5], often=0.5) == (7.5, 10)
    # The twin took 4 and 8 ms in one turn and in the other: 16 / 3, of four steps.
    gain, doubt = scored.gained([20, 20], [4, 8], [8, 4])
    assert (gain, doubt) == (14, pytest.approx(2 * (16 / 3 / 4) ** 0.5))
    assert scored.gained([20, 20], [5, 5], [5, 5]) == (15, 0)


def test_both_turns_of_a_twin_count_equally(scored: Any) -> None:
    # A machine that gets slower: 4 ms before, 8 ms after, however many steps.
    gain, doubt = scored.gained([20, 20], [4, 4], [8] * 6)
    assert gain == 14
    assert doubt > 0


def test_steps_that_are_not_hit_are_no_doubt(scored: Any) -> None:
    steps, hit = [10, 110, 12, 114], [False, True, False, True]
    # Within the groups the squares are 2 and 8, with two degrees of freedom: 5.
    gain, doubt = scored.gained(steps, [1, 1], [1, 1], hit)
    assert (gain, doubt) == (60.5, pytest.approx(2 * (5 / 4) ** 0.5))


def test_a_twin_takes_turns_before_and_after_a_time() -> None:
    recorded = importlib.import_module("experiments_recorded")
    # Stopped from 2.5 to 9: its step from 2 on ends late. The next two are cold.
    begun = [0, 1, 2, 9.5, 11.5, 13.5, 14.5, 15.5]
    before, after = recorded.turns_ms(begun, 2.5, 9)
    assert before == [1000, 1000]
    assert after == [1000, 1000]
    assert recorded.turns_ms([], 2.5, 9) == ([], [])


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


def test_a_fault_has_its_twin_around_it(tmp_path: Path) -> None:
    recorded = importlib.import_module("experiments_recorded")
    run = recorded.Run("plain", "callback", "whole")
    run.folder(tmp_path).mkdir()
    # Its timed steps are those from 23 to 32 s.
    _write_clock(run.folder(tmp_path), [float(step) for step in range(20, 34)])
    assert run.twin_ms(tmp_path) == ([], [])
    twin = run.twin_around
    assert twin.folder(tmp_path) == run.folder(tmp_path) / "around"
    twin.folder(tmp_path).mkdir()
    # The first three steps are not timed: the recording begins in them.
    steps = [*range(8), *range(40, 46)]
    _write_clock(twin.folder(tmp_path), [float(step) for step in steps])
    assert run.twin_ms(tmp_path) == ([1000] * 4, [1000] * 3)
    assert recorded.Run("plain", "healthy", "whole").twin_around is None


def _write_clock(folder: Path, begun: list[float]) -> None:
    (folder / "clock").write_text("".join(f"{second}\n" for second in begun))


def test_there_are_sixty_runs_and_each_fault_has_its_twin() -> None:
    recorded = importlib.import_module("experiments_recorded")
    runs = list(recorded.runs())
    assert len(set(runs)) == len(runs) >= 60
    for run in runs:
        assert run.is_twin or recorded.Run(run.framework, run.twin, run.size) in runs


def test_a_turn_lasts_for_its_steps_and_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = importlib.import_module("forked_programs")
    monkeypatch.setattr(program.os, "waitid", lambda *_: None)
    now, slept = iter(range(100)), []
    monkeypatch.setattr(program.time, "monotonic", lambda: next(now))
    clock = tmp_path / "clock"

    def sleep(_: float) -> None:
        slept.append(1)
        clock.write_text("0\n" * 2 * len(slept))

    monkeypatch.setattr(program.time, "sleep", sleep)
    program._await_steps(1, clock, 3)
    # Three steps are not its own; the fifteenth of its own ends the fourteenth.
    assert len(clock.read_text().splitlines()) == 18
    # A program that ended is not waited for.
    monkeypatch.setattr(program.os, "waitid", lambda *_: "ended")
    program._await_steps(1, clock, 100)
    assert len(slept) == 9


def test_a_fault_is_named_by_the_rule_that_leads_whatever_its_words(
    scored: Any,
) -> None:
    led = said(scored, "Other words.", "xla.recompile", "host.work")
    assert scored.outcome("xla.recompile", led) == "named"
    assert scored.outcome("host.work", led) == "wrong"
