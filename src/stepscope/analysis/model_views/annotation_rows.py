"""The rows of annotations: nested named ranges, and the cost of each range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.model_views.settings import Settings
from stepscope.analysis.model_views.tree import METRICS, Nodes, Tree, show_nodes, sum_up
from stepscope.analysis.results.tables import (
    missing_columns,
    package_reasons,
    sum_of_known,
    tool_tables,
)
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.dense_codes import totals_by_code
from stepscope.derive.device.correlation import correlation
from stepscope.derive.model.annotation_calls import annotation_calls
from stepscope.derive.steps.chosen import steps
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import values_by_row
from stepscope.unavailable import Unavailable, require_available
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int32s, Int64s
    from stepscope.derive.model.annotation_calls import AnnotationCalls
    from stepscope.derive.profile_data import ProfileData
    from stepscope.unavailable import Missing

_WHY: Final = package_reasons("model_views")

ANNOTATION_ROWS: Final = tool_tables("model_views")["annotation"]

#: Group of columns in the option `select` → columns of this view.
_SELECTABLE: Final = {
    "micros": ("total_us", "self_us", "percent", "step_us"),
    "accelerator_micros": (
        *("total_device_us", "device_us", "device_busy_us", "step_device_us"),
    ),
    "cpu_micros": ("total_us", "self_us"),
    "occurrence": ("occurrences", "launches"),
    "op_types": ("library",),
}
_DEVICE_COLUMNS: Final = ("total_device_us", "device_us", "device_busy_us", "launches")
#: Column → its metric, and whether nested ranges count.
_COLUMNS: Final = {
    "occurrences": ("occurrences", False),
    "total_us": ("host_ps", True),
    "self_us": ("host_ps", False),
    "total_device_us": ("device_ps", True),
    "device_us": ("device_ps", False),
}


class AnnotatedHost(Frozen, frozen=True):
    """The annotated calls of one host.

    Attributes:
        chosen: Whether each call counts.
        work: By row of device_activity: the `call` that launched it (-1 for none),
            `device`, `start_ps` and `dur_ps`; or why launches are unknown.
        device_ps: int64 by call; time of the device work that the call itself launched.
        launches: int64 by call; number of launch calls directly inside the call.
        step_rows: Steps in which chosen calls can be; None if the host has none.
    """

    host: str
    calls: AnnotationCalls
    chosen: Bools
    work: pl.DataFrame | Unavailable
    device_ps: Int64s
    launches: Int64s
    step_rows: pl.DataFrame | None


def annotated_host(
    profile: ProfileData, host: str, chosen_steps: Sequence[int] | None
) -> AnnotatedHost | Unavailable:
    """Find the annotated calls of a host.

    Args:
        chosen_steps: Rows of steps; only calls that begin in one of them count. If
            None, every call counts.
    """
    calls = profile.derived(host, annotation_calls)
    if isinstance(calls, Unavailable):
        return calls
    count = len(calls.event)
    host_steps = profile.derived(host, steps)
    rows = None
    if not isinstance(host_steps, Unavailable) and not host_steps.on_device:
        rows = host_steps.rows.with_row_index("row")
    chosen = np.ones(count, np.bool_)
    if chosen_steps is not None:
        chosen = np.isin(calls.step, np.array(chosen_steps, np.int32))
        rows = None if rows is None else rows[list(chosen_steps)]
    work: pl.DataFrame | Unavailable
    device_ps = launches = np.zeros(count, np.int64)
    if isinstance(calls.of_activity, Unavailable):
        work = calls.of_activity
    elif isinstance(calls.of_launch, Unavailable):
        work = calls.of_launch
    else:
        work = require_available(profile.table(host, "device_activity")).select(
            "start_ps", "dur_ps", "device", call=pl.Series(calls.of_activity)
        )
        device_ps = _sum_by_row(calls.of_activity, work["dur_ps"], count)
        activities = require_available(profile.derived(host, correlation))
        recorded = activities.activity_count_of_launch > 0
        launches = _sum_by_row(calls.of_launch, recorded, count)
    return AnnotatedHost(host, calls, chosen, work, device_ps, launches, rows)


def _sum_by_row(
    row: Int32s, values: NDArray[np.generic] | pl.Series, count: int
) -> Int64s:
    return totals_by_code(row, np.asarray(values, np.int64), count=count).total


def annotation_rows(
    hosts: Sequence[AnnotatedHost], settings: Settings, *, busy: bool = True
) -> pl.DataFrame:
    """Return the annotations of some hosts, columns `ANNOTATION_ROWS` as selected.

    Host time of a node is the self time of its calls and of all calls below it. The
    total over all roots is the time that threads spent in named ranges.

    Args:
        busy: Whether to compute `device_busy_us`, for which all work is sorted; the
            column is null otherwise.
    """
    nodes = Nodes(paths=False)
    node_of_place = [_node_of_place(nodes, host) for host in hosts]
    count = len(nodes.parent)
    own = np.zeros((count, len(METRICS)), np.int64)
    # Launch calls, and host and device time of calls that began in a step.
    more = np.zeros((count, 3), np.int64)
    busy_ps = np.zeros(count, np.int64)
    library = np.ones(count, np.bool_)
    for host, place_nodes in zip(hosts, node_of_place, strict=True):
        calls = host.calls
        library[place_nodes] &= calls.library[calls.places.key]
        node = np.where(host.chosen, place_nodes[calls.places.node], np.int32(-1))
        in_step = np.where(calls.step >= 0, node, np.int32(-1))
        for metric, values in (
            ("occurrences", np.ones(len(node), np.int64)),
            ("host_ps", calls.self_ps),
            ("device_ps", host.device_ps),
        ):
            own[:, METRICS.index(metric)] += _sum_by_row(node, values, count)
        more[:, 0] += _sum_by_row(node, host.launches, count)
        more[:, 1] += _sum_by_row(in_step, calls.self_ps, count)
        more[:, 2] += _sum_by_row(in_step, host.device_ps, count)
        if busy:
            busy_ps += _busy_ps(host, node, np.array(nodes.parent, np.int32))
    tree = Tree(
        parent=nodes.parent,
        name=nodes.name,
        type=[None] * count,
        own=own,
        total=sum_up(nodes.parent, own),
        by_clock=True,
    )
    shown = show_nodes(tree, settings)
    launched = any(isinstance(host.work, pl.DataFrame) for host in hosts)
    steps = sum(len(host.step_rows) for host in hosts if host.step_rows is not None)
    launches, step_ps, step_device_ps = map(pl.Series, sum_up(nodes.parent, more).T)
    per_step = PS_PER_US * max(steps, 1)
    unknown = pl.Series([None] * count, dtype=pl.Float64)
    columns = {
        **shown.tree.metric_columns(_COLUMNS, () if launched else ("device_ps",)),
        "library": pl.Series(library),
        "percent": shown.tree.percent_of_time(),
        "device_busy_us": pl.Series(busy_ps) / PS_PER_US
        if launched and busy
        else unknown,
        "launches": launches if launched else unknown,
        "step_us": step_ps / per_step if steps else unknown,
        "step_device_us": step_device_ps / per_step if steps and launched else unknown,
    }
    return shown.select_columns(columns, ANNOTATION_ROWS, settings.select, _SELECTABLE)


def annotation_missing(
    hosts: Sequence[AnnotatedHost], frame: pl.DataFrame, no_steps: Unavailable
) -> list[Missing]:
    """Return why columns are null, and why launches of hosts are unknown.

    Args:
        hosts: The hosts with annotations, at least one.
        no_steps: Why the hosts have no steps; None if they have steps.
    """
    unknown = {
        host.host: host.work for host in hosts if isinstance(host.work, Unavailable)
    }
    reasons = {
        "percent": _WHY["no_time_of_ranges"],
        "step_us": no_steps,
        "step_device_us": no_steps,
    }
    missing = []
    if len(unknown) == len(hosts):
        why = next(iter(unknown.values()))
        reasons |= dict.fromkeys((*_DEVICE_COLUMNS, "step_device_us"), why)
        missing.append(why.missing_field("unannotated_device_us"))
    else:
        missing += [
            why.missing_field(f"annotation.total_device_us[{host}]")
            for host, why in unknown.items()
        ]
    shown = {name: why for name, why in reasons.items() if name in frame.columns}
    return [*missing_columns(frame, shown, prefix="annotation."), *missing]


def unannotated_us(hosts: Sequence[AnnotatedHost]) -> float | None:
    """Return the time of device work that was launched outside all named ranges.

    Work of all steps counts; None if launches are unknown on every host.
    """
    works = [host.work for host in hosts if isinstance(host.work, pl.DataFrame)]
    if not works:
        return None
    outside = (work.filter(pl.col("call") < 0)["dur_ps"].sum() for work in works)
    return sum(map(int, outside)) / PS_PER_US


def _node_of_place(nodes: Nodes, host: AnnotatedHost) -> Int32s:
    places = host.calls.places
    node = [-1] * (len(places.key) + 1)
    # Parents precede children. A root has parent -1, which selects the last entry.
    for place, (parent, key) in enumerate(
        zip(places.parent.tolist(), places.key.tolist(), strict=True)
    ):
        node[place] = nodes.add_child(node[parent], host.calls.names[key])
    return np.array(node[:-1], np.int32)


def _busy_ps(host: AnnotatedHost, node_of_call: Int32s, parent: Int32s) -> Int64s:
    """Return each node's device time, in ps, including the work of its descendants.

    Overlapping work counts once per device; devices are added up.

    Args:
        host: The calls and their work.
        node_of_call: Node by call; -1 for calls that do not count.
        parent: Parent by node; -1 for a root.
    """
    busy = np.zeros(len(parent), np.int64)
    if isinstance(host.work, Unavailable):
        return busy
    node = values_by_row(node_of_call, handles(host.work, "call"), none=-1)
    rows = np.flatnonzero(node >= 0)
    parts = [(node[rows], rows)]
    # Work counts for the node of its launch and for each ancestor of the node.
    while len(rows):
        above = parent[parts[-1][0]]
        rows = rows[above >= 0]
        parts.append((above[above >= 0], rows))
    nodes, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
    end = pl.col("start_ps") + pl.col("dur_ps")
    before = end.cum_max().shift(1).over("node", "device")
    begin = pl.max_horizontal("start_ps", before)
    united = (
        host.work[rows]
        .with_columns(pl.Series("node", nodes))
        .sort("node", "device", "start_ps")
        .with_columns(ps=(end - begin).clip(lower_bound=0))
        .group_by("node")
        .agg(pl.col("ps").sum())
    )
    busy[united["node"].to_numpy()] = united["ps"].to_numpy()
    return busy


class TopAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """A range that the program named, over all its positions in the tree.

    Attributes:
        name: Name of the range.
        occurrences: Number of calls.
        total_us: Host time inside the range.
        step_us: Host time inside the range per step; null without steps.
        total_device_us: Time of the device work that was launched in the range; null if
            launches are unknown.
    """

    name: str
    occurrences: int
    total_us: float
    step_us: float | None
    total_device_us: float | None


def top_annotations(profile: ProfileData, max_count: int) -> tuple[TopAnnotation, ...]:
    """Return the ranges with the most host time; empty without named ranges.

    Ranges that only mark steps and ranges of a framework are left out, because other
    parts of a report show them.
    """
    every_host = [annotated_host(profile, host, None) for host in profile.hosts]
    hosts = [host for host in every_host if isinstance(host, AnnotatedHost)]
    if not hosts:
        return ()
    rows = annotation_rows(hosts, Settings(), busy=False)
    # If a range is inside a range of the same name, its time counts only once.
    path: dict[int | None, frozenset[str]] = {None: frozenset()}
    inner = []
    for number, parent, name in rows[["id", "parent", "name"]].iter_rows():
        path[number] = path[parent] | {name}
        inner.append(name in path[parent])
    stepped, _ = derived_by_host(profile, steps)
    markers = {
        marker
        for host_steps in stepped.values()
        for marker in host_steps.rows["marker"].drop_nulls()
    }
    times = ("total_us", "step_us", "total_device_us")
    summed = (
        rows.with_columns(
            pl.when(pl.Series(inner)).then(0.0).otherwise(name).alias(name)
            for name in times
        )
        .filter(~pl.col("library") & ~pl.col("name").is_in(sorted(markers)))
        .group_by("name")
        .agg(pl.col("occurrences").sum(), *map(sum_of_known, times))
        .sort("total_us", "name", descending=[True, False])
        .head(max_count)
    )
    return tuple(TopAnnotation(**row) for row in summed.iter_rows(named=True))
