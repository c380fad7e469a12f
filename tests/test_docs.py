"""Documentation is proven: what exists has its page, and what is generated is fresh."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from stepscope.analysis.tools import TOOLS
from stepscope.trace.tables import TABLES
from stepscope.unavailable import CODES

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_every_tool_has_a_page(tool: str) -> None:
    page = (ROOT / "docs" / "tools" / f"{tool}.md").read_text(encoding="utf-8")
    assert tool in page


def test_every_rule_has_a_page() -> None:
    rules = {
        path.stem
        for path in (ROOT / "src" / "stepscope" / "advice" / "rules").glob("*.py")
        if path.stem not in {"__init__", "registry"}
    }
    pages = {path.stem for path in (ROOT / "docs" / "advice").glob("*.md")}
    assert rules
    assert rules - pages == set()


def test_the_page_of_the_tables_is_generated_from_their_declarations() -> None:
    path = ROOT / "build_tools" / "table_docs.py"
    spec = importlib.util.spec_from_file_location("table_docs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    assert page == module.render(TABLES.values())


def test_every_column_says_what_it_is() -> None:
    silent = [
        f"{schema.name}.{column.name}"
        for schema in TABLES.values()
        for column in schema.columns
        if not column.about.endswith(".")
    ]
    assert silent == []


def test_every_code_of_missing_data_is_in_the_glossary() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert {code for code in CODES if code not in page} == set()
