"""Holds the tables of one PyTorch run, read from two files, against each other.

One file is the trace that PyTorch exported, the other the planes that we made of the
same activities. Times are compared as nanoseconds since 1970, texts as texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.trace.tables import DOUBLE, REF
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData

#: What only the exported trace says of the recording itself.
_BESIDE = (
    "PyTorch Profiler (0)",
    "Iteration Start: PyTorch Profiler",
    "Record Window End",
)
#: Numbers of the records, and what planes hold under other names.
_NOT_KEPT = ("Ev Idx", "Record function id", "External id")
_ON_DEVICE = (
    *("device", "stream", "context", "queued", "correlation", "bytes", "grid", "block"),
    *("registers per thread", "shared memory"),
)


def traces_of(*profiles: ProfileData) -> list[TraceData]:
    return [profile.trace(profile.hosts[0]) for profile in profiles]


def table(trace: TraceData, name: str) -> pl.DataFrame:
    found = trace.table(name)
    assert not isinstance(found, Unavailable), (name, found)
    return found


def base_ns(trace: TraceData) -> int:
    return int(table(trace, "environment")["start_unix_ns"][0])


def absolute(trace: TraceData) -> pl.Expr:
    return (pl.col("start_ps") // 1000 + base_ns(trace)).alias("start_ns")


def named_events(trace: TraceData) -> pl.DataFrame:
    types = table(trace, "event_types")
    events = table(trace, "events").with_row_index("event")
    return events.with_columns(
        types["name"].gather(events["type"]).alias("name"),
        types["op"].gather(events["type"]).alias("op"),
        absolute(trace),
    ).filter(~pl.col("name").is_in(_BESIDE))


def event_rows(trace: TraceData) -> list[tuple[object, ...]]:
    """Every event: where, what, when, and whether it is an operator."""
    tracks = table(trace, "tracks").with_row_index("track")
    of_track = tracks.select(
        pl.col("track").cast(pl.Int32),
        "kind",
        "device",
        thread=pl.when(pl.col("kind") == "thread").then("id"),
    )
    rows = named_events(trace).join(of_track, on="track")
    return sorted(
        rows.select(
            "kind", "device", "thread", "name", "start_ns", "dur_ps", "op"
        ).rows(),
        key=str,
    )


def activity_rows(trace: TraceData) -> list[tuple[object, ...]]:
    """Every activity of a device, with its launch shape, op and operands."""
    activity = table(trace, "device_activity")
    texts = pl.Series(trace.strings, dtype=pl.String)
    shapes = trace.table("geometries")
    columns = activity.select(
        *("device", "stream", "dur_ps", "correlation", "bytes"),
        absolute(trace),
        pl.col("kind").cast(pl.String),
        texts.gather(activity["op"]).alias("op"),
        texts.gather(activity["shape"]).alias("shape"),
    )
    if not isinstance(shapes, Unavailable):
        columns = columns.hstack(
            shapes[activity["geometry"].fill_null(0)].with_columns(
                pl.when(activity["geometry"].is_not_null()).then(pl.all())
            )
        )
    return sorted(columns.rows(), key=str)


def value_rows(trace: TraceData, *, on_device: bool) -> list[tuple[object, ...]]:
    """Every value of every event: of which, its name, and itself."""
    stats = table(trace, "stats")
    texts = pl.Series(trace.strings, dtype=pl.String)
    is_text, is_real = pl.col("kind") == REF, pl.col("kind") == DOUBLE
    values = stats.select(
        pl.col("event").cast(pl.UInt32),
        texts.gather(stats["key"]).alias("key"),
        number=pl.when(~is_text & ~is_real).then("value"),
        real=pl.when(is_real).then(pl.col("value").reinterpret(signed=False)),
        text=pl.when(is_text).then(
            texts.gather(stats.select(pl.when(is_text).then("value")).to_series())
        ),
    )
    tracks = table(trace, "tracks")
    events = named_events(trace).with_columns(
        tracks["device"].gather(pl.Series(named_events(trace)["track"])).alias("device")
    )
    events = events.filter(pl.col("device").is_not_null() == on_device)
    rows = values.join(events.select("event", "name", "start_ns"), on="event").filter(
        ~pl.col("key").is_in(_NOT_KEPT)
    )
    if on_device:
        rows = rows.filter(~pl.col("key").is_in(_ON_DEVICE))
    return sorted(rows.drop("event").rows(), key=str)


def rows_of(
    trace: TraceData, name: str, drop: tuple[str, ...]
) -> list[tuple[object, ...]]:
    rows = table(trace, name).with_columns(absolute(trace))
    return sorted(rows.drop(*drop, "start_ps").rows(), key=str)


def assert_same_tables(exported: ProfileData, planes: ProfileData) -> None:
    """Everything that the exported trace holds is in the planes, and no more."""
    theirs, ours = traces_of(exported, planes)
    mine, other = event_rows(ours), event_rows(theirs)
    apart = sorted(set(mine) ^ set(other), key=str)
    assert mine == other, apart[:6]
    assert planes_values(ours) == planes_values(theirs)
    for name, drop in (
        ("launches", ("event", "track", "type")),
        ("allocations", ("event",)),
        ("iterators", ("event", "track")),
    ):
        absent = [isinstance(it.table(name), Unavailable) for it in (theirs, ours)]
        assert absent[0] == absent[1], name
        if not any(absent):
            ours_rows, their_rows = (
                rows_of(ours, name, drop),
                rows_of(theirs, name, drop),
            )
            assert ours_rows == their_rows, name
    if isinstance(theirs.table("device_activity"), Unavailable):
        assert isinstance(ours.table("device_activity"), Unavailable)
    else:
        assert activity_rows(ours) == activity_rows(theirs)


def planes_values(trace: TraceData) -> list[tuple[object, ...]]:
    """The values of host events that were recorded, without those that we add."""
    added = ("tf_op", "correlation_id")
    return [row for row in value_rows(trace, on_device=False) if row[0] not in added]
