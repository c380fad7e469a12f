"""`function_purposes`: why functions of known libraries are called, and what they do.

`known_functions.json` lists these functions: regular expressions for the file's path
and the function's name (`functions`), or for the name in the line that calls a function
without a frame (`calls`). The first matching row with a purpose gives the purpose, and
the first matching row with a kind of work gives the work. A purpose also applies to
everything that the function calls.
"""

from __future__ import annotations

import re
from collections import defaultdict
from enum import IntEnum
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from stepscope.derive.host.function_frames import MIN_INTERVAL_SAMPLES
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.patterns import LOOP_CALL, NAMED_INPUT, Pattern
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepscope.array_types import Bools, UInt8s
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_names import FunctionName

#: What a line calls that takes the next element of an iterator.
TAKES_ELEMENT: Final = Pattern(rf"^{LOOP_CALL}$|(?:^|\.)(?:next|__next__)$")
#: Names, without the class, of functions that return the next element or batch.
_RETURNS_ELEMENT: Final = Pattern(rf"{NAMED_INPUT}|^__next__$")


class FunctionPurpose(IntEnum):
    """Purpose for which a function is called.

    Definition: docs/definitions/host-time.md#functions.
    """

    UNKNOWN = 0
    INPUT = 1
    CHECKPOINT = 2
    SUMMARY = 3
    COMPILE = 4
    SYNC = 5
    CALL = 6
    AWAIT = 7
    PEER = 8
    #: Waits for the next element or batch, which another thread or process produces.
    RECEIVE = 9


#: Purposes of functions that wait for other threads, processes or machines.
AWAITING: Final = (FunctionPurpose.AWAIT, FunctionPurpose.RECEIVE)
#: Minimum time, in ps times samples per second, for statements about it.
_MIN_SEEN: Final = MIN_INTERVAL_SAMPLES * PS_PER_S
#: What a function does, whatever the cause (owner) of its time: a `work` of the table.
KnownWork: TypeAlias = str
#: Kinds of work that are waits for something outside of the program.
WAITING_WORKS: Final[tuple[KnownWork, ...]] = (
    *("pauses", "asks_the_network", "runs_a_program", "flushes"),
    "takes_a_lock",
)


class _KnownFunctions(msgspec.Struct, forbid_unknown_fields=True, dict=True):
    """A row of `known_functions.json`; `PYTHON/` means Python's standard library."""

    files: str = "(?!)"  # Matches nothing.
    functions: str = ""
    calls: str = "(?!)"
    purpose: str | None = None
    work: KnownWork | None = None

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Return the patterns for the paths and the names of functions."""
        files = self.files.replace("PYTHON/", r"/(?:python|pypy)\d[.\d]*/")
        return re.compile(files), re.compile(self.functions)


@cache
def _known_functions() -> tuple[_KnownFunctions, ...]:
    table = Path(__file__).with_name("known_functions.json").read_bytes()
    return msgspec.json.decode(table, type=tuple[_KnownFunctions, ...])


def _first_row(name: FunctionName, *, with_work: bool) -> _KnownFunctions | None:
    """Return the first matching row with a purpose (`with_work`: a kind of work)."""
    path = _searched_path(name)
    if not name.library and "/" in path:
        # A file name without its folder may be that of a library or of the program.
        return None
    for row in _known_functions():
        if (row.work is not None) == with_work:
            files, functions = row.patterns
            if files.search(path) and functions.search(name.function):
                return row
    return None


def _searched_path(name: FunctionName) -> str:
    """Return a function's file for the searches; empty for a built-in function.

    A path may begin with the searched folder, so a separator is added in front.
    """
    path = (name.file or "").replace("\\", "/")
    return f"/{path}" if "/" in path else path


@cache
def work_of_call(name: str) -> KnownWork | None:
    """Return what a function without a frame does, by the name in the calling line."""
    matching = (row.work for row in _known_functions() if re.search(row.calls, name))
    return next(matching, None)


def _known_purpose(name: FunctionName) -> FunctionPurpose:
    row = _first_row(name, with_work=False)
    known = None if row is None else row.purpose
    return FunctionPurpose.UNKNOWN if known is None else FunctionPurpose[known]


class FunctionPurposes(Frozen, frozen=True):
    """The purposes of functions, and the functions that do a known kind of work.

    Attributes:
        purpose: uint8 by row of `function_frames`; `FunctionPurpose` codes. Called
            functions have the purpose of the outermost caller with a purpose.
        types_by_work: Kind of work → functions that do it, as in `FunctionFrames.type`.
    """

    purpose: UInt8s
    types_by_work: Mapping[KnownWork, tuple[int, ...]]

    def types_with_work(self, *works: KnownWork) -> list[int]:
        """Return the functions that do at least one of these kinds of work."""
        return [kind for work in works for kind in self.types_by_work.get(work, ())]


def function_purposes(
    *,
    function_frames: FunctionFrames,
    function_lines: FunctionLines | Unavailable,
    non_step_frames: FunctionFrames | Unavailable,
    worker_frames: FunctionFrames | Unavailable,
) -> FunctionPurposes:
    """Find the purpose of each frame, from the outermost frames inwards.

    Definition: docs/definitions/host-time.md#functions.
    """
    frames = function_frames
    types: dict[KnownWork, list[int]] = defaultdict(list)
    for kind, name in frames.names.items():
        row = _first_row(name, with_work=True)
        if row is not None and row.work is not None:
            types[row.work].append(kind)
    own = _own_purposes(frames)
    iterators = [
        kind
        for kind, name in frames.names.items()
        if not name.library
        and _RETURNS_ELEMENT.search(name.function.rpartition(".")[2])
    ]
    if not isinstance(function_lines, Unavailable):
        iterators += function_lines.types_called_as(TAKES_ELEMENT)
    in_iterator = frames.rows_called_from(np.isin(frames.type, iterators))
    is_other = (own == FunctionPurpose.RECEIVE) & ~in_iterator
    if is_other.any() and not isinstance(function_lines, Unavailable):
        producers = [
            producer
            for others, in_process in (
                *((frames, False), (non_step_frames, False), (worker_frames, True)),
            )
            if not isinstance(others, Unavailable)
            for producer in _sampled_producers(others, types, in_process=in_process)
        ]
        is_other &= ~_receiving_rows(frames, is_other, function_lines, producers)
    own = np.where(is_other, FunctionPurpose.AWAIT, own).astype(np.uint8)
    # Copy purposes from callers to callees until nothing changes.
    purpose, inside = own, frames.parent >= 0
    while True:
        above = np.where(inside, purpose[frames.parent], 0)
        inherited = np.where(above > 0, above, own).astype(np.uint8)
        if (inherited == purpose).all():
            break
        purpose = inherited
    return FunctionPurposes(
        purpose, {work: tuple(rows) for work, rows in types.items()}
    )


def _own_purposes(frames: FunctionFrames) -> UInt8s:
    """Return the purpose of each frame itself, whoever calls it."""
    purpose_of_type = np.zeros(max(frames.names, default=-1) + 1, np.uint8)
    for kind in np.unique(frames.type).tolist():
        purpose_of_type[kind] = _known_purpose(frames.names[kind])
    return purpose_of_type[frames.type]


class _Producer(NamedTuple):
    """What a thread or worker process does that a step may wait for.

    Attributes:
        track: Row of tracks.
        sampled: When its functions are known.
        busy: When it works or hands something over, and does not wait for work.
        hz: Samples per second; None if its calls were traced.
        in_process: Whether it is another process, sampled at other times.
    """

    track: int
    sampled: Spans
    busy: Spans
    hz: float | None
    in_process: bool

    def works_during(self, waits: Spans) -> bool:
        """Return whether it works in at least a third of the waits."""
        seen = self.sampled & waits if self.in_process else waits
        return 3 * (self.busy & waits).length_ps >= seen.length_ps > 0

    def works_ahead(self, waits: Spans, elsewhere: Spans) -> bool | None:
        """Return whether it works while a thread does not wait; None if unknown.

        A thread or process that is asked for each answer has little to do then, at most
        half as much as during the waits.

        Args:
            waits: When the thread waits.
            elsewhere: When it does anything else, between its first and last wait.
        """
        seen = self.sampled & (waits | elsewhere)
        seen_ps = float(elsewhere.length_ps)
        if self.in_process:
            # Which of its samples belong to `elsewhere` is unknown.
            seen_ps *= seen.length_ps / (waits | elsewhere).length_ps
        if seen_ps <= 0 or seen_ps * (self.hz or np.inf) < _MIN_SEEN:
            return None
        if self.in_process:
            return 2 * (seen - self.busy).length_ps <= seen_ps
        share = (self.busy & waits).length_ps / waits.length_ps
        return 2 * (self.busy & elsewhere).length_ps >= share * seen_ps


def _sampled_producers(
    frames: FunctionFrames, types: Mapping[KnownWork, list[int]], *, in_process: bool
) -> Iterator[_Producer]:
    own = _own_purposes(frames)
    waits = (own == FunctionPurpose.RECEIVE) & ~frames.rows_called_from(
        own == FunctionPurpose.AWAIT
    )
    takes = np.isin(frames.type, types.get("takes_tasks", ()))
    of_task = (frames.parent >= 0) & takes[frames.parent]
    for track in np.unique(frames.track).tolist():
        rows = frames.track == track
        sampled = frames.spans(rows & (frames.parent < 0))
        between_tasks = frames.spans(rows & takes) - frames.spans(rows & of_task)
        busy = sampled - frames.spans(rows & waits) - between_tasks
        yield _Producer(track, sampled, busy, frames.hz, in_process)


def _receiving_rows(
    frames: FunctionFrames,
    awaits: Bools,
    lines: FunctionLines,
    producers: Sequence[_Producer],
) -> Bools:
    """Return which waits of the program are for its next element or batch.

    Either a line of the program takes an element and the producers, as far as known,
    work ahead; or it uses what it receives, and producers that work ahead are known.
    """
    receives = np.zeros(len(awaits), np.bool_)
    for track in np.unique(frames.track[awaits]).tolist():
        rows = awaits & (frames.track == track)
        waits, received = frames.spans(rows), Spans.empty()
        ran = frames.spans(frames.track == track)
        others = [it for it in producers if it.in_process or it.track != track]
        for called, is_unused, line in lines.calling_spans(track, waits):
            is_taken = TAKES_ELEMENT.search(called) is not None
            meant = line & (waits if is_taken else _direct_spans(frames, rows))
            if (is_unused and not is_taken) or not len(meant):
                continue
            begin, end = int(meant.start_ps[0]), int(meant.end_ps[-1])
            elsewhere = ran.clip(begin, end) - waits
            working = (it for it in others if it.works_during(meant))
            ahead = {it.works_ahead(meant, elsewhere) for it in working}
            if False not in ahead and (is_taken or True in ahead):
                received |= meant
        inside = received.within(frames.start_ps, frames.end_ps)
        receives |= (
            rows & (2 * inside >= frames.end_ps - frames.start_ps) & (inside > 0)
        )
    return receives


def _direct_spans(frames: FunctionFrames, waits: Bools) -> Spans:
    """Return those waits that the program itself calls, not another library."""
    files = next(it for it in _known_functions() if it.purpose == "RECEIVE").patterns[0]
    names = frames.names.items()
    waiting = [kind for kind, name in names if files.search(_searched_path(name))]
    program = [kind for kind, name in names if name.library is False]
    caller = frames.parent
    while (inside := (caller >= 0) & np.isin(frames.type[caller], waiting)).any():
        caller = np.where(inside, frames.parent[caller], caller)
    is_called = (caller >= 0) & np.isin(frames.type[caller], program)
    return frames.spans(waits & is_called)


def is_wait(name: FunctionName) -> bool:
    """Return whether Python waits for another thread in this function."""
    return _known_purpose(name) in AWAITING
