"""What ran on devices: the tables `device_activity` and `geometries`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.formats.assemble import DeviceTables, as_declared
from stepscope.formats.launch_shapes import number_shapes
from stepscope.formats.nsight_systems.decoded.events import Origin, chosen
from stepscope.trace.device_activity import ACTIVITY_KINDS
from stepscope.trace.reading.activity_names import NOT_ACTIVITY
from stepscope.trace.reading.nullable import nullable
from stepscope.trace.tables import DEVICE_ACTIVITY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.nsight_systems.decoded.recording import Recording


def collect_activity(recording: Recording) -> DeviceTables:
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
    given = whole.with_columns(
        pl.col("kind").cast(ACTIVITY_KINDS),
        geometry=nullable("geometry", geometry, geometry >= 0),
        stream=pl.col("id"),
    )
    return DeviceTables(
        frame=as_declared(given, DEVICE_ACTIVITY.dtypes()),
        geometries=geometries,
        refused=refused,
        undirected=recording.undirected,
    )


def _geometries(
    recorded: pl.DataFrame, launched: pl.Series
) -> tuple[pl.DataFrame, NDArray[np.int32], dict[str, int]]:
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
    shapes = recorded[used].select(
        *(f"{of}_{axis}" for of in ("block", "grid") for axis in "xyz"),
        registers="registers",
        static_shared_memory_bytes="static",
        dynamic_shared_memory_bytes="dynamic",
        shared_memory_bytes=pl.col("static") + pl.col("dynamic"),
    )
    geometries, geometry, refused = number_shapes(shapes, counts)
    of_shape = np.full(recorded.height + 1, -1, np.int32)
    of_shape[used] = geometry
    return geometries, of_shape[launched.fill_null(recorded.height).to_numpy()], refused
