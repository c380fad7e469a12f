"""Of every recording: what no finding may promise, and what no remedy may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.results.statements import read

from stepscope.remedies import CAUSES_OF_SILENT_DEVICES
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.reporting.document import Document

#: Rounding of means of integers.
CLOSE = 1 + 1e-6


def step_ms(document: Document) -> float | None:
    page = document.overview
    if isinstance(page, Unavailable) or page.window != "steps":
        return None
    return page.step_time_ms.mean


def test_no_saving_exceeds_the_step_or_the_time_of_its_finding(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    length = step_ms(document)
    for finding in document.findings:
        saving, effect = finding.saving_ms, finding.ms_per_step
        if saving is None:
            continue
        assert 0.0 <= saving.low <= saving.high, finding.id
        if effect is not None:
            assert saving.high <= effect * CLOSE, finding.id
        if length is not None:
            assert saving.high <= length * CLOSE, finding.id


def test_remedies_are_those_of_the_recordings_platform(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    text = plain_text(as_text.render(report_outline(document), width=100))
    commands = [line for remedy in CAUSES_OF_SILENT_DEVICES for line in remedy.commands]
    if document.silent_device is None or document.windows:
        assert not [line for line in commands if line in text]


def test_no_predicted_step_gains_more_than_its_finding_says(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    length = step_ms(document)
    for finding in document.findings:
        advised = {action.id for action in finding.actions}
        for one in finding.predictions:
            step = one.step_ms
            assert one.action in advised, finding.id
            assert step.low >= 0.0, finding.id
            assert (step.mid is None) == (step.high is None), finding.id
            if step.mid is None or step.high is None:
                continue
            assert step.low <= step.mid <= step.high, (finding.id, one)
            if length is not None and finding.ms_per_step is not None:
                least = length - finding.ms_per_step
                if one.model in {"removed", "rarer", "overlap", "pause"}:
                    # On a host the rest of a step keeps its caches.
                    least *= 1 - THRESHOLDS.warmer_rest.value / 100
                assert step.mid * CLOSE >= least / CLOSE - 1e-6, (finding.id, one)
