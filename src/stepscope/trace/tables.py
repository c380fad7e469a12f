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
from stepscope.trace.parameters import PARAMETERS
from stepscope.trace.quality import QUALITY
from stepscope.trace.stats import STATS, TYPE_STATS
from stepscope.trace.tracks import TRACKS

__all__ = ["TABLES"]

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
        ENVIRONMENT,
        QUALITY,
    )
}
