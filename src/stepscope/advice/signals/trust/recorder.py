"""What the recording itself did: its start and stop, and its buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints, picked
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.names.event_kinds import HostClass, event_kinds
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: Names of the recording's own work on buffers; all else is its start and stop.
_BUFFERS: Final = r"(?i)buffer|^Instrumentation$"


class RecorderTime(Frozen, frozen=True):
    """The recording's own work on the threads of one host.

    Attributes:
        start_stop_ps: Time of starting and stopping, in the whole recording.
        buffers_ps: Time of handing on and writing buffers, in the whole recording.
        buffers: Number of times that was done.
        judged_ps: The part of both that lies in judged steps.
    """

    start_stop_ps: int
    buffers_ps: int
    buffers: int
    judged_ps: int


@signal(event_kinds, windows)
def recorder_signals(profile: ProfileData, _: Thresholds) -> dict[str, RecorderTime]:
    """Sum the recording's own events of each host; hosts without events are left out.

    Events that run beside each other count once.
    """
    found = {}
    for host in profile.hosts:
        events = profile.table(host, "events")
        types = profile.table(host, "event_types")
        kinds = profile.derived(host, event_kinds)
        shown = profile.derived(host, windows)
        if (
            isinstance(events, Unavailable)
            or isinstance(types, Unavailable)
            or isinstance(kinds, Unavailable)
            or isinstance(shown, Unavailable)
        ):
            continue
        own = kinds.host_class == HostClass.PROFILER
        on_buffers = types["name"].str.contains(_BUFFERS).to_numpy()
        rows = picked(handles(events, "type"), own)
        start, dur = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
        is_buffer = on_buffers[handles(events, "type")[rows]]
        buffers = Spans.from_events(start[is_buffer], dur[is_buffer])
        others = Spans.from_events(start[~is_buffer], dur[~is_buffer]) - buffers
        measured = shown.measured
        inside = (buffers | others).within(
            ints(measured, "start_ps"), ints(measured, "end_ps")
        )
        found[host] = RecorderTime(
            start_stop_ps=others.length_ps,
            buffers_ps=buffers.length_ps,
            buffers=int(is_buffer.sum()),
            judged_ps=int(inside.sum()),
        )
    return found
