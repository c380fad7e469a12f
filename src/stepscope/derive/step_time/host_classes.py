"""`host_classes`: what the host threads that drive the steps do, and when."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope._core.rows import paint_codes
from stepscope.derive.columns.arrays import accepted_answer, codes, handles
from stepscope.derive.intervals.nesting import flatten_rows, flatten_tracks
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.reasons import WHY
from stepscope.derive.step_time.host_codes import HostEvents, Launching
from stepscope.derive.step_time.host_time import CATEGORY_OF_CODE, STICKY, HostCode
from stepscope.derive.step_time.owners import CATEGORIES, OWNER_OF_KIND, OWNERS
from stepscope.derive.step_time.pool_tasks import (
    computing_spans,
    pool_tasks,
    until_first_task,
)
from stepscope.derive.step_time.threads import EVIDENCE, step_threads
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from stepscope.array_types import Int32s, UInt8s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation, LaunchLatency
    from stepscope.derive.device.precision import Precision
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.step_time.threads import StepThreads
    from stepscope.derive.step_time.unseen_device import UnseenDevice
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.derive.steps.chosen import Steps
    from stepscope.trace.model import TraceData

#: Evidence that an iterator on a thread is called by a step itself. On a thread with
#: only the evidence `ops`, an iterator is work of the input pipeline.
_CALLING: Final = tuple(name for name in EVIDENCE if name != "ops")
#: A thread that has any of these codes runs ops.
_WORKING: Final = frozenset(
    {HostCode.HOST_COMPUTE, HostCode.LAUNCHING, HostCode.LAUNCH_OR_COMPUTE}
)

#: Codes that are merged because threads alternate between them very often.
_MERGED_CODES: Final[dict[int, int]] = {
    HostCode.LAUNCH: HostCode.LAUNCHING,
    HostCode.DISPATCH: HostCode.LAUNCHING,
}


#: Codes of activities during which a thread can be sampled.
_EXACT_CODES: Final = frozenset(
    {
        *(HostCode.HOST_COMPUTE, HostCode.COMPILE, HostCode.TRACING),
        *(HostCode.INPUT_WAIT, HostCode.OWN_INPUT, HostCode.OUTPUT),
    }
)


class HostClasses(Frozen, frozen=True):
    """The spans of each class of host work on the step threads of a host.

    The spans of one thread are disjoint; those of several threads may overlap.

    Definition: docs/definitions/host-time.md#classes.

    Attributes:
        input_wait: Waiting for input, on any thread that waits on behalf of a step.
        compile: Tracing and compiling; Unavailable if part of it ran on a thread that
            may or may not drive steps.
        host_compute: Running ops on the host; Unavailable if the recording does not
            distinguish it from launching.
        sync: Blocked until a device or another thread is done; Unavailable if part of
            it ran on a thread that may or may not drive steps.
        by_thread: Disjoint spans by row of tracks and `HostCode`, for every host
            thread. The codes `LAUNCH` and `DISPATCH`, which alternate very often, are
            merged as `LAUNCHING`; `code_spans` separates them.
        launch_unknown: Why it is unknown which host calls launched work, for example
            because the host has no device; None if this is known.
        code: uint8 by row of events; the `HostCode` of each event.
        computing: When any thread runs an op, on a host without devices whose threads
            take part in collectives; empty on any other host.
    """

    input_wait: Spans
    compile: Spans | Unavailable
    host_compute: Spans | Unavailable
    sync: Spans | Unavailable
    by_thread: Mapping[int, Mapping[int, Spans]]
    no_device: bool
    launch_unknown: Unavailable | None
    code: UInt8s
    threads: StepThreads
    rows: TrackRows
    computing: Spans = Spans.empty()

    @property
    def unknown(self) -> Unavailable | None:
        """Why it is unknown which host calls launched work on a device of the host."""
        return None if self.no_device else self.launch_unknown

    @property
    def launch(self) -> Spans | Unavailable:
        """When step threads launch device work; Unavailable if unknown."""
        if self.launch_unknown is not None:
            return self.launch_unknown
        return _driven_spans(self.by_thread, self.threads, [HostCode.LAUNCHING])

    def may_have(self, track: int, code: HostCode) -> bool:
        """Return whether a thread has any time with a code or with its merged code."""
        return _MERGED_CODES.get(code, code) in self.by_thread.get(track, {})

    def code_spans(self, track: int, within: Spans) -> Callable[[HostCode], Spans]:
        """Return a function from a code to the spans of a thread in `within`."""
        sets = self.by_thread.get(track, {})

        @cache
        def launching() -> Spans:
            return within & sets.get(HostCode.LAUNCHING, Spans.empty())

        @cache
        def launching_sets() -> Mapping[int, Spans]:
            if not launching():
                return {}
            rows, codes = self.rows, range(1, max(HostCode) + 1)
            inner = rows.meeting_rows(track, launching(), code=self.code, wanted=codes)
            return flatten_rows(
                rows.start_ps[inner],
                rows.dur_ps[inner],
                self.code[inner],
                sticky=STICKY,
            )

        @cache
        def when(code: HostCode) -> Spans:
            if code in _MERGED_CODES:
                return launching() & launching_sets().get(code, Spans.empty())
            return within & sets.get(code, Spans.empty())

        return when


def host_classes(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    event_nesting: Nesting,
    stats: pl.DataFrame,
    host_values: dict[str, StatRows],
    correlation: Correlation | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    launch_latency: LaunchLatency | Unavailable,
    unseen_device: UnseenDevice | Unavailable | None,
    steps: Steps | Unavailable,
    activity_steps: Int32s | Unavailable,
    windows: Windows,
) -> HostClasses | Unavailable:
    """Return the spans of each class on the step threads, by innermost event."""
    if not event_types["known"].any():
        return WHY["nameless_host"]
    recorded = tracks.filter(
        pl.col("kind").is_in(["thread", "samples"]) & pl.col("device").is_null(),
        pl.col("event_end") > pl.col("event_begin"),
    )
    if recorded.is_empty():
        return WHY["no_host_threads"]
    host = HostEvents(trace, tracks, events, event_kinds, stats, host_values)
    unseen = None if isinstance(unseen_device, Unavailable) else unseen_device
    launching = Launching.collect_launches(
        correlation, device_activity, launch_latency, unseen
    )
    code = host.mark_codes(event_nesting, launching)
    groups = host.step_groups()
    if groups is not None:
        # If events have step groups, an input wait without a group belongs to no step.
        waits = np.flatnonzero(code == HostCode.INPUT_WAIT)
        code[np.setdiff1d(waits, groups[0])] = HostCode.OWN_INPUT
    sets = flatten_tracks(tracks, events, code, sticky=STICKY, alike=_MERGED_CODES)
    handed = computing = Spans.empty()
    rows = TrackRows.from_tables(tracks, events)
    if launching.no_device:
        tasks = pool_tasks(
            *(events, event_kinds, event_nesting),
            stats=stats,
            strings=trace.strings,
            code=code,
        )
        # Executing an op includes the wait for a pool thread, just as launching a
        # kernel includes the launch latency.
        of_steps = np.isin(tasks.code, _HANDING_OVER)
        handed = Spans.from_bounds(tasks.handed_ps[of_steps], tasks.end_ps[of_steps])
        blocked = np.flatnonzero(code == HostCode.BLOCKED)
        handed |= until_first_task(events, event_kinds, blocked)
        computing = computing_spans(
            events, event_kinds, tasks, code=code, sets=sets, rows=rows
        )
    busy = [track for track, by_code in sets.items() if _WORKING & by_code.keys()]
    if not busy and isinstance(steps, Unavailable):
        # If the program has no ops, its Python functions count as host compute.
        framed = host.kinds.has(EventFlag.PYTHON_FRAME)[handles(host.events, "type")]
        busy = np.unique(handles(host.events, "track")[framed]).tolist()
    threads = step_threads(
        windows.rows,
        tracks=tracks.height,
        event_tracks=handles(events, "track"),
        steps=steps,
        correlation=correlation,
        activity_steps=activity_steps,
        groups=groups,
        with_ops=busy if launching.no_device or unseen is not None else (),
    )
    classes = _collect_classes(code, sets, threads, launching, rows)
    if isinstance(classes.host_compute, Unavailable):
        return classes
    work = classes.host_compute | handed if len(handed) else classes.host_compute
    return msgspec.structs.replace(classes, host_compute=work, computing=computing)


def recorded_activity(
    *, host_classes: HostClasses
) -> Mapping[int | None, tuple[Spans, ...]] | Unavailable:
    """Return what threads of a host without devices do, as recorded by events.

    Returns:
        Row of tracks of a thread → its disjoint activities; None → when ops run on any
        thread. Unavailable with devices.
    """
    if not host_classes.no_device:
        return WHY["has_devices"]
    ops = host_classes.host_compute
    return {
        None: () if isinstance(ops, Unavailable) else (ops,),
        **{
            track: tuple(spans for code, spans in sets.items() if code in _EXACT_CODES)
            for track, sets in host_classes.by_thread.items()
        },
    }


def _collect_classes(
    code: UInt8s,
    sets: Mapping[int, Mapping[int, Spans]],
    threads: StepThreads,
    launching: Launching,
    rows: TrackRows,
) -> HostClasses:
    unknown = launching.why_not

    def driven(codes: Collection[HostCode]) -> Spans:
        return _driven_spans(sets, threads, codes)

    def known(*codes: HostCode) -> Spans | Unavailable:
        """Return when step threads have the codes, or why this may be incomplete.

        Most step threads are identified by their launches. If launches are unknown, any
        other thread with one of the codes may be a step thread that was not identified.
        """
        lost = unknown is not None and not launching.no_device
        other_tracks = sets.keys() - set(threads.driving_tracks())
        if lost and any(set(codes) & sets[track].keys() for track in other_tracks):
            return unknown or WHY["nameless_host"]
        return driven(codes)

    waits = [
        by_code[HostCode.INPUT_WAIT]
        for by_code in sets.values()
        if (HostCode.INPUT_WAIT in by_code)
    ]
    direct = [
        sets[track][HostCode.ITERATOR] & threads.driven_spans(track, evidence=_CALLING)
        for track in threads.driving_tracks()
        if HostCode.ITERATOR in sets.get(track, {})
    ]
    return HostClasses(
        input_wait=Spans.union_of([*waits, *direct, driven([HostCode.OWN_INPUT])]),
        compile=known(HostCode.COMPILE, HostCode.TRACING),
        host_compute=unknown
        if unknown is not None and not launching.no_device
        else driven([HostCode.HOST_COMPUTE]),
        sync=known(HostCode.SYNC, HostCode.READ_BACK),
        by_thread=sets,
        no_device=launching.no_device,
        launch_unknown=unknown,
        code=code,
        threads=threads,
        rows=rows,
    )


def _driven_spans(
    sets: Mapping[int, Mapping[int, Spans]],
    threads: StepThreads,
    codes: Collection[HostCode],
) -> Spans:
    return Spans.union_of(
        sets[track][code] & threads.driven_spans(track)
        for track in threads.driving_tracks()
        for code in codes
        if code in sets.get(track, {})
    )


#: Codes of events that hand work of a step to a thread pool.
_HANDING_OVER: Final = (HostCode.HOST_COMPUTE, HostCode.BLOCKED)
_NUMBER: Final = {name: number for number, name in enumerate(CATEGORIES)}
#: Category of time that no other category covers: waiting, Python, unexplained events.
OTHER: Final = _NUMBER["other"]

_OF_OWNER: Final = {owner.name: owner.category for owner in OWNERS}
_NARROW: Final = "device_compute_16"


def event_categories(
    *,
    events: pl.DataFrame,
    event_nesting: Nesting,
    device_activity: pl.DataFrame | Unavailable,
    precision: Precision | Unavailable,
    host_classes: HostClasses | Unavailable,
) -> UInt8s:
    """Return the index in `CATEGORIES` by row of events, for drawing only.

    A device activity has the category to which its time is charged. A host event has
    the category of its class (docs/definitions/host-time.md#classes), even if its time
    belongs to no step. An event without a class, or nested in input or compilation, has
    the category of the event around it. All remaining events have the category `other`.

    Definition: docs/tools/overview_page.md#where-the-time-goes.

    Args:
        precision: Bits of each activity; if Unavailable, kernels count as 32-bit.
    """
    if isinstance(host_classes, Unavailable):
        categories = np.full(len(events), OTHER, np.uint8)
    else:
        code = host_classes.code.copy()
        sticky = np.zeros(256, np.uint8)
        sticky[list(STICKY)] = 1
        accepted_answer(paint_codes(event_nesting.parent, sticky, code))
        category = np.full(256, OTHER, np.uint8)
        for value, name in CATEGORY_OF_CODE.items():
            category[value] = _NUMBER[name]
        categories = values_by_row(category, code)
    if not isinstance(device_activity, Unavailable):
        event = handles(device_activity, "event")
        shown = event >= 0
        owners = map(OWNER_OF_KIND.__getitem__, ACTIVITY_KINDS.categories)
        of_kind = np.array([_NUMBER[_OF_OWNER[owner]] for owner in owners], np.uint8)
        of_activity = values_by_row(of_kind, codes(device_activity, "kind"))
        if not isinstance(precision, Unavailable):
            of_activity[precision.bits == 16] = _NUMBER[_NARROW]
        categories[event[shown]] = of_activity[shown]
    return categories
