"""The rows of a view: which nodes are shown, in which order, with which columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.analysis.model_views.settings import SELECTABLE
from stepscope.analysis.model_views.tree import METRICS, summed
from stepscope.analysis.results.patterns import whole
from stepscope.analysis.results.tables import tables_of
from stepscope.frozen import Frozen
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.model_views.settings import Settings
    from stepscope.analysis.model_views.tree import Tree
    from stepscope.trace.schema import TableSchema

VIEW_ROWS: Final = tables_of("model_views")["scope"]

_ALWAYS: Final = ("id", "parent", "depth", "name")
#: Orders in which the least comes first.
_ASCENDING: Final = frozenset({"name", "depth"})


class Listed(Frozen, frozen=True):
    """The nodes to show, depth first.

    Attributes:
        tree: All nodes, with totals as the settings ask.
        order: The shown nodes.
        parent: By shown node: its row's parent, a place in `order`; None for a root.
        depth: By shown node: 1 is a root.
    """

    tree: Tree
    order: NDArray[np.int64]
    parent: list[int | None]
    depth: NDArray[np.int64]


def view_rows(
    tree: Tree, settings: Settings, *, host: bool, device: bool
) -> pl.DataFrame:
    """List the nodes to show, columns `VIEW_ROWS` as far as selected.

    Args:
        host: Host time was recorded.
        device: Device time was recorded.
    """
    shown = listed(tree, settings)
    frame = _frame(shown.tree, shown.order, host=host, device=device)
    return selected(frame, shown, VIEW_ROWS, settings.select, SELECTABLE)


def listed(tree: Tree, settings: Settings) -> Listed:
    """Choose the nodes to show, and order them."""
    roots, depth = _started(tree, settings)
    if settings.account_displayed_op_only:
        # What is only too deep to be shown counts with the node above it.
        own = np.where(_wanted(tree, settings, depth)[:, None], tree.own, 0)
        tree = msgspec.structs.replace(tree, total=summed(tree.parent, own))
    # Thresholds are about what is displayed, then.
    shown = _wanted(tree, settings, depth) & (depth <= settings.max_depth)
    order, above = _ordered(tree, roots, shown, settings)
    number = {node: row for row, node in enumerate(order)}
    rows = np.array(order, np.int64)
    parent = [number.get(above[node]) for node in order]
    return Listed(tree, rows, parent, depth[rows])


def selected(
    frame: pl.DataFrame,
    shown: Listed,
    schema: TableSchema,
    select: Sequence[str],
    selectable: Mapping[str, Sequence[str]],
) -> pl.DataFrame:
    """Return the columns of a schema that always stand, or belong to a selected group.

    Args:
        frame: The columns of the shown nodes but their places in the tree.
        select: Names of the groups that were selected.
        selectable: Group → its columns.
    """
    whole = frame.with_columns(
        pl.Series("id", np.arange(len(shown.order))),
        pl.Series("parent", shown.parent, pl.Int64),
        pl.Series("depth", shown.depth, pl.Int64),
        pl.Series("name", [shown.tree.name[node] for node in shown.order], pl.String),
    )
    wanted = {column for name in select for column in selectable.get(name, ())}
    return whole.select(
        pl.col(name).cast(dtype)
        for name, dtype in schema.dtypes().items()
        if name in _ALWAYS or name in wanted
    )


def _started(tree: Tree, settings: Settings) -> tuple[list[int], NDArray[np.int64]]:
    """Return the nodes to start from, and depths below them; 0 is left out."""
    depth = np.zeros(len(tree.parent), np.int64)
    roots = []
    started = _named(tree, settings.start_name_regexes)
    trimmed = _named(tree, settings.trim_name_regexes)
    for node, parent in enumerate(tree.parent):
        trimmed[node] |= parent >= 0 and trimmed[parent]
        if trimmed[node]:
            continue
        if parent >= 0 and depth[parent]:
            depth[node] = depth[parent] + 1
        elif started[node]:
            depth[node] = 1
            roots.append(node)
    return roots, depth


def _wanted(
    tree: Tree, settings: Settings, depth: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Find the nodes of any depth that reach every threshold and have a wanted name."""
    shown = tree.spent_ps(total=True) >= settings.min_micros * PS_PER_US
    for metric, least in (
        ("device_ps", settings.min_accelerator_micros * PS_PER_US),
        ("host_ps", settings.min_cpu_micros * PS_PER_US),
        ("allocated_bytes", settings.min_bytes),
        ("parameters", settings.min_params),
        ("flops", settings.min_float_ops),
        ("occurrences", settings.min_occurrence),
    ):
        shown &= tree.value(metric, total=True) >= least
    if settings.show_trainable_variables:
        shown |= tree.value("parameters", total=True) > 0
    return (
        shown
        & (depth > 0)
        & _named(tree, settings.show_name_regexes)
        & ~_named(tree, settings.hide_name_regexes)
    )


def _named(tree: Tree, patterns: tuple[str, ...]) -> NDArray[np.bool_]:
    if patterns == (".*",):
        return np.ones(len(tree.name), np.bool_)
    return whole(pl.Series(tree.name, dtype=pl.String), patterns)


def _ordered(
    tree: Tree, roots: list[int], shown: NDArray[np.bool_], settings: Settings
) -> tuple[list[int], dict[int, int]]:
    """List shown nodes depth first, and the nearest shown node above each of them."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent):
        children.setdefault(parent, []).append(node)
    key = _keys(tree, settings)
    order: list[int] = []
    above: dict[int, int] = {}
    # What is beneath a hidden node moves up, so a node's children are sorted only
    # with those of the hidden ones among them.
    stack = [
        (node, -1) for node in reversed(_sorted(_open(roots, children, shown), key))
    ]
    while stack:
        node, parent = stack.pop()
        order.append(node)
        above[node] = parent
        below = _sorted(_open(children.get(node, []), children, shown), key)
        stack.extend((child, node) for child in reversed(below))
    return order, above


def _open(
    nodes: list[int], children: dict[int, list[int]], shown: NDArray[np.bool_]
) -> list[int]:
    """Replace each hidden node by the shown nodes beneath it."""
    found = []
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if shown[node]:
            found.append(node)
        else:
            waiting.extend(children.get(node, []))
    return found


def _sorted(nodes: list[int], key: list[tuple[float, str]]) -> list[int]:
    return sorted(nodes, key=lambda node: key[node])


def _keys(tree: Tree, settings: Settings) -> list[tuple[float, str]]:
    """Return what to sort each node by; equal ones by name."""
    by = settings.order_by
    if by in _ASCENDING:
        return [(0.0, name) for name in tree.name]
    host, device = (tree.value(name, total=True) for name in ("host_ps", "device_ps"))
    values = {
        "micros": tree.spent_ps(total=True),
        "accelerator_micros": device,
        "cpu_micros": host,
        "bytes": tree.value("allocated_bytes", total=True),
        "params": tree.value("parameters", total=True),
        "float_ops": tree.value("flops", total=True),
        "occurrence": tree.value("occurrences", total=True),
    }[by]
    return [
        (-float(value), name)
        for value, name in zip(values.tolist(), tree.name, strict=True)
    ]


def _frame(
    tree: Tree, at: NDArray[np.int64], *, host: bool, device: bool
) -> pl.DataFrame:
    """Return the costs of the nodes in order; what was not recorded is null."""
    names = [
        *((f"own_{name}", tree.own[at, place]) for place, name in enumerate(METRICS)),
        *((f"all_{name}", tree.total[at, place]) for place, name in enumerate(METRICS)),
    ]
    whole = int(tree.spent_ps(total=False).sum())
    frame = pl.DataFrame(
        {
            "type": pl.Series([tree.type[node] for node in at], dtype=pl.String),
            **{name: pl.Series(values, dtype=pl.Int64) for name, values in names},
        }
    )

    def us(column: str, *, recorded: bool) -> pl.Expr:
        if not recorded:
            return pl.lit(None, pl.Float64)
        return pl.col(column) / PS_PER_US

    def known(metric: str, prefix: str = "all") -> pl.Expr:
        return pl.when(pl.col(f"{prefix}_has_{metric}") > 0).then(f"{prefix}_{metric}")

    spent = pl.col("all_host_ps") + pl.col("all_device_ps")
    return frame.select(
        "type",
        pl.col("all_occurrences").alias("occurrences"),
        (spent / PS_PER_US).alias("total_us"),
        ((pl.col("own_host_ps") + pl.col("own_device_ps")) / PS_PER_US).alias(
            "self_us"
        ),
        (100.0 * spent / whole if whole else pl.lit(None, pl.Float64)).alias("percent"),
        us("own_host_ps", recorded=host).alias("host_us"),
        us("own_device_ps", recorded=device).alias("device_us"),
        us("all_host_ps", recorded=host).alias("total_host_us"),
        us("all_device_ps", recorded=device).alias("total_device_us"),
        known("flops").alias("flops"),
        known("flops", "own").alias("self_flops"),
        pl.when(spent > 0)
        .then(100.0 * pl.col("all_known_ps") / spent)
        .alias("flops_known_percent"),
        known("parameters").alias("parameters"),
        known("allocated_bytes").alias("allocated_bytes"),
    )
