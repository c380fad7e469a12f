"""Functions of the program that ops of a step call, on any thread."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.facts.evidence import Part
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_host
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.facts.step_shares import NamedTime, StepShares
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_purposes import FunctionPurposes
    from stepscope.trace.model import TraceData

#: Ops that call Python and wait for it: `tf.numpy_function` and `tf.py_function`,
#: `jax.pure_callback`, `io_callback` and `debug.callback`.
_OPS: Final = Pattern(
    r"(?:^|[/:])(?:Eager)?PyFunc(?:Stateless)?(?:_\d+)?$"
    r"|^(?:pure|io|debug)_callback(?:\.\d+)?$"
)
_TO_WORK: Final = ("calls_back", "calls_back_from_graph")
_TO_DEBUG: Final = ("calls_back_to_debug",)
#: A sampled call has uncertain ends: its length / this number is cut off at each end.
_MARGIN_DIVISOR: Final = 4


class CalledBack(Frozen, frozen=True, eq=True):
    """Functions that ops of the steps call, most time first.

    A function's share is the time of the ops that call it: the threads that run the
    functions have too few samples to time the functions themselves.

    Attributes:
        working: Functions that the steps need.
        looking: Functions that only observe the program, for debugging.
    """

    working: tuple[Part, ...] = ()
    looking: tuple[Part, ...] = ()


@of_each_host
def called_back(
    *,
    trace: TraceData,
    step_shares: tuple[StepShares, ...],
    function_frames: FunctionFrames,
    function_purposes: FunctionPurposes,
    host_states: HostStates,
    naming: Naming,
) -> CalledBack | None:
    """Return the functions that ops call back, for hosts without devices.

    A function belongs to the op on step threads that runs during most of the function's
    samples, if no other such function has more samples there. Functions called in
    parallel to prepare a batch do not delay an op. On the program's own threads the
    call stack contains the op, and the breakdown of step time has the function's time.
    """
    own = next((shares for shares in step_shares if shares.device is None), None)
    if own is None:
        return None
    ran = _callbacks(trace, host_states, naming)
    to_work, to_debug = (
        _parts_called(
            *(named, function_frames, function_purposes.types_with_work(*works), ran),
            total_ps=own.total_ps,
        )
        for named, works in (
            (own.named("host_compute", place="inside"), _TO_WORK),
            (own.named("debugging"), _TO_DEBUG),
        )
    )
    return CalledBack(to_work, to_debug)


def _callbacks(trace: TraceData, states: HostStates, named: Naming) -> dict[str, Spans]:
    """Return, by name, when callback ops ran on threads that drive the steps."""
    events = require_available(trace.table("events"))
    types = handles(events, "type")
    starts, lengths = ints(events, "start_ps"), ints(events, "dur_ps")
    runs: dict[str, list[Spans]] = defaultdict(list)
    for track in states.classes.threads.driving_tracks():
        rows = states.classes.rows.track_rows(track)
        for kind in np.unique(types[rows]).tolist():
            name = named.names[kind]
            if name and _OPS.search(name):
                of_kind = types[rows] == kind
                runs[name].append(
                    Spans.from_events(starts[rows][of_kind], lengths[rows][of_kind])
                )
    return {name: Spans.union_of(spans) for name, spans in runs.items()}


def _parts_called(
    named: tuple[NamedTime, ...],
    frames: FunctionFrames,
    callers: list[int],
    ran: dict[str, Spans],
    *,
    total_ps: int,
) -> tuple[Part, ...]:
    """Return the functions that ops call, with the time of the ops or of the functions.

    Args:
        named: Times of functions and ops in the breakdown of step time.
        callers: Types of the library functions through which ops call the program.
        ran: Name of an op → when it ran on threads that drive the steps.
        total_ps: Time of all judged steps.
    """
    rows = frames.outermost_called(callers)
    kinds, index = np.unique(frames.type[rows], return_inverse=True)
    start, end = frames.start_ps[rows], frames.end_ps[rows]
    if frames.hz is not None:
        margin = (end - start) // _MARGIN_DIVISOR
        start, end = start + margin, end - margin
    sampled_ps = np.bincount(index, weights=end - start, minlength=len(kinds))
    by_program = ~np.isin(frames.track[rows], list(frames.of_framework))
    times = dict.fromkeys(kinds[np.unique(index[by_program])].tolist(), 0)
    key_of = {frames.names[kind].key: kind for kind in times}
    for part in named:
        if part.function is not None:
            kind = key_of.get((part.function, part.file, part.line))
        else:
            held = ran.get(part.name or "", Spans.empty()).within(start, end)
            within = np.bincount(index, weights=held, minlength=len(kinds))
            within[2 * within < sampled_ps] = 0
            kind = int(kinds[np.argmax(within)]) if within.any() else None
        if kind is not None:
            times[kind] = times.get(kind, 0) + part.time_ps
    parts = [
        Part.from_function(frames.names[kind], 100 * time / max(total_ps, 1))
        for kind, time in times.items()
        if time
    ]
    return tuple(sorted(parts, key=lambda part: -part.share_percent))
