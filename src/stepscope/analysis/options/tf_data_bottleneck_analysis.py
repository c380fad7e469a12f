"""Options of `tf_data_bottleneck_analysis`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stepscope.analysis.options.values import Name


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        host: Only this host; empty for all.
        pipeline: Only graphs of the pipelines of this name (`Host:0`, `Device:1`, …);
            empty for all.
        rank: Which call a graph shows, by latency; 0 is the slowest of its pipeline.
    """

    host: str = ""
    pipeline: Name = ""
    rank: Annotated[int, msgspec.Meta(ge=0)] = 0
