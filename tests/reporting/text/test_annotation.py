"""Named ranges in the report, and one of them as a page."""

from __future__ import annotations

from typing import Any

from tests.support.traces import blueprint

from stepscope.analysis import model_views
from stepscope.analysis.model_views import (
    AnnotationDetailResult,
    ModelViewsResult,
    Options,
)
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.tools import top_annotations
from stepscope.reporting.page import plain_text
from stepscope.reporting.tables import tables
from stepscope.reporting.text import model as text_model

LINES: list[blueprint.Line] = [
    ("main", "train", 0, 900, {"_r": 1, "step_num": 4}),
    ("main", "load", 10, 200),
    ("main", "load", 300, 400),
    ("main", "a/MatMul:MatMul", 310, 50),
    ("main", "cuLaunchKernel", 320, 5, {"correlation_id": 1}),
    ("worker", "cuLaunchKernel", 320, 5, {"correlation_id": 2}),
    ("gpu:0/7", "gemm", 400, 30, {"correlation_id": 1}),
    ("gpu:0/7", "relu", 450, 20, {"correlation_id": 2}),
]


class Silent:
    def stage(self, what: str) -> None:
        """Nobody waits."""


def result_of(lines: list[blueprint.Line], **options: Any) -> ModelViewsResult:
    profile = blueprint.profile(blueprint.trace(lines))
    result = model_views.analyse(profile, Options(**options))
    assert isinstance(result, ModelViewsResult)
    return result


def test_the_tree_shows_host_and_device_time_and_what_lies_outside() -> None:
    result = result_of(LINES)
    outline = text_model.view_outline(
        result, view="annotation", title="T", others=list(tables(result))
    )
    text = as_text.render_page(outline, width=100)
    lines = text.splitlines()
    assert lines[2].split() == [
        *("annotation", "total", "%", "self", "device", "count", "launches"),
        *("per", "step"),
    ]
    assert lines[4].split() == [
        *("load", "600", "µs", "66.7", "600", "µs", "30.0", "µs", "2", "1"),
        *("600", "µs"),
    ]
    assert "20.0 µs of device work was launched outside of these ranges" in text


def test_one_annotation_is_a_page() -> None:
    result = result_of(LINES, op="load")
    assert isinstance(result, AnnotationDetailResult)
    outline = text_model.annotation_outline(
        result, title="T", others=list(tables(result))
    )
    text = as_text.render_page(outline, width=100)
    assert "2 calls, 600 µs on the host; the longest took 400 µs" in text
    assert "in step 4" in text
    assert "1 launch in the range started 30.0 µs of device work" in text
    for held in ("a/MatMul", "gemm", "detail.calls", "By step"):
        assert held in text
    assert "relu" not in text


def test_a_report_names_the_costliest_ranges_in_five_lines() -> None:
    named = [
        ("main", f"part {letter}", 100 * at, 90) for at, letter in enumerate("abcdef")
    ]
    document = compose_report(blueprint.profile(blueprint.trace(named)), Silent())
    body = as_text.render(tuple(top_annotations(document)), width=80)[:-1]
    assert len(body) <= 5
    assert "part a" in plain_text(body)
    unnamed = blueprint.trace([("main", "a/MatMul:MatMul", 0, 5)])
    document = compose_report(blueprint.profile(unnamed), Silent())
    assert list(top_annotations(document)) == []
