"""Write events group by group: many events of one line with stats of equal names.

A thin layer over the package's writer for arrays of (steps, things in one step).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscope.xspace.fields import DOUBLE, INT, REF, UINT
from stepscope.xspace.writing.builders import LineBuilder, PlaneBuilder
from stepscope.xspace.writing.encode import StatColumn

PS_PER_NS = 1000


@dataclass(frozen=True)
class Stat:
    """One stat of every event of a group; broadcast to the group's shape."""

    kind: int
    values: NDArray[np.int64] | NDArray[np.uint64] | NDArray[np.float64]


def integers(values: ArrayLike) -> Stat:
    """Signed whole numbers."""
    return Stat(INT, np.asarray(values, dtype=np.int64))


def unsigned(values: ArrayLike) -> Stat:
    """Whole numbers from 0, as correlation ids are written."""
    return Stat(UINT, np.asarray(values, dtype=np.uint64))


def reals(values: ArrayLike) -> Stat:
    """Floating-point numbers."""
    return Stat(DOUBLE, np.asarray(values, dtype=np.float64))


def texts(plane: PlaneBuilder, *values: str) -> Stat:
    """One text for all events, or one for each column; stored as references."""
    ids = [plane.stat_id(value) for value in values]
    return Stat(REF, np.array(ids, dtype=np.int64))


@dataclass
class Line:
    """A line of a plane, and how much was put on it.

    Attributes:
        plane: Plane of the line, which numbers the names.
        builder: The writer's object for the line.
        events: Number of events added.
        stats: Number of stats of these events.
    """

    plane: PlaneBuilder
    builder: LineBuilder
    events: int = 0
    stats: int = 0

    def add(
        self,
        names: Sequence[str] | str,
        start_ns: ArrayLike,
        dur_ns: ArrayLike,
        stats: Mapping[str, Stat] | None = None,
    ) -> None:
        """Add a group of events.

        Args:
            names: One name for all, or one for each column of `start_ns`.
            start_ns: Begins; the last axis runs over the names.
            dur_ns: Durations, broadcast to the shape of `start_ns`.
            stats: Name → values, broadcast to the shape of `start_ns`.
        """
        start = np.asarray(start_ns, dtype=np.int64)
        stats = stats or {}
        each = [names] if isinstance(names, str) else names
        types = np.array([self.plane.event_type(name) for name in each])
        self.builder.events(
            np.broadcast_to(types, start.shape).ravel(),
            start.ravel() * PS_PER_NS,
            np.broadcast_to(dur_ns, start.shape).ravel() * PS_PER_NS,
            stats=[
                StatColumn(
                    self.plane.stat_id(name),
                    stat.kind,
                    np.broadcast_to(stat.values, start.shape).ravel(),
                )
                for name, stat in stats.items()
            ],
        )
        self.events += start.size
        self.stats += start.size * len(stats)


def new_line(plane: PlaneBuilder, number: int, name: str) -> Line:
    """An empty line of a plane."""
    return Line(plane, plane.line(number, name=name))
