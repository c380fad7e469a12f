"""Kernels of one stream whose recorded durations overlap, as ROCm's tracer writes them.

Each step of 2 ms runs three products of 1.2 ms on one stream, each from 300 µs after
the one before: the device is busy for 1.8 ms, and the durations add up to 3.6 ms.
"""

from __future__ import annotations

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import findings


def overlapping() -> list[blueprint.Line]:
    host: list[blueprint.Line] = []
    device: list[blueprint.Line] = []
    for step in range(8):
        begin = 2000 * step
        host.append(("main", "train", begin, 2000, {"_r": 1, "step_num": step}))
        for turn in range(3):
            ids = {"correlation_id": 3 * step + turn + 1}
            op = {"tf_op": f"d{turn}/MatMul:MatMul"}
            host.append(("main", "cuLaunchKernel", begin + 10 * turn, 5, ids))
            start = begin + 50 + 300 * turn
            gemm = ("gpu:0/7(Compute)", "ampere_sgemm_128x64_nn", start, 1200)
            device.append((*gemm, {**ids, **op}))
    return [*host, *device]


def test_no_time_is_counted_twice_and_no_gain_exceeds_it() -> None:
    found = findings(overlapping(), devices={0: blueprint.A100})
    share, products = found["amp.share"], found["tc.unused"]
    assert share.status == products.status == "fail"
    for finding in (share, products):
        assert finding.saving_ms is not None
        assert finding.saving_ms.high <= 1.8
        assert sum(part.share_percent for part in finding.parts) <= 100.0
    assert share.ms_per_step == pytest.approx(1.8)
    assert sum(cause.share_percent for cause in share.causes) == pytest.approx(90.0)


def test_the_quality_of_the_recording_says_that_activities_overlap() -> None:
    notes = {note.kind: note for note in blueprint.trace(overlapping()).quality_notes()}
    assert notes["overlapping_activity"].count == 16
    assert "by up to 900 µs" in notes["overlapping_activity"].message
