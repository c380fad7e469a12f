"""Who hears of a step that begins: listeners that count, and frameworks that record."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from stepscope._core import recorder
from stepscope.capture.base import annotate
from stepscope.capture.base.annotate import StepsBegun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Forward = Callable[
        [str, Mapping[str, object]], contextlib.AbstractContextManager[object]
    ]


def begun(names: str, steps: int) -> int | None:
    """With which of these steps (a letter each) it is enough; None if it never is."""
    enough = threading.Event()
    counting = StepsBegun(steps, enough)
    for number, name in enumerate(names):
        counting.begins(name, {"_r": 1})
        counting.begins("within", {})
        if enough.is_set():
            return number
    return None


def test_so_many_whole_steps_end_with_the_step_after_them() -> None:
    assert begun("aaaa", 3) == 3
    assert begun("aaa", 3) is None


def test_steps_of_several_names_are_counted_apart() -> None:
    # A validation step in between is no training step.
    assert begun("abaaba", 3) == 5
    # A loop that is annotated by two is not over after half of its steps.
    assert begun("abababab", 3) == 6


@pytest.fixture
def heard() -> Iterator[dict[str, list[str]]]:
    """What a framework and a listener are told of annotations that are kept."""
    told: dict[str, list[str]] = {"framework": [], "listener": []}

    def teller(who: str) -> Forward:
        def tell(
            name: str, _stats: Mapping[str, object]
        ) -> contextlib.AbstractContextManager[object]:
            told[who].append(name)
            return contextlib.nullcontext()

        return tell

    framework, listener = teller("framework"), teller("listener")
    recorder.start_recording(16)
    annotate.add_forward(framework)
    annotate.add_listener(listener)
    yield told
    annotate.remove_listener(listener)
    annotate.remove_forward(framework)
    recorder.stop_recording()


def test_a_framework_is_not_told_of_what_begins_beside_it(
    heard: dict[str, list[str]],
) -> None:
    with annotate.Trace("before"):
        beside = annotate.Trace("beside")
        annotate.enter_beside_framework(beside)
        beside.__exit__(None, None, None)
    with annotate.Trace("after"):
        pass
    assert heard == {
        "framework": ["before", "after"],
        "listener": ["before", "beside", "after"],
    }
    drained = recorder.drain_annotations()
    assert sorted(drained.names) == ["after", "before", "beside"]


def test_a_listener_may_go_when_it_is_told(heard: dict[str, list[str]]) -> None:
    def goes(
        name: str, _stats: Mapping[str, object]
    ) -> contextlib.AbstractContextManager[object]:
        annotate.remove_listener(goes)
        heard["listener"].append(f"{name} last")
        return contextlib.nullcontext()

    annotate.add_listener(goes)
    for name in ("one", "two"):
        annotation = annotate.Trace(name)
        annotate.enter_beside_framework(annotation)
        annotation.__exit__(None, None, None)
    assert heard["listener"] == ["one", "one last", "two"]
