"""`tf_data_bottleneck_analysis`: which change is suggested for which stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces.pipelines import made_ahead, of_lines

if TYPE_CHECKING:
    from tests.support.traces import blueprint


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        ("TFRecord", "slow_source"),
        ("TensorSlice", "slow_source"),
        ("FlatMap::Generator", "slow_python"),
        ("DataServiceV4", "slow_service"),
        ("ReverbDataset", "remote_source"),
        ("Map", "has_parallel_form"),
        ("Interleave", "has_parallel_form"),
        ("ParallelMapV2", "slow_although_parallel"),
        ("ParallelInterleaveV4", "slow_although_parallel"),
        ("MapAndBatch", "slow_although_parallel"),
        ("BatchV2", "sequential"),
        ("Filter", "sequential"),
        ("PaddedBatchV2", "sequential"),
        ("Shuffle", "buffer_fill"),
        ("Prefetch", "upstream_unseen"),
        ("ForeverRepeat[3]", "other"),
    ],
)
@pytest.mark.sweep(every=4)
def test_the_suggestion_follows_the_transformation(stage: str, kind: str) -> None:
    lines: list[blueprint.Line] = [("t", "Iterator::Root", 0, 1000, {"id": 1})]
    name = "Iterator::Root"
    for depth, part in enumerate(stage.split("::")):
        name = f"{name}::{part}"
        ids = {"id": depth + 2, "parent_id": depth + 1}
        lines.append(("t", name, depth + 1, 900 - 2 * depth, ids))
    assert of_lines(*lines).summary.suggestion_kind == kind


def test_a_prefetch_that_waits_points_upstream() -> None:
    lines = made_ahead()
    # The making takes long, but the stage that makes has little time of its own.
    lines.append(
        ("thread 2", "Iterator::Prefetch::Map::A", 1061, 60, {"id": 3, "parent_id": 2})
    )
    lines.append(
        ("thread 2", "Iterator::Prefetch::Map::B", 1125, 60, {"id": 4, "parent_id": 2})
    )
    lines.append(
        ("thread 2", "Iterator::Prefetch::Map::C", 1190, 60, {"id": 5, "parent_id": 2})
    )
    result = of_lines(*lines)
    assert result.summary.bottleneck is not None
    assert result.summary.bottleneck.type == "Prefetch"
    assert result.summary.suggestion_kind == "upstream_slow"
