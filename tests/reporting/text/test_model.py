"""The tree of a view on the screen."""

from __future__ import annotations

from typing import Any

from tests.support.traces import blueprint

from stepscope.analysis import model_views
from stepscope.analysis.model_views import ModelViewsResult, Options
from stepscope.reporting.outline import as_text
from stepscope.reporting.text import model as text_model
from stepscope.reporting.to_table import MAX_ROWS


def shown(trace: Any, view: str = "scope", width: int = 100, **options: Any) -> str:
    result = model_views.analyse(blueprint.profile(trace), Options(**options))
    assert isinstance(result, ModelViewsResult)
    others = ["scope", "graph", "op", "code", "summary"]
    outline = text_model.view_outline(
        result, view=view, title="Model views", others=others
    )
    return as_text.render_page(outline, width=width)


def test_scopes_are_indented_and_say_only_what_is_new() -> None:
    lines = shown(blueprint.a1()).splitlines()
    assert lines[2].split() == [
        *("scope", "total", "%", "self", "device", "count", "type")
    ]
    assert lines[3].startswith("  model ")
    assert lines[4].startswith("    dense ")
    assert lines[5].startswith("      MatMul ")
    assert lines[5].split()[1:] == [
        *("800", "µs", "29.4", "800", "µs", "800", "µs", "8", "MatMul")
    ]


def test_columns_of_nothing_are_reasons_instead() -> None:
    text = shown(blueprint.a2(), "op")
    heading = text.splitlines()[2]
    assert "device" not in heading
    assert "flops" not in heading
    assert "op.flops" in text
    assert "scope.flops" not in text
    assert "record_shapes=True" in text


def test_a_large_tree_shows_its_costliest_nodes_with_what_is_above_them() -> None:
    lines = [
        ("main", f"net/layer_{at}/MatMul:MatMul", 1000 * at, 1 + at) for at in range(80)
    ]
    text = shown(blueprint.trace(lines))
    rows = text.splitlines()[3 : 3 + MAX_ROWS]
    assert rows[0].startswith("  net ")
    assert rows[1].startswith("    layer_79 ")
    assert rows[2].startswith("      MatMul ")
    assert f"These are the {MAX_ROWS} costliest of 161 nodes" in text


def test_options_that_leave_nothing_say_so() -> None:
    text = shown(blueprint.a1(), show_name_regexes=("nothing",))
    assert "These options select no node." in text


def test_no_line_is_wider_than_the_screen() -> None:
    name = "/".join(["a_rather_long_scope_name"] * 8)
    text = shown(blueprint.trace([("main", f"{name}/MatMul:MatMul", 0, 5)]), width=80)
    assert max(map(len, text.splitlines())) <= 80
