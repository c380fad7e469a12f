"""What is said first where no steps were found, so that no gain is promised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results.pages import document_of
from tests.support.traces import blueprint
from tests.support.traces.kineto import call, complete, kernel, read_file

from stepscope.advice.finding import Finding
from stepscope.advice.headline import findings_by_cost
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.reporting.document import Document

T4 = {"id": 0, "name": "Tesla T4", "computeMajor": 7, "computeMinor": 5}
#: What a device of such a name multiplies with, in µs: 32 bit beside matrix units.
MULTIPLIED = 7000


def one_pass(folder: Path, *, waits: int) -> Document:
    """Launch ten products at once; they begin after a wait and run for 70 ms."""
    events: list[dict[str, Any]] = []
    for at in range(10):
        events += [
            complete("aten::mm", 100 * at, 90, args={"External id": at + 1}),
            call("cudaLaunchKernel", 100 * at + 10, 20, correlation=at + 1),
            kernel(
                "volta_sgemm_128x64_nn",
                waits + (MULTIPLIED + 2) * at,
                MULTIPLIED,
                correlation=at + 1,
                **{"External id": at + 1},
            ),
        ]
    path = folder / "worker0.pt.trace.json"
    path.write_text(json.dumps({"deviceProperties": [T4], "traceEvents": events}))
    return document_of(read_file(path))


def test_work_that_fills_the_recording_comes_before_a_wait_at_its_begin(
    tmp_path: Path,
) -> None:
    """70 of 80 ms multiply in 32 bit; for 9 ms the device had not begun."""
    document = one_pass(tmp_path, waits=10_000)
    assert document.headline.finding == "amp.share"
    assert document.headline.text == (
        "Work that could run in 16 bit runs in other types: 87.5 % of the time."
    )
    assert document.headline.percent == pytest.approx(100 * 70 / 80.018, abs=0.01)
    by_id = {one.id: one for one in document.findings}
    assert by_id["capture.quality"].status == "fail"
    assert by_id["tc.unused"].share_percent == by_id["amp.share"].share_percent


def test_idle_time_comes_before_as_much_work(tmp_path: Path) -> None:
    """40 of 110 ms wait: more than a third of 70 ms of work."""
    document = one_pass(tmp_path, waits=40_000)
    assert document.headline.finding == "capture.quality"


@pytest.mark.parametrize(("share", "first"), [(89.0, "launch"), (91.0, "amp")])
def test_work_counts_by_a_third(share: float, first: str) -> None:
    fields = {"title": "", "status": "fail", "severity": "warn"}
    idle = Finding(
        id="launch", stage=3, owners=("launch",), share_percent=30.0, **fields
    )
    work = Finding(id="amp", stage=6, share_percent=share, **fields)
    assert findings_by_cost([idle, work])[0].id == first


def test_waiting_for_batches_is_input_bound_without_steps_too() -> None:
    """A fetch of 60 of 100 ms was told as idle time that no check explains."""
    lines = [
        ("main", "cuLaunchKernel", 0, 5, {"correlation_id": 1}),
        ("gpu:0/7(Compute)", "sgemm", 10, 20_000, {"correlation_id": 1}),
        ("main", "IteratorGetNext", 20_100, 59_900),
        ("main", "cuLaunchKernel", 80_000, 5, {"correlation_id": 2}),
        ("gpu:0/7(Compute)", "relu", 80_010, 19_990, {"correlation_id": 2}),
    ]
    document = document_of(blueprint.trace(lines))
    assert document.headline.finding == "input.bound"
    assert document.headline.text == (
        "Input-bound: waiting for data takes 59.9 % of the time."
    )
    (found,) = (one for one in document.findings if one.id == "input.bound")
    assert (found.severity, found.ms_per_step, found.saving_ms) == ("warn", None, None)
    said = plain_text(as_text.render(report_outline(document), width=200))
    assert "The program waits for its data: 59.9 % of the time." in said
    assert "Without steps, the verdict is at most moderately input-bound." in said


def test_the_end_of_the_program_is_no_wait_for_a_result() -> None:
    """After the last kernel the program waits once, and then frees memory."""
    lines = [
        ("main", "cuLaunchKernel", 0, 5, {"correlation_id": 1}),
        ("gpu:0/7(Compute)", "sgemm", 10, 60_000, {"correlation_id": 1}),
        ("main", "cuCtxSynchronize", 10, 60_002),
        *(("main", "cuMemFree", 60_015 + 10 * at, 9) for at in range(4_000)),
    ]
    document = document_of(blueprint.trace(lines))
    (found,) = (one for one in document.findings if one.id == "gap.readback")
    assert found.status == "pass"
    assert found.share_percent == pytest.approx(0.0, abs=0.01)
