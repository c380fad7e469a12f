"""Measure how long a reader waits for each page in Chromium."""

import shutil
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from served import Served, ServerFailed

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "src" / "stepscope" / "serve" / "static" / "index.html"
PATIENCE_MS = 120_000
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run")
FIRST = "overview_page"
WANTED_FIRST_MS = 2000
WANTED_LATER_MS = 200

#: Counts the answers that the page waits for, without those about progress.
COUNT = """
window.waitingFor = 0;
const ask = window.fetch;
window.fetch = async (...request) => {
  const counts = !String(request[0]).endsWith("data/status");
  if (counts) window.waitingFor++;
  try { return await ask(...request); }
  finally { if (counts) setTimeout(() => window.waitingFor--); }
};
"""
#: Milliseconds until a page is complete: its heading and content are drawn, and in this
#: frame and the next no request is open. The time is that of the first of both frames.
SHOWN = """([title, since, patience]) => new Promise((done, fail) => {
  let first = null;
  const look = () => {
    if (performance.now() - since > patience)
      return fail(new Error(`${title} is not whole after ${patience} ms`));
    const main = document.querySelector("main");
    const whole = main?.querySelector("h1")?.textContent === title
      && [...main.children].some((each) => !each.matches("h1, .notice, .quality"))
      && !main.querySelector("[aria-busy=true]")
      && window.waitingFor === 0;
    if (!whole) first = null;
    else if (first !== null) return done(first - since);
    else first = performance.now();
    requestAnimationFrame(look);
  };
  look();
})"""
#: Name and title of every page, in the order of the navigation.
PAGES = """() => [...document.querySelectorAll("nav a")].map((each) => [
  new URLSearchParams(each.hash.slice(1)).get("page"), each.textContent])"""


def why_not() -> str | None:
    """Return why nothing can be measured in a browser here; None where it can."""
    try:
        import playwright.sync_api  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return "playwright is not installed (pip install -e '.[test]')"
    if shutil.which("chromium") is None:
        return "no chromium (Debian's package chromium)"
    if not BUILT.is_file():
        return "the page is not built (make web)"
    return None


def measure(
    served: Callable[[], AbstractContextManager[Served]], *, runs: int
) -> dict[str, tuple[float, float]]:
    """Return title of a page → median milliseconds of its first and second visit.

    Each run has a server and a window of its own. The first page is opened by its
    address before the profile is read; the others by a click, one after the other.
    """
    from playwright.sync_api import Error, sync_playwright  # noqa: PLC0415 - an extra

    taken: dict[str, list[tuple[float, float]]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(ARGUMENTS)
        )
        for _ in range(runs):
            with served() as server:
                context = browser.new_context(viewport={"width": 1400, "height": 900})
                try:
                    visits = _visits(context.new_page(), server.port)
                except Error as failure:
                    raise ServerFailed(f"in the browser: {failure}") from failure
                for title, times in visits.items():
                    taken.setdefault(title, []).append(times)
                context.close()
        browser.close()
    return {
        title: (
            statistics.median(first for first, _ in times),
            statistics.median(again for _, again in times),
        )
        for title, times in taken.items()
    }


def table(taken: dict[str, tuple[float, float]]) -> str:
    """Write the times as a Markdown table, and compare them with the targets."""
    lines = [
        "| page | first visit, ms | second visit, ms |",
        "|---|--:|--:|",
        *(
            f"| {t} | {first:.0f} | {again:.0f} |"
            for t, (first, again) in taken.items()
        ),
    ]
    (title, (opened, _)), *others = taken.items()
    slowest = max(others, key=lambda each: each[1][0])
    again = max(taken.items(), key=lambda each: each[1][1])
    said = (
        f"The first page ({title}) appears after **{opened:.0f} ms** "
        f"(target: {WANTED_FIRST_MS:,}). The slowest later page is {slowest[0]}: "
        f"**{slowest[1][0]:.0f} ms** at the first visit (target: {WANTED_LATER_MS}). "
        f"The slowest page at the second visit is {again[0]}: {again[1][1]:.0f} ms."
    )
    lines += ["", said]
    return "\n".join(lines)


def _visits(page: Any, port: int) -> dict[str, tuple[float, float]]:
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(COUNT)
    page.goto(f"http://127.0.0.1:{port}/#page={FIRST}", wait_until="commit")
    page.wait_for_selector("nav a")
    titles = dict(page.evaluate(PAGES))
    first = {titles[FIRST]: page.evaluate(SHOWN, [titles[FIRST], 0, PATIENCE_MS])}
    later = [title for name, title in titles.items() if name != FIRST]
    for title in later:
        first[title] = _clicked(page, title)
    again = {title: _clicked(page, title) for title in titles.values()}
    return {title: (first[title], again[title]) for title in first}


def _clicked(page: Any, title: str) -> float:
    """Return the milliseconds from a click in the navigation to the complete page."""
    since = page.evaluate(
        """(title) => {
          const links = [...document.querySelectorAll("nav a")];
          const since = performance.now();
          links.find((each) => each.textContent === title).click();
          return since;
        }""",
        title,
    )
    taken: float = page.evaluate(SHOWN, [title, since, PATIENCE_MS])
    return taken
