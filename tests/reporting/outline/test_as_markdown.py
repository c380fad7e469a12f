"""Markdown that shows every name as it is, whatever the name holds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.reporting.outline.as_markdown import render
from stepscope.reporting.outline.parts import (
    Bar,
    Bars,
    Bullets,
    Check,
    Code,
    Excerpt,
    Heading,
    Item,
    Items,
    Labelled,
    More,
    Paragraph,
    Series,
    Table,
    Title,
)


def unescaped(text: str) -> str:
    return re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text)


def test_each_part_has_its_form() -> None:
    outline = (
        Heading("Title", 1),
        Paragraph("First.", strong=True),
        Bullets(("one", "two"), numbered=True),
        Bullets(("three",)),
        Code("a = b | c"),
        Table(("name", "time"), (("x", "1 ms"),)),
    )
    assert render(outline) == (
        "# Title\n\n**First.**\n\n1. one\n2. two\n\n- three\n\n"
        "```\na = b | c\n```\n\n"
        "| name | time |\n| --- | --: |\n| x | 1 ms |\n"
    )


def test_drawings_of_a_page_are_tables_and_lists() -> None:
    below = (Check("✗ critical", "bad", "x.y", "it waits"), Labelled("do", "Cache."))
    again = Labelled("do", "Read ahead.", again=True)
    outline = (
        Title("run"),
        Bars((Bar("Input", "1 ms", 50.0, (Excerpt("load", "20 %"),)),), "of a step"),
        Series("a: ", (1.0, 2.0, 8.0)),
        Items((Item("✗", "bad", "Input", (*below, again)), Item("•", "dim", "Rest"))),
        More("show it"),
    )
    assert render(outline) == (
        "# run\n\n"
        "| category | of a step | share |  |\n| --- | --: | --: | --- |\n"
        "| Input | 1 ms | 50.0 % | load 20 % |\n\n"
        "a: `▂▃█`\n\n"
        "- ✗ Input\n- Rest\n\n### x.y: it waits\n\n- Do: Cache.\n- Do: Read ahead.\n\n"
        "More: `show it`\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::elementwise<4, std::array<char*, 2ul>>",
        "<script>alert(1)</script>",
        "a|b",
        "# no heading",
        "1. no list",
        "- no list",
        "~~x~~ *y* _z_ `q",
        "[text](http://x)",
        "&lt;",
        "\\",
    ],
)
def test_names_have_no_meaning_in_markdown(name: str) -> None:
    table = render((Table(("kernel", "time"), ((name, "1 ms"),)),))
    row = table.splitlines()[2]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    assert unescaped(row) == f"| {name} | 1 ms |"
    for form in (Paragraph(name), Heading(name), Bullets((name,))):
        written = render((form,))
        assert unescaped(written).rstrip("\n").endswith(name)
        assert not re.search(r"(?<!\\)<", written)


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=5))
def test_a_table_has_a_line_for_each_row(rows: list[tuple[str, str]]) -> None:
    written = render((Table(("a", "b"), tuple(rows)),))
    assert written.endswith("|\n")
    assert len(written[:-1].split("\n")) == len(rows) + 2
    for row in written[:-1].split("\n"):
        outside = re.sub(r"`[^`]*`", lambda one: one[0].replace("\\|", ""), row)
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", outside)) >= 3


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert render((Code("```"),)) == "````\n```\n````\n"
