"""The rows of annotations: named ranges inside named ranges, and what each cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.model_views.rows import listed, selected
from stepscope.analysis.model_views.settings import Settings
from stepscope.analysis.model_views.tree import METRICS, Nodes, Tree, summed
from stepscope.analysis.results.tables import missing_columns, room_reasons, tables_of
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.columns.dense_codes import totals_by
from stepscope.derive.device.correlation import correlation
from stepscope.derive.model.annotation_calls import annotation_calls
from stepscope.derive.steps.chosen import steps
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, present
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.model.annotation_calls import AnnotationCalls
    from stepscope.derive.profile_data import ProfileData
    from stepscope.unavailable import Missing

_WHY: Final = room_reasons("model_views")

ANNOTATION_ROWS: Final = tables_of("model_views")["annotation"]

#: Name of a choice of columns → the columns of this view.
_SELECTABLE: Final = {
    "micros": ("total_us", "self_us", "percent", "step_us"),
    "accelerator_micros": (
        *("total_device_us", "device_us", "device_busy_us", "step_device_us"),
    ),
    "cpu_micros": ("total_us", "self_us"),
    "occurrence": ("occurrences", "launches"),
    "op_types": ("library",),
}
_OF_DEVICES: Final = ("total_device_us", "device_us", "device_busy_us", "launches")
#: What is added up by node beside `METRICS`: launch calls, and host and device time of
#: calls that began in a step.
_MORE: Final = ("launches", "step_ps", "step_device_ps")


class LaunchedWork(Frozen, frozen=True):
    """The activities of devices, and the annotated call that launched each.

    Attributes:
        call: int32 by row of device_activity; -1 for none.
        start_ps: int64 by row of device_activity.
        dur_ps: int64 by row of device_activity.
        device: int32 by row of device_activity; ordinal of its device.
        launches: int64 by call; its own launch calls with recorded work.
    """

    call: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    device: NDArray[np.int32]
    launches: NDArray[np.int64]


class Annotated(Frozen, frozen=True):
    """The annotated calls of one host.

    Attributes:
        host: Name of the host.
        found: All calls.
        chosen: By call: whether it counts.
        work: What they launched, or why nothing is known of it.
        step_rows: Steps of the host that the chosen calls may be in; None where the
            host has none.
    """

    host: str
    found: AnnotationCalls
    chosen: NDArray[np.bool_]
    work: LaunchedWork | Unavailable
    step_rows: pl.DataFrame | None

    def device_ps(self) -> NDArray[np.int64]:
        """Return by call the time of the device work that it launched itself."""
        if isinstance(self.work, Unavailable):
            return np.zeros(len(self.chosen), np.int64)
        return sums(self.work.call, self.work.dur_ps, len(self.chosen))

    def launches(self) -> NDArray[np.int64]:
        """Return by call its own launch calls with recorded work."""
        if isinstance(self.work, Unavailable):
            return np.zeros(len(self.chosen), np.int64)
        return self.work.launches


def annotated(
    profile: ProfileData, host: str, chosen_steps: Sequence[int] | None
) -> Annotated | Unavailable:
    """Look at the annotated calls of a host.

    Args:
        chosen_steps: Rows of the steps in which calls have to begin to count; None for
            every call.
    """
    found = profile.derived(host, annotation_calls)
    if isinstance(found, Unavailable):
        return found
    of_host = profile.derived(host, steps)
    rows = None
    if not isinstance(of_host, Unavailable) and not of_host.on_device:
        rows = of_host.rows.with_row_index("row")
    chosen = np.ones(len(found.event), np.bool_)
    if chosen_steps is not None:
        chosen = np.isin(found.step, np.array(chosen_steps, np.int32))
        rows = None if rows is None else rows[list(chosen_steps)]
    return Annotated(host, found, chosen, _work(profile, host, found), rows)


def sums(
    at: NDArray[np.int32], values: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Add up values by place; those at -1 are left out."""
    return totals_by(at, values, count=count).total


def _work(
    profile: ProfileData, host: str, found: AnnotationCalls
) -> LaunchedWork | Unavailable:
    if isinstance(found.of_activity, Unavailable):
        return found.of_activity
    if isinstance(found.of_launch, Unavailable):
        return found.of_launch
    activity = present(profile.table(host, "device_activity"))
    made = present(profile.derived(host, correlation)).activity_count_of_launch > 0
    return LaunchedWork(
        call=found.of_activity,
        start_ps=ints(activity, "start_ps"),
        dur_ps=ints(activity, "dur_ps"),
        device=handles(activity, "device"),
        launches=sums(found.of_launch, made.astype(np.int64), len(found.event)),
    )


class _Grown(Frozen, frozen=True):
    """All annotations of all hosts as a tree.

    Attributes:
        tree: The tree; a node's occurrences are its own.
        more: int64 (nodes, _MORE); without what is beneath.
        busy_ps: int64 by node; union of the work launched in it and beneath, 0 where
            it is not asked for.
        library: By node: whether a framework puts such ranges around its own work.
    """

    tree: Tree
    more: NDArray[np.int64]
    busy_ps: NDArray[np.int64]
    library: NDArray[np.bool_]


def annotation_rows(
    hosts: Sequence[Annotated], settings: Settings, *, busy: bool = True
) -> pl.DataFrame:
    """List the annotations of some hosts, columns `ANNOTATION_ROWS` as selected.

    Host time of a node is that of the calls in it and beneath, each without the calls
    inside it, so over the whole tree it adds up to the time that threads spent in
    named ranges.

    Args:
        busy: Whether to work out `device_busy_us`, for which all work is sorted; the
            column is null otherwise.
    """
    grown = _grown(hosts, busy=busy)
    shown = listed(grown.tree, settings)
    at, tree = shown.order, shown.tree
    more = summed(tree.parent, grown.more)
    launched = any(not isinstance(one.work, Unavailable) for one in hosts)
    with_steps = [one.step_rows for one in hosts if one.step_rows is not None]
    steps = sum(map(len, with_steps))
    whole = int(tree.value("host_ps", total=False).sum())

    def us(values: NDArray[np.int64], *, known: bool, per: int = 1) -> pl.Series:
        found = pl.Series(values[at]) / (PS_PER_US * max(per, 1))
        return found if known else pl.Series([None] * len(at), dtype=pl.Float64)

    def of(metric: str, *, total: bool) -> NDArray[np.int64]:
        return tree.value(metric, total=total)

    unknown = [None] * len(at)
    launches = more[:, _MORE.index("launches")]
    total_ps = of("host_ps", total=True)
    frame = pl.DataFrame(
        {
            "library": grown.library[at],
            "occurrences": of("occurrences", total=False)[at],
            "total_us": us(total_ps, known=True),
            "self_us": us(of("host_ps", total=False), known=True),
            "percent": pl.Series(100.0 * total_ps[at] / whole if whole else unknown),
            "total_device_us": us(of("device_ps", total=True), known=launched),
            "device_us": us(of("device_ps", total=False), known=launched),
            "device_busy_us": us(grown.busy_ps, known=launched and busy),
            "launches": pl.Series(launches[at] if launched else unknown),
            "step_us": us(more[:, _MORE.index("step_ps")], known=steps > 0, per=steps),
            "step_device_us": us(
                more[:, _MORE.index("step_device_ps")],
                known=steps > 0 and launched,
                per=steps,
            ),
        }
    )
    return selected(frame, shown, ANNOTATION_ROWS, settings.select, _SELECTABLE)


def annotation_missing(
    hosts: Sequence[Annotated], frame: pl.DataFrame, no_steps: Unavailable
) -> list[Missing]:
    """Explain columns that are null, and hosts whose launches are not known.

    Args:
        hosts: The hosts with annotations, at least one.
        no_steps: Why the hosts have no steps, where they have none.
    """
    unknown = {one.host: one.work for one in hosts if isinstance(one.work, Unavailable)}
    reasons = {
        "percent": _WHY["no_time_of_ranges"],
        "step_us": no_steps,
        "step_device_us": no_steps,
    }
    found = []
    if len(unknown) == len(hosts):
        why = next(iter(unknown.values()))
        reasons |= dict.fromkeys((*_OF_DEVICES, "step_device_us"), why)
        found.append(why.for_field("unannotated_device_us"))
    else:
        found += [
            why.for_field(f"annotation.total_device_us[{host}]")
            for host, why in unknown.items()
        ]
    there = {name: why for name, why in reasons.items() if name in frame.columns}
    return [*missing_columns(frame, there, prefix="annotation."), *found]


def unannotated_ps(hosts: Sequence[Annotated]) -> int | None:
    """Return the time of device work that was launched in no range.

    Of all steps; None where nothing is known of launches.
    """
    works = [one.work for one in hosts if not isinstance(one.work, Unavailable)]
    if not works:
        return None
    return sum(int(work.dur_ps[work.call < 0].sum()) for work in works)


def _grown(hosts: Sequence[Annotated], *, busy: bool) -> _Grown:
    nodes = Nodes(paths=False)
    node_of = [_nodes_of(nodes, one) for one in hosts]
    count = len(nodes.parent)
    own = np.zeros((count, len(METRICS)), np.int64)
    more = np.zeros((count, len(_MORE)), np.int64)
    busy_ps = np.zeros(count, np.int64)
    library = np.ones(count, np.bool_)
    for one, node in zip(hosts, node_of, strict=True):
        found = one.found
        library[node] &= found.library[found.places.key]
        at = np.where(one.chosen, node[found.places.node], -1).astype(np.int32)
        in_step = np.where(found.step >= 0, at, np.int32(-1))
        calls, device_ps = np.ones(len(at), np.int64), one.device_ps()
        for name, values in (
            ("occurrences", calls),
            ("host_ps", found.self_ps),
            ("device_ps", device_ps),
        ):
            own[:, METRICS.index(name)] += sums(at, values, count)
        more[:, _MORE.index("launches")] += sums(at, one.launches(), count)
        more[:, _MORE.index("step_ps")] += sums(in_step, found.self_ps, count)
        more[:, _MORE.index("step_device_ps")] += sums(in_step, device_ps, count)
        if busy:
            busy_ps += _busy(one, at, np.array(nodes.parent, np.int32))
    tree = Tree(
        parent=nodes.parent,
        name=nodes.name,
        label=nodes.label,
        type=[None] * count,
        own=own,
        total=summed(nodes.parent, own),
        by_clock=True,
    )
    return _Grown(tree, more, busy_ps, library)


def _nodes_of(nodes: Nodes, one: Annotated) -> NDArray[np.int32]:
    """Return by place of a host its node; parents come first among places."""
    places = one.found.places
    node = np.full(len(places.key) + 1, -1, np.int32)
    for place, (parent, key) in enumerate(
        zip(places.parent.tolist(), places.key.tolist(), strict=True)
    ):
        node[place] = nodes.child(int(node[parent]), one.found.names[key])
    return node[:-1]


def _busy(
    one: Annotated, at: NDArray[np.int32], parent: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return by node the union of the work that was launched in it and beneath.

    Args:
        at: Node of each call, -1 for calls that do not count.
        parent: By node, -1 for a root.
    """
    busy = np.zeros(len(parent), np.int64)
    if isinstance(one.work, Unavailable):
        return busy
    work = one.work
    node = np.append(at, np.int32(-1))[work.call]
    rows = np.flatnonzero(node >= 0)
    node = node[rows]
    parts = []
    # Work counts at the node of its launch and at each one above.
    while len(rows):
        parts.append((node, rows))
        above = parent[node]
        rows, node = rows[above >= 0], above[above >= 0]
    if not parts:
        return busy
    node, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
    united = _united(node, work.device[rows], work.start_ps[rows], work.dur_ps[rows])
    busy[united["node"].to_numpy()] = united["ps"].to_numpy()
    return busy


def _united(
    node: NDArray[np.int32],
    device: NDArray[np.int32],
    start_ps: NDArray[np.int64],
    dur_ps: NDArray[np.int64],
) -> pl.DataFrame:
    """Return `node` and `ps`: time in which something runs, devices added up."""
    group = ("node", "device")
    before = pl.col("end").cum_max().shift(1).over(group)
    return (
        pl.DataFrame(
            {
                "node": node,
                "device": device,
                "start": start_ps,
                "end": start_ps + dur_ps,
            }
        )
        .sort("node", "device", "start")
        .with_columns(begin=pl.max_horizontal("start", before))
        .group_by("node")
        .agg(ps=(pl.col("end") - pl.col("begin")).clip(lower_bound=0).sum())
    )


class TopAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """A range that the program named, over all places where it stands.

    Attributes:
        name: Name of the range.
        occurrences: Number of its calls.
        total_us: Host time in it.
        step_us: Host time in it per step; null where the hosts have no steps.
        total_device_us: Time of the device work that was launched in it; null where
            launches are not known.
    """

    name: str
    occurrences: int
    total_us: float
    step_us: float | None
    total_device_us: float | None


def top_annotations(profile: ProfileData, most: int) -> tuple[TopAnnotation, ...]:
    """Return the ranges with most host time; empty where the program named none.

    Ranges that only mark steps, and those of a framework, are left out: other parts of
    a report are about them.
    """
    looked = [annotated(profile, host, None) for host in profile.hosts]
    hosts = [one for one in looked if not isinstance(one, Unavailable)]
    if not hosts:
        return ()
    rows = annotation_rows(hosts, Settings(), busy=False)
    path: dict[int, frozenset[str]] = {}
    outermost = []
    for number, parent, name in rows[["id", "parent", "name"]].iter_rows():
        above = frozenset[str]() if parent is None else path[parent]
        path[number] = above | {name}
        outermost.append(name not in above)
    inner = ~pl.Series(outermost)
    # A range inside one of the same name is part of that one's time.
    times = ("total_us", "step_us", "total_device_us")
    marks = (profile.derived(host, steps) for host in profile.hosts)
    markers = {
        name
        for one in marks
        if not isinstance(one, Unavailable)
        for name in one.rows["marker"].drop_nulls().to_list()
    }
    summed = (
        rows.with_columns(
            pl.when(inner).then(0.0).otherwise(name).alias(name) for name in times
        )
        .filter(~pl.col("library") & ~pl.col("name").is_in(sorted(markers)))
        .group_by("name")
        .agg(
            pl.col("occurrences").sum(),
            *(
                pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum())
                for name in times
            ),
        )
        .sort("total_us", "name", descending=[True, False])
        .head(most)
    )
    return tuple(TopAnnotation(**row) for row in summed.iter_rows(named=True))
