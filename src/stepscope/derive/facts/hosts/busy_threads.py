"""Threads of the program that compute all the time and drive no step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepscope.derive.facts.evidence import Part
from stepscope.derive.host.core_time import thread_identities
from stepscope.derive.host.function_frames import BEGINNINGS
from stepscope.derive.run_derivation import of_each_host

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_names import FunctionName
    from stepscope.derive.step_windows.windows import Windows


@of_each_host
def busiest_threads(
    *,
    tracks: pl.DataFrame,
    windows: Windows,
    core_time: CoreTime,
    non_step_frames: FunctionFrames,
) -> Part | None:
    """Return the function of the thread without steps that needs a core longest.

    Its share is that of the judged steps in which the thread is on a core or ready for
    one. Threads that run nothing of the program are left out.
    """
    frames, identities = non_step_frames, thread_identities(tracks)
    busiest = None
    for track in np.unique(frames.track).tolist():
        clock = core_time.threads.get(identities[track])
        function = _longest_function(frames, track)
        if clock is None or function is None:
            continue
        awake = clock.awake & windows.judged
        share = 100 * awake.length_ps / max(windows.judged.length_ps, 1)
        if busiest is None or share > busiest.share_percent:
            part = Part.from_function(function, share)
            busiest = msgspec.structs.replace(part, thread=clock.name)
    return busiest


def _longest_function(frames: FunctionFrames, track: int) -> FunctionName | None:
    """Return the program's outermost function that runs longest on a thread."""
    program = [
        kind
        for kind, name in frames.names.items()
        if name.library is False and not name.function.endswith(BEGINNINGS)
    ]
    rows = (frames.track == track) & np.isin(frames.type, program)
    rows &= ~frames.rows_called_from(rows)
    if not rows.any():
        return None
    length_ps = np.where(rows, frames.end_ps - frames.start_ps, 0)
    total_ps = np.bincount(frames.type, length_ps)
    return frames.names[int(total_ps.argmax())]
