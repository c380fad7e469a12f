"""Stages of input pipelines, and the pipelines that they make up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import handles
from stepscope.derive.columns.dense_codes import dense
from stepscope.derive.input_pipeline.names import read_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of `PipelineGraph.stages`; the row number is the stage's handle.
STAGES: Final[dict[str, pl.DataType]] = {
    "id": pl.Int64(),  # as recorded; null where it is 0 or absent
    "long_name": pl.String(),
    "type": pl.String(),  # the transformation, without index and version
    "depth": pl.Int32(),  # parts of the long name
    "transparent": pl.Boolean(),
    "asynchronous": pl.Boolean(),
    "consumer": pl.Int32(),  # row of stages; null for the last one
}
#: Columns of `PipelineGraph.pipelines`, by first appearance.
PIPELINES: Final[dict[str, pl.DataType]] = {
    "name": pl.String(),  # `Host:<n>` or `Device:<n>`
    "device": pl.Boolean(),
    "stage": pl.Int32(),  # the last stage, which the program calls
}


def stages_of(listed: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.int32]]:
    """Unite calls to one stage per id; per long name where the id is 0 or absent.

    Args:
        listed: Rows of `iterators` whose long names name stages; at least one.

    Returns:
        The columns `STAGES` with those of `read_name` beside them, and the row of
        that frame for each row of `listed`.
    """
    names = listed["long_name"].unique(maintain_order=True)
    name_code = listed["long_name"].cast(pl.Enum(names)).to_physical().to_numpy()
    ids = listed["id"].fill_null(0).to_numpy()
    by_id = dense(ids).code
    key = np.where(ids != 0, by_id, by_id.max() + 1 + name_code.astype(np.int32))
    numbered = dense(key.astype(np.int32))
    first = listed[numbered.first].select("id", "parent_id", "long_name")
    facts = pl.DataFrame([msgspec.structs.asdict(read_name(name)) for name in names])
    known = first.with_columns(pl.col("id").replace({0: None})).hstack(
        facts[name_code[numbered.first]].rename({"consumer": "consumer_name"})
    )
    consumer = pl.Series("consumer", _consumers(known), pl.Int32)
    typed = known.with_columns(consumer, pl.col("depth").cast(pl.Int32))
    return typed, numbered.code


def _consumers(stages: pl.DataFrame) -> list[int | None]:
    """Return the consumer of each stage: by id, else by a name that is unique."""
    by_id: dict[int, int] = {}
    by_name: dict[str, int | None] = {}
    for stage, (number, name) in enumerate(stages.select("id", "long_name").rows()):
        if number is not None:
            by_id.setdefault(number, stage)
        by_name[name] = None if name in by_name else stage
    return [
        by_id.get(parent_id) if parent_id else by_name.get(name)
        for parent_id, name in stages.select("parent_id", "consumer_name").rows()
    ]


def last_stages(stages: pl.DataFrame) -> NDArray[np.int32]:
    """Return the last stage of each stage's chain of transparent consumers."""
    hull = (stages["outermost"] & stages["transparent"]).to_numpy()
    consumer = handles(stages, "consumer")
    last = np.where((consumer >= 0) & hull[consumer], consumer, np.arange(len(hull)))
    # Each round doubles how far a stage sees.
    for _ in range(len(hull).bit_length()):
        last = last[last]
    return last.astype(np.int32)


def pipelines_of(
    stages: pl.DataFrame, of_root: NDArray[np.int32]
) -> tuple[pl.DataFrame, NDArray[np.int32]]:
    """Return the pipelines by first call, and the pipeline of each call."""
    distinct, first, inverse = np.unique(
        of_root, return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    feeding = stages.filter(pl.col("feeds_device"))
    fed = handles(feeding, "consumer")
    on_device = np.isin(distinct[order], last_stages(stages)[fed[fed >= 0]])
    numbers = np.where(on_device, np.cumsum(on_device), np.cumsum(~on_device)) - 1
    names = [
        f"{'Device' if device else 'Host'}:{number}"
        for device, number in zip(on_device.tolist(), numbers.tolist(), strict=True)
    ]
    frame = pl.DataFrame(
        {"name": names, "device": on_device, "stage": distinct[order]},
        schema=PIPELINES,
    )
    return frame, np.argsort(order)[inverse].astype(np.int32)
