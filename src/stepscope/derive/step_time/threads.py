"""Which host threads drive which step, and which run the program itself.

Definition: docs/definitions/host-time.md#step-threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.host_codes import EventGroups
    from stepscope.derive.steps.chosen import Steps

#: Events of the program itself; a thread with such an event is not a pool thread.
_CALLS: Final = EventFlag.PYTHON_FRAME | EventFlag.PJIT | EventFlag.FUNCTION_CALL

#: Evidence that a thread drives a step: it has the marker, launched device work of the
#: step, has events of its stored group, or ran ops on a host without a device.
EVIDENCE: Final = ("marker", "launch", "group", "ops")


class StepThreads(Frozen, frozen=True):
    """Which thread drives which window, by kind of evidence.

    Attributes:
        by_evidence: bool, (evidence, track, window).
    """

    by_evidence: Bools
    start_ps: Int64s
    end_ps: Int64s

    def driving_tracks(self) -> list[int]:
        """Return the rows of `tracks` that drive at least one window."""
        return np.flatnonzero(self.by_evidence.any(axis=(0, 2))).tolist()

    def driven_spans(self, track: int, *, evidence: Iterable[str] = EVIDENCE) -> Spans:
        """Return windows that a thread drives according to some kinds of evidence."""
        kinds = [EVIDENCE.index(name) for name in evidence]
        chosen = self.by_evidence[kinds, track].any(axis=0)
        starts, ends = self.start_ps[chosen], self.end_ps[chosen]
        return Spans.from_bounds(starts, ends)


def step_threads(
    windows: pl.DataFrame,
    *,
    tracks: int,
    event_tracks: Int32s,
    steps: Steps | Unavailable,
    correlation: Correlation | Unavailable,
    activity_steps: Int32s | Unavailable,
    groups: EventGroups | None,
    with_ops: Iterable[int],
) -> StepThreads:
    """Collect each kind of evidence that a thread drives a window.

    Args:
        windows: Rows of the windows; `step_row` is null if there are no steps.
        steps: If Unavailable, each thread that launched work drives the only window.
        groups: Events with a step group, and their groups; None without groups.
        with_ops: Tracks that drive every window: they run ops on a host without device.
    """
    evidence = np.zeros((len(EVIDENCE), tracks, windows.height), np.bool_)
    evidence[EVIDENCE.index("ops"), list(with_ops)] = True
    launched = evidence[EVIDENCE.index("launch")]
    if isinstance(steps, Unavailable):
        if not isinstance(correlation, Unavailable):
            tracks_of = handles(correlation.launches, "track")
            launched[tracks_of[correlation.activity_count_of_launch > 0]] = True
    else:
        # Map each row of steps to its row of windows; -1 for a step without a window.
        window_of = np.full(steps.rows.height, -1, np.int32)
        window_of[handles(windows, "step_row")] = np.arange(windows.height)
        marked = evidence[EVIDENCE.index("marker")]
        _mark_driven(marked, handles(steps.rows, "track"), window_of)
        if not isinstance(correlation, Unavailable) and not isinstance(
            activity_steps, Unavailable
        ):
            launch = correlation.launch_of_activity
            assigned = (launch >= 0) & (activity_steps >= 0)
            tracks_of = handles(correlation.launches, "track")
            window = window_of[activity_steps[assigned]]
            _mark_driven(launched, tracks_of[launch[assigned]], window)
        if groups is not None:
            # Map stored group → row of steps; -1 for no step. Last entry: no group.
            event_rows, group_of_event = groups
            largest = int(group_of_event.max(initial=-1))
            step_of = np.full(largest + 2, -1, np.int32)
            group = steps.rows["group"].fill_null(-1).to_numpy()
            has_group = (group >= 0) & (group <= largest)
            step_of[group[has_group]] = np.flatnonzero(has_group)
            step = step_of[group_of_event]
            window = np.where(step >= 0, window_of[step], -1)
            grouped = evidence[EVIDENCE.index("group")]
            _mark_driven(grouped, event_tracks[event_rows], window)
    return StepThreads(evidence, ints(windows, "start_ps"), ints(windows, "end_ps"))


def _mark_driven(driven: Bools, track: Int32s, window: Int32s) -> None:
    known = (track >= 0) & (window >= 0)
    driven[track[known], window[known]] = True


def of_the_program(event_types: pl.DataFrame, kinds: EventKinds) -> Bools:
    """Return by event type whether only the program itself makes such calls or ranges.

    Ranges count if the producer marks them as annotations. A framework's ranges around
    its own work do not count: they also occur on the framework's threads.
    """
    ranges: Bools = kinds.has(EventFlag.ANNOTATION)
    ranges &= ~kinds.has(EventFlag.LIBRARY_RANGE)
    ranges &= event_types["annotation"].fill_null(value=False).to_numpy()
    return kinds.has(_CALLS) | ranges
