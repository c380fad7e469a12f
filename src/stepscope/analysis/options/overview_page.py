"""Options of `overview_page`."""

from __future__ import annotations

import msgspec

from stepscope.analysis.options.values import Flag, Name


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        host: Only this host; empty for all.
        marker: Only the steps of this marker name (train, test, …).
        exclude_flags: Leave windows with one of these flags out of the statistics.
        parameters: Number of the model's parameters, for the expected time of an
            all-reduce; left out, the number in the recording's description of the
            model.
        bandwidth_gib_per_s: Bandwidth between devices, for the expected time of an
            all-reduce.
    """

    host: str = ""
    marker: Name = ""
    exclude_flags: tuple[Flag, ...] = ()
    parameters: int | None = None
    bandwidth_gib_per_s: float | None = None
