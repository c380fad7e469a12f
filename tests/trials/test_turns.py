"""What the processes of a turn write, and what becomes of it, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.capture.launching.window import Phase
from stepscope.trials.inside.step_timer import StepTimer
from stepscope.trials.inside.turn_files import TurnPlan, read_facts, write_fact
from stepscope.trials.trying import problem_of_turn
from stepscope.trials.turns import Turn, measured_times, windows_are_over

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def turn(**fields: object) -> Turn:
    values: dict[str, object] = {
        "times": measured_times([{"step": ["1", "2", "3"]}]),
        "status": None,
        "out": "",
        "err": "",
        "seconds": 1.0,
    }
    return Turn(**(values | fields))  # type: ignore[arg-type]


def test_processes_have_equally_many_steps_and_share_what_devices_still_did() -> None:
    """40 ns of draining belong to four steps of the first process: 10 ns each. The
    third process has fewer than half of the steps of the first: it does not train."""
    processes = [
        {"step": ["100", "200", "300", "400"], "drain": ["40"]},
        {"step": ["110", "210", "310"]},
        {"step": ["9"]},
        {"set": ["any.gc_freeze"]},
    ]
    times = measured_times(processes)
    assert times is not None
    assert times.hosts == 2
    assert times.window_ps == (110_000, 210_000, 310_000, 110_000, 210_000, 310_000)


def test_fewer_than_three_steps_are_no_measurement() -> None:
    assert measured_times([{"step": ["1", "2"]}]) is None
    assert measured_times([]) is None


def test_losses_and_errors_are_read_from_what_the_program_prints() -> None:
    printed = turn(
        out="epoch 1 loss: 0.5\nstep 2, train_loss=2.5e-1\n1/3 - 1s - loss: 0.125",
        err="Traceback\nValueError: bad\nstepscope: steps begin\n\n",
    )
    assert printed.losses == (0.5, 0.25, 0.125)
    assert printed.last_error == "ValueError: bad"


def test_what_a_turn_shows_of_its_change() -> None:
    knob = "any.gc_freeze"
    applied = turn(applied=frozenset({knob}))
    assert problem_of_turn(applied, knob, expected=None) is None
    assert problem_of_turn(turn(), knob, expected=None) == ""
    failed = turn(status=3, applied=frozenset({knob}), err="OSError: full")
    assert problem_of_turn(failed, knob, expected=3) is None
    sentence = problem_of_turn(failed, knob, expected=0)
    assert sentence == "The program ended with status 3: OSError: full"
    faulty = turn(faults=(f"{knob} AttributeError: no freeze",))
    sentence = problem_of_turn(faulty, knob, expected=0)
    assert sentence == "It could not be set: AttributeError: no freeze."


def test_a_fact_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    write_fact(str(tmp_path), "step", 5)
    write_fact(str(tmp_path), "forget")
    write_fact(str(tmp_path), "step", 7)
    (path,) = tmp_path.iterdir()
    with path.open("a", encoding="utf-8") as file:
        file.write("end")
    assert read_facts(str(tmp_path)) == [{"step": ["7"], "forget": [""]}]
    # A folder that is gone ends the turn, not the program.
    write_fact(str(tmp_path / "gone"), "step", 5)


def test_a_window_follows_its_warm_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of 10 ms: five are warm-up, as 40 ms have passed since the first; then
    three of two batches each are timed, the last of which reaches 25 ms and three
    steps. Devices take 1 ms more before and after the window."""
    now_ns = 0
    called: list[str] = []

    def settle() -> None:
        nonlocal now_ns
        now_ns += 1_000_000
        called.append("settle")

    monkeypatch.setattr("time.perf_counter_ns", lambda: now_ns)
    plan = TurnPlan(str(tmp_path), warm_s=0.04, steps=3, least_s=0.025)
    timer = StepTimer(
        plan,
        first_ended=lambda: called.append("first"),
        over=lambda: called.append("over"),
    )
    for step in range(9):
        timer.step_begins(step + 1, batches=1 if step < 5 else 2, settle=settle)
        now_ns += 10_000_000
    assert called == ["first", "settle", "settle", "over"]
    assert timer.phase is Phase.OVER
    (facts,) = read_facts(str(tmp_path))
    assert facts["step"] == ["5000000"] * 3
    assert facts["drain"] == ["1000000"]
    assert windows_are_over(str(tmp_path))


def test_steps_of_another_source_begin_again(tmp_path: Path) -> None:
    timer = StepTimer(
        TurnPlan(str(tmp_path), warm_steps=1, warm_s=0.0),
        first_ended=lambda: None,
        over=lambda: None,
    )
    for step in range(4):
        timer.step_begins(step + 1)
    timer.forget_steps()
    (facts,) = read_facts(str(tmp_path))
    assert "step" not in facts
    assert timer.phase is Phase.WATCHED
