"""The function that holds most of the host's own work inside the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.finding import Part
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.owned_time import account
from stepscope.derive.columns.arrays import ints
from stepscope.derive.host.function_frames import function_frames
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

__all__ = ["enclosing_functions"]

#: The function must hold this share of the work, …
_MOST: Final = 0.8
#: … and the work this share of the function: the training loop is no answer.
_OWN: Final = 0.6


@signal(account, function_frames, windows)
def enclosing_functions(profile: ProfileData, _: Thresholds) -> dict[str, Part]:
    """Return the deepest function around most of the work, by `host:device`.

    Devices of which no function holds most of it are left out. Without a device the
    work is the ops of the model too, and the parts by name say which is which.
    """
    found: dict[str, Part] = {}
    for host in profile.hosts:
        accounted = profile.derived(host, account)
        frames = profile.derived(host, function_frames)
        if isinstance(accounted, Unavailable) or isinstance(frames, Unavailable):
            continue
        measured = present(profile.derived(host, windows)).measured
        starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
        judged = Spans.from_events(starts, ends - starts)
        for one in accounted.devices:
            work = (one.idle["host_compute"] & judged) - one.between
            launching = [track for track in one.walked_by if track >= 0]
            part = _around(frames, work, launching, total_ps=judged.length_ps)
            if part is not None:
                found[f"{host}:{one.device}"] = part
    return found


def _around(
    frames: FunctionFrames, work: Spans, tracks: list[int], *, total_ps: int
) -> Part | None:
    """Return the deepest function of some threads that holds most of the work."""
    chosen = np.isin(frames.track, tracks)
    if not len(work) or not chosen.any():
        return None
    start, end, kind = (
        column[chosen] for column in (frames.start_ps, frames.end_ps, frames.type)
    )
    covered = work.within(start, end)
    kinds, place = np.unique(kind, return_inverse=True)
    at_most = np.zeros(len(kinds), np.int64)
    np.add.at(at_most, place, covered)
    best: tuple[int, int, int] | None = None
    for at in np.flatnonzero(at_most >= _MOST * work.length_ps).tolist():
        mine = place == at
        calls = Spans.from_events(start[mine], end[mine] - start[mine])
        held = (work & calls).length_ps
        if held < _MOST * work.length_ps or held < _OWN * calls.length_ps:
            continue
        if best is None or calls.length_ps < best[0]:
            best = (calls.length_ps, held, int(kinds[at]))
    if best is None:
        return None
    name = frames.names[best[2]]
    return Part(
        name=name.function,
        function=name.function,
        file=name.file,
        line=name.line,
        share_percent=100 * best[1] / total_ps,
    )
