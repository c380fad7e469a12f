"""Trees of calls: the node of each host event in them, and the nodes of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core.nesting import inherit_from_parents
from stepscope.derive.columns.arrays import handles, wanted_rows
from stepscope.derive.columns.dense_codes import number_rows
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import present_mask
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.array_types import Int32s
    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.intervals.nesting import Nesting


class CallTree(Frozen, frozen=True):
    """A tree, and the node of each item in it.

    Attributes:
        node: int32 by item; the item's node.
        parent: int32 by node; the node around it, a smaller number; -1 at the top.
        key: int32 by node; the common key of the items at that node.
    """

    node: Int32s
    parent: Int32s
    key: Int32s


def merge_nodes(parent: Int32s, key: Int32s) -> CallTree:
    """Combine items that have equal keys and equal parents into one node.

    Args:
        parent: By item: the item that encloses it, -1 for none; without cycles.
        key: By item: a number that is equal for items to combine.
    """
    node = np.full(len(key), -1, np.int32)
    inner = np.flatnonzero(parent >= 0)
    by_parent = inner[np.argsort(parent[inner], kind="stable")]
    children = np.bincount(parent[inner], minlength=len(parent))
    first_child = np.cumsum(children) - children
    parents, keys = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    count = 0
    level = np.flatnonzero(parent < 0)
    above = np.full(len(level), -1, np.int32)
    # Each iteration handles one level of nesting; each item is in one level.
    while len(level):
        own = key[level]
        distinct = number_rows([above, own])
        node[level] = distinct.code + np.int32(count)
        parents.append(above[distinct.first])
        keys.append(own[distinct.first].astype(np.int32))
        count += distinct.count
        # Skip items that contain no other items, because most items contain none.
        holders = level[children[level] > 0]
        ends = np.cumsum(children[holders])
        shift = np.repeat(
            first_child[holders] - ends + children[holders], children[holders]
        )
        level = by_parent[np.arange(len(shift)) + shift]
        above = node[parent[level]]
    return CallTree(node, np.concatenate(parents), np.concatenate(keys))


def inherit_labels(
    parent: Int32s, label: Int32s, begin: int = 0, end: int | None = None
) -> Int32s:
    """Replace labels of -1, in place, by the label of the nearest enclosing item.

    Args:
        parent: By item; the item around it, -1 for none.
        begin: First item whose label may be set.
        end: One past the last such item; None for all items from `begin` on.
    """
    answer = inherit_from_parents(
        parent, label, begin, len(label) if end is None else end
    )
    if answer < 0:
        raise ValueError(f"the compiled function rejected its arrays ({answer})")
    return label


def label_inside(parent: Int32s, rows: NDArray[np.integer], count: int) -> Int32s:
    """Return by item the index of the innermost of `rows` that contains it, or -1.

    Args:
        parent: By item; the item around it, -1 for none.
        rows: The items to number, ascending.
    """
    label = np.full(count, -1, np.int32)
    label[rows] = np.arange(len(rows), dtype=np.int32)
    return inherit_labels(parent, label, int(rows[0])) if len(rows) else label


#: Pattern of `$file.py:12 function` and `file.py(12): function`: a function of the
#: program and its first line. A frame without a line has no source line.
_FRAME: Final = (
    r"^\$(?P<file>\S.*?):(?P<line>\d+) (?P<function>.+)$",
    r"^(?P<file>[^()]*\.py)\((?P<line>\d+)\): (?P<function>.+)$",
)
#: Pattern of frames in files of Python and installed packages, even with a cut path.
LIBRARY: Final = (
    r"(?:^|[\\/])(?:site-packages|dist-packages|lib(?:64)?[\\/]python\d[.\d]*)[\\/]"
    r"|^(?:torch|torchvision|jax|jaxlib|flax|optax|tensorflow|keras|numpy|triton)[\\/]"
    r"|^(?:contextlib|functools|threading|runpy)\.py:|^<"
)
#: Pattern of calls of the model's modules, which are numbered.
_MODULE: Final = r"^nn\.Module: (?P<module>.+)$"


class EventTree(Frozen, frozen=True):
    """The tree of functions, or of module calls.

    Attributes:
        node: int32 by row of events; the node of the event itself if it is a frame,
            else the innermost node around it; -1 for none.
        places: The tree; keys are rows of `texts`.
        texts: Names of the frames: `file.py:12 function`, or a module's name.
    """

    node: Int32s
    places: CallTree
    texts: pl.Series


class ProgramTrees(Frozen, frozen=True):
    """The function and the model's module in which each host event runs.

    Attributes:
        lines: Functions of the program; None if no frame was recorded.
        modules: Modules of the model; None if no module call was recorded.
    """

    lines: EventTree | None
    modules: EventTree | None


def program_places(
    *, events: pl.DataFrame, event_types: pl.DataFrame, event_nesting: Nesting
) -> ProgramTrees:
    """Find the frames around every event on the event's thread.

    Only frames that are recorded as events count. A frame's line is the first line of
    its function, since tracers record that line.
    """
    names = event_types.select("name")
    lines = names.select(
        pl.coalesce(
            pl.when(pl.col("name").str.contains(pattern)).then(
                pl.format(
                    "{}:{} {}",
                    *(pl.col("name").str.extract(pattern, part) for part in (1, 2, 3)),
                )
            )
            for pattern in _FRAME
        )
    ).to_series()
    return ProgramTrees(
        _event_tree(events, event_nesting, lines),
        _event_tree(events, event_nesting, names["name"].str.extract(_MODULE)),
    )


def _event_tree(
    events: pl.DataFrame, nesting: Nesting, texts: pl.Series
) -> EventTree | None:
    named = present_mask(texts)
    if not named.any():
        return None
    types = handles(events, "type")
    rows = wanted_rows(types, named)
    if not len(rows):
        return None
    label = label_inside(nesting.parent, rows, len(types))
    above = nesting.parent[rows]
    around = np.where(above >= 0, label[above], np.int32(-1))
    # Frames with equal texts count as one frame, even if their event types differ.
    distinct = texts.drop_nulls().unique(maintain_order=True)
    number = dict(zip(distinct.to_list(), range(len(distinct)), strict=True))
    of_type = np.array([number.get(text, -1) for text in texts.to_list()], np.int32)
    tree = merge_nodes(around, of_type[types[rows]])
    node = np.append(tree.node, np.int32(-1))[label]
    return EventTree(node, tree, distinct)


#: Text for a kernel that is launched from several source locations.
_SEVERAL: Final = "mixed"


def kernel_places(
    *,
    activity_classes: ActivityClasses,
    correlation: Correlation | Unavailable,
    program_places: ProgramTrees | Unavailable,
    hlo_ops: pl.DataFrame | Unavailable,
) -> pl.DataFrame:
    """Return `source` (`file:line`, with the name if it is a function) and `module`.

    The result has one row per class of `activity_classes`; null if not recorded,
    "mixed" if the kernel is launched from several locations. The line is that of the
    instruction in a compiled program. Other kernels have the line of the innermost
    function around the launch, if possible outside libraries.
    """
    empty = pl.Series([None] * len(activity_classes.rows), dtype=pl.String)
    source, module = empty, empty
    if not isinstance(correlation, Unavailable) and not isinstance(
        program_places, Unavailable
    ):
        event, code = correlation.launch_events, activity_classes.code
        source = _text_by_class(program_places.lines, event, code, empty)
        module = _text_by_class(program_places.modules, event, code, empty)
    return pl.DataFrame(
        {
            "source": _lines_of_instructions(activity_classes, hlo_ops, empty),
            "function": source,
            "module": module,
        }
    ).select(pl.coalesce("source", "function").alias("source"), "module")


def _text_by_class(
    frames: EventTree | None, event: Int32s, code: Int32s, empty: pl.Series
) -> pl.Series:
    """Return the frame around launches of each class; "mixed" if there are several."""
    if frames is None:
        return empty
    around = np.append(frames.node, np.int32(-1))[event]
    node = np.append(_program_node(frames), np.int32(-1))[around]
    key = np.append(frames.places.key, np.int32(-1))[node]
    distinct = (
        pl.DataFrame({"class": code, "key": key})
        .filter(pl.col("key") >= 0)
        .unique()
        .group_by("class")
        .agg(pl.col("key").first(), pl.len().alias("places"))
    )
    rows = distinct.select(
        "class",
        text=pl.when(pl.col("places") > 1)
        .then(pl.lit(_SEVERAL))
        .otherwise(pl.Series(frames.texts.gather(distinct["key"]))),
    )
    classes = pl.DataFrame({"class": np.arange(len(empty), dtype=code.dtype)})
    return classes.join(rows, on="class", how="left", maintain_order="left")["text"]


def _program_node(frames: EventTree) -> Int32s:
    """Replace nodes in libraries by the innermost node around them outside of any."""
    library = frames.texts.str.contains(LIBRARY).to_numpy()[frames.places.key]
    parent = frames.places.parent
    itself = np.arange(len(parent), dtype=np.int32)
    above = np.where(library & (parent >= 0), parent, itself)
    # Each iteration doubles the number of levels that are searched.
    while not np.array_equal(further := above[above], above):
        above = further
    return np.where(library[above], itself, above)


def _lines_of_instructions(
    classes: ActivityClasses, hlo_ops: pl.DataFrame | Unavailable, empty: pl.Series
) -> pl.Series:
    if isinstance(hlo_ops, Unavailable) or hlo_ops.is_empty():
        return empty
    line = pl.concat_str(
        "source_file",
        pl.concat_str(pl.lit(":"), pl.col("source_line").cast(pl.String)).fill_null(""),
    )
    row = pl.col("hlo")
    known = classes.rows.select(pl.when(row >= 0).then(row)).to_series()
    return hlo_ops.select(line.alias("line")).to_series().gather(known)
