"""`critical_path`: the chain of work that determines a step's length, and its owners.

Every instant of a window belongs to one piece of the path: a piece of a thread, an
activity of a device, or the lag of an edge between two of them. Each piece has an owner
(cause), and an edit removes the time of some owners.

Definition: docs/replay.md#the-critical-path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.intervals.nesting import innermost_rows
from stepscope.derive.intervals.spans import Spans, TrackRows
from stepscope.derive.replay.node_times import (
    NODE,
    BackWalk,
    replay_graph,
    window_paths,
)
from stepscope.derive.replay.nodes import (
    EdgeKind,
    Edit,
    Graph,
    NodeKind,
    unchanged_edit,
)
from stepscope.derive.step_time.host_time import OWNER_OF_CODE, HostCode
from stepscope.derive.step_time.owners import BUSY_OWNERS
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.account.host_states import Claims, HostStates
    from stepscope.derive.account.time_by_cause import Account, DeviceAccount
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.step_time.device_sets import DeviceSets
    from stepscope.derive.step_time.host_classes import HostClasses

#: Columns of `CriticalPath.rows`.
PATH_ROWS: Final[dict[str, pl.DataType]] = {
    "window": pl.Int32(),  # row of windows
    "track": pl.Int32(),  # row of tracks; for a lag, track of the following piece
    "name": pl.String(),  # op, kernel or function; null if unknown
    "owner": pl.String(),  # owner of the time, as in the time account
    "why": pl.String(),  # for a lag, the name of its EdgeKind; else "work"
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
}
_WHY: Final = {kind.value: kind.name.lower() for kind in EdgeKind}


class CriticalPath(Frozen, frozen=True):
    """The critical path of the replayed windows.

    Attributes:
        rows: Pieces in time order, columns `PATH_ROWS`; the durations of a window's
            pieces add up to the window exactly.
        unexplained_percent: Share of node starts that no edge explains; the lower the
            share, the more reliable the path.
    """

    rows: pl.DataFrame
    unexplained_percent: float

    def share(self, by: str) -> pl.DataFrame:
        """Return the share of each cause, name or track in the path, largest first.

        Args:
            by: "owner", "name" or "track".

        Returns:
            Columns `by`, `time_ps` and `percent`, over all windows.
        """
        total_ps = max(int(self.rows["dur_ps"].sum()), 1)
        return (
            self.rows.group_by(by)
            .agg(time_ps=pl.col("dur_ps").sum())
            .with_columns(percent=100 * pl.col("time_ps") / total_ps)
            .sort("time_ps", by, descending=[True, False])
        )


def critical_path(
    *,
    step_graph: Graph,
    account: Account,
    host_states: HostStates | Unavailable,
    device_sets: DeviceSets | Unavailable,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_nesting: Nesting,
    device_activity: pl.DataFrame | Unavailable,
) -> CriticalPath:
    """Find the critical path of every replayed window from the recorded times."""
    walk = BackWalk(step_graph, replay_graph(step_graph, slack="kept"))
    owned = _Owners(step_graph, account, host_states, device_sets)
    names = _Names(tracks, events, event_types, event_nesting, device_activity)
    chosen = step_graph.sampled
    frames = []
    for number in range(chosen.count):
        first, last = int(chosen.bounds_ps[number]), int(chosen.bounds_ps[number + 1])
        pieces = walk.walk_back(last=number + 1, first_ps=first, last_ps=last)
        reverse = slice(None, None, -1)
        node, edge = pieces.node[reverse], pieces.edge[reverse]
        start, end = pieces.start_ps[reverse], pieces.end_ps[reverse]
        reason = _edge_kinds(step_graph, edge)
        kept = end > start
        frames.append(
            pl.DataFrame(
                {
                    "window": [int(chosen.rows[number])] * int(kept.sum()),
                    "track": step_graph.nodes.track[node][kept],
                    "name": names.piece_names(
                        step_graph, node[kept], edge[kept], start[kept], end[kept]
                    ),
                    "owner": owned.piece_owners(
                        node[kept], edge[kept], start[kept], end[kept]
                    ),
                    "why": [_WHY.get(int(code), "work") for code in reason[kept]],
                    "start_ps": start[kept],
                    "dur_ps": (end - start)[kept],
                },
                schema=PATH_ROWS,
                strict=False,
            )
        )
    return CriticalPath(pl.concat(frames), 100 * step_graph.unexplained_share)


def _edge_kinds(graph: Graph, edge: Int64s) -> Int64s:
    kinds = np.full(len(edge), NODE, np.int64)
    kinds[edge >= 0] = graph.edges.kind[edge[edge >= 0]]
    return kinds


class _Owners:
    """Computes to which cause the time of each piece of a path is attributed."""

    def __init__(
        self,
        graph: Graph,
        account: Account,
        states: HostStates | Unavailable,
        device_sets: DeviceSets | Unavailable,
    ) -> None:
        self._graph = graph
        chosen = graph.sampled
        self._range = (chosen.lead_ps, chosen.last_ps)
        self._states = None if isinstance(states, Unavailable) else states
        self._sets = None if isinstance(device_sets, Unavailable) else device_sets
        self._any: Claims | None = None
        self._claims: dict[int, list[tuple[str, Spans]]] = {}
        self._without_device = account.devices[0].device is None

    def piece_owners(
        self, node: Int64s, edge: Int64s, start: Int64s, end: Int64s
    ) -> list[str]:
        """Return for each piece the cause of most of its time."""
        nodes = self._graph.nodes
        owners = np.full(len(node), "unexplained", object)
        device = (nodes.kind[node] == NodeKind.DEVICE) & (edge == -1)
        self._fill_owners(owners, device, start, end, self._work_claims())
        host = (nodes.kind[node] != NodeKind.DEVICE) & (edge == -1)
        tracks = nodes.track[node]
        for track in np.unique(tracks[host]).tolist():
            on_track = host & (tracks == track)
            self._fill_owners(owners, on_track, start, end, self._thread_claims(track))
        lag = edge >= 0
        kinds = _edge_kinds(self._graph, edge)
        owners[lag & (kinds == EdgeKind.LAUNCH)] = "launch"
        streams = (kinds == EdgeKind.STREAM) | (kinds == EdgeKind.ACROSS)
        late = self._graph.kept[node]
        owners[lag & streams] = "switch"
        owners[lag & streams & late] = "queued"
        owners[lag & (kinds == EdgeKind.SYNCHRONISE)] = "sync"
        return [str(owner) for owner in owners]

    def working_owner(self, start_ps: int, end_ps: int) -> str:
        """Return the cause of most of the device time in a time range."""
        times = {
            owner: spans.clip(start_ps, end_ps).length_ps
            for owner, spans in self._work_claims()
        }
        return max(times, key=lambda owner: times[owner], default="unexplained")

    def _fill_owners(
        self,
        owners: NDArray[np.object_],
        chosen: Bools,
        start: Int64s,
        end: Int64s,
        claims: list[tuple[str, Spans]],
    ) -> None:
        rows = np.flatnonzero(chosen)
        longest_ps = np.zeros(len(rows), np.int64)
        for owner, spans in claims:
            time = spans.within(start[rows], end[rows])
            owners[rows[time > longest_ps]] = owner
            longest_ps = np.maximum(longest_ps, time)

    def _work_claims(self) -> list[tuple[str, Spans]]:
        if self._sets is None:
            return []
        return [
            (owner, device.charged[owner].clip(*self._range))
            for device in self._sets.devices
            for owner in BUSY_OWNERS
            if owner in device.orders
        ]

    def _thread_claims(self, track: int) -> list[tuple[str, Spans]]:
        if self._states is None:
            return []
        if track not in self._claims:
            claims: Claims
            within = Spans.of([self._range])
            if self._without_device:
                claims = self._states.claims_without_device(within)
            else:
                if self._any is None:
                    self._any = self._states.claims_of_any_thread(within)
                claims = self._states.thread_claims(track, within, self._any)
            left, parts = within, []
            for owner, spans in claims:
                parts.append((owner, left & spans))
                left = left - spans
            self._claims[track] = parts
        return self._claims[track]


class _Names:
    def __init__(
        self,
        tracks: pl.DataFrame,
        events: pl.DataFrame,
        event_types: pl.DataFrame,
        nesting: Nesting,
        device_activity: pl.DataFrame | Unavailable,
    ) -> None:
        self._events = TrackRows.from_tables(tracks, events)
        self._type = handles(events, "type")
        self._names = event_types["name"]
        self._parent = nesting.parent
        self._of_activity = (
            None
            if isinstance(device_activity, Unavailable)
            else handles(device_activity, "type")
        )

    def piece_names(
        self, graph: Graph, node: Int64s, edge: Int64s, start: Int64s, end: Int64s
    ) -> pl.Series:
        """Return the name of each piece; null if unknown."""
        types = np.full(len(node), -1, np.int64)
        row = graph.nodes.row[node]
        device = (row >= 0) & (edge == -1)
        if self._of_activity is not None:
            types[device] = self._of_activity[row[device]]
        host = (row < 0) & (edge == -1)
        middle = (start + end) // 2
        tracks = graph.nodes.track[node]
        for track in np.unique(tracks[host]).tolist():
            pieces = np.flatnonzero(host & (tracks == track))
            of_track = self._events.track_rows(track)
            rows = innermost_rows(
                *(middle[pieces], self._events.start_ps, self._events.dur_ps),
                self._parent,
                rows=(of_track.start, of_track.stop),
            )
            types[pieces] = np.where(rows >= 0, self._type[rows], -1)
        known = pl.Series(np.where(types >= 0, types, 0))
        return pl.select(
            pl.when(pl.Series(types >= 0)).then(self._names.gather(known))
        ).to_series()


def path_owners(
    graph: Graph,
    edit: Edit,
    *,
    account: Account,
    host_states: HostStates | Unavailable,
    device_sets: DeviceSets | Unavailable,
    silences: Silences,
) -> dict[str, float]:
    """Return the share of each cause in the critical path after an edit, in percent.

    A thread without events while a device works counts as waiting for the device.
    """
    run = replay_graph(graph, edit, slack="dropped")
    owned = _Owners(graph, account, host_states, device_sets)
    times: dict[str, int] = {}
    recorded, ends = graph.nodes.start_ps, graph.end_ps
    paths = list(window_paths(graph, run))
    # Look up the pieces of all windows at once: each cause then needs one search.
    node = np.concatenate([pieces.node for pieces in paths])
    edge = np.concatenate([pieces.edge for pieces in paths])
    lasted = np.concatenate([pieces.end_ps - pieces.start_ps for pieces in paths])
    # A piece has the cause of its recorded time, and the duration from the replay.
    owners = owned.piece_owners(node, edge, recorded[node], ends[node])
    for index in np.flatnonzero((edge == NODE) & silences.may_hold(node)).tolist():
        row = int(node[index])
        if 2 * silences.silent_time(row) > int(run.dur_ps[row]):
            owners[index] = owned.working_owner(int(recorded[row]), int(ends[row]))
    for owner, time in zip(owners, lasted.tolist(), strict=True):
        times[owner] = times.get(owner, 0) + time
    total_ps = max(sum(times.values()), 1)
    return {
        owner: 100 * time / total_ps
        for owner, time in sorted(times.items(), key=lambda part: (-part[1], part[0]))
    }


#: Minimum duration of a long silence (no events) of a thread, as a share of a step.
_MIN_SILENCE_SHARE: Final = 0.01


def idle_spans(
    accounted: DeviceAccount,
    owners: Collection[str],
    *,
    place: str,
    within: tuple[int, int],
) -> Spans:
    """Return a device's idle time of some causes in a time range, at one `place`."""
    spans = Spans.union_of(
        accounted.idle[owner].clip(*within)
        for owner in owners
        if owner in accounted.idle
    )
    between = accounted.between.clip(*within)
    if place == "inside":
        return spans - between
    return spans & between if place == "between" else spans


def without_owners(
    graph: Graph,
    owners: Collection[str],
    *,
    place: str,
    device: int | None,
    account: Account,
    host_classes: HostClasses,
    device_sets: DeviceSets | Unavailable,
    tracks: pl.DataFrame,
) -> Edit:
    """Return the edit that removes the time of some causes.

    In idle time of these causes, threads take no time, except for work of other causes,
    and launches arrive at once. In busy time of these causes, activities of all devices
    lose the time that is charged to the causes.

    Args:
        place: "inside", "between" or "any".
        device: Ordinal of the device whose account is used; None without a device.
    """
    (accounted,) = (part for part in account.devices if part.device == device)
    within = (graph.sampled.first_ps, graph.sampled.last_ps)
    removed = idle_spans(accounted, owners, place=place, within=within)
    nodes, edges = graph.nodes, graph.edges
    saved_ps = np.zeros(graph.count, np.int64)
    host = nodes.kind != NodeKind.DEVICE
    work = list(_work_by_owner(graph, owners, device_sets, tracks, place=place))
    busy = Spans.union_of(spans for spans, _ in work)
    for track in np.unique(nodes.track[host]).tolist():
        own = np.flatnonzero(host & (nodes.track == track))
        # Thread work of other causes remains, even in time of the removed causes.
        own_sets: list[Spans] = []
        kept_sets: list[Spans] = []
        for code, ran in host_classes.by_thread.get(track, {}).items():
            owner = OWNER_OF_CODE.get(HostCode(code))
            if owner is not None:
                (own_sets if owner in owners else kept_sets).append(ran.clip(*within))
        # While removed device work runs, the causes' work on threads is removed too.
        other_work, own_work = Spans.union_of(kept_sets), Spans.union_of(own_sets)
        spans = (removed - other_work) | (busy & own_work)
        saved_ps[own] = spans.within(nodes.start_ps[own], graph.end_ps[own])
    for spans, rows in work:
        saved_ps[rows] += spans.within(nodes.start_ps[rows], graph.end_ps[rows])
    ready = nodes.start_ps - graph.slack_ps
    held = graph.slack_ps - removed.within(ready, np.maximum(ready, nodes.start_ps))
    lag = edges.lag_ps
    if "launch" in owners:
        arriving = edges.kind == EdgeKind.LAUNCH
        begun = nodes.start_ps[edges.target]
        early = np.minimum(begun - np.maximum(lag, 0), begun)
        lag = np.where(arriving, lag - removed.within(early, begun), lag)
    return Edit(
        np.maximum(nodes.dur_ps - saved_ps, 0),
        lag,
        edges.from_start,
        np.minimum(graph.slack_ps, held),
        unchanged_edit(graph).comes & ~_arrivals_by_owners(graph, host_classes, owners),
    )


def _arrivals_by_owners(
    graph: Graph, classes: HostClasses, owners: Collection[str]
) -> Bools:
    """Return which nodes follow a wait whose time belongs to some causes."""
    owned = np.zeros(graph.count, np.bool_)
    for node in np.flatnonzero(graph.arrival_of >= 0).tolist():
        before = int(graph.arrival_of[node])
        start, end = int(graph.nodes.start_ps[before]), int(graph.end_ps[before])
        sets = classes.by_thread.get(int(graph.nodes.track[before]), {})
        owned[node] = any(
            2 * spans.clip(start, end).length_ps >= end - start
            for code, spans in sets.items()
            if OWNER_OF_CODE.get(HostCode(code)) in owners
        )
    return owned


def claimed_ps(
    graph: Graph,
    owners: Collection[str],
    *,
    place: str,
    device: int | None,
    account: Account,
    device_sets: DeviceSets | Unavailable,
) -> int:
    """Return the time of some causes in the replayed windows.

    Args:
        place: "inside", "between" or "any"; busy time of a device has no place.
        device: Ordinal of the device whose account is used; None for a host.
    """
    within = (graph.sampled.first_ps, graph.sampled.last_ps)
    (accounted,) = (part for part in account.devices if part.device == device)
    claimed = idle_spans(accounted, owners, place=place, within=within).length_ps
    if place == "between" or isinstance(device_sets, Unavailable):
        return claimed
    return claimed + sum(
        sets.charged[owner].clip(*within).length_ps
        for sets in device_sets.devices
        if sets.device == device
        for owner in owners
        if owner in sets.charged
    )


class Silences:
    """Long silences (times without events) of threads while a device worked.

    A silence may be work, which remains after an edit. A silence may also be an
    unrecorded wait for the device, which gets shorter with the device's work.

    Args:
        busy: When any device worked.
    """

    def __init__(self, graph: Graph, classes: HostClasses, busy: Spans) -> None:
        self._graph = graph
        self._classes = classes
        self._busy = busy
        self._of_track: dict[int, Spans] = {}
        chosen = graph.sampled
        self._long = (
            _MIN_SILENCE_SHARE * (chosen.last_ps - chosen.first_ps) / chosen.count
        )

    def may_hold(self, node: Int64s) -> Bools:
        """Return which nodes are pieces of threads long enough to contain a silence."""
        nodes = self._graph.nodes
        on_host = nodes.kind[node] != NodeKind.DEVICE
        is_long: Bools = on_host & (nodes.dur_ps[node] > self._long)
        return is_long

    def silent_time(self, node: int) -> int:
        """Return the silent time of a node, in ps; 0 unless it is long."""
        nodes = self._graph.nodes
        dur_ps = int(nodes.dur_ps[node])
        track = int(nodes.track[node])
        if track not in self._of_track:
            sets = self._classes.by_thread.get(track, {})
            self._of_track[track] = self._busy - Spans.union_of(sets.values())
        start = int(nodes.start_ps[node])
        silent = self._of_track[track].clip(start, start + dur_ps).length_ps
        return silent if silent > self._long else 0


def silent_share(graph: Graph, edit: Edit, silences: Silences) -> float:
    """Return the share of silence in the critical path after an edit."""
    run = replay_graph(graph, edit, slack="dropped")
    silent = total_ps = 0
    for path in window_paths(graph, run):
        total_ps += int((path.end_ps - path.start_ps).sum())
        node_rows = path.node[path.edge == NODE]
        for node in node_rows[silences.may_hold(node_rows)].tolist():
            silent += min(silences.silent_time(node), int(run.dur_ps[node]))
    return silent / total_ps if total_ps else 0.0


def _work_by_owner(
    graph: Graph,
    owners: Collection[str],
    device_sets: DeviceSets | Unavailable,
    tracks: pl.DataFrame,
    *,
    place: str,
) -> Iterator[tuple[Spans, NDArray[np.intp]]]:
    """Yield the charged time and the activities of each owner of busy time.

    An edit applies to all devices that a program drives: if only one device lost this
    work, the others would still delay the step.
    """
    named = [owner for owner in owners if owner in BUSY_OWNERS]
    if not named or place == "between" or isinstance(device_sets, Unavailable):
        return
    within = (graph.sampled.first_ps, graph.sampled.last_ps)
    of_track = tracks["device"].fill_null(-1).to_numpy()
    nodes = graph.nodes
    for sets in device_sets.devices:
        own = np.flatnonzero(
            (nodes.kind == NodeKind.DEVICE) & (of_track[nodes.track] == sets.device)
        )
        for owner in named:
            if owner not in sets.orders:
                continue
            ran = sets.orders[owner].within(nodes.start_ps[own], graph.end_ps[own])
            # Keep activities that belong to the owner entirely, not in part.
            rows = own[(ran == nodes.dur_ps[own]) & (ran > 0)]
            yield sets.charged[owner].clip(*within), rows
