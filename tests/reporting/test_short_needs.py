"""A short report runs only the tools whose results it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.reporting.compose import compose_report
from stepscope.reporting.document import ALWAYS_REPORTED, REPORTED
from stepscope.reporting.outline.report import SHORT_SECTIONS, report_outline
from stepscope.session import open_profile

DATA = Path(__file__).resolve().parents[1] / "data"
RECORDINGS = ("gpu/torch_healthy", "torch_train", "jax_cpu/steps")


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_short_report_runs_no_tool_that_it_does_not_show(name: str) -> None:
    document = compose_report(open_profile(DATA / name), is_short=True)
    assert report_outline(document, sections=SHORT_SECTIONS)
    assert set(document.results) == set(ALWAYS_REPORTED)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_short_document_has_the_same_results_as_a_full_one(name: str) -> None:
    profile = open_profile(DATA / name)
    short, full = compose_report(profile, is_short=True), compose_report(profile)
    assert set(full.results) == set(REPORTED)
    assert report_outline(short) == report_outline(full)
    assert set(short.results) == set(REPORTED)
