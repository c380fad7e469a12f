"""Workers whose devices tell nothing: none there, or without their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.traces import blueprint

from stepscope.analysis.options import PodViewerOptions
from stepscope.analysis.pod_viewer.viewer import analyse
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.analysis.pod_viewer.result import PodViewerResult
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.model import TraceData


def analysed(profile: ProfileData) -> PodViewerResult:
    result = analyse(profile, PodViewerOptions())
    assert not isinstance(result, Unavailable)
    return result


def gloo_rank(host: str, *, comes: int) -> TraceData:
    """Steps of 1,000 µs on a CPU: work, then an all-reduce that all leave at 900."""
    lines: list[blueprint.Line] = []
    for i in range(6):
        b = 1000 * i + 100
        lines += [
            ("main", "train", b, 950, {"_r": 1, "step_num": 10 + i}),
            ("main", "aten::mm", b, comes),
            ("pool", "gloo:all_reduce", b + comes, 900 - comes),
        ]
    return blueprint.trace(lines, host=host)


def test_on_cpus_the_one_that_the_others_wait_for_is_the_slowest() -> None:
    result = analysed(
        blueprint.profile(gloo_rank("fast", comes=100), gloo_rank("slow", comes=800))
    )
    assert result.slowest is not None
    assert (result.slowest.host, result.slowest.by) == ("slow", "collectives")
    fast, slow = result.workers
    # 800 µs in the all-reduce, of which its transfer takes the 100 of the last one.
    assert fast.collective_wait_ms == pytest.approx(0.7)
    assert fast.collective_transfer_ms == pytest.approx(0.1)
    assert slow.collective_wait_ms == pytest.approx(0.0)
    assert slow.waited_for_ms == pytest.approx(0.7)


def test_devices_are_not_compared_where_records_of_some_are_missing() -> None:
    said = {"allocator_name": "", "address": 1, "allocation_bytes": 1}
    lines: list[blueprint.Line] = [
        ("main", "MemoryAllocation", at, 0, {**said, "allocator_name": f"GPU_{at}_bfc"})
        for at in range(3)
    ]
    lines += [
        ("gpu:0/7", "MemcpyP2P", 0, 10),
        ("gpu:1/7", "sgemm", 0, 500),
        ("gpu:2/7", "sgemm", 0, 100),
    ]
    result = analysed(blueprint.profile(blueprint.trace(lines)))
    assert (result.slowest, result.imbalance) == (None, None)
    reasons = {one.field: one.code for one in result.missing}
    assert reasons["slowest"] == reasons["imbalance"] == "LOST_EVENTS"
