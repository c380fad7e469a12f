"""Make what the declared texts of rules are made into: pages, and one compiled file.

python build_tools/rule_pages.py

It needs nothing but the standard library: the package is built with it.
"""

from __future__ import annotations

import json
import runpy
import shutil
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "advice"
ADVICE = ROOT / "src" / "stepscope" / "advice"
TEXTS = ADVICE / "texts"
#: What a level is a share of, where a page does not say it.
_ALL_TIME = "all steps' time"
#: A share in percent that is grave in few steps too.
_DOMINANT = 30


def build() -> None:
    """Put the compiled texts and the pages, for `--explain`, into the package."""
    (ADVICE / "compiled_texts.json").write_bytes(_compile_texts())
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
        if "id" in _declared(path):
            yield path


def _page(path: Path, compiled: dict[str, Any]) -> str:
    file = _declared(path)
    if "page" not in file or isinstance(file["page"].get("text"), str):
        return _page_as_written(file, compiled)
    page = file["page"]
    if "also" in page:
        shared = _declared(path.with_name(f"{page['also']}.toml"))["page"]
        page = page | {
            key: "\n\n".join(_texts_of((page, shared), key)) for key in shared
        }
    sections = {
        "": _introduction(file, page),
        "What is measured": "\n\n".join(
            text.strip("\n") for text in (page["measured"], *_combinations(file))
        ),
        "Levels": "\n\n".join([*_levels(file, page), *_texts_of((page,), "levels")]),
        "When it cannot tell": _when_it_cannot_tell(page),
        "What it promises": _filled(page.get("promises", "")),
        "What to do": _what_to_do(file, compiled),
        "How to doubt it": "\n\n".join(
            [*_texts_of((file,), "refute"), *_texts_of((page,), "doubt")]
        ),
    }
    parts = [f"# `{file['id']}`: {file['title']}"]
    for heading, text in sections.items():
        if text:
            parts += [f"## {heading}", text] if heading else [text]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _page_as_written(file: dict[str, Any], compiled: dict[str, Any]) -> str:
    before, found, after = file["page"]["text"].partition("## How to doubt it\n")
    title = f"# `{file['id']}`: {file['title']}"
    advice = f"## What to do\n\n{_what_to_do(file, compiled)}"
    parts = (title, before, advice, found + after)
    return "\n\n".join(part.strip("\n") for part in parts).strip() + "\n"


def _declared(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _filled(text: str) -> str:
    """Fill the lines of a text of one paragraph; others are written as they are."""
    lines = text.strip("\n")
    if "\n\n" in lines or lines.startswith(("*", "|", "#")):
        return lines
    return textwrap.fill(
        " ".join(lines.split()), 100, break_on_hyphens=False, break_long_words=False
    )


def _texts_of(sources: Iterable[dict[str, Any]], key: str) -> list[str]:
    return [_filled(source[key]) for source in sources if key in source]


def _introduction(file: dict[str, Any], page: dict[str, Any]) -> str:
    tools = [f"[`{tool}`](../tools/{tool}.md)" for tool in file["tools"]]
    listed = " and ".join(filter(None, (", ".join(tools[:-1]), tools[-1])))
    sentences = (
        f"Stage {file['stage']} of the checklist.",
        f"Source: {page['source']}." if "source" in page else "",
        page.get("intro", ""),
        f"The numbers behind it are in {listed}.",
    )
    return _filled(" ".join(filter(None, sentences)))


def _levels(file: dict[str, Any], page: dict[str, Any]) -> Iterator[str]:
    """Give the table of the levels, unless the page has one of its own."""
    if "level" not in file or "| warning |" in page.get("levels", ""):
        return
    thresholds = json.loads((ADVICE.parent / "thresholds.json").read_bytes())
    rows = [f"| | share of {page.get('share_of', _ALL_TIME)} |", "|---|---|"]
    for kind, word in (("warn", "warning"), ("critical", "critical")):
        threshold = thresholds.get(f"{file['level']}_{kind}")
        if threshold is None:
            continue
        few = kind == "critical" and "share_of" not in page and threshold[0] < _DOMINANT
        enough = f" ({_DOMINANT} % with fewer than 10 steps)" if few else ""
        rows.append(f"| {word} | {threshold[0]:g} %{enough} |")
    yield "\n".join(rows)


def _combinations(file: dict[str, Any]) -> Iterator[str]:
    """Give the table of the combinations of versions, with their sources."""
    if "combinations" not in file:
        return
    rows = ["| versions | what happens |", "|---|---|"]
    for key, declared in file["combinations"].items():
        limits = ", ".join(
            _range_text(*limits) for limits in declared["versions"].items()
        )
        words = " ".join(file["causes"][key].split())
        rows.append(f"| {limits} | {words} ([source]({declared['source']})) |")
    yield "\n".join(rows)


def _range_text(library: str, limits: list[Any]) -> str:
    first, end = (
        limit if isinstance(limit, str) else ".".join(map(str, limit))
        for limit in limits
    )
    since = "" if first == "0" else f" from {first}"
    return f"`{library}`{since} before {end}"


def _when_it_cannot_tell(page: dict[str, Any]) -> str:
    reasons = page.get("cannot_tell", "").replace("\n\n*", "\n*").strip("\n")
    absent = page.get("not_applicable")
    return (
        f"{reasons}\n\n{_filled(f'Not applicable where {absent}.')}"
        if absent
        else reasons
    )


def _what_to_do(file: dict[str, Any], compiled: dict[str, Any]) -> str:
    """Write the section: each action, for which framework, and what to type."""
    lines = []
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
    if not lines:
        lines.append("Nothing by itself: the other findings say what to change.")
    return "\n".join(lines)


def _words_of(text: str) -> str:
    """Return a sentence, or the words of the remedy whose id it is."""
    remedies = json.loads((ADVICE.parent / "remedies.json").read_bytes())["remedies"]
    words: str = remedies[text]["words"] if text in remedies else text
    return words


def _actions(file: dict[str, Any], compiled: dict[str, Any]) -> Iterator[Any]:
    """Return all actions that a rule can advise."""
    texts = compiled["rules"][file["id"]]
    for action in texts["actions"].values():
        # An action that a name is put into is declared without it too.
        if "{" not in action["text"]:
            yield action
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
