"""A table for the terminal: what fits, and what was left out."""

from __future__ import annotations

import polars as pl

from stepscope.reporting import to_table
from stepscope.reporting.exports import render_csv
from stepscope.unavailable import Missing, Unavailable


def rendered(frame: pl.DataFrame, *, width: int = 80, **more: object) -> list[str]:
    given = {"title": "T", "missing": (), "others": (), **more}
    return to_table.render(frame, width=width, **given).splitlines()  # type: ignore[arg-type]


def test_rows_beyond_the_limit_are_counted() -> None:
    lines = rendered(pl.DataFrame({"rank": range(1, 1001)}))
    assert lines[2].strip() == "rank"
    assert lines[-1].strip() == "950 of 1,000 rows are not shown; --format csv has all."
    assert len(lines) == 2 + 1 + 50 + 2


def test_telling_columns_stay_and_the_others_are_named() -> None:
    frame = pl.DataFrame(
        {
            "rank": [1],
            "name": ["op" * 60],
            "registers_per_thread_of_the_kernel": [3],
            "total_us": [1234.5],
            "another_rather_long_column_name": [1],
        }
    )
    lines = rendered(frame, width=70)
    assert lines[2].split() == ["rank", "name", "total_us"]
    assert lines[3].split()[-1] == "1,234.500"
    assert max(len(one) for one in lines) <= 70
    assert "registers_per_thread_of_the_kernel" in lines[-2]


def test_unknown_cells_are_marked_and_explained_once() -> None:
    why = {"code": "NO_HLO", "reason": "there is no HLO.", "remedy": "Compile."}
    lines = rendered(
        pl.DataFrame(
            {"a": [None], "b": [True]}, schema={"a": pl.Int64, "b": pl.Boolean}
        ),
        missing=(Missing(field="a", **why), Missing(field="c", **why)),
    )
    assert lines[3].split() == ["–", "yes"]
    assert lines[-1].strip() == "– a, c: There is no HLO. Compile."


def test_no_rows_are_said() -> None:
    assert rendered(pl.DataFrame({"a": []}, schema={"a": pl.Int64}))[-1] == "  No rows."


def test_other_tables_are_named() -> None:
    lines = rendered(pl.DataFrame({"a": [1]}), others=["pie", "summary"])
    assert lines[-1].strip() == "More tables (--table NAME): pie, summary."


def test_a_missing_tool_has_reason_remedy_and_code() -> None:
    why = Unavailable(code="NO_HLO", reason="No HLO.", remedy="Compile it.")
    text = to_table.render_unavailable("T", why, width=80)
    assert text.splitlines()[2:] == [
        "  Not available: No HLO.",
        "  To get it: Compile it.",
        "  (NO_HLO)",
    ]


def test_codes_are_words_on_a_screen_and_codes_in_files() -> None:
    frame = pl.DataFrame({"name": ["a"], "fill": ["small_grid"], "flags": ["open_end"]})
    shown = "\n".join(rendered(frame))
    assert "too few blocks" in shown
    assert "open end" in shown
    assert "small_grid" in render_csv(frame)
