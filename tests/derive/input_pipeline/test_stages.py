"""Stages and pipelines that the calls of iterators form, and what was recorded."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.input_pipeline.stages import (
    PIPELINES,
    last_stages,
    list_pipelines,
    numbers_of_key,
    read_name,
    recorded_parameters,
    unite_stages,
)
from stepscope.trace.tables import DOUBLE, STATS

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

NAMES = (
    *("Root", "Root::Batch", "Root::Batch::Map", "Root::Batch[1]::Map"),
    *("Root::Prefetch", "Root::Prefetch::Generator", "Model::Root", "Model::Root::Map"),
    "Batch",
)
#: id, id of the consumer, name
LISTED = st.lists(
    st.tuples(
        st.sampled_from((None, 0, 1, 2, 3)),
        st.sampled_from((None, 0, 1, 2, 9)),
        st.sampled_from([f"Iterator::{name}" for name in NAMES]),
    ),
    min_size=1,
    max_size=9,
)
Listed = list[tuple[int | None, int | None, str]]


def united(rows: Listed) -> tuple[pl.DataFrame, list[int]]:
    frame = pl.DataFrame(
        rows,
        schema={"id": pl.Int64, "parent_id": pl.Int64, "long_name": pl.String},
        orient="row",
    )
    stages, of_row = unite_stages(frame)
    return stages, of_row.tolist()


@given(LISTED)
def test_calls_are_of_one_stage_by_id_else_by_name(rows: Listed) -> None:
    stages, of_row = united(rows)
    keys = [number or name for number, _, name in rows]
    # The same number for equal keys, and no number without a row.
    assert len(set(zip(keys, of_row, strict=True))) == len(set(keys)) == len(stages)
    assert set(of_row) == set(range(len(stages)))
    first = {stage: row for row, stage in reversed(list(enumerate(of_row)))}
    described = [rows[first[stage]] for stage in range(len(stages))]
    assert stages["id"].to_list() == [number or None for number, _, _ in described]
    assert stages["long_name"].to_list() == [name for _, _, name in described]
    names = stages["long_name"].to_list()
    for stage, (_, consumer, name) in enumerate(described):
        read = read_name(name)
        if consumer:
            alike = [
                k for k, (number, _, _) in enumerate(described) if number == consumer
            ]
        else:
            alike = [k for k, other in enumerate(names) if other == read.consumer]
            alike = alike if len(alike) == 1 else []
        row = stages.row(stage, named=True)
        assert row["consumer"] == (alike[0] if alike else None)
        facts = ("type", "depth", "transparent", "asynchronous", "outermost")
        assert [row[name] for name in facts] == [getattr(read, name) for name in facts]
        assert row["feeds_device"] == read.feeds_device


@given(LISTED)
def test_the_last_stage_is_at_the_end_of_transparent_consumers(rows: Listed) -> None:
    stages, _ = united(rows)
    consumer = stages["consumer"].to_list()
    for stage, last in enumerate(last_stages(stages).tolist()):
        seen, current = {stage}, stage
        while (above := consumer[current]) is not None:
            row = stages.row(above, named=True)
            if not (row["outermost"] and row["transparent"]):
                break
            if above in seen:
                break
            seen.add(above)
            current = above
        # Recorded consumers in a circle end anywhere in it.
        circle = consumer[current] in seen
        assert last in seen if circle else last == current


@given(LISTED, st.lists(st.integers(0, 8), min_size=1, max_size=6))
def test_pipelines_are_numbered_in_the_order_of_their_first_calls(
    rows: Listed, calls: list[int]
) -> None:
    stages, _ = united(rows)
    last = last_stages(stages)
    root = [int(last[call % len(stages)]) for call in calls]
    frame, pipeline = list_pipelines(stages, np.array(root, np.int32))
    fed = {
        int(last[consumer])
        for consumer, feeds in stages.select("consumer", "feeds_device").iter_rows()
        if feeds and consumer is not None
    }
    order = list(dict.fromkeys(root))
    counts = {"Device": 0, "Host": 0}
    expected = []
    for stage in order:
        kind = "Device" if stage in fed else "Host"
        expected.append((f"{kind}:{counts[kind]}", kind == "Device", stage))
        counts[kind] += 1
    assert dict(frame.schema) == PIPELINES
    assert frame.rows() == expected
    assert pipeline.tolist() == [order.index(stage) for stage in root]


def recorded() -> tuple[TraceData, pl.DataFrame]:
    """Two events: the first has all kinds of values, the second has a few."""
    trace = blueprint.trace(
        [
            (
                *("t", "Iterator::Batch", 0, 10),
                {
                    "id": 3,
                    "parent_id": 4,
                    "element_id": 5,
                    "step_name": "x",
                    "_hidden": 6,
                    "parallelism": 7,
                    "deterministic": "true",
                    "autotune": "false",
                    "files": "many",
                    "bandwidth": "<unknown>",
                    "shuffle": "unavailable",
                    "ratio": 0.5,
                    "endless": 1.5,
                    "buffered_elements": 2,
                },
            ),
            ("t", "Iterator::Map", 20, 10, {"parallelism": 1, "buffered_elements": 9}),
            ("t", "Iterator::Map", 40, 10, {"buffered_elements": 2.5}),
        ]
    )
    stats = trace.table("stats")
    assert isinstance(stats, pl.DataFrame)
    bits = struct.unpack("<q", struct.pack("<d", float("inf")))[0]
    half = struct.unpack("<q", struct.pack("<d", 1.5))[0]
    infinite = stats.with_columns(
        value=pl.when((pl.col("kind") == DOUBLE) & (pl.col("value") == half))
        .then(bits)
        .otherwise("value")
    )
    return trace, infinite.cast({"value": STATS.dtypes()["value"]})


def test_parameters_are_what_identifies_nothing_and_is_known() -> None:
    trace, stats = recorded()
    first: dict[str, Any] = {
        "parallelism": 7,
        "deterministic": True,
        "autotune": False,
        "files": "many",
        "ratio": 0.5,
        "buffered_elements": 2,
    }
    second = {"parallelism": 1, "buffered_elements": 9}
    read = recorded_parameters(trace, stats, np.array([1, 0, 1]))
    assert read == {0: first, 1: second}
    assert type(read[0]["deterministic"]) is bool
    assert recorded_parameters(trace, stats, np.array([1])) == {1: second}
    assert recorded_parameters(trace, stats, np.array([], np.int64)) == {}


def test_fill_is_read_where_it_is_a_whole_number() -> None:
    trace, stats = recorded()
    events, fill = numbers_of_key(trace, stats, np.array([2, 1, 0]))
    assert list(zip(events.tolist(), fill.tolist(), strict=True)) == [
        (0, 2.0),
        (1, 9.0),
    ]
    events, fill = numbers_of_key(trace, stats, np.array([1]))
    assert (events.tolist(), fill.tolist()) == ([1], [9.0])
