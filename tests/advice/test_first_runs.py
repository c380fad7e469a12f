"""The first run of an op, which chooses its kernels, is no want of launches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.pages import document_of
from tests.support.traces.kineto import call, complete, kernel, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.advice.finding import Finding

A100 = {"id": 0, "name": "NVIDIA A100", "computeMajor": 8, "computeMinor": 0}


def launching(folder: Path, first: int, others: int = 50) -> Finding:
    """Six convolutions that launch at their end, the first after a long time, in µs."""
    events: list[dict[str, Any]] = []
    at = 0
    for number in range(6):
        length = first if number == 0 else others
        events += [
            complete("aten::conv2d", at, length),
            complete("aten::cudnn_convolution", at + 5, length - 10),
            call("cudaLaunchKernel", at + length - 20, 5, correlation=number),
            kernel("sm80_xmma_fprop_f16", at + length, 100, correlation=number),
        ]
        at += length + 200
    path = folder / "worker0.pt.trace.json"
    path.write_text(json.dumps({"deviceProperties": [A100], "traceEvents": events}))
    found = {one.id: one for one in document_of(read_file(path)).findings}
    return found["launch.delay"]


def test_a_long_first_run_is_the_first_use_of_the_device(tmp_path: Path) -> None:
    """4 ms and then 50 µs: the innermost op is named, and nothing is promised."""
    finding = launching(tmp_path, 4000)
    assert (finding.status, finding.note) == ("fail", "set_up")
    assert [one.name for one in finding.parts] == ["aten::cudnn_convolution"]
    assert [one.cause for one in finding.actions] == ["set_up", "set_up"]
    assert finding.saving_ms is None


@pytest.mark.parametrize(("first", "others"), [(900, 40), (4000, 250)])
def test_a_run_that_is_short_or_little_longer_than_the_others_is_none(
    tmp_path: Path, first: int, others: int
) -> None:
    assert launching(tmp_path, first, others).note != "set_up"
