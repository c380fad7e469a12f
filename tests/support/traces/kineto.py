"""PyTorch traces from literal events, and their tables on one screen."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import polars as pl
from tests.support.kept_promises import check_frame

from stepscope.errors import BadInput
from stepscope.formats import kineto
from stepscope.rundir import run_of_file
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.trace.model import TraceData

PID = 4242


def read_file(path: Path) -> TraceData:
    return kineto.read(run_of_file(path).hosts[0])


def by_json(path: Path) -> list[dict[str, Any]]:
    """The events by the standard library, which shares nothing with the reader."""
    data = path.read_bytes()
    unpacked = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    events: list[dict[str, Any]] = json.loads(unpacked)["traceEvents"]
    return events


def frame(trace: TraceData, name: str) -> pl.DataFrame:
    table = trace.table(name)
    assert not isinstance(table, Unavailable), table
    return table


def check_declared(trace: TraceData) -> None:
    """Build every table and hold it against its declaration."""
    for name, schema in TABLES.items():
        table = trace.table(name)
        if isinstance(table, pl.DataFrame):
            assert check_frame(schema, table) == []


def check_all(trace: TraceData) -> None:
    """Build every table and hold it against its declaration and its own rules."""
    check_declared(trace)
    events, tracks = frame(trace, "events"), frame(trace, "tracks")
    assert events["dur_ps"].min() is None or events["dur_ps"].min() >= 0
    ordered = events.with_row_index().sort(
        "track", "start_ps", pl.col("dur_ps").neg(), maintain_order=True
    )
    assert ordered["index"].is_sorted()
    counts = (tracks["event_end"] - tracks["event_begin"]).to_list()
    assert sum(counts) == events.height


def outcome(read: Callable[[], TraceData]) -> str:
    """What is said of a file that is refused; nothing of one whose tables are good."""
    try:
        check_all(read())
    except BadInput as error:
        return str(error)
    return ""


def complete(name: str, ts: float, dur: float, **fields: Any) -> dict[str, Any]:
    """Make an event with a duration, by default on the main thread."""
    args = fields.pop("args", {})
    event = {"ph": "X", "name": name, "pid": PID, "tid": PID, "ts": ts, "dur": dur}
    return {**event, "cat": "cpu_op", **fields, "args": args}


def kernel(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """Make a kernel, by default on stream 7 of device 0."""
    args = {"device": 0, "stream": 7, **args}
    return complete(
        name, ts, dur, cat="kernel", pid=args["device"], tid=args["stream"], args=args
    )


def call(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """A call of the runtime."""
    return complete(name, ts, dur, cat="cuda_runtime", args=args)
