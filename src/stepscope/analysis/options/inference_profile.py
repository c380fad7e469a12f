"""Options of `inference_profile`."""

from __future__ import annotations

import msgspec

from stepscope.analysis.options.values import Name


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        host: Only this host; empty for all.
        name: Only requests of this name; empty for all.
    """

    host: str = ""
    name: Name = ""
