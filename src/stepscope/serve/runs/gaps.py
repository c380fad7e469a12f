"""The answer about a stretch of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.gaps.explanation import explain_gap
from stepscope.report import to_json

if TYPE_CHECKING:
    from stepscope.analysis.gaps.explanation import Asked
    from stepscope.serve.runs.opened import Opened


def explained(
    opened: Opened, host: str | None, asked: Asked, *, device: int | None
) -> bytes:
    """Write whose time a stretch is, as `stepscope explain` does."""
    profile = opened.view(() if host is None else (host,)).profile
    found = explain_gap(profile, profile.hosts[0], asked, device=device)
    return to_json.render_gap(found)
