"""A quantity has one text, on whichever page it stands: read off the rendered pages."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.timeline import Timeline, asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.sites.view import View

#: Recordings of `tests/data`, and another one to compare each with.
RECORDINGS = {"keras": "loop", "loop": "sequential_map", "sequential_map": "keras"}
#: Name of a card → the name that the same quantity has elsewhere.
CARDS = {
    "95th percentile": "Step time, 95th percentile",
    "Input": "Input, share",
    "Input, of the step": "Input, share",
}
NUMBER = r"[<>]?[\d,.]+ (?:ms|µs|%)"

Told = tuple[str, str]
_ROWS = """(all) => all.map((row) =>
    [...row.children].map((cell) => cell.textContent.trim()))"""


def texts(view: View, selector: str) -> list[list[str]]:
    """The cells of every row that a selector finds."""
    found: list[list[str]] = view.page.locator(selector).evaluate_all(_ROWS)
    return found


def cards(view: View) -> Iterator[Told]:
    for name, value in texts(view, "main .cards li:has([data-field])"):
        yield CARDS.get(name, name), value


def statistics(view: View) -> Iterator[Told]:
    for row in texts(view, "main table.twin:has([data-field^=step_time_ms]) tr"):
        yield f"Step time, {row[0].lower()}", row[1]


def breakdown(view: View, of: str = "") -> Iterator[Told]:
    """Categories as bars: title, bar, time, share, and details without a share."""
    cells = view.page.locator("main .bars").first.locator("> :not(.detail)")
    words = [each.strip() for each in cells.all_text_contents()]
    told = [each for each in words if each]
    for name, value, share in zip(told[::3], told[1::3], told[2::3], strict=True):
        yield f"{of}{name}, time", value
        yield f"{of}{name}, share", share


def account(view: View) -> Iterator[Told]:
    for row in texts(view, "table.account tr.category"):
        yield f"{row[0]}, time", row[-2]
        yield f"{row[0]}, share", row[-1]
    for row in texts(view, "table.account tr[data-owner]"):
        yield f"owner {row[0]}, share", row[-1]


def columns(view: View) -> Iterator[Told]:
    """What a chart says of each step, up to how the step was set apart."""
    for one in view.page.locator(".columns g.column").all():
        title, _, rest = (one.get_attribute("aria-label") or "").partition(": ")
        for part in rest.split(", set apart")[0].split(", "):
            name = re.sub(NUMBER, "", part).strip()
            (value,) = re.findall(NUMBER, part)
            yield f"{title} {name or 'in all'}", value


def overview(view: View, run: str) -> Iterator[Told]:
    view.go("overview_page", run=run)
    yield from cards(view)
    yield from statistics(view)
    yield from breakdown(view)
    yield from account(view)
    yield from columns(view)


def input_page(view: View, run: str) -> Iterator[Told]:
    view.go("input_pipeline_analyzer", run=run)
    yield from cards(view)
    yield from statistics(view)
    yield from columns(view)


def pod(view: View, run: str) -> Iterator[Told]:
    """The step that the slider stands on, of the only worker."""
    view.go("pod_viewer", run=run)
    step = view.page.locator("figure h2").first.inner_text().lower()
    whole = view.page.locator(".pod section p").first.inner_text()
    yield f"{step} in all", re.findall(NUMBER, whole)[0]
    for name, value in breakdown(view):
        if name.endswith(", time") and value != "0 ms":
            yield f"{step} {name.removesuffix(', time')}", value


def comparison(view: View, run: str) -> Iterator[Told]:
    view.go("compare", run=run, base=view.server.runs[RECORDINGS[run]])
    heading = view.page.locator('section[aria-label="new"] h3').inner_text()
    found = re.search(rf"mean ({NUMBER}), median ({NUMBER}) of", heading)
    assert found
    yield "Step time, average", found[1]
    yield "Step time, median", found[2]


def area(view: View, run: str) -> Iterator[Told]:
    """Whose time the measured steps are: neither a cold first one nor the open end."""
    timeline = Timeline(view)
    view.go("overview_page", run=run)
    steps = asked(timeline, "catalogue", run=run)["steps"]
    first = next(each for each in steps if "warm_up" not in each["flags"])
    end = "start_ps" if "open_end" in steps[-1]["flags"] else "end_ps"
    timeline.open(run, sel=f"area:{first['start_ps']}:{steps[-1][end]}")
    for name, _, share in texts(view, "table.sums >> nth=0 >> tr"):
        yield f"owner {name}, share", share


def gathered(pages: dict[str, Iterable[Told]]) -> dict[str, dict[str, set[str]]]:
    """Name of a quantity → text → the pages that show it so."""
    found: dict[str, Any] = defaultdict(lambda: defaultdict(set))
    for page, told in pages.items():
        for name, text in told:
            found[name][text].add(page)
    return found


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("run", RECORDINGS)
def test_a_quantity_has_one_text_on_all_pages(view: View, run: str) -> None:
    pages: dict[str, Iterable[Told]] = {
        "overview": list(overview(view, run)),
        "input": list(input_page(view, run)),
        "pod": list(pod(view, run)),
        "compare": list(comparison(view, run)),
        "trace": list(area(view, run)),
    }
    found = gathered(pages)
    assert {name: dict(told) for name, told in found.items() if len(told) > 1} == {}
    seen_twice = {
        frozenset(shown) for told in found.values() for shown in told.values()
    }
    # Each page shares quantities with the overview: nothing was compared with nothing.
    for page in ("input", "pod", "compare", "trace"):
        assert any({page, "overview"} <= shown for shown in seen_twice), page


@pytest.mark.sweep(every=3)
@pytest.mark.parametrize("run", RECORDINGS)
def test_numbers_of_the_headline_stand_in_the_overview(view: View, run: str) -> None:
    view.go("findings", run=run)
    headline = view.page.locator(".headline .verdict").inner_text()
    numbers = re.findall(NUMBER, headline)
    assert numbers
    shown = {text for _, text in overview(view, run)}
    shown |= {cell for row in texts(view, "table.account tr") for cell in row}
    assert view.page.locator(".headline .verdict").inner_text() == headline
    # Sentences have three figures, and cells the decimals of their column.
    assert [
        one for one in numbers if not any(rounds(one, each) for each in shown)
    ] == []


def rounds(short: str, shown: str) -> bool:
    """Whether a number is another one with fewer figures."""
    found = [re.fullmatch(r"([\d.]+) (ms|µs|%)", one) for one in (short, shown)]
    if found[0] is None or found[1] is None or found[0][2] != found[1][2]:
        return False
    (value, decimals), (exact, _) = (
        (float(one[1]), len(one[1].partition(".")[2])) for one in found if one
    )
    return abs(value - exact) <= 0.5001 * 10.0**-decimals
