"""The recorder, compiled and plain: what it keeps, what gives way, what it hands on."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.xspace.kernels import uncompiled

from stepscope._core import recorder as installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

FORMS = {"installed": installed, "plain": uncompiled("recorder")}


@pytest.fixture(params=sorted(FORMS))
def recorder(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    module = FORMS[request.param]
    module.start_recording(100)
    yield module
    module.stop_recording()
    module.drain_annotations()


class Beside:
    """Stands for a framework's own annotation."""

    def __init__(self, log: list[Any], name: str, fails_at: str = "") -> None:
        self.log, self.name, self.fails_at = log, name, fails_at

    def __enter__(self) -> None:
        self.log.append(("in", self.name))
        if self.fails_at == "enter":
            raise RuntimeError(self.name)

    def __exit__(self, *_: object) -> None:
        self.log.append(("out", self.name))
        if self.fails_at == "exit":
            raise RuntimeError(self.name)


def test_an_annotation_is_kept_with_its_times_thread_and_values(
    recorder: ModuleType,
) -> None:
    before = time.monotonic_ns()
    with recorder.Trace("train", step_num=3, _r=1):
        inside = time.monotonic_ns()
    after = time.monotonic_ns()
    rows = recorder.drain_annotations()
    assert rows.names == ["train"]
    assert before <= rows.begin_ns[0] <= inside <= rows.end_ns[0] <= after
    assert list(rows.thread) == [threading.get_native_id()]
    assert rows.stats == [{"step_num": 3, "_r": 1}]
    assert list(rows.beside) == [0]
    assert recorder.drain_annotations().names == []


def test_what_is_over_is_kept_with_the_times_it_is_given(recorder: ModuleType) -> None:
    given: list[str] = []
    recorder.set_forward(lambda name, _: given.append(name))
    recorder.keep_annotation("train", 5, 9, step_num=3, _r=1)
    rows = recorder.drain_annotations()
    assert (rows.names, list(rows.begin_ns), list(rows.end_ns)) == (["train"], [5], [9])
    assert rows.stats == [{"step_num": 3, "_r": 1}]
    assert list(rows.thread) == [threading.get_native_id()]
    # Another recorder cannot be informed of the past.
    assert (given, list(rows.beside)) == ([], [0])


def test_what_is_over_gives_way_like_any_other(recorder: ModuleType) -> None:
    recorder.start_recording(2)
    for number in range(3):
        recorder.keep_annotation(str(number), number, number)
    assert recorder.count_lost() == 1
    assert recorder.drain_annotations().names == ["1", "2"]
    recorder.stop_recording()
    recorder.keep_annotation("late", 1, 2)
    assert recorder.drain_annotations().names == []


def test_nothing_is_kept_while_recording_is_off(recorder: ModuleType) -> None:
    recorder.stop_recording()
    with recorder.Trace("train"):
        pass
    recorder.mark_step(1)
    recorder.end_step()
    assert recorder.drain_annotations().names == []


def test_the_oldest_give_way_and_are_counted(recorder: ModuleType) -> None:
    recorder.start_recording(3)
    for number in range(10):
        with recorder.Trace(str(number)):
            pass
    assert recorder.count_lost() == 7
    assert recorder.drain_annotations().names == ["7", "8", "9"]


def test_values_that_annotate_when_they_end_do_not_stop_the_program(
    recorder: ModuleType,
) -> None:
    class Value:
        def __del__(self) -> None:
            for _ in range(2):
                with recorder.Trace("end of a value"):
                    pass

    def program() -> None:
        for _ in range(3):
            with recorder.Trace("holder", value=Value()):
                pass

    recorder.start_recording(1)
    thread = threading.Thread(target=program, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert "holder" in recorder.drain_annotations().names


def test_an_object_that_is_entered_again_is_kept_each_time(
    recorder: ModuleType,
) -> None:
    handle = recorder.Trace("again")
    for _ in range(3):
        with handle:
            pass
    rows = recorder.drain_annotations()
    assert rows.names == ["again"] * 3
    assert list(rows.begin_ns) == sorted(set(rows.begin_ns))
    ended = zip(rows.end_ns, rows.begin_ns[1:], strict=False)
    assert all(end <= begin for end, begin in ended)


def test_what_spans_the_start_or_the_end_of_a_recording_is_not_kept(
    recorder: ModuleType,
) -> None:
    recorder.stop_recording()
    early = recorder.Trace("early").__enter__()
    recorder.start_recording(100)
    early.__exit__(None, None, None)
    late = recorder.Trace("late").__enter__()
    assert recorder.stop_recording() == 1
    recorder.start_recording(100)
    late.__exit__(None, None, None)
    assert recorder.drain_annotations().names == []
    assert recorder.stop_recording() == 0


def test_an_annotation_can_be_cancelled(recorder: ModuleType) -> None:
    trace = recorder.Trace("begun").__enter__()
    trace.cancel()
    trace.__exit__(None, None, None)
    assert recorder.drain_annotations().names == []
    assert recorder.stop_recording() == 0


def test_values_may_be_added_while_it_is_open(recorder: ModuleType) -> None:
    with recorder.Trace("load", file="a") as trace:
        trace.set_metadata(rows=7)
    assert recorder.drain_annotations().stats == [{"file": "a", "rows": 7}]


def test_marked_steps_end_where_the_next_begins(recorder: ModuleType) -> None:
    for step in (4, 5):
        recorder.mark_step(step)
    recorder.end_step()
    recorder.end_step()
    rows = recorder.drain_annotations()
    assert [stats["step_num"] for stats in rows.stats] == [4, 5]
    assert rows.end_ns[0] <= rows.begin_ns[1]


def test_annotations_are_handed_on_and_marked_as_such(recorder: ModuleType) -> None:
    log: list[Any] = []
    recorder.set_forward(lambda name, _: Beside(log, name))
    with recorder.Trace("outer"), recorder.Trace("inner"):
        pass
    recorder.set_forward(None)
    with recorder.Trace("alone"):
        pass
    assert log == [("in", "outer"), ("in", "inner"), ("out", "inner"), ("out", "outer")]
    rows = recorder.drain_annotations()
    assert dict(zip(rows.names, rows.beside, strict=True)) == {
        "inner": 1,
        "outer": 1,
        "alone": 0,
    }


def test_one_that_outlives_who_recorded_beside_us_counts_as_ours(
    recorder: ModuleType,
) -> None:
    recorder.set_forward(lambda name, _: Beside([], name))
    with recorder.Trace("long"):
        recorder.set_forward(None)
    assert list(recorder.drain_annotations().beside) == [0]


def test_what_is_only_heard_of_stands_in_no_other_recording(
    recorder: ModuleType,
) -> None:
    log: list[Any] = []
    recorder.set_forward(lambda name, _: Beside(log, name), keeps=False)
    with recorder.Trace("heard"):
        pass
    assert log == [("in", "heard"), ("out", "heard")]
    assert list(recorder.drain_annotations().beside) == [0]


@pytest.mark.parametrize("fails_at", ["make", "enter", "exit"])
def test_what_the_other_one_raises_harms_nobody(
    recorder: ModuleType, fails_at: str
) -> None:
    def make(name: str, _: object) -> Beside:
        if fails_at == "make":
            raise RuntimeError(name)
        return Beside([], name, fails_at)

    recorder.set_forward(make)
    with recorder.Trace("kept"):
        pass
    rows = recorder.drain_annotations()
    assert rows.names == ["kept"]
    assert list(rows.beside) == [0]


def test_an_exception_passes_through_and_the_annotation_is_kept(
    recorder: ModuleType,
) -> None:
    with pytest.raises(KeyError, match="mine"), recorder.Trace("raising"):
        raise KeyError("mine")
    assert recorder.drain_annotations().names == ["raising"]


def test_threads_are_told_apart_and_none_is_lost(recorder: ModuleType) -> None:
    recorder.start_recording(100_000)
    seen: dict[str, int] = {}
    drained: list[Any] = []
    done = threading.Event()

    def annotate(name: str) -> None:
        seen[name] = threading.get_native_id()
        for _ in range(2_000):
            with recorder.Trace(name):
                pass

    def drain() -> None:
        while not done.is_set():
            drained.append(recorder.drain_annotations())

    drainer = threading.Thread(target=drain)
    workers = [threading.Thread(target=annotate, args=(name,)) for name in "abc"]
    for thread in (drainer, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    drainer.join()
    drained.append(recorder.drain_annotations())
    names = [name for rows in drained for name in rows.names]
    threads = {
        (name, thread)
        for rows in drained
        for name, thread in zip(rows.names, rows.thread, strict=True)
    }
    assert sorted(names) == sorted("abc" * 2_000)
    assert threads == set(seen.items())
    assert recorder.count_lost() == 0


def test_a_forked_child_begins_anew(recorder: ModuleType) -> None:
    with recorder.Trace("parent's"):
        pass
    recorder.set_forward(lambda name, _: Beside([], name))
    recorder.forget_parent()
    assert not recorder.is_recording()
    assert recorder.drain_annotations().names == []
    recorder.start_recording(10)
    with recorder.Trace("child's"):
        pass
    rows = recorder.drain_annotations()
    assert rows.names == ["child's"]
    assert list(rows.beside) == [0]
