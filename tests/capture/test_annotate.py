"""Annotations of functions, and what is handed on to frameworks that record beside."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import stepscope as ss
from stepscope._core import recorder
from stepscope.capture.base import annotate
from stepscope.capture.base.clock import ClockPair, drift_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    recorder.start_recording(1000)
    yield
    recorder.stop_recording()
    recorder.drain_annotations()


class Annotation:
    """A framework's."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def __enter__(self) -> None:
        self.log.append(f"+{self.name}")

    def __exit__(self, *_: object) -> None:
        self.log.append(f"-{self.name}")


def test_a_coroutine_is_annotated_until_it_is_done() -> None:
    @ss.trace_function("waiting")
    async def wait() -> int:
        await asyncio.sleep(0.02)
        return 7

    # In a thread of its own: a browser that other tests drive has a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(wait())).result() == 7
    rows = recorder.drain_annotations()
    (index,) = (at for at, name in enumerate(rows.names) if name == "waiting")
    assert rows.end_ns[index] - rows.begin_ns[index] >= 20_000_000


def test_a_decorated_function_keeps_its_name_and_arguments() -> None:
    @ss.trace_function(kind="x")
    def add(one: int, *, other: int) -> int:
        """Adds."""
        return one + other

    assert (add(1, other=2), add.__name__, add.__doc__) == (3, "add", "Adds.")
    rows = recorder.drain_annotations()
    assert rows.names[0].endswith("add")
    assert rows.stats[0] == {"kind": "x"}


def test_what_a_decorated_function_raises_shows_no_frame_of_ours() -> None:
    @ss.trace_function("failing")
    def fail() -> None:
        raise ArithmeticError

    @ss.trace_function("failing later")
    async def fail_later() -> None:
        await asyncio.sleep(0)
        fail()

    with pytest.raises(ArithmeticError) as caught, ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(fail_later())).result()
    shown = [entry.name for entry in caught.traceback]
    assert shown[-2:] == ["fail_later", "fail"]
    files = {Path(entry.path) for entry in caught.traceback}
    assert Path(annotate.__file__) not in files


def test_a_step_carries_what_every_reader_looks_for() -> None:
    with ss.StepTrace(5, "validate", batch=3):
        pass
    rows = recorder.drain_annotations()
    assert rows.names == ["validate"]
    assert rows.stats == [{"step_num": 5, "_r": 1, "batch": 3}]


def test_of_those_who_record_beside_the_last_is_given_every_annotation() -> None:
    logs: dict[str, list[str]] = {"a": [], "b": [], "heard": []}
    seen: list[Mapping[str, Any]] = []

    def make_a(name: str, _: Mapping[str, Any]) -> Annotation:
        return Annotation(logs["a"], name)

    def make_b(name: str, stats: Mapping[str, Any]) -> Annotation:
        seen.append(stats)
        return Annotation(logs["b"], name)

    def hear(name: str, _: Mapping[str, Any]) -> Annotation:
        return Annotation(logs["heard"], name)

    annotate.add_listener(hear)
    annotate.add_listener(hear)
    annotate.add_forward(make_a)
    with ss.Trace("one"):
        pass
    annotate.add_forward(make_b)
    with ss.Trace("two", n=1):
        pass
    assert annotate.remove_forward(make_b)
    assert not annotate.remove_forward(make_b)
    # What it was not given to the end, it does not hold.
    assert not annotate.remove_forward(make_a)
    with ss.Trace("heard"):
        pass
    annotate.remove_listener(hear)
    with ss.Trace("none"):
        pass
    assert logs == {
        "a": ["+one", "-one"],
        "b": ["+two", "-two"],
        "heard": ["+one", "-one", "+two", "-two", "+heard", "-heard"],
    }
    assert seen == [{"n": 1}]
    # What was only heard of stands in no other recording.
    assert list(recorder.drain_annotations().beside) == [1, 1, 0, 0]


def test_where_one_of_them_fails_the_annotation_counts_as_ours() -> None:
    def broken(name: str, _: Mapping[str, Any]) -> Annotation:
        raise RuntimeError(name)

    def whole(name: str, _: Mapping[str, Any]) -> Annotation:
        return Annotation([], name)

    annotate.add_forward(whole)
    annotate.add_listener(broken)
    with ss.Trace("kept"):
        pass
    annotate.remove_forward(whole)
    annotate.remove_listener(broken)
    rows = recorder.drain_annotations()
    assert (rows.names, list(rows.beside)) == (["kept"], [0])


def test_the_first_annotation_of_a_child_begins_its_recording_and_is_kept() -> None:
    begun: list[str] = []
    recorder.forget_parent()
    annotate.at_first_annotation(lambda: begun.append("now"))
    for name in ("first", "second"):
        with ss.Trace(name):
            pass
    assert begun == ["now"]
    rows = recorder.drain_annotations()
    assert (rows.names, list(rows.beside)) == (["first", "second"], [0, 0])


def test_two_clocks_are_read_together_and_their_drift_is_the_difference() -> None:
    begin = ClockPair.now()
    end = ClockPair(begin.wall_ns + 1_000, begin.monotonic_ns + 990)
    assert drift_ns(begin, end) == 10
    assert begin.wall_of(begin.monotonic_ns + 5) == begin.wall_ns + 5
