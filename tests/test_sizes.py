"""Sizes are a symptom worth watching: a ratchet holds them."""

from __future__ import annotations

import ast
import statistics
from functools import cache
from pathlib import Path

import pytest
from tests.support.code_counts import count_functions, words_of
from tests.support.programs.statements import statements

#: `make check` runs them too.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "stepscope"
#: Whatever is read is held to the same sizes, what proves the program included.
FOLDERS = ("src/stepscope", "tests", "benchmarks", "build_tools")
MODULE_LINES = 600
MEDIAN_MODULE_LINES = 300
FUNCTION_LINES = 80
P95_FUNCTION_LINES = 50
#: What `src` may hold at most. Lower a figure when the code has become smaller; raise
#: one only together with a new capability, and name the capability beside the figure.
#: Raised last for integrations with trainers (682 lines; the hooks of Lightning and
#: Accelerate have names of one word), completion, the logger of the recorder and the
#: schema's number in exports (211), reading on other systems (15), Ray Train (112,
#: the count of PyTorch's events without a restart included), notebooks (60), and the
#: page in one file, with redaction and frames in notebooks (977 lines, 7 modules, 17
#: functions used once); before these, 138,835 lines of Python.
MOST = {
    "lines of Python": 141_995,
    "lines of Python and declared data": 151_368,
    "modules of Python": 733,
    "functions with names of one word, %": 8.41,
    "private functions that are used once": 1_179,
}
#: Function → the reason why it may be longer.
LONG_FUNCTIONS: dict[str, str] = {}


def modules(folder: str = "src/stepscope") -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def declared() -> list[Path]:
    """Texts, columns, reasons, remedies and thresholds that are declared as data."""
    made = {"compiled_texts.json", "pages", "static", "demo_profiles"}
    return [
        path
        for kind in ("toml", "json", "md")
        for path in sorted(SOURCE.rglob(f"*.{kind}"))
        if not made & {path.name, *path.relative_to(SOURCE).parts}
    ]


@cache
def function_lengths(folder: str) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for path in modules(folder):
        for node in statements(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path.relative_to(ROOT)}:{node.name}"
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                # Of those of one name in a file the longest counts.
                lengths[name] = max(length, lengths.get(name, 0))
    return lengths


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_is_too_long(folder: str) -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in modules(folder)
    }
    assert {name: n for name, n in lines.items() if n > MODULE_LINES} == {}
    assert statistics.median(lines.values()) <= MEDIAN_MODULE_LINES


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_function_is_too_long(folder: str) -> None:
    lengths = function_lengths(folder)
    long = {name for name, n in lengths.items() if n > FUNCTION_LINES}
    assert long - LONG_FUNCTIONS.keys() == set()
    ranked = sorted(lengths.values())
    assert ranked[int(0.95 * len(ranked))] <= P95_FUNCTION_LINES


def test_no_reason_stands_for_a_function_that_is_short_again() -> None:
    lengths = {
        name: n for folder in FOLDERS for name, n in function_lengths(folder).items()
    }
    kept = {name for name in LONG_FUNCTIONS if lengths.get(name, 0) > FUNCTION_LINES}
    assert kept == LONG_FUNCTIONS.keys(), "the ratchet may be tightened"


def test_the_totals_only_fall() -> None:
    paths = modules()
    functions = count_functions(paths)
    counted = {
        "lines of Python": sum(
            len(path.read_text("utf-8").splitlines()) for path in paths
        ),
        "lines of Python and declared data": sum(
            len(path.read_text("utf-8").splitlines()) for path in (*paths, *declared())
        ),
        "modules of Python": len(paths),
        "functions with names of one word, %": (
            100 * functions.one_word / functions.named
        ),
        "private functions that are used once": functions.private_used_once,
    }
    above = {name: count for name, count in counted.items() if count > MOST[name]}
    assert above == {}


def test_words_of_names_are_counted_as_people_read_them() -> None:
    assert words_of("_by_host") == ["host"]
    assert words_of("kernels_of") == ["kernels"]
    assert words_of("merge_adjacent_intervals") == ["merge", "adjacent", "intervals"]


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
