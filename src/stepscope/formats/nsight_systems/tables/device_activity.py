"""What ran on devices: the tables `device_activity` and `geometries`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.nsight_systems.decoded.events import Origin, chosen
from stepscope.frozen import Frozen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.trace.reading.activity_names import NOT_ACTIVITY
from stepscope.trace.reading.launch_limits import (
    MOST_GRID,
    MOST_REGISTERS,
    MOST_SHARED_BYTES,
    MOST_THREADS,
)
from stepscope.trace.reading.nullable import nullable
from stepscope.trace.tables import DEVICE_ACTIVITY, GEOMETRIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.nsight_systems.decoded.recording import Recording

_GRID: Final = ("grid_x", "grid_y", "grid_z")
_BLOCK: Final = ("block_x", "block_y", "block_z")


class Activity(Frozen, frozen=True, kw_only=True, eq=True):
    """The tables `device_activity` and `geometries`, and what was doubtful in them.

    Attributes:
        frame: Rows of `device_activity`.
        geometries: Rows of `geometries`.
        refused: Field of a launch → kernels in which it was impossible.
    """

    frame: pl.DataFrame
    geometries: pl.DataFrame
    refused: dict[str, int]


def collect_activity(recording: Recording) -> Activity:
    """Everything that ran on the devices of a file, in the order of `events`."""
    places, rows = recording.rows_of(Origin.WORK)
    events = recording.timeline.events[rows].select(
        "track", "type", "start_ps", "dur_ps"
    )
    work = recording.work[places].with_columns(event=pl.Series(rows))
    whole = work.select(pl.exclude("start", "dur", "name", "said")).hstack(events)
    # A copy within the host is no work of a device.
    whole = chosen(whole, pl.col("kind") != NOT_ACTIVITY)
    geometries, geometry, refused = _geometries(recording.shapes, whole["launched"])
    given = whole.with_columns(geometry=geometry, stream=pl.col("id"))
    frame = given.select(
        (pl.col(name) if name in given.columns else pl.lit(None))
        .cast(ACTIVITY_KINDS if name == "kind" else dtype)
        .alias(name)
        for name, dtype in DEVICE_ACTIVITY.dtypes().items()
    )
    return Activity(frame=frame, geometries=geometries, refused=refused)


def _geometries(
    recorded: pl.DataFrame, launched: pl.Series
) -> tuple[pl.DataFrame, pl.Series, dict[str, int]]:
    """Return distinct shapes without impossible values, and which of them each row has.

    Also the field of a launch → rows in which it was impossible.

    Args:
        recorded: Distinct shapes as recorded.
        launched: By row, the one of these that it has; null for none.
    """
    known = launched.drop_nulls()
    # The first that a row has comes first.
    used = known.unique(maintain_order=True).to_numpy()
    counts = np.bincount(known.to_numpy(), minlength=recorded.height)[used]
    shapes, refused = _shapes(recorded[used], counts)
    geometries, geometry = _numbered(shapes)
    of_shape = np.full(recorded.height + 1, -1, np.int32)
    of_shape[used] = geometry.fill_null(-1).to_numpy()
    found = of_shape[launched.fill_null(recorded.height).to_numpy()]
    return geometries, nullable("geometry", found, found >= 0), refused


def _numbered(shapes: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return the distinct shapes, and the row of each; null where nothing is known."""
    columns = shapes.columns
    known = shapes.unique(maintain_order=True).filter(
        ~pl.all_horizontal(pl.all().is_null())
    )
    rows = known.with_row_index("geometry")
    found = shapes.join(
        rows, on=columns, how="left", nulls_equal=True, maintain_order="left"
    )
    return known, found["geometry"].cast(pl.Int32)


def _shapes(
    recorded: pl.DataFrame, counts: NDArray[np.int64]
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return launch shapes without impossible values, and the number of these.

    Args:
        recorded: Launch shapes.
        counts: How many rows have each.
    """
    threads = pl.col("block_x") * pl.col("block_y") * pl.col("block_z")
    shared = pl.all_horizontal(
        pl.col("static", "dynamic").is_between(0, MOST_SHARED_BYTES)
    )
    fine = {
        "registers": pl.col("registers").is_between(0, MOST_REGISTERS),
        "shared memory": shared,
        # Each size first: a product of three could overflow.
        "block": pl.all_horizontal(pl.col(_BLOCK).is_between(1, MOST_THREADS))
        & (threads <= MOST_THREADS),
        "grid": pl.all_horizontal(pl.col(_GRID).is_between(1, MOST_GRID)),
    }
    # Null where not recorded, which is no refusal.
    verdict = recorded.select(**fine)
    fits = {it: verdict[it].fill_null(value=True).to_numpy() for it in fine}
    refused = {
        field: count for field in fine if (count := int(counts[~fits[field]].sum()))
    }
    columns = {
        "registers": ("registers", pl.col("registers")),
        "static_shared_memory_bytes": ("shared memory", pl.col("static")),
        "dynamic_shared_memory_bytes": ("shared memory", pl.col("dynamic")),
        "shared_memory_bytes": (
            "shared memory",
            pl.col("static") + pl.col("dynamic"),
        ),
        **{name: ("block", pl.col(name)) for name in _BLOCK},
        **{name: ("grid", pl.col(name)) for name in _GRID},
    }
    judged = recorded.hstack(verdict.rename({field: f"{field}?" for field in fine}))
    shapes = judged.select(
        _kept(columns.get(name)).cast(dtype, strict=False).alias(name)
        for name, dtype in GEOMETRIES.dtypes().items()
    )
    return shapes, refused


def _kept(column: tuple[str, pl.Expr] | None) -> pl.Expr:
    if column is None:
        return pl.lit(None)
    field, value = column
    return pl.when(pl.col(f"{field}?")).then(value)
