"""The built site as files: what each page links to, shows, and requests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Element → attributes by which a browser requests something without a click.
REQUESTS = {
    **dict.fromkeys(
        ("audio", "embed", "iframe", "input", "script", "source"), ("src",)
    ),
    **dict.fromkeys(("track", "video"), ("src", "poster")),
    "img": ("src", "srcset"),
    "link": ("href",),
    "object": ("data",),
}
#: Of a style sheet.
_CSS_REQUEST = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
#: Relations of a `link` that request nothing.
_NAMED_ONLY = frozenset({"index", "search", "next", "prev", "author", "canonical"})
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "source"})


@dataclass
class BuiltPage(HTMLParser):
    """One page of the site, as parsed.

    Attributes:
        links: Targets of links.
        in_text: Those in the page's own text, not in the menu around it.
        requests: What a browser requests to show the page.
        ids: Anchors.
    """

    links: list[str] = field(default_factory=list)
    in_text: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self._depth_of_text = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given: dict[str, Any] = dict(attrs)
        self.ids |= {given["id"]} if given.get("id") else set()
        if self._depth_of_text:
            self._depth_of_text += tag not in _VOID
        elif tag == "article":
            self._depth_of_text = 1
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
            if self._depth_of_text:
                self.in_text.append(given["href"])
        if tag == "link" and set(given.get("rel", "").split()) & _NAMED_ONLY:
            return
        self.requests += [
            given[name] for name in REQUESTS.get(tag, ()) if given.get(name)
        ]
        self.requests += _css_requests(given.get("style") or "")

    def handle_endtag(self, tag: str) -> None:
        if self._depth_of_text and tag not in _VOID:
            self._depth_of_text -= 1

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.requests += _css_requests(data)


class BuiltSite:
    """All pages of a folder, by their path in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages: dict[str, BuiltPage] = {}
        for path in sorted(folder.rglob("*.html")):
            page = BuiltPage()
            page.feed(path.read_text(encoding="utf-8"))
            self.pages[path.relative_to(folder).as_posix()] = page

    def target_of(self, page: str, link: str) -> str | None:
        """Where a link leads, as a path in the folder; None for another host."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        if not parts.path:
            return page
        there = (self.folder / page).parent / unquote(parts.path)
        return there.resolve().relative_to(self.folder.resolve()).as_posix()

    def dead_links(self) -> list[tuple[str, str]]:
        """Page and target, where a link or request leads to no file or no anchor."""
        dead = []
        for name, page in self.pages.items():
            for link in {*page.links, *page.requests}:
                target = self.target_of(name, link)
                if target is None:
                    continue
                anchor = urlsplit(link).fragment
                there = self.pages.get(target)
                if not (self.folder / target).is_file() or (
                    anchor and there is not None and unquote(anchor) not in there.ids
                ):
                    dead.append((name, link))
        return dead

    def clicks(self, front: str = "index.html") -> dict[str, int]:
        """Page → the fewest clicks from the front page, on links in running text."""
        clicks = {front: 0}
        waiting = [front]
        while waiting:
            name = waiting.pop(0)
            for link in self.pages[name].in_text:
                target = self.target_of(name, link)
                if target in self.pages and target not in clicks:
                    clicks[target] = clicks[name] + 1
                    waiting.append(target)
        return clicks

    def foreign_requests(self) -> Iterator[tuple[str, str]]:
        """File and address, where showing a page would request another host."""
        for name, page in self.pages.items():
            for request in page.requests:
                if re.match(r"(?:[a-z]+:)?//", request):
                    yield name, request
        for path in sorted(self.folder.rglob("*.css")):
            for request in _css_requests(path.read_text(encoding="utf-8")):
                if re.match(r"(?:https?:)?//", request):
                    yield path.name, request
        for path in sorted(self.folder.rglob("*.js")):
            for address in addresses_in_code(path.read_text(encoding="utf-8")):
                yield path.name, address


def addresses_in_code(script: str) -> list[str]:
    """Addresses in the strings of a script; comments and names of XML are none."""
    code = re.sub(r"/\*.*?\*/|(?<![:'\"\\])//[^\n]*", "", script, flags=re.DOTALL)
    found = re.findall(r"['\"`](?:https?:)?//[^'\"`\s]+", code)
    return [each[1:] for each in found if "//www.w3.org/" not in each]


def _css_requests(style: str) -> list[str]:
    code = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    return [one or other for one, other in _CSS_REQUEST.findall(code)]
