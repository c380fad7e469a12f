"""Arrows of the timeline: from launch calls to the device work they launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.timeline.spans import FARTHEST_PS, host_timeline, typed_frame
from stepscope.derive.columns.arrays import ints
from stepscope.derive.device.correlation import correlation
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.profile_data import ProfileData

#: Maximum number of arrows drawn at once; more would hide the timeline.
MAX_FLOWS: Final = 2_000
#: Columns of `TrackFlows.flows`.
FLOW_COLUMNS: Final[dict[str, pl.DataType]] = {
    "launch_track": pl.Int32(),
    "launch_row": pl.Int32(),
    "launch_item": pl.Int64(),
    "launch_end_ps": pl.Int64(),
    "device_track": pl.Int32(),
    "device_row": pl.Int32(),
    "device_item": pl.Int64(),
    "device_start_ps": pl.Int64(),
    "correlation": pl.Int64(),
}


class TrackFlows(msgspec.Struct, frozen=True, kw_only=True):
    """The arrows in a window.

    Attributes:
        host: Host of the timeline.
        begin_ps: Start of the window.
        end_ps: End of the window.
        count: Number of arrows that begin or end in the window; if a span was
            requested, only arrows of that span.
        left_out: Number of these arrows that are not in `flows`.
        flows: Columns `FLOW_COLUMNS`, by row of the device event. If the window has
            more than `MAX_FLOWS` arrows, `flows` contains those with the longest wait
            between the end of the call and the start on the device.
    """

    host: str
    begin_ps: int
    end_ps: int
    count: int
    left_out: int
    flows: pl.DataFrame


def track_flows(
    profile: ProfileData,
    host: str,
    *,
    begin_ps: int = -FARTHEST_PS,
    end_ps: int = FARTHEST_PS,
    of: tuple[int, int] | None = None,
) -> TrackFlows | Unavailable:
    """Return arrows whose launch call ends, or device activity starts, in a window.

    The window is [begin_ps, end_ps). Unavailable if launches cannot be matched.

    Args:
        of: Track and item of a span; only arrows of this span are returned.

    Raises:
        BadUsage: The span does not exist.
    """
    shown = host_timeline(profile, host)
    if isinstance(shown, Unavailable):
        return shown
    matched = profile.derived(host, correlation)
    if isinstance(matched, Unavailable):
        return matched
    start_ps, dur_ps = ints(shown.events, "start_ps"), ints(shown.events, "dur_ps")
    launch, device = (
        shown.timeline.flows.launch_event,
        shown.timeline.flows.device_event,
    )
    called, began = start_ps[launch] + dur_ps[launch], start_ps[device]
    inside = ((called >= begin_ps) & (called < end_ps)) | (
        (began >= begin_ps) & (began < end_ps)
    )
    if of is not None:
        track, item = of
        shown.place_of_item(track, item)
        # Arrows connect only recorded events.
        inside &= (launch == item) | (device == item)
        inside &= shown.timeline.line(track) is None
    chosen = np.flatnonzero(inside)
    count = len(chosen)
    if count > MAX_FLOWS:
        wait = began[chosen] - called[chosen]
        longest = np.argpartition(wait, count - MAX_FLOWS)[count - MAX_FLOWS :]
        chosen = np.sort(chosen[longest])
    timeline = shown.timeline
    launches = timeline.flows.launch_event[chosen].astype(np.int64)
    activities = timeline.flows.device_event[chosen].astype(np.int64)
    columns: dict[str, NDArray[np.integer]] = {
        "launch_track": shown.track_of_events(launches),
        "launch_row": timeline.row[launches],
        "launch_item": launches,
        "launch_end_ps": called[chosen],
        "device_track": shown.track_of_events(activities),
        "device_row": timeline.row[activities],
        "device_item": activities,
        "device_start_ps": began[chosen],
        "correlation": timeline.flows.correlation[chosen],
    }
    return TrackFlows(
        host=host,
        begin_ps=begin_ps,
        end_ps=end_ps,
        count=count,
        left_out=count - len(chosen),
        flows=typed_frame(columns, FLOW_COLUMNS),
    )
