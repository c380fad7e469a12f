"""The latest recorded annotations and functions, and sentences about failed steps."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.capture.base.functions import FunctionNames
from stepscope.capture.flight.watch import Step
from stepscope.patterns import NAMED_INPUT, Pattern
from stepscope.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import CodeType

    from stepscope.capture.base.encoding import Rows
    from stepscope.capture.collectors.sampled_frames import Frame
    from stepscope.capture.flight.watch import Slow

#: Maximum number of annotations, and of function executions, in memory: about 6 MB.
_MAX_ANNOTATIONS: Final = 16_384
_MAX_FRAMES: Final = 8_192
#: Number of steps that a slow step is compared with.
_COMPARED_STEPS: Final = 32
_INPUT: Final[Pattern[str]] = Pattern(NAMED_INPUT)
#: Number of latest steps whose annotation shares are computed, once a second.
_SHARE_STEPS: Final = 16


class Span(NamedTuple):
    """A named interval on a thread."""

    begin_ns: int
    end_ns: int
    name: str


class RecentEvents:
    """The program's latest annotations and functions.

    One thread at a time adds rows while another thread reads; the reader uses copies.
    """

    def __init__(self) -> None:
        self._batches: deque[Rows] = deque()
        self._rows = 0
        self._frames: deque[Frame[CodeType]] = deque(maxlen=_MAX_FRAMES)
        self._functions = FunctionNames()
        self._new: deque[Step] = deque(maxlen=_MAX_ANNOTATIONS)

    def add_annotations(self, rows: Rows) -> None:
        """Add annotations that ended."""
        if not rows.names:
            return
        self._batches.append(rows)
        self._rows += len(rows.names)
        while len(self._batches) > 1 and self._rows > _MAX_ANNOTATIONS:
            self._rows -= len(self._batches.popleft().names)
        self._new.extend(_steps_in_rows(rows))

    def add_frames(self, frames: Sequence[Frame[CodeType]]) -> None:
        """Add function executions that ended."""
        self._frames.extend(frames)

    def new_steps(self) -> list[Step]:
        """Return the steps that ended since the last call, sorted by their end."""
        steps = [self._new.popleft() for _ in range(len(self._new))]
        return sorted(steps, key=lambda step: step.end_ns)

    def step_parts(self, step: Step) -> dict[str, int]:
        """Return the self time of each annotation in a step, in ns.

        Garbage collections count as annotations; "" is the remaining time.
        """
        return self_times(self._annotation_spans((step,)), step.begin_ns, step.end_ns)

    def parts_of_last(self, steps: Sequence[Step]) -> dict[str, int]:
        """Return the self time of each annotation in a loop's last 16 steps, in ns."""
        same = _last_loop_steps(steps)
        return _summed_times(same, self._annotation_spans(same)) if same else {}

    def input_of_last(self, steps: Sequence[Step]) -> int | None:
        """Return the time of the last steps in annotations that fetch input, in ns.

        Nested annotations are included. Return None if no annotation fetches input.
        """
        loop_steps = _last_loop_steps(steps)
        if not loop_steps:
            return None
        spans = [
            span
            for span in self._annotation_spans(loop_steps)
            if _INPUT.search(span.name)
        ]
        if not spans:
            return None
        return sum(ns for name, ns in _summed_times(loop_steps, spans).items() if name)

    def usual_parts(self, step: Step) -> dict[str, int]:
        """Return each annotation's median self time over the previous steps, in ns."""
        before = [
            earlier
            for rows in tuple(self._batches)
            for earlier in _steps_in_rows(rows)
            if earlier.name == step.name and earlier.end_ns <= step.begin_ns
        ][-_COMPARED_STEPS:]
        if not before:
            return {}
        spans = self._annotation_spans(before)
        step_times = [
            self_times(
                _overlapping_spans(spans, earlier.begin_ns, earlier.end_ns),
                earlier.begin_ns,
                earlier.end_ns,
            )
            for earlier in before
        ]
        names = {name for times in step_times for name in times}
        middle = len(step_times) // 2
        return {
            name: sorted(times.get(name, 0) for times in step_times)[middle]
            for name in names
        }

    def function_times(self, thread: int, begin_ns: int, end_ns: int) -> dict[str, int]:
        """Return the self time of each function on a thread in an interval, in ns."""
        spans = [
            Span(
                frame.begin_ns, frame.end_ns, self._functions.function_name(frame.code)
            )
            for frame in tuple(self._frames)
            if frame.thread == thread
            and frame.end_ns > begin_ns
            and frame.begin_ns < end_ns
        ]
        times_ns = self_times(spans, begin_ns, end_ns)
        times_ns.pop("", None)
        return times_ns

    def _annotation_spans(self, steps: Iterable[Step]) -> list[Span]:
        steps = tuple(steps)
        first = min(step.begin_ns for step in steps)
        last = max(step.end_ns for step in steps)
        threads = {step.thread for step in steps}
        # Batches of events are in time order: older batches end before the interval.
        recent = itertools.takewhile(
            lambda rows: max(rows.end_ns) >= first, reversed(tuple(self._batches))
        )
        return [
            Span(begin, end, str(name))
            for rows in recent
            for name, begin, end, thread, stats in zip(*rows, strict=True)
            if begin >= first
            and end <= last
            and thread in threads
            and "step_num" not in stats
        ]


def self_times(spans: Iterable[Span], begin_ns: int, end_ns: int) -> dict[str, int]:
    """Return how long each span is innermost in an interval; "" means no span.

    Spans nest, as calls do. The returned times in ns add up to the interval.
    """
    times_ns: dict[str, int] = {}
    open_spans: list[Span] = []
    assigned_until = begin_ns

    def close_ended_spans(until: int) -> None:
        while open_spans and open_spans[-1].end_ns <= until:
            inner = open_spans.pop()
            give_time(inner.name, inner.end_ns)
        give_time(open_spans[-1].name if open_spans else "", until)

    def give_time(name: str, until: int) -> None:
        nonlocal assigned_until
        if until > assigned_until:
            times_ns[name] = times_ns.get(name, 0) + until - assigned_until
            assigned_until = until

    for span in sorted(spans, key=lambda span: (span.begin_ns, -span.end_ns)):
        begin, end = max(span.begin_ns, begin_ns), min(span.end_ns, end_ns)
        if end > begin:
            close_ended_spans(begin)
            open_spans.append(Span(begin, end, span.name))
    close_ended_spans(end_ns)
    return times_ns


def _steps_in_rows(rows: Rows) -> list[Step]:
    return [
        Step(
            stats.get("step_num"),
            str(rows.names[row]),
            rows.begin_ns[row],
            rows.end_ns[row],
            rows.thread[row],
        )
        for row, stats in enumerate(rows.stats)
        if "_r" in stats
    ]


def _last_loop_steps(steps: Sequence[Step]) -> list[Step]:
    last = steps[-1:]
    return [
        step
        for step in steps
        if (step.name, step.thread) == (last[0].name, last[0].thread)
    ][-_SHARE_STEPS:]


def _summed_times(steps: Sequence[Step], spans: Sequence[Span]) -> dict[str, int]:
    times_ns: Counter[str] = Counter()
    for step in steps:
        within = _overlapping_spans(spans, step.begin_ns, step.end_ns)
        times_ns.update(self_times(within, step.begin_ns, step.end_ns))
    return times_ns


def _overlapping_spans(spans: Sequence[Span], begin_ns: int, end_ns: int) -> list[Span]:
    return [span for span in spans if span.end_ns > begin_ns and span.begin_ns < end_ns]


_PS_PER_NS: Final = 1_000
#: Maximum number of characters of an exception's message in a sentence.
_MAX_MESSAGE_CHARACTERS: Final = 120
#: A function is named if its time is at least this share of a step's excess time.
_MIN_NAMED_SHARE: Final = 0.3


def slow_step_sentence(slow: Slow, notebook: RecentEvents) -> str:
    """Return a sentence about the annotation with the most excess time in a step."""
    step, median_ns = slow
    usual = notebook.usual_parts(step)
    excess = {
        name: took_ns - usual.get(name, 0)
        for name, took_ns in notebook.step_parts(step).items()
    }
    name, longer_ns = max(excess.items(), key=lambda part: part[1])
    line = (
        f"{step.name} {step.number} took {_duration_text(step.dur_ns)}, "
        f"{step.dur_ns / median_ns:.1f} times the median of "
        f"{_duration_text(median_ns)}: {_duration_text(longer_ns)} longer than usual "
    )
    line += f"in {name}" if name else "outside of any annotation"
    functions = notebook.function_times(step.thread, step.begin_ns, step.end_ns)
    longest = max(functions, key=lambda function: functions[function], default="")
    if longest and functions[longest] >= _MIN_NAMED_SHARE * longer_ns:
        line += f", mostly in {longest}"
    return line


def hang_sentence(
    last: Step, notebook: RecentEvents, *, main_thread: int, since_ns: int, now_ns: int
) -> str:
    """Return a sentence on the time since the last step and the running function."""
    line = (
        f"no step has ended for {_duration_text(now_ns - since_ns)}; the last one was "
        f"{last.name} {last.number}"
    )
    for thread, label in (
        (last.thread, "its thread"),
        (main_thread, "the main thread"),
    ):
        functions = notebook.function_times(thread, since_ns, now_ns)
        if functions:
            longest = max(functions, key=lambda function: functions[function])
            return f"{line}. Since then {label} was mostly in {longest}"
    return line


def exception_sentence(error: BaseException, last: Step | None) -> str:
    """Describe the exception that ends the program, and the last step before it."""
    text = str(error).split("\n")[0][:_MAX_MESSAGE_CHARACTERS]
    line = f"ended by {type(error).__name__}" + (f": {text}" if text else "")
    if last is None:
        return line
    return f"{line}; the last step was {last.name} {last.number}"


def _duration_text(ns: int) -> str:
    return duration_text(ns * _PS_PER_NS)
