"""A gain that may be more than its range says so in every output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support.results.pages import document_of
from tests.support.traces import blueprint
from tests.support.traces.training import KERNELS, MATMUL, SGEMM, together

from stepscope.analysis.tools import ProfileWithTools
from stepscope.reporting.compose import judge_profile
from stepscope.reporting.outline import as_markdown, as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text
from stepscope.reporting.to_json import render_document
from stepscope.serve.runs.judged import findings_record

if TYPE_CHECKING:
    from stepscope.trace.model import TraceData

RULE = "amp.share"
OPEN = "or more: the computing speed after the change cannot be predicted"


def products_in_32_bit() -> TraceData:
    return blueprint.trace(
        together(kernels=[(SGEMM, 300.0, MATMUL)] * 20 + list(KERNELS[20:])),
        devices={0: blueprint.A100},
    )


# Works out a whole report of a GPU's run twice.
@pytest.mark.slow
def test_every_output_says_that_a_gain_is_open_above() -> None:
    trace = products_in_32_bit()
    document = document_of(trace)
    (found,) = (one for one in document.findings if one.id == RULE)
    assert found.saving_ms is not None
    assert found.saving_ms.open_above
    text = " ".join(
        plain_text(as_text.render(report_outline(document), width=90)).split()
    )
    assert OPEN in text
    assert OPEN in as_markdown.render(report_outline(document))
    answer = json.loads(render_document(document))
    (told,) = (one for one in answer["findings"] if one["id"] == RULE)
    assert told["saving_ms"]["open_above"] is True
    profile = ProfileWithTools("run", {trace.host: trace})
    page = findings_record(profile, judge_profile(profile))["findings"]
    (shown,) = (one for one in page if one["id"] == RULE)
    assert OPEN.replace("more", "less") in shown["words"]["gain"]
