"""Every reference leads somewhere that a reader of the repository has."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: Text and code of which every file is looked at.
TEXTS = frozenset({".css", ".html", ".md", ".py", ".sh", ".toml", ".ts", ".tsx"})
#: What only the makers of the repository could follow.
OUTSIDE = re.compile(
    r"\.\./shared\b|(?<![\w.~])/work/|\bspec:\s*(?:\w+,|#|$)|\bthe spec\b",
    re.IGNORECASE | re.MULTILINE,
)
#: The default of a variable that its user may set; without the folder, `make` says so.
ALLOWED = frozenset({("Makefile", "PROFILES ?= ../shared/profiles")})
#: A numbered section of nothing that is named beside it.
SECTION = re.compile(r"\(sections? \d+\.\d+|\bof section \d+\.\d+")
#: `[text](target)`; images too.
LINK = re.compile(r"\[[^\]\[]*\]\(<?([^)\s>]+)>?\)")
#: A page as code refers to it, from the root of the repository.
PAGE = re.compile(r"(?<![\w/.])(docs/[\w./-]+\.md)(?:#([\w-]+))?")
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`+)(?:(?!\n\n)[^`])+?\1")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = LINK.sub(lambda link: link[0][1 : link[0].index("]")], heading)
    kept = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return kept.replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        anchor = slug(heading)
        again = found.get(anchor, 0)
        found[anchor] = again + 1
        names.add(f"{anchor}-{again}" if again else anchor)
    return frozenset(names)


def broken_links(page: Path) -> list[str]:
    text = CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    broken = []
    for target in LINK.findall(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        known = there.exists() and there.is_relative_to(ROOT)
        if known and anchor and there.suffix == ".md":
            known = anchor in anchors(there)
        if not known:
            broken.append(target)
    return broken


def outside_references(*folders: str, pattern: re.Pattern[str] = OUTSIDE) -> list[str]:
    return [
        f"{name(path)}:{text.count(chr(10), 0, found.start()) + 1}: {found[0]}"
        for folder in folders
        for path in files_of(ROOT / folder)
        for text in [path.read_text(encoding="utf-8")]
        for found in pattern.finditer(text)
        if (name(path), line_at(text, found.start())) not in ALLOWED
    ]


def line_at(text: str, place: int) -> str:
    """Return the line that holds the character at this place."""
    return text[text.rfind("\n", 0, place) + 1 :].partition("\n")[0]


def files_of(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [
        path
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.suffix in TEXTS and "node_modules" not in path.parts
    ]


def test_headings_have_the_anchors_that_github_gives_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# `input.bound`: the step\n\n```sh\n# no heading\n```\n"
        "## Graphs, sets & [links](x.md)\n## Twice\n## Twice\n",
        encoding="utf-8",
    )
    assert anchors(page) == {
        "inputbound-the-step",
        "graphs-sets--links",
        "twice",
        "twice-1",
    }


def test_every_link_and_anchor_of_a_page_leads_somewhere() -> None:
    found = {name(page): broken_links(page) for page in PAGES}
    assert {page: links for page, links in found.items() if links} == {}


def test_no_page_refers_to_what_is_not_in_the_repository() -> None:
    pages = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs")
    assert outside_references(*pages, "examples") == []


def test_no_source_of_the_page_refers_to_what_is_not_in_the_repository() -> None:
    assert files_of(ROOT / "web" / "src")
    assert outside_references("web/src") == []


@pytest.mark.parametrize(
    "folder", ["src", "tests", "benchmarks", "build_tools", "web/src"]
)
def test_pages_that_code_refers_to_are_there(folder: str) -> None:
    broken = [
        f"{name(path)}: {found[0]}"
        for path in files_of(ROOT / folder)
        for found in PAGE.finditer(path.read_text(encoding="utf-8"))
        if not (ROOT / found[1]).exists()
        or (found[2] and found[2] not in anchors(ROOT / found[1]))
    ]
    assert broken == []


def test_no_code_refers_to_what_is_not_in_the_repository() -> None:
    assert outside_references("Makefile", "src", "benchmarks", "build_tools") == []
    assert outside_references("src", pattern=SECTION) == []


def test_no_test_refers_to_what_is_not_in_the_repository() -> None:
    found = outside_references("tests")
    assert [one for one in found if not one.startswith(name(Path(__file__)))] == []
