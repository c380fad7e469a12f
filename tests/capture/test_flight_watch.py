"""Which steps are slow, and what they waited for: by hand-made steps and rows."""

from __future__ import annotations

import os
import resource
from array import array
from typing import TYPE_CHECKING

import pytest

from stepscope.capture.base.encoding import Rows
from stepscope.capture.base.functions import FunctionNames
from stepscope.capture.collectors.sampled_frames import Frame
from stepscope.capture.flight.hooks import WakeUp
from stepscope.capture.flight.recent_events import (
    RecentEvents,
    Span,
    exception_sentence,
    hang_sentence,
    self_times,
    slow_step_sentence,
)
from stepscope.capture.flight.watch import Slow, Step, StepWatch

if TYPE_CHECKING:
    from types import CodeType

MS = 1_000_000
THREAD = 7


def loop(watch: StepWatch, durations_ms: list[float]) -> list[int]:
    """Numbers of the steps that are slow."""
    at, slow = 0, []
    for number, dur in enumerate(durations_ms):
        end = at + int(dur * MS)
        if watch.judge_step(Step(number, "train", at, end, THREAD)) is not None:
            slow.append(number)
        at = end
    return slow


def watching(slower_than: float = 1.5) -> StepWatch:
    return StepWatch(slower_than, 10.0, now_ns=0)


def test_a_stall_is_slow() -> None:
    assert loop(watching(), [20.0] * 30 + [40.0] + [20.0] * 10) == [30]


def test_the_first_steps_and_a_cooldown_are_exempt() -> None:
    durations = [900.0, *[20.0] * 29, 40.0, *[20.0] * 10, 60.0, *[20.0] * 60, 60.0]
    assert loop(watching(), durations) == [30, 102]


def test_a_far_worse_step_counts_within_the_cooldown() -> None:
    assert loop(watching(), [20.0] * 30 + [40.0, 20.0, 81.0]) == [30, 32]


def test_steps_that_differ_anyway_have_no_slow_one() -> None:
    assert loop(watching(), [10.0, 30.0] * 40) == []


def test_a_lasting_change_is_written_once_and_then_usual() -> None:
    assert loop(watching(), [20.0] * 80 + [40.0] * 300) == [80]


def test_less_than_a_turn_of_the_scheduler_is_not_slow() -> None:
    assert loop(watching(), [0.1] * 50 + [5.0]) == []
    assert loop(watching(), [0.1] * 50 + [5.2]) == [50]


def test_loops_of_other_names_have_a_median_of_their_own() -> None:
    watch = watching()
    for number in range(30):
        assert watch.judge_step(Step(number, "train", 0, 20 * MS, THREAD)) is None
        assert watch.judge_step(Step(number, "test", 0, 200 * MS, THREAD)) is None


def test_silence_is_a_hang_once() -> None:
    watch = watching()
    assert not watch.detects_hang(10**12)
    loop(watch, [20.0])
    assert not watch.detects_hang(20 * MS + 9_999 * MS)
    assert watch.detects_hang(20 * MS + 10_000 * MS)
    assert not watch.detects_hang(10**12)
    watch.judge_step(Step(1, "train", 10**12, 10**12 + 1, THREAD))
    watch.goes_on(2 * 10**12)
    assert not watch.detects_hang(2 * 10**12 + 9_000 * MS)
    assert watch.detects_hang(2 * 10**12 + 10_000 * MS)


def test_a_stretch_is_divided_among_the_innermost() -> None:
    spans = [Span(10, 90, "outer"), Span(20, 50, "inner"), Span(95, 200, "next")]
    found = self_times(spans, 0, 100)
    assert found == {"": 15, "outer": 50, "inner": 30, "next": 5}
    assert sum(found.values()) == 100


def rows(*events: tuple[str, int, int, dict[str, object]]) -> Rows:
    names, begins, ends, stats = zip(*events, strict=True)
    return Rows(
        list(names),
        array("q", begins),
        array("q", ends),
        array("q", [THREAD] * len(names)),
        list(stats),
    )


def load() -> None:
    """A function to be met on a stack."""


def noted() -> tuple[RecentEvents, Step]:
    """Ten steps of 20 ms, 4 of them loading; the last one of 60 ms loads for 43."""
    notebook = RecentEvents()
    for number in range(11):
        at = number * 20 * MS
        end = at + (20 if number < 10 else 60) * MS
        loads = 4 if number < 10 else 43
        step: dict[str, object] = {"step_num": number, "_r": 1}
        notebook.add_annotations(
            rows(("load", at, at + loads * MS, {}), ("train", at, end, step))
        )
    steps = notebook.new_steps()
    assert [step.number for step in steps] == list(range(11))
    return notebook, steps[-1]


def test_a_slow_step_waited_for_what_took_longer_than_usual() -> None:
    notebook, last = noted()
    assert notebook.step_parts(last) == {"load": 43 * MS, "": 17 * MS}
    assert notebook.usual_parts(last) == {"load": 4 * MS, "": 16 * MS}
    frame = Frame(load.__code__, THREAD, 200 * MS, 243 * MS)
    notebook.add_frames([frame])
    line = load.__code__.co_firstlineno
    assert slow_step_sentence(Slow(last, 20 * MS), notebook) == (
        "train 10 took 60.0 ms, 3.0 times the median of 20.0 ms: 39.0 ms longer than "
        f"usual in load, mostly in $test_flight_watch.py:{line} load"
    )


def test_time_outside_of_annotations_is_said_to_be_that() -> None:
    notebook, last = noted()
    slow = Slow(last._replace(begin_ns=243 * MS, end_ns=260 * MS), 5 * MS)
    assert "longer than usual outside of any annotation" in slow_step_sentence(
        slow, notebook
    )


def test_a_hang_says_which_step_was_last_and_where_the_program_is() -> None:
    notebook, last = noted()
    notebook.add_frames([Frame(load.__code__, THREAD, 255 * MS, 9_000 * MS)])
    said = hang_sentence(
        last, notebook, main_thread=1, since_ns=last.end_ns, now_ns=9_260 * MS
    )
    assert said.startswith("no step has ended for 9.00 s; the last one was train 10. ")
    assert said.endswith("load")
    assert "its thread was mostly in" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("bad\nworse"), "ended by ValueError: bad"),
        (RuntimeError(), "ended by RuntimeError"),
    ],
)
def test_an_exception_is_named_with_its_first_line(error: Exception, said: str) -> None:
    assert exception_sentence(error, None) == said


def test_what_a_notebook_holds_is_bounded() -> None:
    notebook = RecentEvents()
    for number in range(3000):
        notebook.add_annotations(
            rows(*[("train", 0, 1, {"step_num": number, "_r": 1}) for _ in range(16)])
        )
    assert len(notebook.new_steps()) == 16_384
    assert notebook.new_steps() == []


class Heard(str):
    """A name that the notebook hears more of while it is written down."""

    __slots__ = ()
    notebook = RecentEvents()

    def __str__(self) -> str:
        at = 300 * MS
        self.notebook.add_annotations(rows(("load", at, at + MS, {})))
        return "load"


def test_a_notebook_that_hears_more_answers_of_what_it_had() -> None:
    """A profile that the program asks for is made in another thread."""
    notebook, last = noted()
    Heard.notebook = notebook
    notebook.add_annotations(rows((Heard(), 201 * MS, 202 * MS, {})))
    notebook.add_annotations(rows((Heard(), 202 * MS, 203 * MS, {})))
    assert notebook.step_parts(last) == {"load": 43 * MS, "": 17 * MS}


def test_a_notebook_that_hears_of_frames_names_those_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = RecentEvents()
    frame = Frame(load.__code__, THREAD, 0, MS)

    def name_of(_: FunctionNames, code: CodeType) -> str:
        notebook.add_frames([frame])
        return code.co_name

    monkeypatch.setattr(FunctionNames, "function_name", name_of)
    notebook.add_frames([frame, frame._replace(begin_ns=MS, end_ns=2 * MS)])
    assert notebook.function_times(THREAD, 0, 2 * MS) == {"load": 2 * MS}


def test_a_bell_rings_in_a_program_with_thousands_of_open_files() -> None:
    """Not `select.select`, which refuses files of numbers from 1,024 on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this system lets no process open 2,000 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    files: list[int] = []
    try:
        while not files or files[-1] < 1024:
            files.append(os.open(os.devnull, os.O_RDONLY))
        bell = WakeUp(None)
        bell.wake_thread()
        # It was no signal.
        assert bell.wait_for_ring(60) is False
        # It was heard, so that nothing waits there any more.
        assert bell.wait_for_ring(0) is False
        bell.stop_listening()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
