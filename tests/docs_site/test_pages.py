"""Pages of the site: what the repository's Markdown becomes, and what it links to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build_tools"))

from docs_pages import FRONT, DeadLinkError, Page, Site  # noqa: E402 - found only now

#: The folder of pages; a name in full would be one of a page of the repository.
DOCS = "docs"
FILES = {
    "README.md": f"# tool\n\nA tool. It works.\n\n[pages]({DOCS}/README.md)\n",
    "LICENSE": "Free.\n",
    f"{DOCS}/README.md": (
        "# Documentation\n\n**Start**: [README](../README.md) · [run](run.md)\n\n"
        "| you want to | read |\n|---|---|\n"
        "| record | [run](run.md#part) · [example](../examples) |\n"
        "| read | [rules](rules/), [terms](terms/README.md) |\n\nBy need:\n"
    ),
    f"{DOCS}/run.md": (
        "# Run it\n\n![view](images/view.png)\n\nRuns [one][x] **program**: "
        "[its\nrules](rules/a_b.md). More.\n\n## Part\n\n"
        "`[code](none.md)` [web](https://host/x) [here](#part) [law](../LICENSE)\n"
        "\n"
        "```python examples/one.py\n[code](none.md)\n```\n"
    ),
    f"{DOCS}/images/view.png": "",
    f"{DOCS}/rules/a_b.md": "# `a.b`: it is slow\n\nStage 1.\n",
    f"{DOCS}/terms/README.md": "# Terms\n\nSee [time](time.md).\n",
    f"{DOCS}/terms/time.md": (
        "# Time\n\n| a | b |\n|---|---|\n\nTime is `1.5` s. Always.\n"
    ),
    "examples/one.py": "print('```')\n",
}


@pytest.fixture
def repository_of_files(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_a_link_leads_to_a_page_of_the_site(repository_of_files: Path) -> None:
    site = Site(repository_of_files)
    assert "[pages](pages.md)" in site.pages[FRONT].text
    assert "[README](index.md) · [run](run.md)" in site.pages["pages.md"].text
    assert "[example](files/examples/index.md)" in site.pages["pages.md"].text
    assert "[rules](rules/index.md)" in site.pages["pages.md"].text
    text = site.pages["run.md"].text
    assert "[its\nrules](rules/a_b.md)" in text
    assert "[web](https://host/x) [here](#part) [law](files/LICENSE.md)" in text
    assert site.pictures == {
        "images/view.png": (repository_of_files / "docs/images/view.png").resolve()
    }


def test_code_is_left_as_it_is(repository_of_files: Path) -> None:
    text = Site(repository_of_files).pages["run.md"].text
    assert "`[code](none.md)`" in text
    assert "```python examples/one.py\n[code](none.md)\n```" in text


def test_what_is_no_page_becomes_one(repository_of_files: Path) -> None:
    pages = Site(repository_of_files).pages
    assert (
        pages["files/examples/index.md"].text == "# Examples\n\n- [one.py](one.py.md)\n"
    )
    assert pages["files/examples/one.py.md"].text == (
        "# examples/one.py\n\n`````python\nprint('```')\n`````\n"
    )
    assert pages["files/LICENSE.md"].text == "# LICENSE\n\n`````\nFree.\n`````\n"
    assert pages["rules/index.md"].text == (
        "# Rules\n\n- [`a.b`](a_b.md): it is slow\n"
    )


@pytest.mark.parametrize("target", ["none.md", "../../outside.md", "rules/none.md#x"])
def test_a_link_to_nothing_is_an_error(repository_of_files: Path, target: str) -> None:
    (repository_of_files / DOCS / "run.md").write_text(f"# Run\n\n[x]({target})\n")
    with pytest.raises(DeadLinkError, match=f"{DOCS}/run.md: {target} is not in"):
        Site(repository_of_files)


def test_the_list_of_pages_is_the_menu(repository_of_files: Path) -> None:
    site = Site(repository_of_files, {"api/index.md": "# Names\n", "api/a.md": "# A\n"})
    assert site.menu == {
        "Start": ["pages.md", "run.md"],
        "Record": ["files/examples/index.md"],
        "Look up a name": ["api/index.md"],
        "Read": ["rules/index.md", "terms/index.md"],
    }
    assert list(site.menu_places()) == [
        *("pages.md", "run.md", "files/examples/index.md", "files/examples/one.py.md"),
        *("api/index.md", "api/a.md", "rules/index.md", "rules/a_b.md"),
        *("terms/index.md", "terms/time.md"),
    ]


def test_llms_txt_says_of_each_page_what_it_is_about(repository_of_files: Path) -> None:
    assert Site(repository_of_files).list_pages() == (
        "# tool\n\n> A tool.\n"
        "\n## Start\n\n- [Documentation](pages.md): By need.\n"
        "- [Run it](run.md): Runs [one][x] program: its rules.\n"
        "\n## Record\n\n- [Examples](files/examples/index.md)\n"
        "- [examples/one.py](files/examples/one.py.md)\n"
        "\n## Read\n\n- [Rules](rules/index.md)\n- [a.b](rules/a_b.md): it is slow\n"
        "- [Terms](terms/index.md): See time.\n"
        "- [Time](terms/time.md): Time is `1.5` s.\n"
    )


def test_sources_have_the_menu_and_hide_files_from_search(
    repository_of_files: Path, tmp_path: Path
) -> None:
    Site(repository_of_files).write_sources(tmp_path / "sources")
    front = (tmp_path / "sources/index.md").read_text()
    part = "\n```{toctree}\n:hidden:\n:caption: Start\n\npages.md\nrun.md\n```\n"
    assert part in front
    terms = (tmp_path / "sources/terms/index.md").read_text()
    assert terms.endswith("\n```{toctree}\n:hidden:\n\ntime.md\n```\n")
    law = (tmp_path / "sources/files/LICENSE.md").read_text()
    assert law.startswith("---\norphan: true\nnosearch: true\n---\n# LICENSE\n")
    example = (tmp_path / "sources/files/examples/one.py.md").read_text()
    assert example.startswith("# examples/one.py\n")
    assert (tmp_path / "sources/images/view.png").is_file()


SITE = Site(ROOT)


def test_every_page_of_the_repository_is_in_the_menu() -> None:
    docs = {SITE.place_of(path) for path in (ROOT / "docs").rglob("*.md")}
    kept = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert len(docs) > 100
    assert (docs | kept) - set(SITE.menu_places()) == set()


def test_every_page_of_the_menu_says_what_it_is_about() -> None:
    """Pages of columns and examples have a title that says it."""
    places = [FRONT, *SITE.menu_places()]
    silent = {
        place
        for place in places
        if not SITE.pages[place].about and not place.startswith(("columns/", "files/"))
    }
    assert silent == {"advice/index.md", "decisions/index.md"}
    assert [place for place in places if not SITE.pages[place].title] == []


def test_a_page_of_a_rule_is_titled_by_the_rule() -> None:
    page = Page("# `input.bound`: the step waits\n\nStage 1 of the checklist.\n")
    assert (page.title, page.about) == ("`input.bound`", "the step waits")
