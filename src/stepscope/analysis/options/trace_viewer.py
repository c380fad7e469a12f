"""Options of `trace_viewer`."""

from __future__ import annotations

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The whole trace is shown; there is nothing to choose."""
