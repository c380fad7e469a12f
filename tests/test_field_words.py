"""What people read uses the field's words: these few say it in words of nobody else."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "stepscope"
#: What is not said → what is said in its place.
INSTEAD_OF: Final = {
    r"anew": "again",
    r"(?<!-)beside": "next to, in parallel with",
    r"seldom": "rarely",
    r"foretold|foretells?": "predicted",
    r"mend(?:s|ed|ing)?": "fix",
    r"stretch(?:es)?": "interval, span",
    r"of (?:its|their) own": "separate; self time",
    r"g[ia]ves? way": "yields, is dropped",
    r"told apart": "distinguished",
    r"h[oe]lds? up|holding up": "blocks, delays",
    r"so many": "at least N, that many",
    r"with all that (?:it|they) calls?": "total time",
    r"made elsewhere": "produced in another process or thread",
    r"makes batches|making batches": "produces batches",
    r"(?<!there )(?<!there's )(?:is|are) no (?!longer|more\b|less\b)": "is not a",
    r"stands? (?:in|beside|there)": "is in, is next to",
    r"room for blocks": "block slots, occupancy",
}
UNWANTED = re.compile(
    "|".join(rf"\b(?:{pattern})(?!\w)" for pattern in INSTEAD_OF), re.IGNORECASE
)
CODE = re.compile(r"```.*?```|``[^`]*``|`[^`]*`", re.DOTALL)
#: Made from the sources below `src`, or told of the past.
MADE = {
    "pages",
    "static",
    "demo_profiles",
    "decisions",
    "CHANGELOG.md",
    "compiled_texts.json",
}
#: Where people read → how often it may still be said. These may only fall.
MOST = {"docs": 2, "declared texts": 1, "messages": 2, "code": 5}


def is_read(path: Path) -> bool:
    return not MADE & {path.name, *path.relative_to(ROOT).parts}


@cache
def texts_of_python(path: Path) -> tuple[str, str]:
    """(Messages, docstrings and comments) of a module."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = [
        ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented)
    ]
    strings = {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    cleaned = {" ".join(text.split()) for text in docstrings}
    messages = [it for it in strings if " ".join(it.split()) not in cleaned]
    comments = [
        token.string.lstrip("#:")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    return "\n".join(messages), "\n".join((*docstrings, "\n\n", *comments))


def texts(area: str) -> list[tuple[Path, str]]:
    if area == "docs":
        paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    elif area == "declared texts":
        paths = [
            p for kind in ("toml", "json", "md") for p in SOURCE.rglob(f"*.{kind}")
        ]
    else:
        part = ("messages", "code").index(area)
        return [(path, texts_of_python(path)[part]) for path in SOURCE.rglob("*.py")]
    return [(path, path.read_text(encoding="utf-8")) for path in paths if is_read(path)]


@pytest.mark.slow
@pytest.mark.parametrize("area", MOST)
def test_the_fields_words_are_used(area: str) -> None:
    unwanted = [
        f"{path.relative_to(ROOT)}: {text[max(0, m.start() - 40) : m.end() + 30]!r}"
        for path, text in ((path, CODE.sub(" ", text)) for path, text in texts(area))
        for m in UNWANTED.finditer(text)
    ]
    assert len(unwanted) <= MOST[area], "\n".join(unwanted)


def test_a_word_is_seen_where_it_is_said_and_not_in_code() -> None:
    said = "The copy stands in a queue. `anew`, --beside: there is no queue anew."
    assert UNWANTED.findall(CODE.sub(" ", said)) == ["stands in", "anew"]
