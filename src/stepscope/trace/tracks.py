"""The kinds of tracks, and of those that repeat others."""

from __future__ import annotations

from typing import Final

from stepscope.trace.tables import TRACKS

TRACK_KINDS: Final = TRACKS.categories("kind")
#: What a derived track repeats; such time is never added to totals.
DERIVED_LINES: Final = TRACKS.categories("derived")
