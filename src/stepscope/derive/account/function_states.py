"""What the functions of a thread show about it: it fetches, writes, waits or works.

Definition: docs/where-a-steps-time-goes.md#what-the-host-did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.host.function_purposes import TAKES_ELEMENT, FunctionPurpose
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.host_time import HostCode
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.array_types import Bools
    from stepscope.derive.account.thread_waits import ThreadSleep
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.derive.step_time.host_classes import HostClasses


class FunctionSpans(Frozen, frozen=True, eq=True):
    """The times at which a thread's functions fetch, write, wait or call a runtime.

    Attributes:
        named: When functions ran that neither wait nor call a device's runtime; in
            `HostStates` also when annotated ranges show what the thread does.
        fetching: When a function fetches or produces a batch, or waits for a thread
            that does.
        writing: When a function writes a checkpoint or a model.
        waiting: When a function waits for a device.
        calling: When a function calls a device's runtime.
        sleeping: When a function sleeps, polls, or waits for anything but a device.
        exchanging: When a function waits for other workers; also part of `sleeping`.
    """

    named: Spans
    fetching: Spans
    writing: Spans
    waiting: Spans
    calling: Spans
    sleeping: Spans
    exchanging: Spans

    def limit_to(self, within: Spans) -> FunctionSpans:
        """Return all fields restricted to a set of spans."""
        return FunctionSpans(*(within & getattr(self, key) for key in SPAN_FIELDS))


SPAN_FIELDS: Final = FunctionSpans.__struct_fields__
NO_SPANS: Final = FunctionSpans(*(Spans.empty() for _ in SPAN_FIELDS))

#: Usual names of program functions that produce or fetch a batch, or write a
#: checkpoint. Functions of known libraries have listed purposes instead.
_FETCHES: Final = Pattern(
    r"(?:^|\.)(?:(?:get_)?next_?(?:batch|element)"
    r"|(?:load|get|fetch|read|make|prepare)_?(?:next_?)?(?:batch|inputs?)(?:es)?)$"
)
_WRITES: Final = Pattern(r"(?:^|\.)(?:save_|write_)checkpoint\w*$")
_FETCHING: Final = (FunctionPurpose.INPUT, FunctionPurpose.RECEIVE)
_WRITING: Final = (FunctionPurpose.CHECKPOINT, FunctionPurpose.SUMMARY)
#: Codes of a thread that runs or launches the model's ops.
_OPS: Final = (
    *(HostCode.HOST_COMPUTE, HostCode.LAUNCH_OR_COMPUTE),
    *(HostCode.LAUNCH, HostCode.LAUNCHING, HostCode.DISPATCH),
)


def states_by_functions(
    frames: FunctionFrames | Unavailable,
    lines: FunctionLines | Unavailable,
    purposes: FunctionPurposes | Unavailable,
    sleep: ThreadSleep | Unavailable,
    non_step_frames: FunctionFrames | Unavailable,
    *,
    classes: HostClasses,
) -> dict[int, FunctionSpans]:
    """Return, by thread (row of tracks), what its functions show about it."""
    if isinstance(frames, Unavailable) or isinstance(purposes, Unavailable):
        return {}
    fetching = np.isin(purposes.purpose, _FETCHING)
    fetching |= _are_named(frames, _FETCHES)
    if not isinstance(lines, Unavailable):
        fetching |= _iterators_of_loop(frames, lines, classes)
    writing = np.isin(purposes.purpose, _WRITING) | _are_named(frames, _WRITES)
    # A wait for a thread that produces a batch meanwhile is a wait for input.
    producing = Spans.empty()
    if not isinstance(non_step_frames, Unavailable):
        producing = non_step_frames.spans(_are_named(non_step_frames, _FETCHES))
    empty, states = Spans.empty(), {}
    for track in np.unique(frames.track).tolist():
        on_thread = frames.track == track
        waits = frames.spans(on_thread & (purposes.purpose == FunctionPurpose.SYNC))
        calls = frames.spans(on_thread & (purposes.purpose == FunctionPurpose.CALL))
        asleep, for_threads, for_peers = (
            (empty, empty, empty)
            if isinstance(sleep, Unavailable)
            else (sleep.spans[track], sleep.for_threads[track], sleep.for_peers[track])
        )
        states[track] = FunctionSpans(
            frames.spans(on_thread) - waits - calls - asleep,
            frames.spans(on_thread & fetching) | (for_threads & producing),
            frames.spans(on_thread & writing),
            waits,
            calls,
            asleep,
            for_peers,
        )
    return states


def _are_named(frames: FunctionFrames, pattern: Pattern[str]) -> Bools:
    wanted = [
        kind for kind, name in frames.names.items() if pattern.search(name.function)
    ]
    return np.isin(frames.type, wanted)


def _iterators_of_loop(
    frames: FunctionFrames, lines: FunctionLines, classes: HostClasses
) -> Bools:
    """Return the frames of the program's iterators that the loop of the steps advances.

    They produce batches, whatever their names are. An iterator in which most ops run
    is itself the loop.
    """
    rows = np.isin(frames.type, lines.types_called_as(TAKES_ELEMENT))
    libraries = [kind for kind, name in frames.names.items() if name.library]
    caller = frames.parent
    while (inside := (caller >= 0) & np.isin(frames.type[caller], libraries)).any():
        caller = np.where(inside, frames.parent[caller], caller)
    length_ps, is_outer = frames.end_ps - frames.start_ps, frames.parent < 0
    sampled_ps = np.bincount(frames.track[is_outer], length_ps[is_outer])
    is_called = (caller >= 0) & (2 * length_ps[caller] >= sampled_ps[frames.track])
    ops = Spans.union_of(
        spans
        for by_code in classes.by_thread.values()
        for code, spans in by_code.items()
        if code in _OPS
    )
    rows &= is_called
    is_loop = 2 * (ops & frames.spans(rows)).length_ps > ops.length_ps
    return rows & (not is_loop)
