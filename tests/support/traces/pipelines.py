"""Literal input pipelines, and what `tf_data_bottleneck_analysis` says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.traces import blueprint

from stepscope.analysis import tf_data_bottleneck_analysis as tool
from stepscope.analysis.tf_data_bottleneck_analysis import (
    Options,
    TfDataBottleneckAnalysisResult,
)

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


def analysed(profile: ProfileData, **options: Any) -> TfDataBottleneckAnalysisResult:
    result = tool.analyse(profile, Options(**options))
    assert isinstance(result, TfDataBottleneckAnalysisResult)
    return result


def of_lines(*lines: blueprint.Line, **options: Any) -> TfDataBottleneckAnalysisResult:
    return analysed(blueprint.profile(blueprint.trace(list(lines))), **options)


SYNCHRONOUS = (
    ("t", "Iterator::Batch", 0, 1000, {"id": 1}),
    ("t", "Iterator::Batch::Map", 100, 400, {"id": 2, "parent_id": 1}),
    ("t", "Iterator::Batch::Map", 500, 400, {"id": 2, "parent_id": 1}),
    ("t", "Iterator::Batch::Map::TFRecord", 150, 100, {"id": 3, "parent_id": 2}),
    ("t", "Iterator::Batch::Map::TFRecord", 550, 50, {"id": 3, "parent_id": 2}),
)


def made_ahead(shift: float = 0) -> list[blueprint.Line]:
    """A.9, 2: what the consumer takes is made `shift` µs earlier."""
    return [
        ("thread 1", "Iterator::Prefetch", 1000, 300, {"id": 1}),
        ("thread 1", "PrefetchConsume", 1290, 5, {"element_id": 7}),
        ("thread 2", "PrefetchProduce", 1050 - shift, 230, {"element_id": 7}),
        (
            "thread 2",
            "Iterator::Prefetch::Map",
            1060 - shift,
            210,
            {"id": 2, "parent_id": 1},
        ),
    ]


def steps_with_call(*, call: float, work: float) -> list[blueprint.Line]:
    """Steps of 1000 µs whose thread first waits for a batch, then runs an op."""
    lines: list[blueprint.Line] = []
    for i in range(5):
        begin = 1000 * i
        lines += [
            ("main", "train", begin, 1000, {"_r": 1, "step_num": i}),
            ("main", "IteratorGetNextOp::DoCompute", begin, call),
            ("main", "Iterator::Batch", begin, call, {"id": 1}),
            ("main", "a/MatMul:MatMul", begin + call, work),
        ]
    return lines
