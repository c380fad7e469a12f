"""A recording that costs too much records less: by clocks and steps that are given."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.capture.base import slowdown
from stepscope.capture.base.slowdown import Control, StepCost, lower_options
from stepscope.capture.launching.notes import Note, read_notes
from stepscope.capture.launching.plan import RunPlan
from stepscope.capture.launching.window import Window
from stepscope.capture.profile import Schedule
from stepscope.capture.recording.session import current_session
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def cost(before: list[float], within: list[float], limit: float = 1.0) -> StepCost:
    found = StepCost(limit)
    for step_s in before:
        found.note_unrecorded(step_s)
    for step_s in within:
        found.note_recorded(step_s)
    return found


def test_the_first_recorded_step_and_single_slow_ones_do_not_count() -> None:
    found = cost([0.1] * 5, [9.0, 0.1, 0.1, 5.0])
    assert found.times == 1.0
    assert not found.is_too_much


def test_too_few_steps_say_nothing() -> None:
    assert cost([0.1] * 2, [1.0] * 9).times is None
    assert cost([0.1] * 9, [1.0] * 3).times is None


def test_more_than_the_limit_is_too_much() -> None:
    assert not cost([0.1] * 3, [0.2] * 4).is_too_much
    assert cost([0.1] * 3, [0.201] * 4).is_too_much
    assert not cost([0.1] * 3, [0.201] * 4, limit=2.0).is_too_much


def test_short_steps_may_be_lengthened_by_a_busy_machine() -> None:
    assert not cost([0.001] * 3, [0.05] * 4).is_too_much
    assert cost([0.001] * 3, [0.052] * 4).is_too_much


def test_python_calls_go_first_then_ops_then_nothing_is_left() -> None:
    options = ss.ProfilerOptions(python_tracer_level=1, host_tracer_level=3)
    first = lower_options(options)
    assert first is not None
    assert (first.options.python_tracer_level, first.options.host_tracer_level) == (
        (0, 3)
    )
    second = lower_options(first.options)
    assert second is not None
    assert second.options.host_tracer_level == 1
    assert lower_options(second.options) is None


def test_a_limit_is_a_number_from_0() -> None:
    for wrong in (-1, "much", True):
        with pytest.raises(BadUsage, match="max_slowdown"):
            ss.ProfilerOptions(max_slowdown=wrong)  # type: ignore[arg-type]


class Loop:
    """A loop whose steps take as long as the options in force make them."""

    def __init__(self, step_s: Callable[[ss.ProfilerOptions], float]) -> None:
        self._step_s = step_s
        self.now_s = 0.0
        self.longer_after = math.inf
        self.longer_s = 1.0
        self._passed = 0

    def clock(self) -> float:
        return self.now_s

    def passes(self) -> None:
        session = current_session()
        self._passed += 1
        if self._passed > self.longer_after:
            self.now_s += self.longer_s
        # Steps before a window are watched, with one reading of counters a second.
        if session is None or session.options.counters_hz <= 1:
            self.now_s += 0.1
        else:
            self.now_s += self._step_s(session.options)


class AheadLoop(Loop):
    """A loop that runs ahead of its device by at most eight steps.

    Until then a step takes the host alone, and from then on as long as the device.
    """

    DEVICE_S = 0.2
    AHEAD = 8

    def __init__(self, host_s: Callable[[ss.ProfilerOptions], float]) -> None:
        super().__init__(host_s)
        self.done_s = 0.0

    def passes(self) -> None:
        session = current_session()
        if session is None or session.options.counters_hz <= 1:
            self.now_s += 0.001
        else:
            self.now_s += self._step_s(session.options)
        self.done_s = max(self.done_s, self.now_s) + self.DEVICE_S
        self.now_s = max(self.now_s, self.done_s - self.AHEAD * self.DEVICE_S)

    def settle(self) -> None:
        self.now_s = max(self.now_s, self.done_s)


def windowed(
    tmp_path: Path,
    step_s: Callable[[ss.ProfilerOptions], float],
    *,
    steps: int,
    recorded: int = 6,
    max_s: float = 1e9,
    least_s: float = 0.0,
    loop: Loop | None = None,
    settle: Callable[[], None] | None = None,
) -> Note:
    """Run a window of six steps after five others; what its process noted."""
    notes = tmp_path / "notes"
    notes.mkdir()
    plan = RunPlan(
        logdir=str(tmp_path / "logs"),
        run="run",
        notes=str(notes),
        skip_steps=5,
        steps=recorded,
        max_s=max_s,
        least_s=least_s,
        max_slowdown=1.0,
        python_tracer_level=1,
        python_sampling_hz=0.0,
    )
    loop = loop or Loop(step_s)
    window = Window(
        plan,
        begun=lambda: None,
        left=lambda: None,
        over=lambda: None,
        now_s=loop.clock,
    )
    try:
        for number in range(1, steps + 1):
            window.step_begins(number, settle=settle)
            loop.passes()
    finally:
        window.close_window()
    (note,) = read_notes(str(notes))
    return note


def test_an_affordable_window_is_recorded_as_asked(tmp_path: Path) -> None:
    note = windowed(tmp_path, lambda _: 0.19, steps=20)
    assert (note.first, note.last) == (6, 11)
    assert not [it for it in note.warnings if "max-slowdown" in it]


def test_python_calls_that_cost_too_much_are_left_out(tmp_path: Path) -> None:
    note = windowed(
        tmp_path, lambda it: 0.5 if it.python_tracer_level else 0.11, steps=30
    )
    # Step 6 sets up, 7 to 9 are too slow, 10 to 14 are not without a recording: what is
    # kept begins with 15.
    assert (note.first, note.last) == (15, 20)
    (said,) = (it for it in note.warnings if "max-slowdown" in it)
    assert said == (
        "recorded steps took 5.0 times as long as other steps (--max-slowdown 1), so "
        "calls of Python functions (python_tracer_level 0) were not recorded"
    )
    assert note.path is not None
    profile = ss.open(note.path)
    overview = profile.tool("overview_page")
    assert [step.step for step in overview.steps] == [15, 16, 17, 18, 19, 20]
    quality = profile.table(profile.hosts[0], "quality")
    assert not isinstance(quality, ss.Unavailable)
    assert any("--max-slowdown" in it for it in quality["message"])


def test_where_nothing_is_left_to_leave_out_fewer_steps_are_recorded(
    tmp_path: Path,
) -> None:
    note = windowed(tmp_path, lambda _: 1.0, steps=40)
    assert (note.first, note.last) == (24, 27)
    said = [it for it in note.warnings if "max-slowdown" in it]
    assert len(said) == 3
    assert "the remaining steps were not recorded" in said[-1]


def said_of_cost(note: Note) -> list[str]:
    return [it for it in note.warnings if "max-slowdown" in it]


def test_steps_that_are_longer_without_a_recording_too_are_recorded_whole(
    tmp_path: Path,
) -> None:
    """The program comes to longer steps just where it is recorded."""
    loop = Loop(lambda _: 0.1)
    loop.longer_after = 5
    note = windowed(tmp_path, lambda _: 1.0, steps=40, loop=loop)
    assert (note.first, note.last) == (15, 20)
    assert said_of_cost(note) == []


@pytest.mark.parametrize("settles", [True, False])
def test_a_loop_that_runs_ahead_of_its_device_is_recorded_whole(
    tmp_path: Path, *, settles: bool
) -> None:
    loop = AheadLoop(lambda _: 0.002)
    note = windowed(
        tmp_path,
        lambda _: 0.0,
        steps=120,
        recorded=40,
        loop=loop,
        settle=loop.settle if settles else None,
    )
    assert said_of_cost(note) == []
    assert note.first is not None
    assert note.last == note.first + 39
    assert note.path is not None
    steps = [step.step for step in ss.open(note.path).tool("overview_page").steps]
    assert steps == list(range(note.first, note.first + 40))


def test_what_slows_a_loop_that_runs_ahead_is_left_out(tmp_path: Path) -> None:
    loop = AheadLoop(lambda it: 1.5 if it.python_tracer_level else 0.002)
    note = windowed(
        tmp_path, lambda _: 0.0, steps=60, recorded=10, loop=loop, settle=loop.settle
    )
    (said,) = said_of_cost(note)
    assert "python_tracer_level 0" in said
    assert note.first is not None
    assert note.last == note.first + 9


def test_what_is_recorded_is_kept_until_it_is_replaced(tmp_path: Path) -> None:
    """The program ends while its steps are compared with those that were recorded."""
    note = windowed(tmp_path, lambda _: 1.0, steps=12)
    assert (note.how, note.first, note.last) == ("steps", 6, 9)
    assert said_of_cost(note) == []
    assert note.path is not None
    overview = ss.open(note.path).tool("overview_page")
    assert [step.step for step in overview.steps] == [6, 7, 8, 9]


def control(recorded: list[float], others: list[float], *, mean_s: float) -> Control:
    found = Control(cost([0.1] * 5, recorded), recorded_s=mean_s, now_s=100.0)
    found.steps_s += others
    return found


def test_control_steps_decide_whether_it_is_the_recording() -> None:
    slow = [9.0, 1.0, 1.0, 1.0]
    assert not control(slow, [0.1] * 4, mean_s=1.0).is_over
    assert control(slow, [0.1] * 5, mean_s=1.0).is_over
    assert control(slow, [0.1] * 5, mean_s=1.0).measured_slowdown(
        100.5
    ) == pytest.approx(10)
    # As long on the device, which was waited for; or on the host.
    assert control(slow, [0.1] * 5, mean_s=1.0).measured_slowdown(105.0) is None
    assert control(slow, [0.9] * 5, mean_s=1.0).measured_slowdown(104.5) is None
    # The recorded ones only waited for steps that had begun before them.
    assert control(slow, [0.1] * 5, mean_s=0.2).measured_slowdown(100.5) is None


def test_the_next_round_of_a_schedule_records_less(tmp_path: Path) -> None:
    loop = Loop(lambda it: 0.9 if it.python_tracer_level else 0.1)
    options = ss.ProfilerOptions(
        collectors=("host", "python_calls"), python_tracer_level=1, max_slowdown=2.0
    )
    profiler = Schedule(5, 0, 5, 3, logdir=tmp_path, options=options, now_s=loop.clock)
    with profiler:
        for _ in range(30):
            loop.passes()
            profiler.step()
    said = [
        [it for it in run.warnings if "max_slowdown" in it] for run in profiler.runs
    ]
    assert [len(it) for it in said] == [0, 1, 1]
    assert "recorded steps took 9.0 times as long as other steps" in said[1][0]
    for run in profiler.runs:
        assert run.path is not None
        assert len(ss.open(run.path).tool("overview_page").steps) == 5


def test_steps_before_the_first_round_of_a_schedule_are_no_measure(
    tmp_path: Path,
) -> None:
    loop = Loop(lambda _: 0.1)
    loop.longer_after = 5
    options = ss.ProfilerOptions(
        collectors=("host", "python_calls"), python_tracer_level=1, max_slowdown=2.0
    )
    profiler = Schedule(5, 0, 5, 2, logdir=tmp_path, options=options, now_s=loop.clock)
    with profiler:
        for _ in range(20):
            loop.passes()
            profiler.step()
    assert len(profiler.runs) == 2
    for run in profiler.runs:
        assert not [it for it in run.warnings if "max_slowdown" in it]


def test_setting_profilers_up_does_not_use_the_time_of_a_window(
    tmp_path: Path,
) -> None:
    """Recorded steps take 30 s, 0.1 s, 0.1 s and so on, of at most 10 s."""
    lengths = iter([30.0, *[0.1] * 20])
    note = windowed(tmp_path, lambda _: next(lengths), steps=20, max_s=10.0)
    assert (note.first, note.last) == (6, 11)


def test_a_window_ends_with_the_step_that_ends_after_its_time(tmp_path: Path) -> None:
    """Steps take 6 s; the first one does not count, two more are longer than 10 s."""
    loop = Loop(lambda _: 0.1)
    loop.longer_after, loop.longer_s = 0, 6.0
    note = windowed(tmp_path, lambda _: 0.1, steps=20, max_s=10.0, loop=loop)
    assert (note.first, note.last) == (6, 8)


def test_a_window_of_short_steps_lasts_its_least_time(tmp_path: Path) -> None:
    """Steps of 1/64 s; step 6 does not count, and 0.25 s are sixteen more."""
    note = windowed(tmp_path, lambda _: 2**-6, steps=60, least_s=0.25)
    assert (note.first, note.last) == (6, 22)


def test_steps_that_take_as_long_as_that_are_as_many_as_asked(tmp_path: Path) -> None:
    note = windowed(tmp_path, lambda _: 0.125, steps=60, least_s=0.25)
    assert (note.first, note.last) == (6, 11)


def test_there_is_an_end_to_steps_that_take_no_time(tmp_path: Path) -> None:
    note = windowed(tmp_path, lambda _: 0.0, steps=1100, least_s=0.25)
    assert (note.first, note.last) == (6, 1005)


def test_what_notes_cost_is_worked_out_from_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half a million notes of 1 µs and 0.1 s of storing in 2 s: 0.6 of 2 s are ours."""
    monkeypatch.setattr(slowdown, "_ran_and_waited", lambda: (0, 0))
    cost = slowdown.CallsCost(1e-6, now_s=100.0)
    cost.add_notes(400_000, storing_s=0.1)
    assert cost.estimated_slowdown(100.5, waiting=0) is None
    assert cost.estimated_slowdown(102.0, waiting=100_000) == pytest.approx(0.6 / 1.4)
    # Beside other programs, where each second of work takes two, it is twice as much.
    figures = iter([(0, 0), (10, 10)])
    monkeypatch.setattr(slowdown, "_ran_and_waited", lambda: next(figures))
    beside = slowdown.CallsCost(1e-6, now_s=100.0)
    beside.add_notes(500_000, storing_s=0.1)
    assert beside.estimated_slowdown(102.0, waiting=0) == pytest.approx(1.2 / 0.8)


@pytest.mark.slow
def test_a_window_by_time_begins_anew_without_calls_that_cost_too_much(
    tmp_path: Path,
) -> None:
    """Nothing is known of steps; the program calls a function over and over."""
    notes = tmp_path / "notes"
    notes.mkdir()
    found = {}
    for limit in (1.0, 1e9):
        plan = RunPlan(
            logdir=str(tmp_path / f"{limit:g}"),
            run="run",
            notes=str(notes),
            max_slowdown=limit,
            python_tracer_level=1,
        )
        window = Window(plan, begun=lambda: None, left=lambda: None, over=lambda: None)
        window.open_by_time()
        until_s = time.monotonic() + 2
        while time.monotonic() < until_s:
            for _ in range(1000):
                nothing()
        window.lower_by_time()
        window.open_by_time()
        lowered = current_session()
        assert lowered is not None
        found[limit] = lowered.options.python_tracer_level
        window.close_by_time()
        window.close_window()
        (note,) = read_notes(str(notes))
        said = [it for it in note.warnings if "--max-slowdown" in it]
        assert bool(said) == (limit == 1)
        if said:
            assert said[0].startswith("storing calls made the program take about ")
            assert "calls of Python functions (python_tracer_level 0)" in said[0]
    assert found == {1.0: 0, 1e9: 1}


def nothing() -> None:
    pass
