"""Functions of the program that ops of a step call, on whatever thread."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.facts.evidence import Part
from stepscope.derive.host.called_below import outermost_called
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import of_each_host
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import present

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.facts.step_shares import NamedTime, StepShares
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_names import FunctionName
    from stepscope.trace.model import TraceData

#: Ops that call Python and wait for it: `tf.numpy_function` and `tf.py_function`,
#: `jax.pure_callback`, `io_callback` and `debug.callback`.
_OPS: Final = Pattern(
    r"(?:^|[/:])(?:Eager)?PyFunc(?:Stateless)?(?:_\d+)?$"
    r"|^(?:pure|io|debug)_callback(?:\.\d+)?$"
)
#: What such ops call first.
_CALLED_TO_WORK: Final = Pattern(
    r"^FuncRegistry\.__call__$|^(?:pure|io)_callback_impl$"
)
_CALLED_TO_LOOK: Final = Pattern(r"^debug_callback_impl$")
#: Of a run that one look found, the middle is the surest: a quarter may be left out at
#: each end.
_QUARTER: Final = 4


class CalledBack(Frozen, frozen=True, eq=True):
    """The functions that ops of the steps call, most time first.

    Each has the share of the ops that call it: the threads that these run on are looked
    at too seldom to say how long a function runs.

    Attributes:
        working: Those that the steps need.
        looking: Those that only look at the program, for debugging.
    """

    working: tuple[Part, ...] = ()
    looking: tuple[Part, ...] = ()


@of_each_host
def called_back(
    *,
    trace: TraceData,
    step_shares: tuple[StepShares, ...],
    function_frames: FunctionFrames,
    host_states: HostStates,
    naming: Naming,
) -> CalledBack | None:
    """Return the functions that ops call back, of the hosts without devices.

    A function is of an op if most of what was seen of it lies within runs of the op on
    threads that drive the steps, and no other such function was seen there more: what a
    framework calls beside the steps, to make a batch ahead, holds none of them. On the
    program's own threads a stack is proof, and the account says how long it ran.
    """
    own = next((it for it in step_shares if it.device is None), None)
    if own is None:
        return None
    ran = _runs_of_ops(trace, host_states, naming)
    return CalledBack(
        working=_called(
            own.named("host_compute", place="inside"),
            _Callees.of(function_frames, _CALLED_TO_WORK, ran),
            own.total_ps,
        ),
        looking=_called(
            own.named("debugging"),
            _Callees.of(function_frames, _CALLED_TO_LOOK, ran),
            own.total_ps,
        ),
    )


def _runs_of_ops(
    trace: TraceData, states: HostStates, named: Naming
) -> dict[str, Spans]:
    """Return by name when such ops ran on threads that drive the steps."""
    events = present(trace.table("events"))
    types = handles(events, "type")
    starts, lengths = ints(events, "start_ps"), ints(events, "dur_ps")
    found: dict[str, list[Spans]] = defaultdict(list)
    for track in states.classes.threads.driving_tracks():
        mine = states.classes.rows.track_rows(track)
        for kind in np.unique(types[mine]).tolist():
            name = named.names[kind]
            if name and _OPS.search(name):
                at = types[mine] == kind
                found[name].append(
                    Spans.from_events(starts[mine][at], lengths[mine][at])
                )
    return {name: Spans.union_of(spans) for name, spans in found.items()}


class _Callees(Frozen, frozen=True):
    """The functions that ops may have called.

    Attributes:
        rows: Rows of frames that ops may have called.
        ran: Name of an op → when it ran on threads that drive the steps.
    """

    frames: FunctionFrames
    rows: NDArray[np.int64]
    starts_ps: NDArray[np.int64]
    ends_ps: NDArray[np.int64]
    ran: dict[str, Spans]

    @classmethod
    def of(
        cls, frames: FunctionFrames, callers: Pattern[str], ran: dict[str, Spans]
    ) -> _Callees:
        rows = outermost_called(frames, callers)
        start, end = frames.start_ps[rows], frames.end_ps[rows]
        # Exact frames have no margin.
        margin = (end - start) // _QUARTER if frames.hz is not None else 0
        return cls(frames, rows, start + margin, end - margin, ran)

    def function(self, op: str | None) -> FunctionName | None:
        """Return the function that ops of a name call; None where none was seen."""
        spans = None if op is None else self.ran.get(op)
        if spans is None:
            return None
        held = spans.within(self.starts_ps, self.ends_ps)
        kinds, place = np.unique(self.frames.type[self.rows], return_inverse=True)
        within = np.bincount(place, weights=held, minlength=len(kinds))
        seen = np.bincount(
            place, weights=self.ends_ps - self.starts_ps, minlength=len(kinds)
        )
        within[2 * within < seen] = 0
        if not within.any():
            return None
        return self.frames.names[int(kinds[np.argmax(within)])]

    def of_the_program(self) -> list[FunctionName]:
        """Return those that ran on threads of the program itself."""
        theirs = np.isin(self.frames.track[self.rows], list(self.frames.of_framework))
        kinds = np.unique(self.frames.type[self.rows[~theirs]]).tolist()
        return [self.frames.names[kind] for kind in kinds]


def _called(
    named: tuple[NamedTime, ...], callees: _Callees, total_ps: int
) -> tuple[Part, ...]:
    """Return the functions that ops call, with the time of these and their own."""
    if not len(callees.rows):
        return ()
    own: dict[tuple[str | None, str | None, int | None], int] = defaultdict(int)
    for part in named:
        own[part.function, part.file, part.line] += part.time_ps
    times = {
        function: own[function.function, function.file, function.line]
        for function in callees.of_the_program()
    }
    for part in named:
        if part.function is None:
            function = callees.function(part.name)
            if function is not None:
                times[function] = times.get(function, 0) + part.time_ps
    total = max(total_ps, 1)
    found = [
        Part.of_function(it, 100 * time / total) for it, time in times.items() if time
    ]
    return tuple(sorted(found, key=lambda part: -part.share_percent))
