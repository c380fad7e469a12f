"""Rules' pages as parts of an outline."""

from __future__ import annotations

import pytest

from stepscope.advice.registry import RULES
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.explanation import parse_markdown, rule_definition
from stepscope.reporting.outline.parts import Bullets, Code, Heading, Paragraph, Table
from stepscope.reporting.page import plain_text


def test_the_little_of_markdown_that_pages_are_written_in() -> None:
    text = (
        "# Title\n\nOne [link](x.md#y)\nand more.\n\n## Part\n* a\n  b\n* c\n\n"
        "| x | y |\n|---|--:|\n| `p\\|q` | 2 |\n\n    indented code\n\n"
        "```\nfenced\n```\n"
    )
    assert list(parse_markdown(text)) == [
        Heading("Title", 2),
        Paragraph("One link and more."),
        Heading("Part", 3),
        Bullets(("a b", "c")),
        Table(("x", "y"), (("`p|q`", "2"),), frozenset({0, 1})),
        Code("indented code"),
        Code("fenced"),
    ]


@pytest.mark.parametrize("rule", [rule.item.id for rule in RULES])
def test_the_page_of_every_rule_fits_a_terminal(rule: str) -> None:
    page = rule_definition(rule)
    assert page is not None
    text = plain_text(as_text.render(page, width=80))
    code = {one.text.strip() for one in page if isinstance(one, Code)}
    long = [one for one in text.splitlines() if len(one) > 80]
    assert [one for one in long if one.strip() not in code and " " in one.strip()] == []
    assert "](" not in text


def test_a_rule_without_a_page_has_none() -> None:
    assert rule_definition("no.such_rule") is None
