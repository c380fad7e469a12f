"""What `make mutants` changes, and what it leaves alone."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build_tools"))

from mutations import find_places, insert_probes  # noqa: E402 - its folder is no package


def changes(source: str) -> list[tuple[str, str]]:
    """Each operator that applies, with the line that it leaves."""
    module = ast.parse(source)
    found = []
    for ordinal, place in enumerate(find_places(module)):
        for operator in place.replacements:
            tree = ast.parse(source)
            find_places(tree)[ordinal].replace(operator)
            found.append((operator, ast.unparse(tree)))
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "a < b",
            [("comparison boundary", "a <= b"), ("comparison negated", "a >= b")],
        ),
        ("a >= b", [("comparison boundary", "a > b"), ("comparison negated", "a < b")]),
        ("a == b", [("comparison negated", "a != b")]),
        ("a in b", [("comparison negated", "a not in b")]),
        ("a + b", [("arithmetic swapped", "a - b")]),
        ("a // b", [("arithmetic swapped", "a * b")]),
        ("a and b", [("and/or swapped", "a or b")]),
        ("not a", [("not removed", "a")]),
        ("-a", [("minus removed", "a")]),
        ("True", [("constant flipped", "False")]),
        ("7", [("constant + 1", "8"), ("constant - 1", "6")]),
        ("-1", [("constant - 1", "-0")]),
        ("x = min(a)", [("call swapped", "x = max(a)")]),
        ("x = a.first()", [("call swapped", "x = a.last()")]),
        ("f(a)", [("statement dropped", "pass")]),
        ("a if b else c", [("condition negated", "a if not b else c")]),
        ("[a for a in b if c]", [("condition negated", "[a for a in b if not c]")]),
    ],
)
def test_each_operator_makes_one_change(
    source: str, expected: list[tuple[str, str]]
) -> None:
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring with 7 < 8."""',
        'def f(a: "int | None") -> list[3]:\n    return a',
        "x: 3 = a",
        "Union = A | B",
        "__all__ = [1]",
        "if TYPE_CHECKING:\n    x = 3",
        "class Kind(IntEnum):\n    A = 1",
        "@cache(maxsize=3)\ndef f():\n    return a",
        "x = f'{a + 1}'",
        "x = 'a' + b",
        "x = zip(a, strict=True)",
        "assert a < 3",
    ],
)
def test_texts_types_and_declarations_are_left_alone(source: str) -> None:
    assert changes(source) == []


def test_a_place_names_its_line_and_the_block_that_runs_it() -> None:
    source = "a = 3\ndef f():\n    if b:\n        return 4\n    return 5\n"
    places = find_places(ast.parse(source))
    assert [(place.line, place.block) for place in places] == [
        (1, 0),  # when the module is imported
        (3, 3),  # the condition, with the function
        (4, 4),
        (5, 3),
    ]


def test_probes_note_the_blocks_that_run() -> None:
    source = 'def f(b):\n    "Says."\n    if b:\n        return 4\n    return 5\n'
    module = ast.parse(source)
    insert_probes(module)
    hits: set[tuple[str, int]] = set()
    names = {"_blocks_that_ran": hits, "__name__": "m"}
    exec(compile(module, "m.py", "exec"), names)  # noqa: S102 - the source above
    function = names["f"]
    assert callable(function)
    assert function.__doc__ == "Says."
    assert hits == set()
    assert function(0) == 5
    assert hits == {("m", 2)}
    function(1)
    assert hits == {("m", 2), ("m", 4)}
