"""The program's own ranges that take most time, for a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import polars as pl

from stepscope.analysis.model_views.annotated import annotated
from stepscope.analysis.model_views.annotation_rows import annotation_rows
from stepscope.analysis.model_views.settings import Settings
from stepscope.derive.steps.chosen import steps
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


class TopAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """A range that the program named, over all places where it stands.

    Attributes:
        name: Name of the range.
        occurrences: Number of its calls.
        total_us: Host time in it.
        step_us: Host time in it per step; null where the hosts have no steps.
        total_device_us: Time of the device work that was launched in it; null where
            launches are not known.
    """

    name: str
    occurrences: int
    total_us: float
    step_us: float | None
    total_device_us: float | None


def top_annotations(profile: ProfileData, most: int) -> tuple[TopAnnotation, ...]:
    """Return the ranges with most host time; empty where the program named none.

    Ranges that only mark steps, and those of a framework, are left out: other parts of
    a report are about them.
    """
    looked = [annotated(profile, host, None) for host in profile.hosts]
    hosts = [one for one in looked if not isinstance(one, Unavailable)]
    if not hosts:
        return ()
    rows = annotation_rows(hosts, Settings(), busy=False)
    path: dict[int, frozenset[str]] = {}
    outermost = []
    for number, parent, name in rows[["id", "parent", "name"]].iter_rows():
        above = frozenset[str]() if parent is None else path[parent]
        path[number] = above | {name}
        outermost.append(name not in above)
    inner = ~pl.Series(outermost)
    # A range inside one of the same name is part of that one's time.
    times = ("total_us", "step_us", "total_device_us")
    summed = (
        rows.with_columns(
            pl.when(inner).then(0.0).otherwise(name).alias(name) for name in times
        )
        .filter(~pl.col("library") & ~pl.col("name").is_in(_markers(profile)))
        .group_by("name")
        .agg(
            pl.col("occurrences").sum(),
            *(
                pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum())
                for name in times
            ),
        )
        .sort("total_us", "name", descending=[True, False])
        .head(most)
    )
    return tuple(TopAnnotation(**row) for row in summed.iter_rows(named=True))


def _markers(profile: ProfileData) -> list[str]:
    found = [profile.derived(host, steps) for host in profile.hosts]
    named = [one.rows["marker"] for one in found if not isinstance(one, Unavailable)]
    return sorted({name for marks in named for name in marks.drop_nulls().to_list()})
