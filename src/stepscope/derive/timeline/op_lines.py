"""The op lines of all streams and of all threads that run compiled programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.columns.dense_codes import combined
from stepscope.derive.device.attribution import OpEvidence
from stepscope.derive.timeline.op_spans import (
    OP_VIEWS,
    Pieces,
    dense_texts,
    op_lines,
    paths_of_ops,
)
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.tracks import TRACK_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.steps.chosen import Steps
    from stepscope.derive.timeline.derived_lines import DerivedLine, Names

_CORE: Final = TRACK_KINDS.categories.to_list().index("core")
_COMPUTE: Final = [
    ACTIVITY_KINDS.categories.to_list().index(kind)
    for kind in ("kernel", "collective", "transfer_wait")
]
#: The views of a core: all but `xla_ops`, which its own line shows already.
_OF_CORES: Final = tuple(view for view in OP_VIEWS if view != "xla_ops")


class DeviceLines(Frozen, frozen=True, eq=True):
    """Op lines of devices, and the order of the streams.

    Attributes:
        lines: Op lines that have spans.
        places: Row of `tracks` → place among the streams of its device: first those
            that compute, then by number of activities.
    """

    lines: list[DerivedLine]
    places: dict[int, int]


def op_lines_of_devices(
    strings: Sequence[str],
    tracks: pl.DataFrame,
    device_activity: pl.DataFrame,
    activity_ops: ActivityOps,
    *,
    activity_steps: NDArray[np.int32] | None,
    names: Names,
) -> DeviceLines:
    """Return the lines of every stream; a core shows its instructions itself.

    The lines are made of kernels and collectives; the names of copies and memsets
    already say what they are.

    Definition: docs/tools/trace_viewer.md#op-lines.
    """
    chosen = computing_rows(device_activity)
    places = _places(device_activity, chosen)
    track, device = (handles(device_activity, name) for name in ("track", "device"))
    instruction, texts = dense_texts(
        np.where(chosen, handles(device_activity, "hlo_op"), np.int32(-1)), strings
    )
    paths = paths_of_ops(activity_ops.ops, texts, names)
    start_ps, dur_ps = (ints(device_activity, it) for it in ("start_ps", "dur_ps"))
    event = handles(device_activity, "event")
    step = activity_steps
    if step is None:
        step = np.full(len(event), -1, np.int32)
    kind = codes(tracks, "kind")
    stored = tracks.filter(pl.col("event_end") > pl.col("event_begin"))
    has_modules = set(
        stored.filter(pl.col("derived") == "xla_modules")["device"].to_list()
    )
    lines: list[DerivedLine] = []
    for row, part in _stretches(track):
        some = chosen[part]
        if not some.any():
            continue
        ordinal = int(device[part.start])
        # A stream that only computes, as most do, needs no copies.
        rows = part if some.all() else part.start + np.flatnonzero(some)
        starts = start_ps[rows]
        pieces = Pieces(
            starts,
            starts + dur_ps[rows],
            step[rows],
            event[rows],
            activity_ops.op[rows],
            instruction[rows],
        )
        views: tuple[str, ...] = OP_VIEWS
        if kind[row] == _CORE:
            # A core's modules are recorded, as its instructions are; both are shown.
            views = tuple(
                view
                for view in _OF_CORES
                if view != "xla_modules" or ordinal not in has_modules
            )
        lines += op_lines(pieces, paths, device=ordinal, track=row, views=views)
    return DeviceLines(lines, places)


def op_lines_of_threads(
    events: pl.DataFrame,
    host_op_events: HostOpEvents,
    steps: Steps | None,
    names: Names,
) -> list[DerivedLine]:
    """Return the lines of threads that ran instructions of compiled programs.

    Ops outside such programs are events of their threads already.
    """
    ops = host_op_events.ops
    compiled = ops["hlo_op"].is_not_null().to_numpy()
    chosen = np.flatnonzero(compiled[host_op_events.op])
    if not len(chosen):
        return []
    described = ops.with_columns(evidence=pl.lit(int(OpEvidence.HLO), pl.UInt8))
    instructions = ops["hlo_op"].fill_null("").to_list()
    paths = paths_of_ops(described, instructions, names)
    event = host_op_events.event[chosen]
    op = host_op_events.op[chosen].astype(np.int32)
    start_ps = host_op_events.start_ps[chosen]
    end_ps = start_ps + host_op_events.dur_ps[chosen]
    step = _steps_at(steps, start_ps)
    track = handles(events, "track")[event]
    lines: list[DerivedLine] = []
    for row, part in _stretches(track):
        pieces = Pieces(
            start_ps[part], end_ps[part], step[part], event[part], op[part], op[part]
        )
        lines += op_lines(pieces, paths, device=None, track=row)
    return lines


def _steps_at(steps: Steps | None, times: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the step in whose host interval each time lies, -1 for none."""
    if steps is None or steps.on_device:
        return np.full(len(times), -1, np.int32)
    starts = ints(steps.rows, "start_ps")
    found = np.searchsorted(starts, times, side="right") - 1
    return found.astype(np.int32)


def _stretches(track: NDArray[np.int32]) -> list[tuple[int, slice]]:
    """Return each track and its rows; the rows are by track."""
    edges = np.flatnonzero(np.diff(track)) + 1
    begins = [0, *edges.tolist()] if len(track) else []
    ends = [*edges.tolist(), len(track)]
    return [
        (int(track[begin]), slice(begin, end))
        for begin, end in zip(begins, ends, strict=False)
    ]


def computing_rows(device_activity: pl.DataFrame) -> NDArray[np.bool_]:
    """Return which activities lines of ops are made of: all but copies and memsets."""
    of_code = np.zeros(256, np.bool_)
    of_code[_COMPUTE] = True
    found: NDArray[np.bool_] = by_row(of_code, codes(device_activity, "kind"))
    return found


def _places(
    device_activity: pl.DataFrame, computes: NDArray[np.bool_]
) -> dict[int, int]:
    device, track = (handles(device_activity, name) for name in ("device", "track"))
    streams = combined([device, track])
    counted = (
        pl.DataFrame(
            {
                "device": device[streams.first],
                "track": track[streams.first],
                "computes": np.bincount(streams.code[computes], minlength=streams.count)
                > 0,
                "count": np.bincount(streams.code, minlength=streams.count),
            }
        )
        .sort(
            *("device", "computes", "count", "track"),
            descending=[False, True, True, False],
        )
        .with_columns(place=pl.int_range(pl.len()).over("device"))
    )
    return dict(counted.select("track", "place").iter_rows())
