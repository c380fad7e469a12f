"""The page's timeline as a reader uses it: by names of tracks and by time."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from playwright.sync_api import Locator
    from tests.support.sites.view import View

US = 1_000_000
#: Tracks of the run `vector`.
STREAM, COPIES, MAIN = "Stream #7", "Stream #8", "main"
#: Step 103 of that run, and a little around it.
STEP = {"t0": str(2950 * US), "t1": str(4050 * US)}
_TRIANGLE = re.compile("^[▾▸]")
#: Height of a row, and of the border above the first one.
_ROW = 20
_TOP = 2
#: The name of the colour that a place of the canvas is nearest to.
_COLOUR = """([x, y]) => {
  const canvas = document.querySelector('.sheet canvas:not(.overlay)');
  const ratio = canvas.width / canvas.clientWidth;
  const spot = document.createElement('canvas');
  const pen = spot.getContext('2d', { willReadFrequently: true });
  const style = getComputedStyle(document.documentElement);
  pen.fillStyle = style.getPropertyValue('--page');
  pen.fillRect(0, 0, 1, 1);
  pen.drawImage(canvas, Math.floor(x * ratio), Math.floor(y * ratio), 1, 1, 0, 0, 1, 1);
  const seen = pen.getImageData(0, 0, 1, 1).data;
  const tokens = ['page', 'compute', 'collective', 'output', 'd2d', 'input', 'launch',
    'host', 'compile', 'idle'];
  const far = (token) => {
    const hex = style.getPropertyValue(`--${token}`).trim();
    return [1, 3, 5].reduce((sum, at, k) => sum
      + (parseInt(hex.length === 4 ? hex[(at + 1) / 2].repeat(2)
        : hex.slice(at, at + 2), 16) - seen[k]) ** 2, 0);
  };
  return tokens.reduce((best, each) => far(each) < far(best) ? each : best);
}"""

#: Red, green, blue and opacity of a place of a canvas.
_PAINTED = """([x, y, name]) => {
  const canvas = document.querySelector(name);
  const ratio = canvas.width / canvas.clientWidth;
  const spot = document.createElement('canvas');
  const pen = spot.getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, Math.floor(x * ratio), Math.floor(y * ratio), 1, 1, 0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
}"""


class Timeline:
    """One open timeline; times are in microseconds since the start of the profile."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.page = view.page

    def open(self, run: str = "vector", **state: str) -> Timeline:
        self.view.go("trace_viewer", run=run, **state)
        return self

    def settle(self) -> None:
        self.view.settle()

    @property
    def root(self) -> Locator:
        return self.page.locator(".trace")

    @property
    def canvas(self) -> Locator:
        return self.page.get_by_role("application", name="Timeline")

    @property
    def details(self) -> Locator:
        return self.page.get_by_role("complementary", name="Selection")

    @property
    def heading(self) -> Locator:
        """What is chosen, as the details begin."""
        return self.details.get_by_role("heading", level=2)

    @property
    def said(self) -> str:
        return self.page.locator(".said").inner_text()

    @property
    def selected(self) -> str | None:
        return self.root.get_attribute("data-selected")

    @property
    def window(self) -> tuple[float, float]:
        """Begin and end of what is seen."""
        begin, end = (
            self.root.get_attribute(f"data-{name}") for name in ("begin", "end")
        )
        assert begin is not None
        assert end is not None
        return int(begin) / US, int(end) / US

    def shows(self, begin_us: float, end_us: float) -> bool:
        """Whether all of a stretch of time is in view."""
        begin, end = self.window
        return begin <= begin_us and end_us <= end

    def label(self, name: str) -> Locator:
        """The name of a track at the left."""
        return self.page.locator(".track", has=self.page.get_by_text(name, exact=False))

    @property
    def names(self) -> list[str]:
        """Names of the tracks from top to bottom."""
        tracks = self.page.locator(".track .name").all()
        found = [(box(track)["y"], track.text_content() or "") for track in tracks]
        return [_TRIANGLE.sub("", name).strip() for _, name in sorted(found)]

    def place(self, track: str, us: float, row: int = 0) -> tuple[float, float]:
        """Where a time of a track is, from the corner of the canvas."""
        begin, end = self.window
        canvas = box(self.canvas)
        x = (us - begin) / (end - begin) * canvas["width"]
        y = box(self.label(track))["y"] - canvas["y"] + _TOP + _ROW * (row + 0.5)
        assert 0 <= x < canvas["width"], f"{us} µs is not in view: {begin} to {end}"
        return x, y

    def colour(self, track: str, us: float, row: int = 0) -> str:
        """The token of the colour at a time of a track; `page` where nothing is."""
        x, y = self.place(track, us, row)
        found: str = self.page.evaluate(_COLOUR, [x, y - 6])
        return found

    def overlaid(self, track: str, us: float) -> list[int]:
        """What lies over the spans at a time of a track, below its row's middle."""
        x, y = self.place(track, us)
        found: list[int] = self.page.evaluate(_PAINTED, [x, y + 4, ".overlay"])
        return found

    def strength(self, track: str, us: float, row: int = 0) -> float:
        """How opaque a time of a track is, above its text: 0 where nothing is."""
        x, y = self.place(track, us, row)
        lanes = ".sheet canvas:not(.overlay)"
        found: list[int] = self.page.evaluate(_PAINTED, [x, y - 6, lanes])
        return found[3] / 255

    def click(self, track: str, us: float, row: int = 0) -> None:
        x, y = self.place(track, us, row)
        self.canvas.click(position={"x": x, "y": y})
        self.settle()

    def drag(
        self,
        begin: tuple[str, float],
        end: tuple[str, float],
        *,
        shift: bool = False,
    ) -> None:
        """Drag from a time of one track to a time of another."""
        corner = box(self.canvas)
        places = [self.place(*begin), self.place(*end)]
        (x0, y0), (x1, y1) = [(corner["x"] + x, corner["y"] + y) for x, y in places]
        if shift:
            self.page.keyboard.down("Shift")
        self.page.mouse.move(x0, y0)
        self.page.mouse.down()
        self.page.mouse.move((x0 + x1) / 2, (y0 + y1) / 2)
        self.page.mouse.move(x1, y1)
        self.page.mouse.up()
        if shift:
            self.page.keyboard.up("Shift")
        self.settle()

    def click_tool(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()
        self.settle()

    def press(self, *keys: str) -> None:
        self.canvas.focus()
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()

    def fact(self, name: str) -> Locator:
        """What the details say under a name."""
        term = self.details.locator("dt", has_text=name).first
        return term.locator("xpath=following-sibling::dd[1]")

    def ps(self, name: str) -> int:
        """The exact time that the details give under a name."""
        found = self.fact(name).locator("[data-ps]").get_attribute("data-ps")
        assert found is not None
        return int(found)


def box(place: Locator) -> Any:
    found = place.first.bounding_box()
    assert found is not None
    return found


def fetched(timeline: Timeline, path: str, *, run: str, **given: object) -> bytes:
    """What the server itself says of a run."""
    server = timeline.view.server.live
    query = urlencode({"run": server.runs[run], **given}, doseq=True)
    with urllib.request.urlopen(  # noqa: S310 - loopback
        f"{server.address}data/trace/{path}?{query}"
    ) as answer:
        found: bytes = answer.read()
    return found


def asked(timeline: Timeline, path: str, run: str = "vector", **given: object) -> Any:
    return json.loads(fetched(timeline, path, run=run, **given))


def track_of(timeline: Timeline, name: str) -> int:
    told = asked(timeline, "catalogue")["tracks"]
    return next(int(each["track"]) for each in told if name in each["name"])
