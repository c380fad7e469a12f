"""What readers say: each declared sentence is used, and each used one is declared."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from stepscope.formats.declared_texts import quality_note, why_absent
from stepscope.remedies import Remedy
from stepscope.trace.schema import read_rows
from stepscope.trace.tables import QUALITY
from stepscope.unavailable import CODES

FORMATS = Path(__file__).parents[2] / "src" / "stepscope" / "formats"


def rows(name: str) -> list[list[str]]:
    return list(read_rows((FORMATS / name).read_text(encoding="utf-8")))


def used_keys(function: str) -> set[str]:
    """The keys that calls of a function give, as patterns where parts are computed."""
    calls = (
        node
        for path in FORMATS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    )
    patterns = set()
    for call in calls:
        names = {it.id for it in (call.func, *call.args) if isinstance(it, ast.Name)}
        if function not in names:
            continue
        nodes = [node for arg in call.args[:2] for node in ast.walk(arg)]
        parts_of_texts = {
            id(part)
            for node in nodes
            if isinstance(node, ast.JoinedStr)
            for part in node.values
        }
        for node in nodes:
            if id(node) in parts_of_texts:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = (
                    re.escape(str(part.value))
                    if isinstance(part, ast.Constant)
                    else r"\w*(?:\.\w+)?"
                    for part in node.values
                )
                patterns.add("".join(parts))
            elif isinstance(node, ast.Constant) and "." in str(node.value):
                patterns.add(re.escape(str(node.value)))
    return patterns


@pytest.mark.parametrize(
    ("function", "name"), [("why_absent", "reasons.md"), ("quality_note", "notes.md")]
)
def test_each_sentence_is_used_and_each_used_one_is_declared(
    function: str, name: str
) -> None:
    declared = Counter(key for key, *_ in rows(name))
    assert max(declared.values()) == 1
    patterns = used_keys(function)
    undeclared = {
        it for it in patterns if not any(re.fullmatch(it, key) for key in declared)
    }
    assert undeclared == set()
    unused = {
        key for key in declared if not any(re.fullmatch(it, key) for it in patterns)
    }
    assert unused == set()


def test_codes_and_severities_are_declared_ones() -> None:
    assert {code for _, code, *_ in rows("reasons.md")} <= set(CODES)
    severities = set(QUALITY.categories("severity").categories)
    assert {severity for _, severity, *_ in rows("notes.md")} <= severities


def test_values_stand_where_they_are_named() -> None:
    note = quality_note("kineto.refused_events", 1234, scope="too late", shown="a; b")
    assert (note.kind, note.severity, note.count) == ("refused_events", "warning", 1234)
    assert note.scope == "too late"
    assert note.message == "1,234 events too late are left out. The first event: a; b"
    assert note.remedy is None
    why = why_absent("any.idle_devices", evidence="it slept")
    assert why.reason.startswith("A device is listed, but it slept: ")


def test_an_id_of_a_remedy_stays_one() -> None:
    assert isinstance(why_absent("any.damaged", at=3).remedy, Remedy)
    assert isinstance(why_absent("xplane.no_hlo").remedy, Remedy)
