"""Outlines on a terminal."""

from __future__ import annotations

from stepscope.reporting.outline.as_text import render
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
from stepscope.reporting.page import plain_text


def test_sections_are_a_blank_line_apart() -> None:
    outline = (
        Heading("Runs", 1),
        Paragraph("First.", strong=True),
        Heading("Part"),
        Paragraph("Text."),
        Bullets(("a", "b"), numbered=True),
        Code("run me"),
    )
    assert plain_text(render(outline, width=40)) == (
        "Runs\nFirst.\n\nPart\n  Text.\n  1 a\n  2 b\n      run me\n\n"
    )


def test_numbers_stand_under_each_other_and_names_give_way() -> None:
    table = Table(("kernel", "time"), (("a" * 60, "1.5 ms"), ("b", "12 ms")))
    head, first, second, *_ = plain_text(render((table,), width=40)).splitlines()
    assert [len(one) for one in (head, first, second)] == [40, 40, 40]
    assert "…" in first
    assert second.endswith(" 12 ms")


def test_words_in_cells_are_never_cut() -> None:
    said = "the launch is on its way, or the thread is in a launch call"
    table = Table(("cause", "what it is"), (("launch", said),), frozenset({1}))
    text = plain_text(render((table,), width=40))
    assert " ".join(text.split()) == f"• launch · what it is: {said}"
    assert max(map(len, text.splitlines())) <= 40


def test_what_only_a_page_draws() -> None:
    outline = (
        Title("run"),
        Bars(
            (Bar("Input", "1 ms", 50.0, (Excerpt("load (a.py:1)", "20 %"),)),), "step"
        ),
        Series("a: ", (1.0, 2.0, 8.0)),
        Items(
            (
                Item(
                    "✗",
                    "bad",
                    "Input: 1 critical",
                    (
                        Check("✗ critical", "bad", "input.bound", "it waits"),
                        Labelled("do", "Read ahead."),
                        Code("prefetch(2)", indent=13),
                        Labelled("do", "Cache.", again=True),
                    ),
                ),
            )
        ),
        More("show it"),
    )
    assert plain_text(render(outline, width=66)).splitlines() == [
        "stepscope · run",
        "  Input                          1 ms   50.0 %  ████████",
        "      load (a.py:1)  20 %",
        "  a: ▂▃█",
        "  ✗ Input: 1 critical",
        "    ✗ critical  input.bound",
        "    do     Read ahead.",
        "             prefetch(2)",
        "           Cache.",
        "  more: show it",
        "",
    ]


def test_a_narrow_page_drops_what_can_be_spared() -> None:
    row = ("all-reduce", "12 ms", "–", "3 ms")
    header = ("kind", "time", "size", "exposed")
    table = Table(header, (row,), expendable=("exposed", "time"))
    for width, shown in ((60, header), (30, header[:3]), (24, ("kind", "size"))):
        head = plain_text(render((table,), width=width)).splitlines()[0]
        assert tuple(head.split()) == shown
    head = plain_text(render((table.without_unknown(),), width=60)).splitlines()[0]
    assert head.split() == ["kind", "time", "exposed"]
