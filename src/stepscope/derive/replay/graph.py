"""`step_graph`: which work waits for which other work, in some typical windows.

Definition: docs/replay.md#the-graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, ints, wanted_rows
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.reasons import WHY
from stepscope.derive.replay.activities import (
    Activities,
    Pace,
    collect_activities,
    find_threads,
    sample_windows,
)
from stepscope.derive.replay.device_edges import (
    across_edges,
    event_edges,
    launch_edges,
    stream_edges,
)
from stepscope.derive.replay.host_nodes import (
    DeviceWaits,
    Handovers,
    HostNodes,
    Lines,
    Releases,
    Waits,
    copy_waits,
    device_waits,
    find_handovers,
    held_waits,
    host_nodes,
    submitted_ps,
)
from stepscope.derive.replay.nodes import (
    NEVER,
    EdgeKind,
    Edges,
    Graph,
    NodeKind,
    Nodes,
    link_edges,
)
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import is_true
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.device.correlation import Correlation, LaunchFacts
    from stepscope.derive.replay.activities import Sampled, Thread
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

_NONE: Final = -1
#: Maximum time, in ps, from the end of awaited work to the return of the waiting call.
_MAX_RETURN_PS: Final = 200 * PS_PER_US
#: Minimum wait, as a share of a step, whose end shows when a batch or the like arrived.
_MIN_ARRIVAL_WAIT_SHARE: Final = 0.01
#: Pattern of calls that wait for all streams of a device.
_DEVICE_SYNCHRONISATION: Final = r"^(?:cu|cuda|hip)(?:Device|Ctx|Context)Synchronize"


def step_graph(
    *,
    windows: Windows,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    stats: pl.DataFrame,
    strings: Sequence[str],
    host_classes: HostClasses,
    host_states: HostStates | Unavailable,
    device_activity: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
    launch_facts: LaunchFacts | Unavailable,
) -> Graph | Unavailable:
    """Build the graph of at most 20 consecutive typical windows.

    Args:
        stats: The table `stats`, which records waits of streams.
    """
    chosen = sample_windows(windows)
    if isinstance(chosen, Unavailable):
        return chosen
    activities = collect_activities(chosen, device_activity, correlation)
    threads = find_threads(
        chosen,
        tracks,
        events,
        classes=host_classes,
        programs=()
        if isinstance(host_states, Unavailable)
        else host_states.program_threads(),
        activities=activities,
    )
    types = is_true(event_types["name"].str.contains(_DEVICE_SYNCHRONISATION))
    of_event = handles(events, "type")
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    waits = []
    for thread in threads:
        begin, end = (
            tracks["event_begin"][thread.track],
            tracks["event_end"][thread.track],
        )
        rows = wanted_rows(of_event, types, begin, end)
        waits.append(Spans.from_events(start_ps[rows], dur_ps[rows]))
    clock_error_ps = 0
    if not isinstance(launch_facts, Unavailable):
        clock_error_ps = launch_facts.clock_error_ps
    return _build_graph(
        chosen,
        threads,
        activities,
        pace=Pace.measure_pace(launch_facts, activities),
        tables=(stats, strings, tracks),
        whole_device=waits,
        clock_error_ps=clock_error_ps,
        executor=windows.anchor == "executor",
    )


class _Wait(Frozen, frozen=True, eq=True):
    """All waits of all threads, and what ends each wait.

    Attributes:
        explained: Whether it is known what ended each wait.
        late: Whether the thread continued much later than the end of the awaited work.
        activity: Pairs of (wait, activity that it waits for).
        released: Pairs of (wait, index of the release that ends it).
    """

    waits: Waits
    explained: Bools
    late: Bools
    activity: tuple[Int64s, Int64s]
    released: tuple[Int64s, Int64s]


def _build_graph(
    chosen: Sampled,
    threads: Sequence[Thread],
    activities: Activities | None,
    *,
    pace: Pace,
    tables: tuple[pl.DataFrame, Sequence[str], pl.DataFrame],
    whole_device: Sequence[Spans],
    clock_error_ps: int,
    executor: bool,
) -> Graph | Unavailable:
    lines = Lines.fit_threads(chosen, threads)
    threads, given = find_handovers(threads)
    submitted = np.empty(0, np.int64)
    of_devices = []
    if activities is not None:
        submitted = submitted_ps(activities, pace)
        copies = copy_waits(threads, activities, submitted, pace)
        of_devices = [
            copies,
            held_waits(threads, activities, copies),
            device_waits(
                threads,
                activities,
                whole_device=whole_device,
                clock_error_ps=clock_error_ps,
            ),
        ]
    wait = _merge_waits(lines, of_devices, given)
    calling = _call_threads(threads, activities)
    bound_thread = _bound_threads(chosen, threads, executor=executor)
    host = host_nodes(
        threads,
        lines,
        waits=wait.waits,
        explained=wait.explained,
        moments=(
            (calling[calling >= 0], submitted[calling >= 0]),
            (bound_thread, chosen.bounds_ps),
            _known_sources(given.starts),
            _known_sources(given.waits),
        ),
    )
    nodes = _build_nodes(threads, host, activities)
    edges = _host_edges(host, given, wait)
    first = len(host.kind)
    if activities is not None:
        source, from_start = host.find_pieces(calling, submitted)
        edges += [
            launch_edges(
                activities,
                first=first,
                submitted=submitted,
                source=source,
                from_start=from_start,
                pace=pace,
            ),
            stream_edges(activities, first=first, pace=pace),
            event_edges(activities, *tables, first=first, pace=pace),
            _synchronising_edges(host, wait, nodes, activities, first=first),
        ]
        slack = _slack_of_nodes(nodes, Edges.join_edges(edges))[first:]
        edges.append(across_edges(activities, slack, first=first, pace=pace))
    boundary = host.pieces_starting(bound_thread, chosen.bounds_ps)
    if chosen.by_device and activities is not None:
        order = np.argsort(activities.start_ps, kind="stable")
        starts = activities.start_ps[order]
        i = np.minimum(np.searchsorted(starts, chosen.bounds_ps), len(starts) - 1)
        boundary = np.where(starts[i] == chosen.bounds_ps, first + order[i], _NONE)
    return _finish_graph(
        chosen,
        nodes,
        Edges.join_edges(edges),
        host=host,
        wait=wait,
        pace=pace,
        activities=activities,
        boundary=boundary.astype(np.int32),
        given_work=host.pieces_starting(given.starts.thread, given.starts.when_ps),
    )


def _known_sources(releases: Releases) -> tuple[Int64s, Int64s]:
    known = releases.source >= 0
    return releases.source[known], releases.source_ps[known]


def _call_threads(threads: Sequence[Thread], activities: Activities | None) -> Int64s:
    if activities is None:
        return np.empty(0, np.int64)
    index_of = {thread.track: index for index, thread in enumerate(threads)}
    tracks, code = np.unique(activities.caller, return_inverse=True)
    of_track = np.array(
        [index_of.get(track, _NONE) for track in tracks.tolist()], np.int64
    )
    return of_track[code.reshape(-1)]


def _bound_threads(
    chosen: Sampled, threads: Sequence[Thread], *, executor: bool
) -> Int64s:
    """Return the thread on which each window begins, the program's if possible."""
    bound = np.zeros(len(chosen.bounds_ps), np.int64)
    if not executor:
        return bound
    for number, thread in reversed(list(enumerate(threads))):
        bound[np.isin(chosen.bounds_ps, thread.moments)] = number
    return bound


def _merge_waits(
    lines: Lines, of_devices: Sequence[DeviceWaits], given: Handovers
) -> _Wait:
    """Merge waits of all kinds in time order; drop a wait that overlaps another."""
    free = given.waits
    explained = free.source >= 0
    resumed = np.where(explained, free.source_ps, free.began_ps)
    for_thread = Waits(free.thread, free.began_ps, resumed, free.when_ps)
    groups = [*(device.waits for device in of_devices), for_thread]
    waits = Waits(*(np.concatenate(column) for column in zip(*groups, strict=True)))
    is_explained = np.ones(len(waits.thread), np.bool_)
    is_explained[len(is_explained) - len(explained) :] = explained
    began = lines.moment_keys(waits.thread, waits.began_ps)
    ended = lines.moment_keys(waits.thread, waits.ended_ps)
    order = np.argsort(began, kind="stable")
    reach = np.maximum.accumulate(ended[order])
    kept = np.concatenate(([True], began[order][1:] >= reach[:-1]))[: len(order)]
    kept &= ended[order] > began[order]
    kept_index = np.full(len(order), _NONE, np.int64)
    kept_index[order[kept]] = np.arange(int(kept.sum()))
    waits = Waits(*(column[order[kept]] for column in waits))
    is_explained = is_explained[order[kept]]
    pairs, offset = [], 0
    for device in of_devices:
        pairs.append((kept_index[offset + device.wait], device.activity))
        offset += len(device.waits.thread)
    nothing = np.empty(0, np.int64)
    wait_of = np.concatenate([nothing, *(wait for wait, _ in pairs)])
    activity = np.concatenate([nothing, *(rows for _, rows in pairs)])
    entry = np.flatnonzero(explained)
    return _Wait(
        waits,
        is_explained,
        waits.ended_ps - waits.resumed_ps > _MAX_RETURN_PS,
        (wait_of[wait_of >= 0], activity[wait_of >= 0]),
        (kept_index[offset + entry], entry),
    )


def _build_nodes(
    threads: Sequence[Thread], host: HostNodes, activities: Activities | None
) -> Nodes:
    tracks = np.array([thread.track for thread in threads], np.int32)
    start = host.lines.time_ps(host.start_key)
    thread = host.lines.key_threads(host.start_key)
    parts = [
        Nodes(
            host.kind,
            tracks[thread],
            start,
            host.end_key - host.start_key,
            np.full(len(start), _NONE, np.int32),
        )
    ]
    if activities is not None:
        parts.append(
            Nodes(
                np.full(len(activities.row), NodeKind.DEVICE, np.uint8),
                activities.track,
                activities.start_ps,
                activities.end_ps - activities.start_ps,
                activities.row,
            )
        )
    return Nodes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _host_edges(host: HostNodes, given: Handovers, wait: _Wait) -> list[Edges]:
    thread = host.lines.key_threads(host.start_key)
    after = np.flatnonzero(thread[1:] == thread[:-1]) + 1
    edges = [Edges.make_edges(EdgeKind.THREAD, after - 1, after)]
    starts = given.starts
    target = host.pieces_starting(starts.thread, starts.when_ps)
    source, begins = host.find_pieces(starts.source, starts.source_ps)
    edges.append(_handover_edges(host, source, target, begins))
    waits, entry = wait.released
    source, begins = host.find_pieces(
        given.waits.source[entry], given.waits.source_ps[entry]
    )
    target = np.where(waits >= 0, host.resumed[waits], _NONE)
    edges.append(_handover_edges(host, source, target, begins))
    return edges


def _handover_edges(
    host: HostNodes, source: Int64s, target: Int64s, begins: Bools
) -> Edges:
    times = host.lines.time_ps
    keys = np.where(begins, host.start_key[source], host.end_key[source])
    lag = times(host.start_key[target]) - times(keys)
    real = (source != target) & (lag >= 0)
    return Edges.make_edges(
        EdgeKind.HANDOVER,
        np.where(real, source, _NONE),
        target,
        lag_ps=np.minimum(lag, _MAX_RETURN_PS),
        from_start=begins,
    )


def _synchronising_edges(
    host: HostNodes, wait: _Wait, nodes: Nodes, activities: Activities, *, first: int
) -> Edges:
    waits, activity = wait.activity
    target = host.resumed[waits]
    early = nodes.start_ps[target] - activities.end_ps[activity]
    return Edges.make_edges(
        EdgeKind.SYNCHRONISE, first + activity, target, lag_ps=np.minimum(early, 0)
    )


def _slack_of_nodes(nodes: Nodes, edges: Edges) -> Int64s:
    """Return how much later each node began than its edges require; 0 without edges."""
    ready = nodes.start_ps[edges.source] + edges.lag_ps
    ready += np.where(edges.from_start > 0, 0, nodes.dur_ps[edges.source])
    bound = np.full(len(nodes.kind), NEVER, np.int64)
    np.maximum.at(bound, edges.target, ready)
    return np.where(bound > NEVER, nodes.start_ps - bound, 0)


def _finish_graph(
    chosen: Sampled,
    nodes: Nodes,
    edges: Edges,
    *,
    host: HostNodes,
    wait: _Wait,
    pace: Pace,
    activities: Activities | None,
    boundary: Int32s,
    given_work: Int64s,
) -> Graph | Unavailable:
    edges, begin, order = link_edges(nodes, edges)
    if len(order) < len(nodes.kind):
        return WHY["times_contradict"]
    slack = _slack_of_nodes(nodes, edges)
    rootless = np.diff(begin) == 0
    device = nodes.kind == NodeKind.DEVICE
    late = host.resumed[wait.late & wait.explained]
    # The program's thread always exists, so its start needs no explanation.
    rooted = rootless.copy()
    rooted[:1] = False
    kept = slack > np.where(device, pace.late_ps, _MAX_RETURN_PS)
    kept |= rooted | (nodes.kind == NodeKind.OUTSIDE)
    kept[late[late >= 0]] = True
    may_wait = device | (nodes.kind == NodeKind.RESUMED) | kept
    may_wait[given_work[given_work >= 0]] = True
    arrival = np.full(len(nodes.kind), _NONE, np.int32)
    outside = host.outside[host.outside >= 0]
    # A short wait does not show when the awaited object arrived.
    period = (chosen.last_ps - chosen.first_ps) / chosen.count
    outside = outside[nodes.dur_ps[outside] > _MIN_ARRIVAL_WAIT_SHARE * period]
    following = outside + 1
    inside = following < len(host.kind)
    arrival[following[inside]] = outside[inside]
    completes = np.full(len(nodes.kind), len(chosen.bounds_ps), np.int32)
    if activities is not None:
        when = activities.start_ps if chosen.by_device else activities.called_ps
        completes[device] = np.searchsorted(chosen.bounds_ps, when, side="right")
    if chosen.open_end:
        completes = np.minimum(completes, chosen.count)
        completes[nodes.start_ps + nodes.dur_ps > chosen.last_ps] = chosen.count + 1
    return Graph(
        nodes=nodes,
        begin=begin,
        edges=edges,
        order=order,
        slack_ps=np.maximum(slack, 0),
        kept=kept,
        not_before_ps=np.where(rootless, nodes.start_ps, NEVER),
        may_wait=may_wait,
        arrival_of=arrival,
        sampled=chosen,
        boundary=boundary,
        completes=completes,
    )
