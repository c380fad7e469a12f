"""The profile message that TensorFlow, JAX and XLA write: reading and writing it."""

from stepscope.xspace.columns import (
    Damage,
    Events,
    EventTypes,
    Lines,
    Plane,
    PlaneStat,
    Stats,
    TypeStats,
    XSpace,
)
from stepscope.xspace.decode import decode, decode_bytes
from stepscope.xspace.pivot import Interned, Pivot, intern_places, pivot
from stepscope.xspace.write import (
    LineBuilder,
    PlaneBuilder,
    StatColumn,
    Unsigned,
    Value,
    XSpaceBuilder,
)

__all__ = [
    "Damage",
    "EventTypes",
    "Events",
    "Interned",
    "LineBuilder",
    "Lines",
    "Pivot",
    "Plane",
    "PlaneBuilder",
    "PlaneStat",
    "StatColumn",
    "Stats",
    "TypeStats",
    "Unsigned",
    "Value",
    "XSpace",
    "XSpaceBuilder",
    "decode",
    "decode_bytes",
    "intern_places",
    "pivot",
]
