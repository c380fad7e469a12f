"""Counts of the code that may only fall: lines, modules, and names that say little."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Functions that each module of a kind has under the same name.
SIGNATURES: Final = frozenset({"read", "analyse", "evaluate", "render"})
#: Parts of a name that say nothing by themselves.
EMPTY_WORDS: Final = frozenset(
    {"of", "in", "at", "to", "for", "by", "from", "with", "it", "one", "all", "and"}
)
#: Decorators that make a property, a command, or a derivation, which is its noun.
_UNCOUNTED_DECORATORS: Final = frozenset(
    {"property", "cached_property", "command", "group", "derivation", "overload"}
)


class FunctionCounts(NamedTuple):
    """Functions of some modules.

    Attributes:
        functions: All functions and methods.
        named: Those whose name is the author's choice.
        one_word: Those of `named` whose name has fewer than two words.
        private: Those whose name begins with one underscore.
        private_used_once: Those of `private` that their module names once.
    """

    functions: int
    named: int
    one_word: int
    private: int
    private_used_once: int


def count_functions(paths: list[Path]) -> FunctionCounts:
    """Count the functions of some modules."""
    functions = named = one_word = private = used_once = 0
    for path in paths:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        uses = _count_names(nodes)
        for function in nodes:
            if not isinstance(function, Function):
                continue
            functions += 1
            if _is_dunder(function.name):
                continue
            if is_counted(function):
                named += 1
                one_word += len(words_of(function.name)) < 2
            if function.name.startswith("_"):
                private += 1
                used_once += uses.get(function.name, 0) == 1
    return FunctionCounts(functions, named, one_word, private, used_once)


def words_of(name: str) -> list[str]:
    """Return the words of a name that say something."""
    words = name.strip("_").split("_")
    return [word for word in words if word and word not in EMPTY_WORDS]


def is_counted(function: Function) -> bool:
    """Return whether the author chose the name of a function."""
    decorators = {
        part.attr if isinstance(part, ast.Attribute) else part.id
        for decorator in function.decorator_list
        for part in ast.walk(decorator)
        if isinstance(part, ast.Attribute | ast.Name)
    }
    return (
        function.name not in SIGNATURES
        and not _is_dunder(function.name)
        and not decorators & _UNCOUNTED_DECORATORS
    )


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _count_names(nodes: list[ast.AST]) -> dict[str, int]:
    uses: dict[str, int] = {}
    for node in nodes:
        name = (
            node.id
            if isinstance(node, ast.Name)
            else node.attr
            if isinstance(node, ast.Attribute)
            else None
        )
        if name is not None:
            uses[name] = uses.get(name, 0) + 1
    return uses
