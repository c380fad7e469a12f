"""A schedule records the steps that PyTorch's schedule of the same numbers records."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import stepscope as ss
from stepscope.capture.profile import Schedule
from stepscope.capture.recording.session import current_session
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from pathlib import Path

OWN = ss.ProfilerOptions(collectors=("host",))


def steps_of(path: Path) -> list[int]:
    return [step.step for step in ss.open(path).tool("overview_page").steps]


@pytest.mark.parametrize(
    ("wait", "warmup", "active", "repeat", "loop", "expected"),
    [
        # wait 2, warmup 1, active 3 gives steps 3, 4, 5.
        (2, 1, 3, 1, 20, [[3, 4, 5]]),
        (1, 1, 3, 2, 20, [[2, 3, 4], [7, 8, 9]]),
        (0, 0, 2, 1, 20, [[0, 1]]),
        (1, 0, 2, 0, 8, [[1, 2], [4, 5], [7]]),
        (0, 2, 2, 1, 4, [[2, 3]]),
        (5, 1, 2, 1, 3, []),
        (0, 2, 2, 1, 1, []),
    ],
)
@pytest.mark.sweep(every=3)
def test_each_cycle_records_its_active_steps(  # noqa: PLR0917 - a table
    tmp_path: Path,
    wait: int,
    warmup: int,
    active: int,
    repeat: int,
    loop: int,
    expected: list[list[int]],
) -> None:
    with ss.schedule(
        wait=wait,
        warmup=warmup,
        active=active,
        repeat=repeat,
        logdir=tmp_path,
        options=OWN,
    ) as profiler:
        for _ in range(loop):
            with ss.Trace("work"):
                pass
            profiler.step()
    assert current_session() is None
    found = [steps_of(run.path) for run in profiler.runs if run.path is not None]
    assert found == expected
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == len(expected)
    assert all(run.warnings == () for run in profiler.runs)


def test_a_step_that_raises_is_not_marked_and_the_others_are_kept(
    tmp_path: Path,
) -> None:
    profiler = ss.schedule(wait=0, warmup=0, active=5, logdir=tmp_path, options=OWN)

    def train() -> None:
        with profiler:
            for step in range(5):
                if step == 3:
                    raise KeyError("mine")
                profiler.step()

    with pytest.raises(KeyError, match="mine"):
        train()
    (run,) = profiler.runs
    assert run.path is not None
    assert steps_of(run.path) == [0, 1, 2]


def test_a_recording_that_is_under_way_ends_the_schedule_and_not_the_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps = 0
    with (
        caplog.at_level(logging.WARNING),
        ss.Profile(tmp_path / "first", OWN),
        ss.schedule(
            wait=1, warmup=0, active=1, repeat=0, logdir=tmp_path / "second"
        ) as profiler,
    ):
        for _ in range(6):
            profiler.step()
            steps += 1
    assert steps == 6
    assert profiler.runs == ()
    assert [text for text in caplog.messages if "already recording" in text]
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize(
    "numbers", [{"wait": -1}, {"active": 0}, {"warmup": 1.5}, {"repeat": True}]
)
def test_numbers_that_make_no_schedule_are_refused_at_once(
    tmp_path: Path, numbers: dict[str, int]
) -> None:
    (name,) = numbers
    with pytest.raises(BadUsage, match=name):
        ss.schedule(**{"wait": 0, "warmup": 0, "active": 1, **numbers}, logdir=tmp_path)


class Loop:
    """A loop whose steps take a given time, by a clock of its own."""

    def __init__(self, logdir: Path, *, step_s: float, **bounds: object) -> None:
        self.now_s = 0.0
        self.step_s = step_s
        self.schedule = Schedule(
            *(1, 1, 4, 1),
            logdir=logdir,
            options=OWN,
            now_s=lambda: self.now_s,
            **bounds,  # type: ignore[arg-type]
        )

    def recorded_steps(self, count: int) -> list[int]:
        with self.schedule:
            for _ in range(count):
                self.now_s += self.step_s
                self.schedule.step()
        (run,) = self.schedule.runs
        assert run.path is not None
        return steps_of(run.path)


@pytest.mark.parametrize(
    ("step_s", "expected"),
    [
        # At least one second: ten steps of 0.1 s; at most three: two steps of 2 s.
        (0.1, list(range(2, 12))),
        (0.5, [2, 3, 4, 5]),
        (2.0, [2, 3]),
    ],
)
def test_bounds_of_time_change_the_number_of_steps(
    tmp_path: Path, step_s: float, expected: list[int]
) -> None:
    loop = Loop(tmp_path, step_s=step_s, bounds_s=(0.95, 3.0))
    assert loop.recorded_steps(30) == expected


def test_steps_begin_with_the_given_number_and_share_the_given_run(
    tmp_path: Path,
) -> None:
    loop = Loop(tmp_path, step_s=0.1, first_step=50, run="2026_11_30_10_00_00_000_abcd")
    assert loop.recorded_steps(10) == [52, 53, 54, 55]
    assert loop.schedule.runs[0].run == "2026_11_30_10_00_00_000_abcd"


def test_between_steps_time_belongs_to_none(tmp_path: Path) -> None:
    loop = Loop(tmp_path, step_s=0.1)
    with loop.schedule as profiler:
        profiler.step()
        profiler.step()
        profiler.end_step()
        with ss.Trace("evaluate"):
            pass
        profiler.begin_step()
        profiler.cancel_step()
        with ss.Trace("save"):
            pass
        profiler.begin_step()
        for _ in range(4):
            profiler.step()
    (run,) = profiler.runs
    assert run.path is not None
    assert run.warnings == ()
    assert steps_of(run.path) == [2, 3, 4, 5]
