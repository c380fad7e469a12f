"""A tree of costs: each node's own cost, its total with descendants, and its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.results.patterns import match_whole_names
from stepscope.analysis.results.tables import share_percent
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from stepscope.analysis.model_views.settings import Settings
    from stepscope.array_types import Bools, Int64s
    from stepscope.derive.model.view_names import View
    from stepscope.derive.model.work import PlacedCharges
    from stepscope.trace.schema import TableSchema

#: Columns of `Tree.own` and `Tree.total`. A `has_…` column counts the cost entries
#: (charges) for which the metric is known; 0 means that the metric is unknown.
METRICS: Final = (
    *("occurrences", "host_ps", "device_ps", "flops", "has_flops", "known_ps"),
    *("allocated_bytes", "has_allocated_bytes", "parameters", "has_parameters"),
)
#: Name of the node for time without a recorded source line.
NO_SOURCE: Final = "(no source line)"
_NO_TYPE: Final = "(no type)"
#: Maximum number of levels of a path; deeper levels are joined into one name.
_MAX_LEVELS: Final = 100
_VARIABLES: Final = [METRICS.index("parameters"), METRICS.index("has_parameters")]
_TREE_COLUMNS: Final = ("id", "parent", "depth", "name")
_ALL_NAMES: Final = (".*",)
#: Option with a threshold → metric that has to reach it, and the threshold's unit.
_THRESHOLDS: Final = {
    "min_micros": ("spent_ps", PS_PER_US),
    "min_accelerator_micros": ("device_ps", PS_PER_US),
    "min_cpu_micros": ("host_ps", PS_PER_US),
    "min_bytes": ("allocated_bytes", 1),
    "min_params": ("parameters", 1),
    "min_float_ops": ("flops", 1),
    "min_occurrence": ("occurrences", 1),
}
#: Order → metric that sorts siblings, largest first; other orders sort by name.
_ORDERS: Final = {
    "micros": "spent_ps",
    "accelerator_micros": "device_ps",
    "cpu_micros": "host_ps",
    "bytes": "allocated_bytes",
    "params": "parameters",
    "float_ops": "flops",
    "occurrence": "occurrences",
}


class Tree(Frozen, frozen=True):
    """Nodes of a tree of costs, parents before their children.

    Attributes:
        parent: Parent by node; -1 for a root.
        name: By node: the whole path of a scope; otherwise an op, a type or a line.
        type: By node: the type of its op; None for a scope and for several types.
        own: int64 (nodes, METRICS); of the node without its descendants.
        total: int64 (nodes, METRICS); of the node with its descendants.
        by_clock: Whether host time is elapsed time, to which device time is not added.
    """

    parent: list[int]
    name: list[str]
    type: list[str | None]
    own: Int64s
    total: Int64s
    by_clock: bool = False

    def metric_values(self, metric: str, *, total: bool) -> Int64s:
        """Return one metric of all nodes; `spent_ps` is time on hosts and devices."""
        costs = self.total if total else self.own
        if metric == "spent_ps":
            sides = ("host_ps",) if self.by_clock else ("host_ps", "device_ps")
            spent: Int64s = sum(
                (costs[:, METRICS.index(side)] for side in sides),
                start=np.zeros(len(costs), np.int64),
            )
            return spent
        values: Int64s = costs[:, METRICS.index(metric)]
        return values

    def metric_columns(
        self, declared: Mapping[str, tuple[str, bool]], unknown: Collection[str] = ()
    ) -> dict[str, pl.Series]:
        """Return columns by node; times are in µs.

        Args:
            declared: Column → its metric, and whether descendants count.
            unknown: Metrics without any known value.
        """
        columns = {}
        for name, (metric, total) in declared.items():
            values = pl.Series(self.metric_values(metric, total=total))
            known = np.full(len(values), metric not in unknown)
            if f"has_{metric}" in METRICS:
                known = self.metric_values(f"has_{metric}", total=total) > 0
            if name.endswith("_us"):
                values = values / PS_PER_US
            columns[name] = pl.select(
                pl.when(pl.Series(known)).then(values)
            ).to_series()
        return columns

    def percent_of_time(self) -> pl.Series:
        """Return each node's share of all time; null if no time was spent."""
        spent = pl.Series("spent", self.metric_values("spent_ps", total=True))
        everything = int(self.metric_values("spent_ps", total=False).sum())
        percent = share_percent(pl.col("spent"), everything)
        return spent.to_frame().with_columns(percent=percent)["percent"]


class Nodes:
    """Nodes by parent and label, numbered in the order in which they were added."""

    def __init__(self, *, paths: bool) -> None:
        self.parent: list[int] = []
        self.name: list[str] = []
        self._number: dict[tuple[int, str], int] = {}
        self._paths = paths

    def add_child(self, parent: int, label: str) -> int:
        """Return the node with a label under a parent (-1: none); create it if new."""
        number = self._number.setdefault((parent, label), len(self.parent))
        if number == len(self.parent):
            inside = self._paths and parent >= 0
            self.name.append(f"{self.name[parent]}/{label}" if inside else label)
            self.parent.append(parent)
        return number

    def add_place(
        self, place: int, charges: PlacedCharges, known: dict[int, int]
    ) -> int:
        """Return the node of a call-tree place; create it and its ancestors if new.

        Args:
            place: Index of a place of the charges; -1 for none.
            charges: Charges of one host.
            known: Place → node, including -1; new nodes are added.
        """
        chain = []
        while place not in known and charges.places is not None:
            chain.append(place)
            place = int(charges.places.parent[place])
        node = known[place]
        for inner in reversed(chain):
            key = int(charges.places.key[inner]) if charges.places else 0
            node = known[inner] = self.add_child(node, charges.texts[key])
        return node


def grow_tree(
    hosts: Iterable[PlacedCharges], group_by: View, account_types: Sequence[str]
) -> Tree:
    """Combine the charges of all hosts in one tree.

    Every host that trains the model has the model's variables, so a node has the
    maximum number of variables over the hosts; other metrics are added up.

    Args:
        hosts: The charges of one tree, host by host.
        group_by: Kind of the tree's nodes.
        account_types: Patterns for the types of ops that count.
    """
    nodes = Nodes(paths=group_by == "scope")
    types: dict[int, set[str]] = {}
    parts = []
    for charges in hosts:
        counted = match_whole_names(charges.rows["type"].fill_null(""), account_types)
        rows = charges.rows.filter(counted)
        numbers = []
        known = {-1: -1}
        keys = rows["name", "type", "source", "place"].iter_rows()
        for name, type_, source, around in keys:
            place, labels = _path_of_charge(group_by, name, type_, source, around)
            node = nodes.add_place(place, charges, known)
            for label in labels:
                node = nodes.add_child(node, label)
            numbers.append(node)
            if type_:
                types.setdefault(node, set()).add(type_)
        parts.append((np.array(numbers, np.int64), _metrics_of_charges(rows)))
    own = np.zeros((len(nodes.parent), len(METRICS)), np.int64)
    for at_node, costs in parts:
        of_host = np.zeros_like(own)
        np.add.at(of_host, at_node, costs)
        largest = np.maximum(own[:, _VARIABLES], of_host[:, _VARIABLES])
        own += of_host
        own[:, _VARIABLES] = largest
    only_types = [
        next(iter(types[node])) if len(types.get(node, ())) == 1 else None
        for node in range(len(own))
    ]
    return Tree(nodes.parent, nodes.name, only_types, own, sum_up(nodes.parent, own))


def sum_up(parent: Sequence[int], own: Int64s) -> Int64s:
    """Return each node's total with descendants; parents precede their children."""
    total = own.copy()
    for node in range(len(parent) - 1, -1, -1):
        if parent[node] >= 0:
            total[parent[node]] += total[node]
    return total


def _path_of_charge(
    group_by: View, name: str, type_: str | None, source: str | None, place: int
) -> tuple[int, list[str]]:
    """Return a cost entry's parent place, and the labels from there to the entry."""
    if group_by == "op":
        return -1, [type_ or _NO_TYPE]
    if group_by == "code":
        if source is not None:
            return -1, [source]
        return place, [] if place >= 0 else [NO_SOURCE]
    if group_by == "graph":
        return place, [] if place >= 0 else [name]
    segments = [segment for segment in name.split("/") if segment] or [name]
    if len(segments) > _MAX_LEVELS:
        # The maximum keeps names short: the name of a node contains its whole path.
        last = _MAX_LEVELS - 1
        segments = [*segments[:last], "/".join(segments[last:])]
    return place, segments


def _metrics_of_charges(rows: pl.DataFrame) -> Int64s:
    numbers = rows.select(pl.exclude("name", "type", "source", "place")).fill_null(0)
    knows_flops = rows["flops"].is_not_null()
    runs = pl.col("occurrences")
    # FLOPs of a cost entry without executions are known in full or not at all.
    known = (
        pl.when(runs > 0)
        .then(pl.col("known") / runs)
        .otherwise(knows_flops.cast(pl.Float64))
    )
    spent = pl.col("host_ps") + pl.col("device_ps")
    metrics = numbers.with_columns(
        has_flops=knows_flops,
        known_ps=(spent * known).round(),
        has_allocated_bytes=rows["allocated_bytes"].is_not_null(),
        has_parameters=rows["parameters"].is_not_null(),
    ).select(pl.col(METRICS).cast(pl.Int64))
    values: Int64s = metrics.to_numpy()
    return values


class ShownNodes(Frozen, frozen=True):
    """The nodes to show, in depth-first order.

    Attributes:
        parent: By shown node: index in `order` of its shown parent; None for a root.
        depth: By shown node: its depth in the tree; 1 is a root.
    """

    tree: Tree
    order: Int64s
    parent: list[int | None]
    depth: Int64s

    def select_columns(
        self,
        columns: Mapping[str, pl.Series],
        schema: TableSchema,
        select: Sequence[str],
        selectable: Mapping[str, Sequence[str]],
    ) -> pl.DataFrame:
        """Return the columns of a schema that are in every view or in a selected group.

        Args:
            columns: Values by node, shown or not; without id, parent, depth and name.
            schema: All columns that can be shown.
            select: Names of the selected groups.
            selectable: Group → its columns.
        """
        wanted = {column for name in select for column in selectable.get(name, ())}
        placed = {
            "id": pl.Series(np.arange(len(self.order))),
            "parent": pl.Series(self.parent, dtype=pl.Int64),
            "depth": pl.Series(self.depth, dtype=pl.Int64),
            "name": pl.Series(
                [self.tree.name[node] for node in self.order], dtype=pl.String
            ),
        }
        rows = {name: values.gather(self.order) for name, values in columns.items()}
        rows |= placed
        return pl.DataFrame(
            {
                name: rows[name].cast(dtype)
                for name, dtype in schema.dtypes().items()
                if name in placed or name in wanted
            }
        )


def show_nodes(tree: Tree, settings: Settings) -> ShownNodes:
    """Choose the nodes to show, and order them."""
    # A start node has depth 1; nodes with depth 0 are left out.
    depth = np.zeros(len(tree.parent), np.int64)
    starts = match_names(tree.name, settings.start_name_regexes)
    trimmed = match_whole_names(
        pl.Series(tree.name, dtype=pl.String), settings.trim_name_regexes
    )
    for node, parent_node in enumerate(tree.parent):
        trimmed[node] |= parent_node >= 0 and trimmed[parent_node]
        if trimmed[node]:
            continue
        if parent_node >= 0 and depth[parent_node]:
            depth[node] = depth[parent_node] + 1
        elif starts[node]:
            depth[node] = 1
    wanted = (depth > 0) & match_names(
        tree.name, settings.show_name_regexes, settings.hide_name_regexes
    )

    def reaches_thresholds(tree: Tree) -> Bools:
        reached = np.ones(len(tree.name), np.bool_)
        for option, (metric, unit) in _THRESHOLDS.items():
            minimum = getattr(settings, option) * unit
            reached &= tree.metric_values(metric, total=True) >= minimum
        if settings.show_trainable_variables:
            reached |= tree.metric_values("parameters", total=True) > 0
        return reached & wanted

    if settings.account_displayed_op_only:
        # A node that is hidden only because of its depth adds to its ancestors' totals.
        own = np.where(reaches_thresholds(tree)[:, None], tree.own, 0)
        tree = msgspec.structs.replace(tree, total=sum_up(tree.parent, own))
    # With `account_displayed_op_only`, thresholds apply to the displayed totals.
    shown = reaches_thresholds(tree) & (depth <= settings.max_depth)
    order, above = _ordered_nodes(tree, depth, shown, settings.order_by)
    number = {node: row for row, node in enumerate(order)}
    rows = np.array(order, np.int64)
    parent = [number.get(above[node]) for node in order]
    return ShownNodes(tree, rows, parent, depth[rows])


def match_names(
    names: Sequence[str] | pl.Series,
    wanted: tuple[str, ...],
    unwanted: tuple[str, ...] = (),
) -> Bools:
    """Return which whole names match a wanted pattern and no unwanted pattern."""
    texts = pl.Series(names, dtype=pl.String)
    matched = np.ones(len(texts), np.bool_)
    if wanted != _ALL_NAMES:
        matched = match_whole_names(texts, wanted)
    return matched & ~match_whole_names(texts, unwanted) if unwanted else matched


def _ordered_nodes(
    tree: Tree, depth: Int64s, shown: Bools, order_by: str
) -> tuple[list[int], dict[int, int]]:
    """Return the shown nodes depth first, and the nearest shown ancestor of each."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent):
        children.setdefault(parent, []).append(node)
    values = [0] * len(tree.name)
    if order_by in _ORDERS:
        values = tree.metric_values(_ORDERS[order_by], total=True).tolist()

    def shown_below(nodes: list[int], parent: int) -> list[tuple[int, int]]:
        """Return shown nodes, and shown nodes below hidden nodes; in reverse order."""
        waiting, visible = list(nodes), []
        while waiting:
            node = waiting.pop()
            if shown[node]:
                visible.append(node)
            else:
                waiting.extend(children.get(node, ()))
        visible.sort(key=lambda node: (-values[node], tree.name[node]))
        return [(node, parent) for node in reversed(visible)]

    order: list[int] = []
    above: dict[int, int] = {}
    stack = shown_below(np.flatnonzero(depth == 1).tolist(), -1)
    while stack:
        node, parent = stack.pop()
        order.append(node)
        above[node] = parent
        stack += shown_below(children.get(node, []), node)
    return order, above
