"""What a reader sees and does: a window on the page, and checks of its numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from stepscope.reporting.words.names import CODE_TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator
    from tests.support.sites.browser import Server

#: The pages that show a tool's answer; each bears the name of its tool.
TOOL_PAGES = (
    "overview_page",
    "framework_op_stats",
    "kernel_stats",
    "roofline_model",
    "input_pipeline_analyzer",
    "tf_data_bottleneck_analysis",
    "model_views",
    "inference_profile",
    "memory_profile",
    "pod_viewer",
)
PAGES = ("findings", "compare", "trace_viewer", *TOOL_PAGES)
#: Pages that show little of the run `vector` → the run that they have more to show of.
RICH = {
    "input_pipeline_analyzer": "keras",
    "tf_data_bottleneck_analysis": "keras",
    "memory_profile": "keras",
    "pod_viewer": "two_hosts",
}
UNKNOWN = "–"
#: Shown by the page beside numbers, and what one of it is in the field's own unit.
SCALES = {
    ("us", "µs"): 1,
    ("us", "ms"): 1e-3,
    ("us", "s"): 1e-6,
    ("us", "ns"): 1e3,
    ("ms", "ms"): 1,
    ("ms", "s"): 1e-3,
    ("bytes", "GiB"): 2.0**-30,
    ("bytes", "MiB"): 2.0**-20,
    ("bytes", "KiB"): 2.0**-10,
    ("bytes", "B"): 1,
    ("percent", "%"): 1,
    ("", "%"): 100,
    ("", ""): 1,
    ("ms", ""): 1,
    ("us", ""): 1,
    ("ps", ""): 1,
    ("bytes", ""): 1,
    ("bytes", "%"): 1,
}
NUMBER = re.compile(
    r"([<>]?)(−|-)?([\d,]+(?:\.(\d+))?)(?:e([+-]\d+))?"
    r"(?: (s|ms|µs|ns|[GMK]iB|B|%))?"
)

PATIENCE_MS = 60_000
ROUND_MS = 40
QUIET_ROUNDS = 2
DRAWN = """() => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => done())))"""
READ_VALUES = """() => [...document.querySelectorAll('main [data-field]')].map(
    (each) => [each.dataset.field, each.dataset.exact ?? null, each.textContent])"""
READ_TABLE = """(section) => ({
    csv: section.querySelector('a[download]').getAttribute('href'),
    rows: Number(section.querySelector('table').getAttribute('aria-rowcount')),
    cells: [...section.querySelectorAll('tbody tr')].map((row) =>
        [...row.querySelectorAll('td')].map((cell, k) => {
            const title = section.querySelectorAll('thead th')[k].textContent;
            const unit = /\\(s\\)/.test(title) && cell.textContent !== '–' ? ' s' : '';
            const shown = cell.textContent + unit;
            return [cell.dataset.column, cell.getAttribute('title'), shown];
        }))})"""


class View:
    """One window; what goes wrong in it is kept until it is closed."""

    def __init__(self, context: Any, server: Server) -> None:
        self.server = server
        self.page = context.new_page()
        self._problems: list[str] = []
        self._asked: set[Any] = set()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._problems.append(f"{error}"))
        self.page.on("request", self._request)
        self.page.on("requestfinished", self._answered)
        self.page.on("requestfailed", self._answered)

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self._problems.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith(
            (self.server.address, "data:", "blob:", "about:")
        ):
            self._problems.append(f"a request left the host: {request.url}")
        if not request.url.endswith("data/status"):
            self._asked.add(request)

    def _answered(self, request: Any) -> None:
        self._asked.discard(request)

    def expected(self, *texts: str) -> None:
        """These problems are what the test provokes."""
        for text in texts:
            found = [each for each in self._problems if text in each]
            assert found, f"nothing said {text}: {self._problems}"
            self._problems = [each for each in self._problems if text not in each]

    def close(self) -> list[str]:
        """Leave nothing behind for the next page, and say what went wrong."""
        if self.page.url.startswith(self.server.address):
            self.page.evaluate("localStorage.clear()")
        self.page.close()
        return self._problems

    def go(self, page: str = "", *, run: str | None = None, **state: str) -> None:
        """Open a page as a link from elsewhere does."""
        parts = {"page": page, "run": self.server.runs[run] if run else "", **state}
        self.page.goto("about:blank")
        kept = {name: value for name, value in parts.items() if value}
        place = self.server.place(run)
        self.page.goto(f"{place}#{urlencode(kept, quote_via=quote)}")
        self.settle()

    def settle(self) -> None:
        """Wait until all answers are there and drawn."""
        self.page.wait_for_selector("main :is(h1, .panel)", timeout=PATIENCE_MS)
        quiet, waited = 0, 0
        while quiet < QUIET_ROUNDS and waited < PATIENCE_MS:
            self.page.evaluate(DRAWN)
            self.page.wait_for_timeout(ROUND_MS)
            waited += ROUND_MS
            quiet = 0 if self._asked else quiet + 1
        self.page.wait_for_selector("[aria-busy=true]", state="detached")

    def picker(self, name: str) -> Any:
        """A choice of the bar at the top."""
        label = self.page.locator("header label", has_text=re.compile(f"^{name}"))
        return label.locator("select")

    def click(self, role: str, name: str) -> None:
        self.page.get_by_role(role, name=name, exact=True).first.click()
        self.settle()

    @property
    def fragment(self) -> dict[str, str]:
        parts = parse_qs(urlsplit(self.page.url).fragment)
        return {name: values[0] for name, values in parts.items()}

    def values(self) -> dict[str, tuple[str | None, str]]:
        """Field → (exact, as shown); a field that is shown twice must agree."""
        found: dict[str, tuple[str | None, str]] = {}
        for field, exact, shown in self.page.evaluate(READ_VALUES):
            assert found.setdefault(field, (exact, shown)) == (exact, shown), field
        return found

    def check_values(self, data: dict[str, Any]) -> set[str]:
        """Hold every number on the screen against the tool's; the fields seen."""
        seen = set()
        for field, (exact, shown) in self.values().items():
            try:
                truth = at(data, field)
            except LookupError:
                continue  # of one row of a list: the page's own test looks
            check_shown(field, truth, exact, shown)
            seen.add(field)
        return seen

    def tables(self) -> Iterator[dict[str, Any]]:
        for section in self.page.query_selector_all("main section.table"):
            yield section.evaluate(READ_TABLE)

    def check_tables(self, data: dict[str, Any], tool: str) -> dict[str, int]:
        """Hold every row on the screen against the tool's; table → rows seen."""
        seen: dict[str, int] = {}
        for table in self.tables():
            address = urlsplit(table["csv"])
            asked = parse_qs(address.query)
            assert address.path == f"data/csv/{tool}"
            name = asked["table"][0]
            truth = at(data, name)
            assert table["rows"] == len(truth), name
            if "sort" in asked:
                descending = asked.get("descending") == ["true"]
                truth = in_order(truth, asked["sort"][0], descending=descending)
            for row, cells in zip(truth, table["cells"], strict=False):
                for column, exact, shown in cells:
                    check_shown(column, optional(row, column), exact, shown)
            assert len(table["cells"]) == min(len(truth), 100), name
            seen[name] = len(table["cells"])
        return seen


def at(data: Any, path: str) -> Any:
    """The value at a dotted path whose parts may hold dots themselves."""
    if path == "" or data is None:
        return data
    if not isinstance(data, dict):
        raise LookupError(path)  # noqa: TRY004 - a path that leads nowhere
    for name in sorted(data, key=len, reverse=True):
        if path == name:
            return data[name]
        if path.startswith(f"{name}."):
            return at(data[name], path.removeprefix(f"{name}."))
    raise LookupError(path)


def optional(row: dict[str, Any], column: str) -> Any:
    """A part of a breakdown may be absent in one row and present in another."""
    try:
        return at(row, column)
    except LookupError:
        return None


def in_order(rows: list[Any], column: str, *, descending: bool) -> list[Any]:
    known = [row for row in rows if row[column] is not None]
    known.sort(key=lambda row: row[column], reverse=descending)
    return known + [row for row in rows if row[column] is None]


def check_shown(field: str, truth: Any, exact: str | None, shown: str) -> None:
    """The exact value is the tool's; what is shown is that value, rounded."""
    where = f"{field}: {truth!r} is shown as {shown!r}, exactly {exact!r}"
    if truth is None:
        # What was not measured is never a number; a reason may be its tooltip.
        assert shown == UNKNOWN, where
        return
    assert exact is not None, where
    if isinstance(truth, bool):
        assert (exact, shown) == (str(truth).lower(), "yes" if truth else "no"), where
    elif isinstance(truth, int | float):
        assert float(exact) == truth, where
        check_rounded(field, truth, shown)
    elif isinstance(truth, str):
        assert exact == truth, where
        words = CODE_TEXTS.get(field.rpartition(".")[2], {})
        assert shown == words.get(truth, truth), where


def check_rounded(field: str, truth: float, shown: str) -> None:
    found = NUMBER.fullmatch(shown)
    assert found, f"{field}: {shown!r} is no number"
    compared, sign, digits, decimals, power, unit = found.groups()
    scaled = truth * SCALES[unit_of(field), unit or ""]
    value = float(digits.replace(",", "")) * 10.0 ** int(power or 0)
    value = -value if sign else value
    if compared:
        within = 0 < scaled < value if compared == "<" else value < scaled
        assert within, field
        assert compared == "<" or scaled < 0 or value > 99, field
        return
    assert (value == 0) == (truth == 0), f"{field}: {truth} is shown as {shown}"
    step = 10.0 ** (int(power or 0) - len(decimals or ""))
    assert abs(scaled - value) <= 0.5001 * step, f"{field}: {truth} as {shown}"


def unit_of(field: str) -> str:
    """The unit in a field's name, or in the name of what it is a part of."""
    for part in reversed(field.split(".")):
        for unit in ("us", "ms", "ps", "bytes", "percent"):
            if part == unit or part.endswith(f"_{unit}"):
                return unit
    return ""


#: Category → drawn height of one column of a chart, read off the shapes.
_HEIGHTS = r"""(column) => {
  const caught = column.querySelector(".catch"), from = caught.x.baseVal.value;
  const to = from + caught.width.baseVal.value, found = {};
  const shapes = column.closest("svg").querySelectorAll("path[data-category]");
  for (const shape of shapes)
    for (const [, x, height] of shape.getAttribute("d")
      .matchAll(/M([^ ]+) [^h]+h[^v]+v([^h]+)h/g))
      if (from <= Number(x) && Number(x) < to)
        found[shape.dataset.category] = Number(height);
  return found;
}"""


def drawn_heights(column: Locator) -> dict[str, float]:
    """What a column of a chart shows: category → height, where there is any."""
    found: dict[str, float] = column.evaluate(_HEIGHTS)
    return found
