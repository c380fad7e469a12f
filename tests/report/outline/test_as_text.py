"""Outlines on a terminal."""

from __future__ import annotations

from stepscope.report.outline.as_text import render
from stepscope.report.outline.parts import Bullets, Code, Heading, Paragraph, Table
from stepscope.report.page import plain_text


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
