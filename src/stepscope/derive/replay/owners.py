"""Owners (causes) of the time of graph nodes, and the edit that removes their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.intervals.spans import Spans
from stepscope.derive.replay.graph_edits import Edit, unchanged_edit
from stepscope.derive.replay.node_times import NODE, replay_graph, window_paths
from stepscope.derive.replay.nodes import EdgeKind, NodeKind
from stepscope.derive.step_time.host_time import OWNER_OF_CODE, HostCode
from stepscope.derive.step_time.owners import BUSY_OWNERS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.account.time_by_cause import Account, DeviceAccount
    from stepscope.derive.replay.nodes import Graph
    from stepscope.derive.step_time.device_sets import DeviceSets
    from stepscope.derive.step_time.host_classes import HostClasses

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
        graph: The graph.
        classes: What each thread did.
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
