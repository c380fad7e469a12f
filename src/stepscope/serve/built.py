"""Check that the web page was built with the package; fast enough for `--version`."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
_REMEDY: Final = (
    "Run `make web` in a checkout, or install stepscope again on a machine that can "
    "reach the npm registry. All commands without the page work, such as "
    "`stepscope report`."
)
_WIDTH: Final = 78


def missing_page_reason(folder: Path = STATIC) -> str | None:
    """Return why the page is missing; None if it exists."""
    if (folder / "index.html").is_file():
        return None
    try:
        reason = json.loads((folder / "build.json").read_text("utf-8"))["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        reason = None
    return str(reason or "it was not built when stepscope was installed")


def missing_page_notice(width: int = _WIDTH) -> str | None:
    """Return a box with the reason and the remedy; None if the page exists."""
    reason = missing_page_reason()
    if reason is None:
        return None
    inside = min(width, _WIDTH) - 4
    text = [
        *textwrap.wrap(f"The web page is missing: {reason.rstrip('.')}.", inside),
        *textwrap.wrap(_REMEDY, inside),
    ]
    edge = "─" * (inside + 2)
    body = (f"│ {row:<{inside}} │" for row in text)
    return "\n".join([f"┌{edge}┐", *body, f"└{edge}┘"])
