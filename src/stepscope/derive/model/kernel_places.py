"""`kernel_places`: the line and the module of the program that launched each kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.model.program_places import LIBRARY
from stepscope.trace.reading.by_row import by_row
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.device.activity_classes import ActivityClasses
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.model.program_places import EventPlaces, ProgramPlaces

#: What is said of a kernel that several places launch.
_SEVERAL: Final = "mixed"


def kernel_places(
    *,
    activity_classes: ActivityClasses,
    correlation: Correlation | Unavailable,
    launches: pl.DataFrame | Unavailable,
    program_places: ProgramPlaces | Unavailable,
    hlo_ops: pl.DataFrame | Unavailable,
) -> pl.DataFrame:
    """Return `source` (`file:line`, with the function where it is one) and `module`.

    One row per class of `activity_classes`; null where nothing was recorded, "mixed"
    where several places launch the kernel. The line is that of the instruction in a
    compiled program, else the innermost function around the launch that belongs to no
    library; where all do, the innermost.
    """
    empty = pl.Series([None] * len(activity_classes.rows), dtype=pl.String)
    source, module = empty, empty
    if not (
        isinstance(correlation, Unavailable)
        or isinstance(launches, Unavailable)
        or isinstance(program_places, Unavailable)
    ):
        launch = correlation.launch_of_activity
        event = by_row(handles(launches, "event"), launch, none=-1)
        code = activity_classes.code
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
    frames: EventPlaces | None,
    event: NDArray[np.int32],
    code: NDArray[np.int32],
    empty: pl.Series,
) -> pl.Series:
    """Return the one text around the launches of each class."""
    if frames is None:
        return empty
    node = np.append(_program_place(frames)[frames.node], np.int32(-1))[event]
    node[np.append(frames.node, np.int32(-1))[event] < 0] = -1
    key = np.append(frames.places.key, np.int32(-1))[node]
    distinct = (
        pl.DataFrame({"class": code, "key": key})
        .filter(pl.col("key") >= 0)
        .unique()
        .group_by("class")
        .agg(pl.col("key").first(), pl.len().alias("places"))
    )
    texts = frames.texts.gather(distinct["key"])
    found = distinct.select(
        "class",
        text=pl.when(pl.col("places") > 1)
        .then(pl.lit(_SEVERAL))
        .otherwise(pl.Series(texts)),
    )
    every = pl.DataFrame({"class": np.arange(len(empty), dtype=code.dtype)})
    return every.join(found, on="class", how="left", maintain_order="left")["text"]


def _program_place(frames: EventPlaces) -> NDArray[np.int32]:
    """Return by place the innermost one at or around it that is in no library."""
    library = frames.texts.str.contains(LIBRARY).to_numpy()[frames.places.key]
    parent = frames.places.parent
    itself = np.arange(len(parent), dtype=np.int32)
    above = np.where(library & (parent >= 0), parent, itself)
    # Each round doubles how far up a place looks.
    while not np.array_equal(further := above[above], above):
        above = further
    return np.where(library[above], itself, above)


def _lines_of_instructions(
    activity_classes: ActivityClasses,
    hlo_ops: pl.DataFrame | Unavailable,
    empty: pl.Series,
) -> pl.Series:
    """Return the line of each class's instruction."""
    if isinstance(hlo_ops, Unavailable) or hlo_ops.is_empty():
        return empty
    line = pl.concat_str(
        "source_file",
        pl.concat_str(pl.lit(":"), pl.col("source_line").cast(pl.String)).fill_null(""),
    )
    row = pl.col("hlo")
    known = activity_classes.rows.select(pl.when(row >= 0).then(row)).to_series()
    return hlo_ops.select(line.alias("line")).to_series().gather(known)
