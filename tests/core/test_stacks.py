"""What a thread runs at one moment."""

from __future__ import annotations

import gc
import sys
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType


@pytest.fixture
def forms(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
) -> list[ModuleType]:
    return list(kernel_forms("recorder").values())


def names(stack: list[CodeType]) -> list[str]:
    return [code.co_name for code in stack]


def test_the_outermost_comes_first(forms: list[ModuleType]) -> None:
    began, may_end = threading.Event(), threading.Event()

    def outer() -> None:
        inner()

    def inner() -> None:
        began.set()
        may_end.wait()

    thread = threading.Thread(target=outer)
    thread.start()
    began.wait()
    looked = [form.thread_stacks([thread.ident]) for form in forms]
    may_end.set()
    thread.join()
    for ((codes, offsets),) in looked:
        found = names(codes)
        assert found[0] == "_bootstrap"
        assert found.index("outer") + 1 == found.index("inner")
        assert len(offsets) == len(codes)
        # The call of `inner` is the first line of `outer`.
        place = found.index("outer")
        code, offset = codes[place], offsets[place]
        (line,) = (no for low, up, no in code.co_lines() if low <= offset < up)
        assert line == code.co_firstlineno + 1


def test_threads_are_in_the_order_asked_for(forms: list[ModuleType]) -> None:
    """Nobody has the first id: it runs nothing."""
    for form in forms:
        gone, own = form.thread_stacks([2**62, threading.get_ident()])
        assert gone == ([], [])
        assert sys._getframe().f_code in own[0]


def test_collections_are_left_on_or_off(forms: list[ModuleType]) -> None:
    here = threading.get_ident()
    for form in forms:
        form.thread_stacks([here])
        assert gc.isenabled()
        gc.disable()
        try:
            form.thread_stacks([here])
            assert not gc.isenabled()
        finally:
            gc.enable()


def test_no_collection_begins_while_frames_are_looked_at(
    forms: list[ModuleType],
) -> None:
    """Its callbacks would let other threads run, and frames would be gone."""
    here, begun = threading.get_ident(), []
    usual = gc.get_threshold()

    def note(phase: str, _: object) -> None:
        begun.append((phase, sys._getframe(1).f_code.co_name))

    def deep(left: int, form: ModuleType) -> None:
        if left:
            deep(left - 1, form)
        else:
            gc.collect()
            begun.clear()
            gc.set_threshold(1)
            form.thread_stacks([here])
            gc.set_threshold(*usual)

    gc.callbacks.append(note)
    try:
        for form in forms:
            deep(50, form)
            # What is made around the call may begin one, and does so in this file.
            # Since Python 3.12 it begins later, but not while a frame is held.
            assert {where for _, where in begun} <= {"deep", "thread_stacks"}
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*usual)
