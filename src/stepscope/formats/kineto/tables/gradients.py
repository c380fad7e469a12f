"""Which op's gradient each op of the backward pass computes.

Arrows record it where there are any. Otherwise the numbers that the producer gave to
the nodes of the graph of gradients do: an op of the backward pass carries the number of
its node and the thread that made it, and the op that made the node carries that number.

Definition: docs/formats/kineto.md#device-activity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.kineto.columns.categories import EventClass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.kineto.decoded.recording import Recording

#: Arguments of ops.
SEQUENCE: Final = "Sequence number"
FORWARD_THREAD: Final = "Fwd thread id"

_LINKS: Final[dict[str, pl.DataType]] = {"event": pl.Int32(), "value": pl.Int64()}


def gradient_links(
    recording: Recording,
    sequence: tuple[NDArray[np.int32], NDArray[np.int64]],
    forward_thread: tuple[NDArray[np.int32], NDArray[np.int64]],
) -> pl.DataFrame:
    """Both ends of every link between an op and the op of its gradient.

    Args:
        recording: The file.
        sequence: Rows of events and their values of `SEQUENCE`.
        forward_thread: Rows of events and their values of `FORWARD_THREAD`.

    Returns:
        `event`, a row of events, and `value`, the id that both ends share.
    """
    arrows = _arrows(recording)
    if arrows.height:
        return arrows
    return _by_sequence(recording, sequence, forward_thread)


def _arrows(recording: Recording) -> pl.DataFrame:
    links, line = recording.columns.links, recording.timeline
    if not len(links.id):
        return pl.DataFrame(schema=_LINKS)
    events = recording.columns.events
    rows = np.flatnonzero(line.kind == EventClass.OP)
    ends = pl.DataFrame(
        {
            "process": links.process,
            "thread": links.thread,
            "start": links.start_ns,
            "value": links.id,
        }
    )
    ops = pl.DataFrame(
        {
            "process": events.process[line.place[rows]],
            "thread": events.thread[line.place[rows]],
            "start": events.start_ns[line.place[rows]],
            "event": rows.astype(np.int32),
        }
    )
    # Ops that begin together are nested; the arrow is drawn from the inner one.
    ops = ops.unique(["process", "thread", "start"], keep="last")
    found = ends.join(ops, on=["process", "thread", "start"])
    return found.unique(["event", "value"], maintain_order=True).select(*_LINKS)


def _by_sequence(
    recording: Recording,
    sequence: tuple[NDArray[np.int32], NDArray[np.int64]],
    forward_thread: tuple[NDArray[np.int32], NDArray[np.int64]],
) -> pl.DataFrame:
    line = recording.timeline
    event, number = sequence
    chosen = (number >= 0) & (line.kind[event] == EventClass.OP)
    event, number = event[chosen], number[chosen]
    maker = pl.DataFrame(dict(zip(("event", "maker"), forward_thread, strict=True)))
    ops = (
        pl.DataFrame(
            {
                "event": event,
                "number": number,
                "track": line.track[event],
                "start": line.start_ps[event],
            }
        )
        .join(maker, on="event", how="left", maintain_order="left")
        .with_columns(pl.col("maker").fill_null(0))
    )
    # The ranges around a node carry its number too; the outermost is taken.
    backward = (
        ops.filter(pl.col("maker") > 0)
        .sort("event")
        .unique(["maker", "number"], keep="first", maintain_order=True)
    )
    # The number counts nodes that were made: of ops with one number the last to begin
    # has made the node.
    forward = (
        ops.filter(pl.col("maker") == 0)
        .sort("start", "event")
        .unique(["track", "number"], keep="last", maintain_order=True)
    )
    pairs = backward.select("maker", "number", event_backward="event").join(
        forward.select("track", "number", event_forward="event"), on="number"
    )
    # The producer numbers threads in a way of its own: a maker is the thread that has
    # most of its numbers.
    main = (
        pairs.group_by("maker", "track")
        .len()
        .sort("maker", "len", "track", descending=[False, True, False])
        .unique("maker", keep="first", maintain_order=True)
    )
    pairs = pairs.join(main, on=["maker", "track"], how="semi").sort("event_backward")
    ends = [
        pairs.select(pl.col(name).alias("event"), pl.int_range(pl.len()).alias("value"))
        for name in ("event_forward", "event_backward")
    ]
    return pl.concat(ends).select(
        pl.col(name).cast(dtype) for name, dtype in _LINKS.items()
    )
