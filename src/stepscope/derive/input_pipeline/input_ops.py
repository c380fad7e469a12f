"""`input_ops`: what the host does to produce, read and send input, and for how long.

The times measure work, not delay of the step: the times of all threads are added, and
most of the threads work ahead of the consumer.

Definition: docs/tools/input_pipeline_analyzer.md#host-side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import ACTIVITY_CODES, codes, handles, ints
from stepscope.derive.columns.dense_codes import number_rows, totals_by_code
from stepscope.derive.columns.stat_values import values_of_owners
from stepscope.derive.host.op_events import NamedRows, outermost_of_op
from stepscope.derive.host.values import host_rows, text_codes
from stepscope.derive.input_pipeline.stages import BEGINNING, read_name
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.names.event_kinds import EventFlag, OpCategory
from stepscope.derive.reasons import WHY
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.nullable import is_true
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepscope.array_types import Int32s, Int64s
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: Categories of host-side input time, in the order in which results list them.
INPUT_CATEGORIES: Final = (
    "demanded_file_read",
    "advanced_file_read",
    "preprocessing",
    "enqueue",
    "unclassified",
)
#: Category of a call that waits for the worker processes of a loader. Waiting is not
#: work, so `INPUT_CATEGORIES` does not contain it.
WAITING_FOR_WORKERS: Final = "waiting_for_workers"
#: Columns of `InputOps.rows`.
INPUT_OP_ROWS: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),
    # one of `INPUT_CATEGORIES`, or `WAITING_FOR_WORKERS`
    "category": pl.String(),
    "source": pl.String(),  # iterator, loader, stage, copy or infeed
    "count": pl.Int64(),
    "total_ps": pl.Int64(),  # of recursive calls, only the outermost
    "self_ps": pl.Int64(),  # without nested input ops
    "threads": pl.Int64(),
}

#: tf.data transformations that read elements from files.
_READERS: Final = frozenset(
    {
        *("TFRecord", "TextLine", "FixedLengthRecord", "SSTable", "RecordIO"),
        *("ArrayRecord", "CSV", "LMDB", "Parquet"),
    }
)
#: Transformations that let upstream readers prefetch elements.
_AHEAD: Final = frozenset(
    {
        *("Prefetch", "Interleave", "ParallelInterleave", "LegacyParallelInterleave"),
        *("ParallelMap", "MapAndBatch", "ParallelBatch", "Cache", "MemoryReader"),
        "MemoryWriter",
    }
)
#: Category with which a program marks an input stage → category of input time.
_STAGES: Final = {
    "enqueue": "enqueue",
    "read": "demanded_file_read",
    "preprocessing": "preprocessing",
}
#: Pattern of driver calls whose name shows that they copy to a device.
_COPY_CALL: Final = r"^(?:cu|cuda|hip)MemcpyHtoD"
_INFEED: Final = r"^InfeedEnqueue"
#: Pattern of loops over a loader, which fetch the next batch.
_LOADER: Final = r"^enumerate\(\w+\)#.*__next__"
#: Pattern of loops over a loader whose worker processes produce the batches.
_WAITS: Final = Pattern(r"MultiProcessing\w*\.__next__")
#: Pattern of ranges of input libraries; such ranges contain more than the fetch.
_LIBRARY: Final = r"(?i)^(?:py)?grain(?:$|[ ._:])"


class InputOps(Frozen, frozen=True):
    """The input ops of one host.

    Attributes:
        rows: One row per op, by self time descending, then name; `INPUT_OP_ROWS`.
        calls: Number of all calls of input ops.
        pipeline_calls: Number of calls that produce or fetch input (copies to a device
            do not); 0 if the recording does not show how the program gets its data.
        doubts: Category → why some of the category's ops may be missing.
    """

    rows: pl.DataFrame
    calls: int
    pipeline_calls: int
    doubts: dict[str, Unavailable]


def input_ops(
    *,
    trace: TraceData,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_kinds: EventKinds,
    host_values: Mapping[str, StatRows] | Unavailable,
    iterators: pl.DataFrame | Unavailable,
    correlation: Correlation | Unavailable,
) -> InputOps | Unavailable:
    """Sum the input ops on host threads.

    Input ops are iterators, loaders, ranges that the program named as fetching input,
    input stages, and the calls that copy to a device or feed it.
    """
    if not event_types["known"].any():
        return WHY["nameless_input"]
    collected = NamedRows()
    doubts: dict[str, Unavailable] = {}
    if isinstance(iterators, Unavailable):
        if iterators.code not in ("NO_TFDATA_EVENTS", "FORMAT"):
            doubts |= dict.fromkeys(INPUT_CATEGORIES[:3], iterators)
    else:
        names = iterators["long_name"].unique(maintain_order=True).alias("name")
        numbered = names.to_frame().with_row_index("op")
        op = (
            iterators.select(pl.col("long_name").alias("name"))
            .join(numbered, on="name", how="left", maintain_order="left")["op"]
            .to_numpy()
        )
        named = _named_frame(names, _name_categories(names), "iterator")
        collected.name_rows(handles(iterators, "event"), op, named)
    if isinstance(correlation, Unavailable):
        doubts["enqueue"] = correlation
    else:
        # Find the calls of the host that launched copies to a device and nothing else.
        launch = correlation.launch_of_activity
        sent = (codes(correlation.activity, "kind") == ACTIVITY_CODES["h2d"]) & (
            launch >= 0
        )
        copied = np.bincount(launch[sent], minlength=correlation.launches.height)
        only = (copied > 0) & (copied == correlation.activity_count_of_launch)
        copies = handles(correlation.launches, "event")[only]
        types = handles(events, "type")[copies]
        named = _named_frame(event_types["name"], "enqueue", "copy")
        collected.name_rows(copies, types, named)
    for rows, types, named in _ops_by_name(tracks, events, event_types, event_kinds):
        collected.name_rows(rows, types, named)
    if isinstance(host_values, Unavailable):
        doubts |= {name: host_values for name in INPUT_CATEGORIES if name not in doubts}
    else:
        collected.name_rows(*_stage_ops(trace, host_values))
    return _sum_ops(collected, events, doubts)


def pipeline_category(long_name: str) -> str:
    """Return the category of an iterator: reading on demand, ahead, or preprocessing.

    Args:
        long_name: `Iterator::<outermost>::…::<this one>`.
    """
    stage = read_name(long_name)
    if stage.type not in _READERS:
        return "preprocessing"
    consumer = stage.consumer
    while consumer is not None:
        stage = read_name(consumer)
        if stage.type in _AHEAD:
            return "advanced_file_read"
        consumer = stage.consumer
    return "demanded_file_read"


def _sum_ops(
    collected: NamedRows, events: pl.DataFrame, doubts: dict[str, Unavailable]
) -> InputOps | Unavailable:
    """Return the sums by op; if an event has several names, the last one counts."""
    if not collected.events:
        # Copies alone do not show how the program gets its data.
        return doubts.get("preprocessing", WHY["no_input_ops"])
    rows, op, table = collected.last_names()
    # Drop ops without calls, unite ops with equal name and category, number them.
    used, code = np.unique(op, return_inverse=True)
    listed = table[used]
    key = ["name", "category"]
    ops = listed.unique(key, keep="first", maintain_order=True)
    numbered = listed.select(key).join(
        ops.select(key).with_row_index("number"),
        on=key,
        how="left",
        maintain_order="left",
    )
    number = handles(numbered, "number")[code]
    start_ps, dur_ps = ints(events, "start_ps")[rows], ints(events, "dur_ps")[rows]
    track = handles(events, "track")[rows]
    nested = nest_subset(start_ps, dur_ps, track=track)
    own = totals_by_code(number, nested.self_ps, count=len(ops))
    outer = outermost_of_op(nested.parent, number)
    total = totals_by_code(number, dur_ps, count=len(ops), where=outer).total
    pairs = number_rows([number, track])
    threads = np.bincount(number[pairs.first], minlength=len(ops))
    if (ops["category"] == WAITING_FOR_WORKERS).any():
        why = WHY["input_in_workers"]
        doubts = dict.fromkeys(INPUT_CATEGORIES[:3], why) | doubts
    # The recorded ops may include work of a category without naming it.
    if not ops["name"].str.starts_with(BEGINNING).any():
        why = WHY["input_in_one_call"]
        doubts = dict.fromkeys(INPUT_CATEGORIES[:3], why) | doubts
    elif not ops["category"].is_in(INPUT_CATEGORIES[:2]).any():
        doubts = dict.fromkeys(INPUT_CATEGORIES[:2], WHY["no_file_reader"]) | doubts
    summed = ops.with_columns(
        pl.Series("count", own.count),
        pl.Series("total_ps", total),
        pl.Series("self_ps", own.total),
        pl.Series("threads", threads),
    ).select(pl.col(name).cast(dtype) for name, dtype in INPUT_OP_ROWS.items())
    sending = summed.filter(pl.col("category") == "enqueue")["count"].sum()
    return InputOps(
        rows=summed.sort("self_ps", "name", descending=[True, False]),
        calls=len(rows),
        pipeline_calls=len(rows) - int(sending),
        doubts=doubts,
    )


def _named_frame(
    names: pl.Series, category: str | pl.Series, source: str
) -> pl.DataFrame:
    column = pl.lit(category) if isinstance(category, str) else category
    return (
        names.alias("name")
        .to_frame()
        .with_columns(column.alias("category"), source=pl.lit(source))
    )


def _name_categories(long_names: pl.Series) -> pl.Series:
    return pl.Series(
        [
            pipeline_category(name)
            if name.startswith(BEGINNING)
            else _loader_category(name)
            for name in long_names.to_list()
        ],
        dtype=pl.String,
    )


def _loader_category(name: str) -> str:
    return WAITING_FOR_WORKERS if _WAITS.search(name) else "preprocessing"


def _ops_by_name(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    kinds: EventKinds,
) -> Iterator[tuple[Int64s, Int32s, pl.DataFrame]]:
    names = event_types["name"]
    types = handles(events, "type")
    dataset = kinds.has(EventFlag.DATASET) & names.str.starts_with(BEGINNING).to_numpy()
    library = names.str.contains(_LIBRARY).to_numpy()
    loader = names.str.contains(_LOADER).to_numpy()
    named_input = kinds.has(EventFlag.USER_INPUT) | loader
    infeed = names.str.contains(_INFEED) | kinds.op_type.str.contains(_INFEED)
    copy = names.str.contains(_COPY_CALL).to_numpy()
    copy |= kinds.category == OpCategory.MEMCPY_H2D
    iterator = pl.Series(["preprocessing"] * len(names), dtype=pl.String)
    marked = np.flatnonzero(dataset)
    if len(marked):
        iterator = iterator.scatter(marked, _name_categories(names.gather(marked)))
    fetching = pl.Series(
        [
            _loader_category(name) if known else "unclassified"
            for name, known in zip(names, library | loader, strict=True)
        ],
        dtype=pl.String,
    )
    for source, mask, category in (
        ("iterator", dataset, iterator),
        ("loader", named_input, fetching),
        ("infeed", is_true(infeed), "enqueue"),
        ("copy", copy, "enqueue"),
    ):
        if mask.any():
            rows = host_rows(tracks, types, mask)
            yield rows, types[rows], _named_frame(names, category, source)


def _stage_ops(
    trace: TraceData, values: Mapping[str, StatRows]
) -> tuple[Int32s, Int32s, pl.DataFrame]:
    owner, name, names = text_codes(trace, values[StatKey.STAGE_NAME])
    kind_owner, kind, kinds = text_codes(trace, values[StatKey.STAGE_CATEGORY])
    kind_of_owner, known = values_of_owners(owner, kind_owner, kind)
    pairs = number_rows([name[known], kind_of_owner[known]])
    texts = [names[number] for number in name[known][pairs.first].tolist()]
    categories = [
        _STAGES.get(kinds[number].lower(), "unclassified")
        for number in kind_of_owner[known][pairs.first].tolist()
    ]
    named = _named_frame(
        pl.Series(texts, dtype=pl.String),
        pl.Series(categories, dtype=pl.String),
        "stage",
    )
    return owner[known], pairs.code, named
