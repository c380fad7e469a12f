"""What the page's sources may not hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

WEB = Path(__file__).resolve().parents[2] / "web"
SOURCES = sorted(
    path
    for folder in ("src", "saved")
    for path in (WEB / folder).rglob("*")
    if path.suffix in {".ts", ".tsx", ".css"}
)
SCRIPTS = [path for path in SOURCES if path.suffix != ".css"]
#: Two fifths of it are the timeline, which no library draws.
MOST_LINES = {"src": 10_500, "saved": 560}
MADE = "Made by build_tools/web_sources.py"
#: Ways to turn text into markup or code.
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write"
    r"|createContextualFragment|DOMParser|\beval\(|new Function|javascript:"
)
ELSEWHERE = re.compile(r"(https?:)?//[a-z0-9-]+\.[a-z]", re.IGNORECASE)


def code(path: Path) -> str:
    """The text without its comments."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.DOTALL)
    return re.sub(r"(^|\s)//.*", "", text)


def test_the_sources_were_found() -> None:
    assert {"main.tsx", "url.ts", "tokens.css"} <= {path.name for path in SOURCES}


def test_no_text_becomes_markup_or_code() -> None:
    found = {path.name: UNSAFE.findall(code(path)) for path in SCRIPTS}
    assert {name: places for name, places in found.items() if places} == {}


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path in SOURCES:
        assert ELSEWHERE.findall(code(path)) == [], path
        assert not re.search(r"@import|url\((?!#)", code(path)), path


def test_the_page_stays_small() -> None:
    lines = dict.fromkeys(MOST_LINES, 0)
    for path in SCRIPTS:
        text = path.read_text("utf-8")
        if ".test." not in path.name and MADE not in text:
            lines[path.relative_to(WEB).parts[0]] += len(text.splitlines())
    assert {
        folder for folder, most in MOST_LINES.items() if lines[folder] > most
    } == set()


def test_the_lock_file_names_versions_and_no_host() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text("utf-8"))
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert packages
    assert not [name for name, one in packages.items() if "resolved" in one]
    assert not [name for name, one in packages.items() if "integrity" not in one]


def test_every_dependency_is_pinned_exactly() -> None:
    package = json.loads((WEB / "package.json").read_text("utf-8"))
    asked = package["dependencies"] | package["devDependencies"]
    loose = {name for name, one in asked.items() if not re.fullmatch(r"[\d.]+", one)}
    assert loose == set()


def test_one_sheet_lays_down_how_a_class_looks() -> None:
    """A second sheet may add to a class inside of another, and not to all of it."""
    sheets: dict[str, set[str]] = {}
    for path in sorted((WEB / "src" / "style").glob("*.css")):
        for selectors in re.findall(r"^\s*([^{}@\n]+)\{", code(path), re.MULTILINE):
            for one in re.sub(r"\([^)]*\)", "", selectors).split(","):
                if re.fullmatch(r"\.[a-z-]+", one.strip()):
                    sheets.setdefault(one.strip(), set()).add(path.name)
    assert {name: found for name, found in sheets.items() if len(found) > 1} == {}
