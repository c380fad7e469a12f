"""`annotation_calls`: calls of ranges that a program named, and what they launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints, wanted_rows
from stepscope.derive.host.values import int_values
from stepscope.derive.intervals.nesting import innermost_rows, nest_subset
from stepscope.derive.model.call_trees import inherit_labels, label_inside, merge_nodes
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.steps.markers import STEP_RANGE
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import absent_mask, is_true
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import TRACK_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.model.call_trees import CallTree
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.steps.chosen import Steps

#: A range is charged with another thread's launches only if its own thread runs neither
#: an op nor a driver call at this share of these launches.
_MIN_SILENT_SHARE: Final = 0.99


def charge_foreign_launches(
    of_event: Int32s,
    of_launch: Int32s,
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    kinds: EventKinds,
    nesting: Nesting,
    launches: pl.DataFrame,
) -> Int32s:
    """Charge launches outside all ranges to the range that waits for their thread.

    The waiting range is the innermost one of another thread when the launch begins. No
    third thread may be in a range at that time. At nearly all launches during a call of
    the range, the range's thread must run neither an op nor a driver call. A thread
    that never runs ops or driver calls is ignored; it would always seem to wait.

    Args:
        of_event: By row of events, the innermost call of a range around it, else -1.
        of_launch: By row of launches, the innermost call of a range around it, else -1.
    """
    launching = handles(launches, "track")
    lone = np.flatnonzero(of_launch < 0)
    if not len(lone):
        return of_launch
    types, is_op = handles(events, "type"), kinds.is_op()
    launches_some = np.zeros(len(tracks), np.bool_)
    launches_some[launching] = True
    ranges = tracks.select("event_begin", "event_end").rows()
    holders = [
        track
        for track, (begin, end) in enumerate(ranges)
        if (of_event[begin:end] >= 0).any()
        and (launches_some[track] or is_op[types[begin:end]].any())
    ]
    charged = of_launch.copy()
    through = kinds.has(EventFlag.ANNOTATION | EventFlag.PYTHON_FRAME)
    for several in np.split(lone, np.flatnonzero(np.diff(launching[lone])) + 1):
        times_ps = ints(launches, "start_ps")[several]
        # By time: the range call of another thread, -1 for none, whether neither op nor
        # driver call runs in it, and the number of threads in a range call.
        call = np.full(len(several), -1, np.int32)
        silent, count = np.zeros(len(call), np.bool_), np.zeros(len(call), np.int32)
        for holder in holders:
            if holder == launching[several[0]]:
                continue
            around = innermost_rows(
                times_ps,
                ints(events, "start_ps"),
                ints(events, "dur_ps"),
                nesting.parent,
                rows=ranges[holder],
            )
            its_call = values_by_row(of_event, around, none=-1)
            its_silence = values_by_row(
                through, values_by_row(types, around, none=-1), none=False
            )
            inside = its_call >= 0
            count += inside
            call = np.where(inside, its_call, call)
            silent = np.where(inside, its_silence, silent)
        only_call = np.where(count == 1, call, np.int32(-1))
        charged[several] = _keep_silent_calls(only_call, silent)
    return charged


def _keep_silent_calls(call: Int32s, silent: Bools) -> Int32s:
    """Keep range calls that run no op at nearly all launches of another thread."""
    held = np.flatnonzero(call >= 0)
    count = np.bincount(call[held])
    quiet = np.bincount(call[held[silent[held]]], minlength=len(count))
    kept = values_by_row(quiet >= _MIN_SILENT_SHARE * count, call, none=False)
    return np.where(kept, call, np.int32(-1))


_THREAD: Final = TRACK_KINDS.categories.to_list().index("thread")
#: Pattern of threads that a runtime started for itself, without ranges of the program.
_POOL: Final = (
    r"^(?:tf_|tfrt|tsl|pjrt|py_xla|xla|XLA|Eigen|EventFD|switchto|grpc|Grpc|collective_"
    r"|Host Threads)"
)
_NONE: Final = Unavailable(
    code="NOT_RECORDED",
    reason="no range that the program named was recorded.",
    remedy=Remedy.NAME_RANGES,
)
_LAUNCHED_BY_OTHER_THREADS: Final = Unavailable(
    code="NOT_RECORDED",
    reason="every launch call of device work is outside of the named ranges: other "
    "threads launched the work.",
    remedy="Look at the device time of ops and modules (`--view scope`).",
)
_SILENT: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="no activity of the listed devices was recorded, so the work that "
    "ranges launched is not known.",
    remedy=Remedy.ALLOW_DEVICE_TRACER,
)
_NO_LAUNCHES: Final = Unavailable(
    code="NOT_RECORDED",
    reason="no launch call of device work was recorded, so the work cannot be assigned "
    "to ranges.",
    remedy=Remedy.RECORD_LAUNCHES,
)


class AnnotationCalls(Frozen, frozen=True):
    """The calls of named ranges on the threads of one host.

    Attributes:
        event: int32 by call; the call's row of events, ascending.
        parent: int32 by call; the call around it on the same thread, -1 for none.
        self_ps: int64 by call; time outside of nested calls. Over the calls of a thread
            these times add up to the time in which any of the calls ran.
        depth: int32 by call; the number of calls around it.
        step: int32 by call; the row of steps in which the call began, -1 for none.
        places: The tree of nested names; keys are rows of `names`.
        names: Names of the ranges, without step numbers.
        library: By name: whether a framework puts such ranges around its own work.
        of_event: int32 by row of events; the call of the event itself or the innermost
            call around it, -1 for none.
        of_launch: int32 by row of launches; call around it. May be Unavailable.
        of_activity: int32 by row of device_activity; call around its launch call.
    """

    event: Int32s
    parent: Int32s
    start_ps: Int64s
    dur_ps: Int64s
    self_ps: Int64s
    depth: Int32s
    step: Int32s
    places: CallTree
    names: tuple[str, ...]
    library: Bools
    of_event: Int32s
    of_launch: Int32s | Unavailable
    of_activity: Int32s | Unavailable

    def calls_named(self, name: str) -> Bools:
        """Return for each call whether it has this name."""
        key = self.names.index(name) if name in self.names else -1
        of_name: Bools = self.places.key[self.places.node] == key
        return of_name


def annotation_calls(
    *,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    event_nesting: Nesting,
    host_values: Mapping[str, StatRows] | Unavailable,
    launches: pl.DataFrame | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
    steps: Steps | Unavailable,
) -> AnnotationCalls | Unavailable:
    """Find the calls, nest them, and charge device work to the call that launched it.

    Device work is charged to the range around its launch call on the launching thread.
    Without such a range, the one range that waits for that thread is charged, if any.

    Definition: docs/tools/model_views.md#time-per-annotation.
    """
    rows = _range_rows(tracks, events, event_types, event_kinds, event_nesting)
    if not isinstance(host_values, Unavailable):
        # Asynchronous ranges are on a thread's track but did not run on it. Calls of
        # graph functions are left out because the framework names them.
        owner, flag = int_values(host_values[StatKey.ASYNCHRONOUS])
        called = host_values[StatKey.FUNCTION_CALL].owner
        rows = rows[~np.isin(rows, np.concatenate([owner[flag != 0], called]))]
    if not len(rows):
        return _NONE
    start_ps, dur_ps = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    nested = nest_subset(start_ps, dur_ps, track=handles(events, "track")[rows])
    kept = event_kinds.has(EventFlag.LIBRARY_RANGE)
    types = handles(events, "type")[rows]
    names, key_of_type = _names_of_types(event_types, types)
    library = np.ones(len(names), np.bool_)
    library[key_of_type[types[~kept[types]]]] = False
    of_event = label_inside(event_nesting.parent, rows, len(events))
    launched: Int32s | Unavailable
    if isinstance(launches, Unavailable):
        launched = launches
    else:
        launched = charge_foreign_launches(
            of_event,
            values_by_row(of_event, handles(launches, "event")),
            tracks=tracks,
            events=events,
            kinds=event_kinds,
            nesting=event_nesting,
            launches=launches,
        )
    of_launch, of_activity = _calls_of_launches(launched, device_activity, correlation)
    return AnnotationCalls(
        event=rows,
        parent=nested.parent,
        start_ps=start_ps,
        dur_ps=dur_ps,
        self_ps=nested.self_ps,
        depth=nested.depth,
        step=_steps_of_calls(start_ps, steps),
        places=merge_nodes(nested.parent, key_of_type[types]),
        names=names,
        library=library,
        of_event=of_event,
        of_launch=of_launch,
        of_activity=of_activity,
    )


def add_inner_calls(own: Int64s, calls: AnnotationCalls) -> Int64s:
    """Add to the value of each call the values of all nested calls."""
    total = own.copy()
    for depth in range(int(calls.depth.max(initial=0)), 0, -1):
        inner = np.flatnonzero(calls.depth == depth)
        np.add.at(total, calls.parent[inner], total[inner])
    return total


def _range_rows(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    kinds: EventKinds,
    nesting: Nesting,
) -> Int32s:
    """Return rows of events that are ranges of the program, on threads of the host.

    If the producer does not mark ranges, an event is a range if its name is of an
    unknown kind, its thread is not a runtime's, and it is nested only in other ranges
    and Python functions. Events inside a framework's call belong to the framework.
    """
    types = handles(events, "type")
    rows = wanted_rows(types, kinds.has(EventFlag.ANNOTATION)).astype(np.int32)
    if not len(rows):
        return rows
    thread: Bools = codes(tracks, "kind") == _THREAD
    thread &= absent_mask(tracks["device"])
    ours = thread & ~tracks["name"].str.contains(_POOL).to_numpy()
    track = values_by_row(handles(events, "track"), rows)
    # `may_be` includes the types that the producer marks as ranges.
    marked = values_by_row(
        is_true(event_types["annotation"]), values_by_row(types, rows)
    )
    is_range = marked & values_by_row(thread, track)
    guessed = ~marked & values_by_row(ours, track)
    if guessed.any():
        # Only frames and ranges contain the program's own code.
        through = kinds.has(EventFlag.ANNOTATION | EventFlag.PYTHON_FRAME)
        label = np.where(through, np.int32(-1), np.int32(0))
        inside = np.empty(len(types), np.int32)
        for lane in np.unique(track[guessed]).tolist():
            begin, end = tracks["event_begin"][lane], tracks["event_end"][lane]
            inside[begin:end] = values_by_row(label, types[begin:end])
            inherit_labels(nesting.parent, inside, begin, end)
        is_range[guessed] = inside[rows[guessed]] < 0
    return rows[is_range]


def _names_of_types(
    event_types: pl.DataFrame, types: Int32s
) -> tuple[tuple[str, ...], Int32s]:
    """Return names of event types, and by type the row of its name, -1 for none."""
    used = np.unique(types)
    texts = (
        event_types["name"]
        .gather(used)
        .to_frame("name")
        .select(pl.coalesce(pl.col("name").str.extract(STEP_RANGE, 1), "name"))
        .to_series()
    )
    distinct = texts.unique(maintain_order=True)
    row = dict(zip(distinct.to_list(), range(len(distinct)), strict=True))
    of_type = np.full(len(event_types), -1, np.int32)
    of_type[used] = [row[text] for text in texts.to_list()]
    return tuple(distinct.to_list()), of_type


def _calls_of_launches(
    of_launch: Int32s | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> tuple[Int32s | Unavailable, Int32s | Unavailable]:
    if isinstance(of_launch, Unavailable) or isinstance(correlation, Unavailable):
        inputs = (device_activity, of_launch, correlation)
        why = next(reason for reason in inputs if isinstance(reason, Unavailable))
        return why, why
    of_activity = values_by_row(of_launch, correlation.launch_of_activity, none=-1)
    if (of_activity >= 0).any():
        return of_launch, of_activity
    # An empty result here would wrongly mean that the ranges launched no work.
    why = _LAUNCHED_BY_OTHER_THREADS
    if not len(of_activity):
        why = _SILENT
    elif (correlation.launch_of_activity < 0).all():
        why = _NO_LAUNCHES
    return why, why


def _steps_of_calls(start_ps: Int64s, steps: Steps | Unavailable) -> Int32s:
    """Return for each call the last step that began before it, -1 after the last step.

    If only device times of the steps are known, no call of the host is in a step.
    """
    nothing = np.full(len(start_ps), -1, np.int32)
    if isinstance(steps, Unavailable) or steps.on_device:
        return nothing
    begins = ints(steps.rows, "start_ps")
    step = (np.searchsorted(begins, start_ps, side="right") - 1).astype(np.int32)
    last_end = steps.rows["end_ps"][-1]
    if last_end is not None:
        step = np.where(start_ps >= last_end, np.int32(-1), step)
    return step
