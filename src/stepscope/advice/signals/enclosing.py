"""Which function holds most of the host's work in the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.finding import Part
from stepscope.advice.signals.running.own_lines import LineRuns
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.owned_time import account
from stepscope.derive.host.called_below import called_by
from stepscope.derive.host.function_frames import function_frames
from stepscope.derive.host.function_lines import function_lines
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_windows.windows import windows
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_lines import FunctionLines
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: The function must hold this share of the work, …
_MOST: Final = 0.8
#: … and the work this share of the function: the training loop is no answer.
_OWN: Final = 0.6


@signal(account, function_frames, function_lines, windows)
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
        judged = present(profile.derived(host, windows)).judged
        seen = profile.derived(host, function_lines)
        lines = None if isinstance(seen, Unavailable) else seen.known()
        for one in accounted.devices:
            work = (one.idle["host_compute"] & judged) - one.between
            launching = [track for track in one.walked_by if track >= 0]
            part = around_most(frames, work, launching, total_ps=judged.length_ps)
            if part is None and lines is not None:
                part = _own_lines(
                    *(frames, lines, work, launching),
                    inside=judged - one.between,
                    total_ps=judged.length_ps,
                )
            if part is not None:
                found[f"{host}:{one.device}"] = part
    return found


def around_most(
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
        found = (calls.length_ps, held, int(kinds[at]))
        if best is None or _is_deeper(frames, found, best):
            best = found
    if best is None:
        return None
    name = frames.names[best[2]]
    return Part.of_function(name, 100 * best[1] / total_ps)


def _own_lines(
    frames: FunctionFrames,
    lines: FunctionLines,
    work: Spans,
    tracks: list[int],
    *,
    inside: Spans,
    total_ps: int,
) -> Part | None:
    """Return the lines of one function of the program that do most of the work.

    What works in the training loop itself is in no function around which there is
    nothing else.
    """
    if frames.hz is None:
        return None
    runs = LineRuns(
        lines=lines,
        frames=frames,
        hz=frames.hz,
        tracks=tuple(tracks),
        inside=inside,
        working=work,
        unshared=work,
    )
    found = {
        (name, one.first): one
        for kind, name in lines.names.items()
        if name.library is False
        for one in runs.own([kind])
    }
    if not found:
        return None
    (name, _), most = max(found.items(), key=lambda it: it[1].working.length_ps)
    if 2 * most.working.length_ps < work.length_ps:
        return None
    share = 100 * most.working.length_ps / total_ps
    return most.of(Part.of_function(name, 0.0), share)


def _is_deeper(
    frames: FunctionFrames, found: tuple[int, int, int], best: tuple[int, int, int]
) -> bool:
    """Return whether a function is a closer answer than the best one so far.

    The shorter is the deeper one. Looks find both wherever one of them is all that the
    other does, and where a stack breaks off they miss the callers: of two functions,
    one of which calls the other, the one that holds more of the work is the answer.

    Args:
        frames: The functions that ran.
        found: Its length, how much of the work it holds, and its type.
        best: Length, work and type of the best one so far.
    """
    if _calls(frames, best[2], found[2]):
        return found[0] <= best[0] or found[1] >= best[1]
    if _calls(frames, found[2], best[2]):
        return found[0] < best[0] and found[1] > best[1]
    return found[0] < best[0]


def _calls(frames: FunctionFrames, caller: int, called: int) -> bool:
    """Return whether one type of functions calls another, directly or not."""
    below = called_by(frames.type == caller, frames.parent)
    return bool((below & (frames.type == called)).any())
