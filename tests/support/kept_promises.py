"""Checks that values hold what their classes promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.intervals.spans import LIMIT_PS, Spans
from stepscope.trace.schema import NEVER

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.replay.nodes import Graph
    from stepscope.derive.trace_rows.counters import CounterCurve
    from stepscope.trace.schema import TableSchema


def check_spans(spans: Spans) -> None:
    """Raise ValueError if the arrays are not ascending disjoint intervals."""
    for name, array in (("start_ps", spans.start_ps), ("end_ps", spans.end_ps)):
        if array.dtype != np.int64 or array.ndim != 1:
            raise ValueError(f"{name} is {array.dtype} in {array.ndim} dimensions")
    if len(spans.start_ps) != len(spans.end_ps):
        raise ValueError(f"{len(spans.start_ps)} starts, {len(spans.end_ps)} ends")
    if not (spans.start_ps < spans.end_ps).all():
        raise ValueError("an interval is empty or reversed")
    if not (spans.end_ps[:-1] < spans.start_ps[1:]).all():
        raise ValueError("neighbours overlap, touch or are in descending order")
    if len(spans) and not (
        spans.start_ps[0] >= -LIMIT_PS and spans.end_ps[-1] <= LIMIT_PS
    ):
        raise ValueError(f"a time is beyond ±{LIMIT_PS}")


def check_graph(graph: Graph) -> None:
    """Raise ValueError if the recorded times contradict the edges."""
    if len(graph.order) != graph.count:
        raise ValueError("the edges form a cycle")
    if (graph.slack_ps < 0).any():
        raise ValueError("a node began earlier than its edges allow")


def check_curve(curve: CounterCurve) -> None:
    """Raise ValueError if the times do not ascend."""
    if (np.diff(curve.time_ps) < 0).any():
        raise ValueError("the times of a counter do not ascend")


def check_frame(schema: TableSchema, frame: pl.DataFrame) -> list[str]:
    """List all differences between a frame and its declaration; empty if none."""
    problems = [
        f"{schema.name}.{name}: missing"
        for name in schema.dtypes()
        if name not in frame.columns
    ]
    problems += [
        f"{schema.name}.{name}: not declared"
        for name in frame.columns
        if name not in schema.dtypes()
    ]
    for column in schema.columns:
        if column.name not in frame.columns:
            continue
        series = frame[column.name]
        if series.dtype != column.dtype:
            problems.append(
                f"{schema.name}.{column.name}: {series.dtype}, not {column.dtype}"
            )
        if column.null == NEVER and series.null_count():
            problems.append(f"{schema.name}.{column.name}: holds null")
    return problems
