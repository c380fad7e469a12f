"""Calls that the main thread makes for another one, at points where nothing breaks."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from stepscope.capture.base.main_thread import at_safe_point, in_main_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def from_a_thread(ask: Callable[[], object], *, busy: Callable[[], object]) -> object:
    """What asking from a thread gave, while this one is busy."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    while thread.is_alive():
        busy()
    return answers[0]


def nothing() -> None:
    return


def test_the_main_thread_makes_the_call() -> None:
    made: list[str] = []

    def call() -> None:
        made.append(threading.current_thread().name)

    assert from_a_thread(lambda: at_safe_point(call, within_s=10), busy=nothing)
    assert made == [threading.main_thread().name]


@pytest.mark.slow(seconds=0.3)
def test_a_call_that_it_does_not_come_to_is_not_made_later() -> None:
    made: list[str] = []

    answered = threading.Event()

    def ask() -> bool:
        # By now the main thread waits, and does so until this one is answered.
        time.sleep(0.2)
        try:
            return at_safe_point(lambda: made.append("late"), within_s=0.1)
        finally:
            answered.set()

    assert from_a_thread(ask, busy=lambda: answered.wait(60)) is False
    for _ in range(1000):
        nothing()
    assert made == []


@pytest.fixture(name="usual_interrupt")
def _usual_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_interrupt")
def test_a_main_thread_that_does_little_but_wait_for_others_makes_the_call() -> None:
    """As in `pool.map`: it comes back to Python only where a wait ends."""
    never: queue.Queue[None] = queue.Queue()

    def wait() -> None:
        with contextlib.suppress(queue.Empty):
            never.get(timeout=0.05)

    made: list[str] = []
    began_s = time.monotonic()
    assert from_a_thread(
        lambda: at_safe_point(lambda: made.append("made"), within_s=5), busy=wait
    )
    assert made == ["made"]
    # At the first such point, and not after the patience of an import.
    assert time.monotonic() - began_s < 5


def test_what_interrupts_the_call_reaches_the_program() -> None:
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            nothing()

    def wait() -> None:
        threading.Thread(target=in_main_thread, args=(interrupted,)).start()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            nothing()

    # What a shell starts in the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow(seconds=1.1)
def test_an_import_is_not_disturbed() -> None:
    """The module that asks is itself being imported, and waits for the answer."""
    program = """
import sys, threading, time
from importlib.machinery import ModuleSpec
from stepscope.capture.base.main_thread import at_safe_point
found = []
class Loader:
    def create_module(self, spec): return None
    def exec_module(self, module):
        end = time.monotonic() + 1
        while time.monotonic() < end: str(1)
        module.whole = True
class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, Loader()) if name == "slow" else None
sys.meta_path.insert(0, Finder())
def look(): found.append(hasattr(sys.modules.get("slow"), "whole"))
thread = threading.Timer(0.3, lambda: at_safe_point(look, within_s=5))
thread.start()
import slow
while thread.is_alive(): str(1)
print(found)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[True]\n"
