"""Make what the declared texts of rules are made into: pages, and one compiled file.

python build_tools/rule_pages.py

It needs nothing but the standard library: the package is built with it.
"""

from __future__ import annotations

import json
import runpy
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "advice"
ADVICE = ROOT / "src" / "stepscope" / "advice"
TEXTS = ADVICE / "texts"
#: The section about actions comes before this one; else it is the last.
_BEFORE = "## How to doubt it\n"


def build() -> None:
    """Put the compiled texts and the pages, for `--explain`, into the package."""
    (ADVICE / "texts.json").write_bytes(_compile_texts())
    # Sources without the documentation keep the pages that they came with.
    if PAGES.is_dir():
        shutil.rmtree(ADVICE / "pages", ignore_errors=True)
        shutil.copytree(PAGES, ADVICE / "pages")


def pages() -> dict[str, str]:
    """Return the name of each rule's page, and the page."""
    compiled = json.loads(_compile_texts())
    return {f"{path.stem}.md": _page(path, compiled) for path in _rules()}


def _compile_texts() -> bytes:
    # The package itself need not be importable yet.
    compiler = runpy.run_path(str(ADVICE / "texts_compiler.py"))
    compiled: bytes = compiler["compile_texts"](TEXTS)
    return compiled


def _rules() -> Iterator[Path]:
    for path in sorted(TEXTS.glob("*.toml")):
        if "id" in tomllib.loads(path.read_text(encoding="utf-8")):
            yield path


def _page(path: Path, compiled: dict[str, Any]) -> str:
    file = tomllib.loads(path.read_text(encoding="utf-8"))
    before, found, after = file["page"]["text"].partition(_BEFORE)
    parts = [f"# `{file['id']}`: {file['title']}", before, _what_to_do(file, compiled)]
    return (
        "\n\n".join(part.strip("\n") for part in (*parts, found + after)).strip() + "\n"
    )


def _what_to_do(file: dict[str, Any], compiled: dict[str, Any]) -> str:
    """Write the section: each action, for which framework, and what to type."""
    lines = ["## What to do", ""]
    for action in _actions(file, compiled):
        nsight = action.get("recorder") == "nsight"
        for_whom = ["In recordings of Nsight Systems"] if nsight else []
        if action["framework"] != "any":
            for_whom.append(action["framework"])
        who = f"{', '.join(for_whom)}: " if for_whom else ""
        lines.append(f"* {who}{_words_of(action['text'])}")
        typed = [action[key] for key in ("code", "env") if key in action]
        if typed:
            lines += ["", "```", *typed, "```", ""]
    if not lines[2:]:
        lines.append("Nothing by itself: the other findings say what to change.")
    return "\n".join(lines)


def _words_of(text: str) -> str:
    """Return a sentence, or the words of the remedy whose id it is."""
    remedies = json.loads((ADVICE.parent / "remedies.json").read_bytes())["remedies"]
    words: str = remedies[text]["words"] if text in remedies else text
    return words


def _actions(file: dict[str, Any], compiled: dict[str, Any]) -> Iterator[Any]:
    """Return all actions that a rule can advise, first those that it usually does."""
    texts = compiled["rules"][file["id"]]
    first = texts.get("groups", {}).get("default", [])
    for key in dict.fromkeys((*first, *texts["actions"])):
        # What a name is put into stands there without it too.
        if "{" not in texts["actions"][key]["text"]:
            yield texts["actions"][key]
    for reference in file.get("also_advises", ()):
        shared, _, key = reference.partition(".")
        yield compiled["shared"][shared]["actions"][key]


if __name__ == "__main__":
    written = pages()
    for old in PAGES.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, page in written.items():
        (PAGES / name).write_text(page, encoding="utf-8")
