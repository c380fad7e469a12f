"""`critical_path`: the chain of work that determines a step's length.

Every instant of a window belongs to one piece of the path: a piece of a thread, an
activity of a device, or the lag of an edge between two of them.

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
from stepscope.derive.replay.nodes import EdgeKind, Graph, NodeKind
from stepscope.derive.step_time.owners import BUSY_OWNERS
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.account.host_states import Claims, HostStates
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.replay.graph_edits import Edit
    from stepscope.derive.replay.owners import Silences
    from stepscope.derive.step_time.device_sets import DeviceSets

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
