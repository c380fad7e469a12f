"""The steps after a slow one, with the framework's own profiler."""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, Final

from stepscope.capture.ground.annotate import StepsBegun, add_listener, remove_listener
from stepscope.capture.ground.main_thread import MAIN_THREAD_S, at_safe_point
from stepscope.capture.recording.session import Session
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.capture.ground.options import ProfilerOptions
    from stepscope.capture.ground.run import Run

_log: Final = logging.getLogger("stepscope")
_FRAMEWORKS: Final = ("tensorflow", "jax", "torch")
#: Longest recording, whatever the steps.
_MOST_S: Final = 10.0
#: Between two looks whether the flight recorder has been stopped.
_LOOK_S: Final = 0.25


def record_following(
    logdir: Path,
    options: ProfilerOptions,
    *,
    steps: int,
    stopped: Callable[[], bool],
) -> Run | None:
    """Record the next steps in full, and return when they are stored.

    Called by a thread of ours. Nothing is recorded where no framework is imported, or
    where a recording is under way.
    """
    if not steps or not sys.modules.keys() & set(_FRAMEWORKS):
        return None
    begun: list[Session] = []

    def begin_session() -> None:
        try:
            begun.append(Session.start(logdir, options))
        except StepscopeError as error:
            _log.info("stepscope: the steps that follow are not recorded: %s", error)

    enough = threading.Event()
    heard = StepsBegun(steps, enough)
    if not at_safe_point(begin_session, within_s=MAIN_THREAD_S) or not begun:
        return None
    add_listener(heard.begins)
    try:
        left_s = _MOST_S
        while left_s > 0 and not stopped() and not enough.wait(_LOOK_S):
            left_s -= _LOOK_S
    finally:
        remove_listener(heard.begins)
    # The same run, whoever ends it: at the end of the program another thread does.
    at_safe_point(begun[0].stop, within_s=MAIN_THREAD_S)
    return begun[0].stop()
