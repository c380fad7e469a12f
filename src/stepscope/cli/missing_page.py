"""The notice that an installation has no web page; light enough for `--version`."""

from __future__ import annotations

import textwrap
from typing import Final

from stepscope.serve.built import why_unbuilt

_WAY_OUT: Final = (
    "Run `make web` in a checkout, or install stepscope again on a machine that "
    "reaches npm's registry. Everything else works, `stepscope report` too."
)
_WIDTH: Final = 78


def notice(width: int = _WIDTH) -> str | None:
    """Return a box with the reason and the way out; None where the page is there."""
    why = why_unbuilt()
    if why is None:
        return None
    inside = min(width, _WIDTH) - 4
    text = [
        *textwrap.wrap(f"The web page is missing: {why.rstrip('.')}.", inside),
        *textwrap.wrap(_WAY_OUT, inside),
    ]
    edge = "─" * (inside + 2)
    body = (f"│ {one:<{inside}} │" for one in text)
    return "\n".join([f"┌{edge}┐", *body, f"└{edge}┘"])
