"""Whether the page was built with the package; light enough for `--version`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"


def why_unbuilt(folder: Path = STATIC) -> str | None:
    """Return why there is no page; None where there is one."""
    if (folder / "index.html").is_file():
        return None
    try:
        reason = json.loads((folder / "build.json").read_text("utf-8"))["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        reason = None
    return str(reason or "it was not built when stepscope was installed")
