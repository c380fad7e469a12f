"""Every table of a trace, in one tuple."""

from __future__ import annotations

from typing import Final

from stepscope.trace.allocations import ALLOCATIONS
from stepscope.trace.device_activity import DEVICE_ACTIVITY, GEOMETRIES
from stepscope.trace.devices import DEVICES
from stepscope.trace.environment import ENVIRONMENT
from stepscope.trace.events import AGGREGATES, EVENT_TYPES, EVENTS
from stepscope.trace.hlo_ops import HLO_OPS
from stepscope.trace.iterators import ITERATORS
from stepscope.trace.launches import LAUNCHES
from stepscope.trace.measured.kernel_metrics import (
    KERNEL_METRIC_VALUES,
    KERNEL_METRICS,
    KERNEL_RULE_RESULTS,
    NOT_MEASURED,
)
from stepscope.trace.parameters import PARAMETERS
from stepscope.trace.quality import QUALITY
from stepscope.trace.stats import STATS, TYPE_STATS
from stepscope.trace.tracks import TRACKS

TABLES: Final = {
    schema.name: schema
    for schema in (
        TRACKS,
        EVENTS,
        EVENT_TYPES,
        AGGREGATES,
        STATS,
        TYPE_STATS,
        DEVICE_ACTIVITY,
        GEOMETRIES,
        LAUNCHES,
        ALLOCATIONS,
        ITERATORS,
        PARAMETERS,
        HLO_OPS,
        DEVICES,
        KERNEL_METRICS,
        KERNEL_METRIC_VALUES,
        KERNEL_RULE_RESULTS,
        ENVIRONMENT,
        QUALITY,
    )
}

#: Tables that no recording holds, and why they are absent until a file of their own is
#: given beside it: readers of recordings leave them out.
BESIDE: Final = {
    schema.name: NOT_MEASURED
    for schema in (KERNEL_METRICS, KERNEL_METRIC_VALUES, KERNEL_RULE_RESULTS)
}
