"""The page's documentation names every page, key and part of a link that there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "web" / "src"
TEXT = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")


def source(name: str) -> str:
    return (SOURCES / name).read_text(encoding="utf-8")


def test_every_page_is_described_and_can_be_linked() -> None:
    pages = re.findall(
        r"^  (\w+): \"([^\"]+)\"", source("parts/titles.ts"), re.MULTILINE
    )
    assert len(pages) > 5
    for name, title in pages:
        assert f"\n| {title} |" in TEXT
        assert f"`{name}`" in TEXT


def test_every_key_is_listed() -> None:
    listed = source("shell/keys.tsx").partition("KEYS")[2].partition("];")[0]
    keys = re.findall(r'\["([^"]+)", "', listed)
    assert "T" in keys
    assert [key for key in keys if f"| `{key}` |" not in TEXT] == []


def test_every_key_of_the_timeline_is_listed() -> None:
    text = source("trace/keys.ts")
    arrows, letters = (
        set(re.findall(r'^  "?([^\s":]+)"?: \(', table, re.MULTILINE))
        for table in re.findall(
            r"Record<string, Does> = \{(.*?)^\};", text, re.DOTALL | re.MULTILINE
        )
    )
    assert {"w", ".", "e"} <= letters
    assert arrows == {"ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"}
    section = TEXT.partition("## Trace")[2].partition("\n## ")[0]
    in_docs = set(re.findall(r"`([^`]+)`", section))
    in_help = set(re.findall(r'^  \["([^"]+)"', text, re.MULTILINE))
    for key in letters:
        assert key.upper() in in_docs, key
        assert any(key.upper() in keys.split() for keys in in_help) or key in "0z", key


def test_every_part_of_a_link_that_a_page_reads_is_explained() -> None:
    read = {
        name
        for path in (SOURCES / "pages").glob("*.tsx")
        for name in re.findall(r"state\.value\.(\w+)", path.read_text(encoding="utf-8"))
    } | {"page", "run", "hosts"}
    assert "op" in read
    links = TEXT.partition("## Links")[2]
    assert {name for name in read if f"`{name}`" not in links} == set()


def test_every_page_has_a_small_picture() -> None:
    pictures = re.findall(r"!\[([^\]:]+): [^\]]+\]\((images/\w+\.png)\)", TEXT)
    titles = re.findall(
        r"^  \w+: \"([^\"]+)\"", source("parts/titles.ts"), re.MULTILINE
    )
    assert {title for title, _ in pictures} == set(titles)
    for _, picture in pictures:
        assert 10_000 < (ROOT / "docs" / picture).stat().st_size < 150_000
