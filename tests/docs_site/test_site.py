"""The built site: each page is found, each link leads somewhere, no host is asked."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import inspect
import os
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.browser import chromium_path
from tests.support.sites.built import BuiltSite, addresses_in_code

import stepscope

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build_tools"))

from docs_pages import Site  # noqa: E402 - found only now

pytestmark = [pytest.mark.integration, pytest.mark.slow(seconds=60)]
#: Pages that Sphinx makes: of words, and of what is found.
OF_SPHINX = {"genindex.html", "search.html"}


def need(module: str) -> None:
    """Skip, or fail where all that tests need was promised."""
    if importlib.util.find_spec(module) is None:
        why = f"{module} is not installed (make docs)"
        if os.environ.get("STEPSCOPE_FRAMEWORKS") == "required":
            pytest.fail(why)
        pytest.skip(why)


def build(site: Site, output: Path) -> int:
    need("griffe")
    need("sphinx")
    from docs_site import build_site  # noqa: PLC0415 - imports what may be absent

    status: int = build_site(site, output)
    return status


@pytest.fixture(scope="module")
def made_pages() -> dict[str, str]:
    need("griffe")
    from docs_api import api_pages  # noqa: PLC0415 - imports what may be absent

    pages: dict[str, str] = api_pages(ROOT / "src")
    return pages


@pytest.fixture(scope="module")
def site(made_pages: dict[str, str]) -> Site:
    return Site(ROOT, made_pages)


@pytest.fixture(scope="module")
def built(site: Site, tmp_path_factory: pytest.TempPathFactory) -> BuiltSite:
    output = tmp_path_factory.mktemp("site")
    assert build(site, output) == 0
    return BuiltSite(output)


def test_every_page_is_three_clicks_from_the_front_page(
    built: BuiltSite, site: Site
) -> None:
    """Without the menu, in which each page stands anyway."""
    pages = {place.removesuffix(".md") + ".html" for place in site.pages}
    assert len(pages) > 150
    assert built.pages.keys() == pages | OF_SPHINX
    clicks = built.clicks()
    assert {page for page in pages if clicks.get(page, 9) > 3} == set()


def test_the_menu_of_each_page_has_every_page_of_the_site(
    built: BuiltSite, site: Site
) -> None:
    wanted = {place.removesuffix(".md") + ".html" for place in site.menu_places()}
    for name in ("index.html", "advice/input_bound.html"):
        linked = {built.target_of(name, link) for link in built.pages[name].links}
        assert wanted - linked - {name} == set()


def test_no_link_of_the_site_is_dead(built: BuiltSite) -> None:
    assert sum(len(page.links) for page in built.pages.values()) > 10_000
    assert built.dead_links() == []


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """The folder of pages of a small repository, whose list has `learn.md`."""
    folder = tmp_path / "docs"
    folder.mkdir()
    front = f"# Tool\n\nA tool. [learn]({folder.name}/learn.md)\n"
    (tmp_path / "README.md").write_text(front)
    listed = "# Pages\n\n| you | read |\n|---|---|\n| learn | [it](learn.md) |\n"
    (folder / "README.md").write_text(listed)
    (folder / "learn.md").write_text(
        "# Learn\n\n[x](#part) [x](README.md#pages)\n\n## Part\n"
    )
    return folder


@pytest.mark.parametrize("target", ["README.md#none", "#none"])
def test_a_dead_anchor_fails_the_build(
    docs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], target: str
) -> None:
    assert build(Site(tmp_path), tmp_path / "site") == 0
    assert capfd.readouterr().err == ""
    (docs / "learn.md").write_text(f"# Learn\n\n[x]({target})\n")
    assert build(Site(tmp_path), tmp_path / "site") != 0
    assert "'none'" in capfd.readouterr().err


def test_a_page_that_the_menu_lacks_fails_the_build(
    docs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (docs / "forgotten.md").write_text("# Forgotten\n\nText.\n")
    assert build(Site(tmp_path), tmp_path / "site") != 0
    assert "forgotten.md: WARNING: document isn't" in capfd.readouterr().err


def test_no_file_of_the_site_requests_another_host(built: BuiltSite) -> None:
    scripts = [path.name for path in built.folder.rglob("*.js")]
    assert "searchtools.js" in scripts
    assert list(built.foreign_requests()) == []


def test_addresses_in_scripts_are_seen() -> None:
    script = "/* 'http://a' */ x = 'https://b/c'; // \"http://d\"\nfetch(\"//e/f\")\n"
    assert addresses_in_code(script) == ["https://b/c", "//e/f"]


def test_examples_of_files_are_shown_as_python(built: BuiltSite) -> None:
    page = (built.folder / "capture.html").read_text(encoding="utf-8")
    blocks = re.findall(r"highlight-python .*?</pre>", page, re.DOTALL)
    shown = [re.sub(r"<[^>]+>", "", block) for block in blocks]
    assert any(
        'ProfilerCallback(logdir, profile_batch="10,15")' in one for one in shown
    )


def test_lines_that_begin_with_a_percent_sign_are_kept(built: BuiltSite) -> None:
    """MyST alone takes them for comments."""
    page = (ROOT / "docs" / "advice" / "copy_exposed.md").read_text(encoding="utf-8")
    assert "\n% of the copies" in page
    text = (built.folder / "advice/copy_exposed.html").read_text(encoding="utf-8")
    assert "\n% of the copies" in text


def test_the_reference_has_every_public_name(made_pages: dict[str, str]) -> None:
    text = "".join(made_pages.values())
    names = []
    for name in set(stepscope.__all__) - {"__version__"}:
        value = getattr(stepscope, name)
        inner = getattr(value, "__all__", ()) if inspect.ismodule(value) else ()
        names += [f"{name}.{each}" for each in inner] or [name]
    assert {"open", "client.trace", "keras.ProfilerCallback"} <= set(names)
    for name in names:
        assert f"\n## `ss.{name}`\n\n" in text, name
        assert f"| [`ss.{name}`](" in made_pages["api/index.md"], name
    # What they return, and what that has.
    for name in ("Run", "Written", "Finding", "Action", "OverviewPageResult", "Step"):
        assert f"\n## `{name}`\n\n" in text, name


def test_the_reference_has_what_a_docstring_says(made_pages: dict[str, str]) -> None:
    text = made_pages["api/recording.md"]
    section = text.partition("\n## `ss.stop`\n")[2].partition("\n## ")[0]
    assert section.strip() == (
        "```python\nss.stop(save: bool = True) -> Run\n```\n\n"
        "End the recording that is under way.\n\nArguments:\n\n"
        "- `save`: Write the file; otherwise only `Run.xspace()` contains the "
        "recording.\n\nRaises:\n\n"
        "- [`BadUsage`](errors.md#badusage): No recording is under way.\n\n"
        "Returns [`Run`](#run)."
    )
    run = text.partition("\n## `Run`\n")[2].partition("\n## ")[0]
    assert "- `waited_s` (`float = 0.0`): Seconds that the program's main" in run
    assert "### `Run.xspace`" in run


def test_the_list_for_language_models_names_files_of_the_site(
    built: BuiltSite,
) -> None:
    listed = (built.folder / "llms.txt").read_text(encoding="utf-8")
    places = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", listed, re.MULTILINE)
    assert len(places) == len(set(places)) > 150
    full = (built.folder / "llms-full.txt").read_text(encoding="utf-8")
    for place in places:
        assert (built.folder / place).read_text(encoding="utf-8").strip() in full


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A server of files, as anybody has one."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if chromium_path() is None:
        if os.environ.get("STEPSCOPE_BROWSER") == "required":
            pytest.fail("no Chromium (make chromium)")
        pytest.skip("no Chromium (make chromium)")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.mark.browser
@pytest.mark.parametrize("from_disk", [True, False], ids=["disk", "server"])
def test_search_finds_pages_and_asks_no_host(
    built: BuiltSite, chromium: Any, *, from_disk: bool
) -> None:
    with served(built.folder) as address:
        start = built.folder.as_uri() + "/" if from_disk else address
        page = chromium.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{start}index.html")
        page.get_by_placeholder("Search").first.fill("occupancy")
        page.keyboard.press("Enter")
        found = page.locator("#search-results")
        found.get_by_role("link", name="kernel_stats (kernels)").wait_for()
        found.get_by_role("link", name="kernel.occupancy").click()
        assert page.locator("article h1").inner_text().startswith("kernel.occupancy")
        page.close()
    assert requests
    assert [url for url in requests if not url.startswith((start, "data:"))] == []


@pytest.mark.browser
def test_no_page_is_wider_than_a_phone(built: BuiltSite, chromium: Any) -> None:
    """Wide tables and code scroll by themselves."""
    width = 390
    page = chromium.new_page(viewport={"width": width, "height": 844})
    wide = []
    for name in sorted(built.pages.keys() - OF_SPHINX):
        page.goto(f"{built.folder.as_uri()}/{name}", wait_until="domcontentloaded")
        taken = page.evaluate("document.documentElement.scrollWidth")
        if taken > width:
            wide.append((name, taken))
    page.close()
    assert wide == []
