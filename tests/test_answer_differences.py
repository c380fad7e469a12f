"""What compares the answers of two checkouts sees what differs, and of what kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build_tools"))

from answer_differences import (  # noqa: E402 - its folder is no package
    ABSENT,
    Difference,
    Fields,
    compare_checkouts,
    find_differences,
    read_fields,
)

OLD = {
    "headline": "The device waits.",
    "finding": "input.bound",
    "rows": [{"name": "a", "time_ps": 1}, {"name": "b", "time_ps": 2}],
}


def kinds(old: object, new: object, fields: Fields = Fields()) -> dict[str, str]:  # noqa: B008 - immutable
    return {it.path: it.kind for it in find_differences(old, new, fields)}


def test_equal_answers_have_no_difference() -> None:
    assert find_differences(OLD, dict(OLD)) == []


def test_a_sentence_is_a_text_and_a_name_without_blanks_is_an_id() -> None:
    new = {**OLD, "headline": "The host is late.", "finding": "host.bound"}
    assert kinds(OLD, new) == {"headline": "text", "finding": "id"}


def test_rows_that_differ_in_one_field_are_one_line_with_the_first_values() -> None:
    rows = [{"name": "a", "time_ps": 3}, {"name": "b", "time_ps": 4}]
    assert find_differences(OLD, {**OLD, "rows": rows}) == [
        Difference("number", "rows[].time_ps", 2, "rows[0].time_ps", 1, 3)
    ]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (1, 1.5, "number"),
        (1, True, "number"),
        (0, None, "number"),
        (None, "It was not recorded.", "shape"),
        ("device", None, "id"),
    ],
)
def test_what_stands_for_another_value_has_a_kind(
    old: object, new: object, kind: str
) -> None:
    assert kinds({"field": old}, {"field": new}) == {"field": kind}


def test_a_name_of_something_recorded_is_an_id_though_it_holds_blanks() -> None:
    old, new = ({"kernel": f"void {it}(int, int)"} for it in ("scale", "add"))
    assert kinds(old, new) == {"kernel": "id"}


def test_a_field_or_a_row_that_is_gone_is_a_difference_of_shape() -> None:
    new = {"headline": OLD["headline"], "rows": OLD["rows"][:1]}
    assert kinds(OLD, new) == {
        "finding": "shape",
        "rows.length": "shape",
        "rows[].name": "shape",
        "rows[].time_ps": "shape",
    }
    found = find_differences(OLD, new)
    assert {it.path: it.new for it in found}["finding"] is ABSENT


def test_reasons_for_null_fields_have_no_order() -> None:
    reasons = [{"field": "b", "reason": "It is."}, {"field": "a", "reason": "So."}]
    assert kinds({"missing": reasons}, {"missing": reasons[::-1]}) == {}
    fewer = kinds({"missing": reasons}, {"missing": reasons[1:]})
    assert fewer["missing.length"] == "shape"


def test_declared_fields_are_compared_under_their_new_names_or_not_at_all() -> None:
    new = {
        "headline": OLD["headline"],
        "table": [{"name": "a", "time_ps": 1}, {"name": "b", "time_ps": 7}],
        "count": 2,
    }
    fields = Fields(
        renamed={"rows": "table"},
        dropped={"finding": "The headline has it."},
        added={"count": "Rows in all."},
    )
    assert kinds(OLD, new, fields) == {"table[].time_ps": "number"}


def test_the_declared_fields_of_this_commit_can_be_read() -> None:
    read_fields()


PROGRAM = """\
import json
print(json.dumps({{"text": "{text} text", "number": {number}}}))
"""


def checkout(folder: Path, text: str, number: int) -> Path:
    """A checkout whose command line always gives the same answer."""
    package = folder / "src" / "stepscope"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(PROGRAM.format(text=text, number=number))
    (folder / ".gitignore").write_text("__pycache__/\n")
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={folder / "src"} exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    subprocess.run(("git", "init", "-q", str(folder)), check=True)
    return folder


@pytest.mark.slow(seconds=2)
def test_two_checkouts_are_asked_by_their_own_command_lines_and_answers_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = checkout(tmp_path / "old", "one", 1)
    new = checkout(tmp_path / "new", "another", 1)
    (tmp_path / "run.json").write_text("{}")
    recordings = [(tmp_path, "run", ("run.json",))]
    cache = tmp_path / "cache"
    assert compare_checkouts(old, new, recordings, cache) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split("\t") == [
        *("text", "run", "model_views.text", "x1", "'one text'", "'another text'")
    ]
    assert shown[-1] == "0 of 1 recordings equal; 4 of text differences"
    kept = sorted(cache.glob("*/*"))
    assert len(kept) == 2
    (old / ".venv" / "bin" / "python").unlink()
    other = checkout(tmp_path / "other", "one", 2)
    assert compare_checkouts(old, other, recordings, cache) == 1
    assert "number\trun\treport.number\tx1\t1\t2" in capsys.readouterr().out
