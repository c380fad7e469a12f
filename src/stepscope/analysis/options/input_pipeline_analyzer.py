"""Options of `input_pipeline_analyzer`."""

from __future__ import annotations

import msgspec

from stepscope.analysis.options.values import Flag, Name


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        host: Only this host; empty for all.
        marker: Only the steps of this marker name (train, test, …).
        exclude_flags: Leave windows with one of these flags out of the statistics.
    """

    host: str = ""
    marker: Name = ""
    exclude_flags: tuple[Flag, ...] = ()
