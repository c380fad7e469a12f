"""Documentation is proven: what exists has its page, and what is generated is fresh."""

from __future__ import annotations

import importlib.util
import re
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stepscope.advice.registry import RULES
from stepscope.analysis.results.tables import tool_tables
from stepscope.analysis.tools import TOOLS
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.schema import read_rows
from stepscope.trace.tables import TABLES
from stepscope.unavailable import CODES

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_every_tool_has_a_page(tool: str) -> None:
    page = (ROOT / "docs" / "tools" / f"{tool}.md").read_text(encoding="utf-8")
    assert tool in page


def test_modules_that_pages_name_exist() -> None:
    """Decisions name modules of their time."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    named = {
        (str(page.relative_to(ROOT)), found)
        for page in pages
        if page.parent.name != "decisions"
        for found in re.findall(
            r"`([\w./]+/\w+\.tsx?|[\w./]+/\w+\.py)`", page.read_text(encoding="utf-8")
        )
    }
    roots = [ROOT, ROOT / "src" / "stepscope", ROOT / "web" / "src"]
    lost = [
        (page, name)
        for page, name in sorted(named)
        if not any((root / name).is_file() for root in roots)
    ]
    assert len(named) > 20
    assert lost == []


def build_tool(name: str) -> ModuleType:
    path = ROOT / "build_tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_tables_is_generated_from_their_declarations() -> None:
    page = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    assert page == build_tool("table_docs").render(TABLES.values())


def test_the_list_of_rules_is_generated_from_the_registry() -> None:
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    written = build_tool("rule_list").with_rules(page, RULES)
    assert page == written, "run python build_tools/rule_list.py"
    assert all(f"`{rule.item.id}`" in written for rule in RULES)


def test_each_rules_page_is_made_from_its_declared_texts() -> None:
    written = build_tool("rule_pages").pages()
    pages = {
        path.name: path.read_text(encoding="utf-8")
        for path in (ROOT / "docs" / "advice").glob("*.md")
    }
    assert pages == written, "run python build_tools/rule_pages.py"
    assert {page.count("## What to do\n") for page in written.values()} == {1}
    # What a rule advises by cause is on its page too.
    assert "prefetch_factor" in written["input_bound.md"]


def test_transcripts_are_what_commands_print_today() -> None:
    tool = build_tool("transcripts")
    pages = tool.pages()
    assert pages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text == tool.render(text), "run python build_tools/transcripts.py"


RESULT_TABLES = build_tool("web_sources").result_tables()


@pytest.mark.parametrize("tool", RESULT_TABLES)
def test_the_columns_of_a_tool_are_generated_from_their_declarations(
    tool: str,
) -> None:
    page = (ROOT / "docs" / "columns" / f"{tool}.md").read_text(encoding="utf-8")
    written = build_tool("table_docs").columns_page(tool, RESULT_TABLES[tool])
    assert page == written, "run python build_tools/table_docs.py"


@pytest.mark.parametrize("tool", RESULT_TABLES)
def test_a_tools_file_declares_the_tables_of_its_result(tool: str) -> None:
    assert list(tool_tables(tool).values()) == RESULT_TABLES[tool]


def test_every_column_says_what_it_is() -> None:
    silent = [
        f"{schema.name}.{column.name}"
        for schema in chain(TABLES.values(), *RESULT_TABLES.values())
        for column in schema.columns
        if not column.about.endswith((".", "…"))
    ]
    assert silent == []


def test_every_code_of_missing_data_is_in_the_glossary() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert {code for code in CODES if code not in page} == set()


def test_every_name_of_a_value_says_what_it_is_and_who_writes_it() -> None:
    text = (ROOT / "src/stepscope/trace/stat_keys.md").read_text(encoding="utf-8")
    rows = list(read_rows(text))
    assert [name for name, _, _ in rows] == [key.value for key in StatKey]
    assert [name for name, about, _ in rows if not about.endswith(".")] == []
    assert [name for name, _, writers in rows if not writers] == []


#: What a page has between such marks is made by a program.
GENERATED = re.compile(r"<!-- ([\w ]+):begin -->.*?<!-- \1:end -->", re.DOTALL)
#: Folders that are reference: made by a program, or a page for each rule.
REFERENCE = frozenset({"advice", "columns"})
#: Folder or page → who reads it; any other is for users.
READERS = {
    **dict.fromkeys(("definitions", "formats"), "who asks how a number is made"),
    **dict.fromkeys(
        ("where-a-steps-time-goes", "how-steps-are-found", "replay", "predictions"),
        "who asks how a number is made",
    ),
    **dict.fromkeys(("decisions", "architecture", "benchmarks"), "developers"),
}
#: Words that people write and read: these may only fall, except for a new capability.
#: Raised last for users from 29,500 words (installation and systems, integrations, the
#: command line and its variables, troubleshooting, which tool when, from slow to fast),
#: and for developers from 8,000 (decisions about wheels, site, server, configuration).
#: Then for Ray Train (84), notebooks (30), and the decision on recordings of PyTorch
#: (136), for the page in one file (203 and 123), and for jobs that hang (251).
MOST_WORDS = {
    "users": 34_568,
    "who asks how a number is made": 17_450,
    "developers": 9_209,
}
DECISION_LINES = 30
RELEASE_LINES = 120


def written_words(page: Path) -> int:
    return len(GENERATED.sub("", page.read_text(encoding="utf-8")).split())


def test_the_docs_stay_short_enough_to_be_read() -> None:
    words = dict.fromkeys(MOST_WORDS, 0)
    for page in (ROOT / "docs").rglob("*.md"):
        folder = page.parent.name
        if folder not in REFERENCE and page.name != "tables.md":
            reader = READERS.get(folder) or READERS.get(page.stem) or "users"
            words[reader] += written_words(page)
    assert {who for who, most in MOST_WORDS.items() if words[who] > most} == set()


def test_a_decision_and_a_release_are_short() -> None:
    lines = {
        page.name: len(page.read_text(encoding="utf-8").splitlines())
        for page in (ROOT / "docs" / "decisions").glob("*.md")
    }
    assert {name for name, count in lines.items() if count > DECISION_LINES} == set()
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    assert [
        len(one.splitlines())
        for one in changes
        if len(one.splitlines()) > RELEASE_LINES
    ] == []
