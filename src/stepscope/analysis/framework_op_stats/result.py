"""The result of `framework_op_stats`."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import polars as pl

from stepscope.analysis.results.result import ToolResult
from stepscope.analysis.results.tables import tool_tables
from stepscope.unavailable import Missing

_TABLES: Final = tool_tables("framework_op_stats")
OP_ROWS: Final = _TABLES["rows"]
PIE_ROWS: Final = _TABLES["pies"]


class Pie(msgspec.Struct, frozen=True, kw_only=True):
    """One distribution of self time over ops or op types.

    Attributes:
        without_idle: The ten largest slices and `other`, without idle time.
        with_idle: The ten largest slices and `other`, with idle time as a slice.
    """

    without_idle: Annotated[pl.DataFrame, PIE_ROWS]
    with_idle: Annotated[pl.DataFrame, PIE_ROWS]


class Pies(msgspec.Struct, frozen=True, kw_only=True):
    """Self time by op and by op type; None for a side that was not recorded."""

    host_by_op: Pie | None
    host_by_type: Pie | None
    device_by_op: Pie | None
    device_by_type: Pie | None


class FrameworkOpStatsResult(ToolResult, frozen=True, kw_only=True):
    """Ops of all selected hosts and devices.

    Attributes:
        rows: Device ops by self time, then host ops by self time. Percentages refer to
            all ops of the side, shown or not.
        pies: Distributions of self time: by op and by op type, on hosts and on devices.
        device_idle_us: Idle time summed over devices; null without device activity.
        host_idle_us: Idle time summed over hosts; null without host ops.
        launch_latency_us: Usual time from the start of a launch call to its activity on
            an idle device. Activities of small ops are shorter than twice this time.
        launch_latency_samples: Number of launches whose median latency is used; 0 if
            the latency is assumed.
        missing: Columns, sides and hosts that could not be analysed.
        inputs: Host → number of host and device op executions that were read.
    """

    rows: Annotated[pl.DataFrame, OP_ROWS]
    pies: Pies
    device_idle_us: float | None
    host_idle_us: float | None
    launch_latency_us: float
    launch_latency_samples: int
    missing: tuple[Missing, ...]
    inputs: dict[str, dict[str, int]]
