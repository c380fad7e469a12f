"""The first run of an op, which chooses its kernels, is no want of launches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.pages import document_of
from tests.support.traces.kineto import call, complete, kernel, read_file

from stepscope.reporting.words.findings import finding_headline

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.advice.finding import Finding

A100 = {"id": 0, "name": "NVIDIA A100", "computeMajor": 8, "computeMinor": 0}


def launching(folder: Path, first: int, others: int = 50, loading: int = 0) -> Finding:
    """Six convolutions that launch at their end, the first after a long time, in µs.

    It may begin with a call that loads kernels.
    """
    events: list[dict[str, Any]] = []
    if loading:
        events.append(call("cudaFuncGetAttributes", 10, loading, correlation=99))
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


def test_a_long_first_run_is_named_and_promises_nothing(tmp_path: Path) -> None:
    """4 ms and then 50 µs: the innermost op is named.

    That the device was used before was clear in one recording, of a second run.
    """
    finding = launching(tmp_path, 4000)
    assert (finding.status, finding.note) == ("fail", "first_runs")
    assert "first use of the device" not in finding_headline(finding)
    assert [one.name for one in finding.parts] == ["aten::cudnn_convolution"]
    assert [one.cause for one in finding.actions] == ["first_runs", "first_runs"]
    assert finding.saving_ms is None


def test_a_first_run_that_waits_for_the_runtime_sets_the_device_up(
    tmp_path: Path,
) -> None:
    """Of 4 ms, 2.1 ms lie in a call that loads kernels: more than the rest."""
    finding = launching(tmp_path, 4000, loading=2100)
    assert (finding.status, finding.note) == ("fail", "set_up")
    assert launching(tmp_path, 4000, loading=1900).note == "first_runs"


@pytest.mark.parametrize(("first", "others"), [(900, 40), (4000, 250)])
def test_a_run_that_is_short_or_little_longer_than_the_others_is_none(
    tmp_path: Path, first: int, others: int
) -> None:
    assert launching(tmp_path, first, others).note not in {"set_up", "first_runs"}
