"""Sizes are a symptom worth watching: a ratchet holds them."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "stepscope"
MODULE_LINES = 600
MEDIAN_MODULE_LINES = 200
FUNCTION_LINES = 80
P95_FUNCTION_LINES = 50
#: Function → the reason why it may be longer.
LONG_FUNCTIONS: dict[str, str] = {}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def function_lengths() -> dict[str, int]:
    lengths = {}
    for path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path.relative_to(SOURCE)}:{node.name}"
                lengths[name] = (node.end_lineno or node.lineno) - node.lineno + 1
    return lengths


def test_no_module_is_too_long() -> None:
    lines = {
        str(path.relative_to(SOURCE)): len(path.read_text("utf-8").splitlines())
        for path in modules()
    }
    assert {name: n for name, n in lines.items() if n > MODULE_LINES} == {}
    assert statistics.median(lines.values()) <= MEDIAN_MODULE_LINES


def test_no_function_is_too_long() -> None:
    lengths = function_lengths()
    long = {name for name, n in lengths.items() if n > FUNCTION_LINES}
    assert long - LONG_FUNCTIONS.keys() == set()
    assert LONG_FUNCTIONS.keys() - long == set(), "the ratchet may be tightened"
    ranked = sorted(lengths.values())
    assert ranked[int(0.95 * len(ranked))] <= P95_FUNCTION_LINES


def test_no_bucket_modules() -> None:
    buckets = {"utils.py", "common.py", "misc.py", "helpers.py"}
    assert {path.name for path in modules()} & buckets == set()


def test_nothing_is_left_unfinished() -> None:
    marks = ("TODO", "FIXME", "XXX", "NotImplementedError")
    found = [
        (str(path.relative_to(SOURCE)), mark)
        for path in modules()
        for mark in marks
        if mark in path.read_text(encoding="utf-8")
    ]
    assert found == []
