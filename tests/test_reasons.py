"""Why something cannot be told is said once, however many places say it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import stepscope

SOURCE = Path(stepscope.__file__).parent
PARTS = ("code", "reason", "remedy")


def test_no_reason_is_written_out_twice() -> None:
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "remedy=" in text else ():
            if not isinstance(node, ast.Call):
                continue
            given = {each.arg: each.value for each in node.keywords}
            texts = [given.get(part) for part in PARTS[:2]]
            if given.keys() >= set(PARTS) and all(
                isinstance(text, ast.Constant) for text in texts
            ):
                said = tuple(ast.unparse(given[part]) for part in PARTS)
                places[said].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert len(places) > 20
    assert [where for where in places.values() if len(where) > 1] == []
