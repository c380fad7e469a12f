"""`running_python`: when each sampled thread runs Python, by its stack and its clock.

Such a thread has, or waits for, the interpreter's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.host.core_time import thread_identities
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames


class RunningPython(Frozen, frozen=True):
    """When threads with Python functions are on a core or ready for one.

    Attributes:
        times: Row of tracks of the thread → these times; threads without a CPU clock
            are left out.
    """

    times: Mapping[int, Spans]

    def beside(self, track: int) -> Spans:
        """Return when any other thread runs Python."""
        return Spans.union_of(
            times for other, times in self.times.items() if other != track
        )


def running_python(
    *,
    tracks: pl.DataFrame,
    core_time: CoreTime | Unavailable,
    recorded_frames: FunctionFrames | Unavailable,
    non_step_frames: FunctionFrames | Unavailable,
) -> RunningPython:
    """Find when threads run Python.

    Definition: docs/definitions/host-time.md#waiting-and-working.
    """
    clocks = {} if isinstance(core_time, Unavailable) else core_time.threads
    thread_ids = thread_identities(tracks)
    return RunningPython(
        {
            track: frames.spans(frames.track == track) & clocks[thread_ids[track]].awake
            for frames in (recorded_frames, non_step_frames)
            if not isinstance(frames, Unavailable)
            for track in np.unique(frames.track).tolist()
            if thread_ids[track] in clocks
        }
    )
