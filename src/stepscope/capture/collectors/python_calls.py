"""Every call of a Python function, if the options request it.

Python 3.12 and later use `sys.monitoring`, Python 3.11 uses `sys.setprofile`. The hooks
only note entries and exits with their times; each flush matches them to calls. A
generator has one event for each time that it was resumed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from stepscope._core import recorder
from stepscope.capture.base.encoding import (
    OWN_THREADS,
    Rows,
    ThreadNames,
    rows_fragment,
)
from stepscope.capture.base.functions import FunctionNames
from stepscope.capture.base.main_thread import in_main_thread
from stepscope.capture.base.slowdown import CallsCost, seconds_a_note
from stepscope.capture.base.spool import Fragment
from stepscope.capture.collectors.contract import Collected, Collector
from stepscope.xspace.vocabulary import HOST_PLANE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType, FrameType

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions

    _NoteTaker = Callable[..., None]

#: Maximum number of entries and exits between two flushes (0.2 s): more than Python
#: reaches, because with a hook it makes less than a million calls a second.
_RING_NOTES: Final = 400_000
_NO_STATS: Final[dict[str, object]] = {}
#: A note: time in ns, thread id, code; True for an entry, False for an exit.
_Note = tuple[int, int, "CodeType", bool]
#: Name, begin and end in ns, thread id and stats of a call.
_Row = tuple[str, int, int, int, "dict[str, object]"]
#: Number of notes that are stored between two measurements of the storing time.
_NOTES_PER_CHECK: Final = 20_000


class PythonCallsCollector(Collector):
    """Collector of Python calls on every thread that the hooks can reach."""

    name = "python_calls"

    def __init__(self) -> None:
        self._clock: ClockPair | None = None
        self._notes: deque[_Note] = deque()
        self._lost = 0
        self._reported_lost = 0
        self._calls = _Calls()
        self._hooks: _Monitoring | _Profile | None = None
        self._names = ThreadNames()
        self._warnings: list[str] = []
        self._cost: CallsCost | None = None

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Set the hooks, if the options request calls and the hooks are free."""
        if not options.python_tracer_level:
            return
        self._clock = clock
        hooks = _Monitoring() if sys.version_info >= (3, 12) else _Profile()
        holder = hooks.current_holder()
        if holder is not None:
            self._warnings.append(
                f"Python calls were not recorded: {holder} uses Python's profiling hook"
            )
            return
        self._warnings += hooks.unreached_warnings()
        self._hooks = hooks
        thrown_away: deque[_Note] = deque(maxlen=1)
        note_s = hooks.seconds_a_note(self._note_taker(thrown_away, entered=True))
        self._cost = CallsCost(note_s, now_s=time.monotonic())
        hooks.set_hooks(
            self._note_taker(self._notes, entered=True),
            self._note_taker(self._notes, entered=False),
        )

    def take_fragment(self) -> Fragment:
        """Take the Python calls that ended since the previous fragment."""
        if self._clock is None:
            return Fragment(b"", 0)
        self._names.refresh_names()
        rows = self._take_rows()
        lost, self._reported_lost = self._lost - self._reported_lost, self._lost
        if self._cost is not None:
            self._cost.add_notes(2 * lost, storing_s=0.0)
        return rows_fragment(
            {HOST_PLANE: rows},
            clock=self._clock,
            names=self._names,
            lost=lost,
            why_lost="Python calls came faster than they were stored",
        )

    @property
    def slowdown(self) -> float | None:
        """Slowdown by recording calls, 1.0 for twice as long; None if unknown."""
        if self._cost is None:
            return None
        # Notes not stored yet; a lost call counts as two notes.
        waiting = len(self._notes) + 2 * (self._lost - self._reported_lost)
        return self._cost.estimated_slowdown(time.monotonic(), waiting=waiting)

    def _take_rows(self) -> Rows:
        own_threads = self._names.own_threads()
        calls: list[_Row] = []
        left = len(self._notes)
        while left:
            before_s = time.thread_time()
            slice_of = min(left, _NOTES_PER_CHECK)
            left -= slice_of
            notes = [self._notes.popleft() for _ in range(slice_of)]
            calls += self._calls.match_exits(
                note for note in notes if note[1] not in own_threads
            )
            if self._cost is not None:
                self._cost.add_notes(slice_of, storing_s=time.thread_time() - before_s)
        return Rows(*zip(*calls, strict=True)) if calls else Rows((), (), (), (), ())

    def halt_collecting(self) -> None:
        """Remove the hooks."""
        if self._hooks is not None:
            self._warnings += self._hooks.remove_hooks()
            self._hooks = None

    def hand_over(self) -> Collected:
        """Return the remaining calls; warn about calls that have not ended."""
        self.halt_collecting()
        last = self.take_fragment()
        opened = self._calls.open_calls()
        if opened and self._clock is not None:
            self._warnings.append(
                f"{opened} Python calls had not ended when recording stopped and are "
                "not in the profile"
            )
        self._clock = None
        return Collected(last.xspace, tuple(self._warnings))

    def _note_taker(self, notes: deque[_Note], *, entered: bool) -> _NoteTaker:
        """Return the hook function; it is short, as every Python call runs it."""
        now, thread_id = recorder.clock_ns, recorder.thread_id
        append = notes.append

        def take_note(code: CodeType, *_: object) -> None:
            if len(notes) >= _RING_NOTES:
                self._lost += entered
            else:
                append((now(), thread_id(), code, entered))

        return take_note


class _Calls:
    def __init__(self) -> None:
        self._open: dict[int, list[tuple[CodeType, int]]] = {}
        self._names = FunctionNames()

    def match_exits(self, notes: Iterable[_Note]) -> list[_Row]:
        rows: list[_Row] = []
        for at_ns, thread, code, entered in notes:
            stack = self._open.setdefault(thread, [])
            if entered:
                stack.append((code, at_ns))
                continue
            # An exit has no entry if the entry was lost or precedes the recording.
            while stack:
                began_code, began_ns = stack.pop()
                if began_code is code:
                    name = self._names.function_name(code)
                    if name:
                        rows.append((name, began_ns, at_ns, thread, _NO_STATS))
                    break
        return rows

    def open_calls(self) -> int:
        return sum(
            bool(self._names.function_name(code))
            for stack in self._open.values()
            for code, _ in stack
        )


def _do_nothing() -> None:
    """Do nothing, so that only the cost of the call is measured."""


class _Monitoring:
    """Hooks of Python 3.12 and later, which reach every thread."""

    def __init__(self) -> None:
        # Type checking uses Python 3.11, which has no `sys.monitoring`.
        self._monitoring: Any = getattr(sys, "monitoring")  # noqa: B009
        self._tool: int = self._monitoring.PROFILER_ID

    def current_holder(self) -> str | None:
        holder = self._monitoring.get_tool(self._tool)
        return None if holder is None else repr(holder)

    def unreached_warnings(self) -> tuple[str, ...]:
        return ()

    def seconds_a_note(self, note: _NoteTaker) -> float:
        events = self._monitoring.events
        wanted = events.PY_START | events.PY_RETURN

        def run_noted(calls: Callable[[], object]) -> None:
            self._monitoring.set_local_events(self._tool, _do_nothing.__code__, wanted)
            calls()
            self._monitoring.set_local_events(self._tool, _do_nothing.__code__, 0)

        self._monitoring.use_tool_id(self._tool, "stepscope")
        try:
            for event in (events.PY_START, events.PY_RETURN):
                self._monitoring.register_callback(self._tool, event, note)
            return seconds_a_note(_do_nothing, run_noted)
        finally:
            for event in (events.PY_START, events.PY_RETURN):
                self._monitoring.register_callback(self._tool, event, None)
            self._monitoring.free_tool_id(self._tool)

    def set_hooks(self, entered: _NoteTaker, left: _NoteTaker) -> None:
        events = self._monitoring.events
        self._monitoring.use_tool_id(self._tool, "stepscope")

        wanted = 0
        for event, callback in (
            *((events.PY_START, entered), (events.PY_RESUME, entered)),
            *((events.PY_THROW, entered), (events.PY_RETURN, left)),
            *((events.PY_YIELD, left), (events.PY_UNWIND, left)),
        ):
            self._monitoring.register_callback(self._tool, event, callback)
            wanted |= event
        self._monitoring.set_events(self._tool, wanted)

    def remove_hooks(self) -> tuple[str, ...]:
        self._monitoring.set_events(self._tool, 0)
        self._monitoring.free_tool_id(self._tool)
        return ()


class _Noting:
    """Functions that note calls now; None between recordings."""

    entered: _NoteTaker | None = None
    left: _NoteTaker | None = None


def _profile_hook(frame: FrameType, event: str, _: object) -> None:
    """Pass an entry or exit on to the function that notes it; never freed itself.

    The interpreter of Python 3.11 holds no reference to a hook that it is about to
    call. Before the call, the interpreter may collect garbage and run code that removes
    the hook. A separate hook object for each recording therefore crashed programs.
    """
    if event == "call":
        note = _Noting.entered
    elif event == "return":
        note = _Noting.left
    else:
        return
    if note is None:
        # Only the thread itself can remove its hook.
        sys.setprofile(None)
    else:
        note(frame.f_code)


class _Profile:
    """Hooks of Python 3.11, on this thread, the main thread and threads started later.

    Only a thread itself can set its hook. The main thread sets its hook in a pending
    call, which the interpreter makes between two instructions.
    """

    def __init__(self) -> None:
        self._is_set = False
        #: Why the main thread's calls are not noted; None if they are.
        self._main_missing: str | None = None

    def current_holder(self) -> str | None:
        holder = sys.getprofile()
        return None if holder is None else repr(holder)

    def unreached_warnings(self) -> tuple[str, ...]:
        """Warn about running threads, on which hooks cannot be set."""
        reached = {threading.main_thread(), threading.current_thread()}
        unreached = sum(
            thread not in reached and not thread.name.startswith(OWN_THREADS)
            for thread in threading.enumerate()
        )
        if not unreached:
            return ()
        warning = (
            f"Python calls of {unreached} threads that ran before the recording were "
            "not recorded: Python 3.11 cannot reach them"
        )
        return (warning,)

    def seconds_a_note(self, note: _NoteTaker) -> float:
        """Measure the cost of noting a call, on this thread, which has no hook yet."""

        def note_call(frame: FrameType, event: str, _: object) -> None:
            if event in {"call", "return"}:
                note(frame.f_code)

        def run_noted(calls: Callable[[], object]) -> None:
            sys.setprofile(note_call)
            calls()
            sys.setprofile(None)

        return seconds_a_note(_do_nothing, run_noted)

    def set_hooks(self, entered: _NoteTaker, left: _NoteTaker) -> None:
        self._is_set = True
        _Noting.entered, _Noting.left = entered, left
        threading.setprofile(_profile_hook)
        if not threading.current_thread().name.startswith(OWN_THREADS):
            sys.setprofile(_profile_hook)
        if threading.current_thread() is not threading.main_thread():
            self._main_missing = "it did not return to Python code in time"
            in_main_thread(self._set_in_main)

    def remove_hooks(self) -> tuple[str, ...]:
        """Remove the hooks; other threads remove theirs at their next call."""
        self._is_set = False
        _Noting.entered = _Noting.left = None
        if sys.getprofile() is _profile_hook:
            sys.setprofile(None)
        if threading.getprofile() is _profile_hook:
            threading.setprofile(None)
        if self._main_missing is None:
            return ()
        reason = self._main_missing
        return (f"Python calls of the main thread were not recorded: {reason}",)

    def _set_in_main(self) -> None:
        holder = sys.getprofile()
        if holder is not None:
            self._main_missing = f"{holder!r} uses Python's profiling hook"
        elif self._is_set:
            self._main_missing = None
            sys.setprofile(_profile_hook)
