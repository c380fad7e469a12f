"""What the critical path of the judged steps consists of, by owner, name and thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.derive.replay.critical import critical_path
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.derive.replay.critical import CriticalPath

#: Names and threads that a path lists; JSON lists no more, since the rest is small.
_MOST: Final = 10


class PathShare(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the critical path.

    Attributes:
        name: Owner, op or thread; null where nothing names it.
        ms: Its time in the mean step.
        percent: Its share of the path, which is as long as the steps.
    """

    name: str | None
    ms: float
    percent: float


class StepPath(msgspec.Struct, frozen=True, kw_only=True):
    """The critical path of the steps of one host.

    Attributes:
        host: The host.
        steps: Number of steps whose path was found.
        unexplained_percent: Share of starts that no dependency explains: how far the
            path can be trusted.
        owners: The path by owner of the account, largest first.
        ops: By op, kernel or function; the ten largest.
        threads: By thread or stream; the ten largest.
    """

    host: str
    steps: int
    unexplained_percent: float
    owners: tuple[PathShare, ...]
    ops: tuple[PathShare, ...]
    threads: tuple[PathShare, ...]


def step_path(profile: ProfileData, host: str) -> StepPath | Unavailable:
    """Return what the critical path of a host's steps consists of."""
    found = profile.derived(host, critical_path)
    tracks = profile.table(host, "tracks")
    if isinstance(found, Unavailable):
        return found
    if isinstance(tracks, Unavailable):
        return tracks
    names = tracks["name"].to_list()
    count = found.rows["window"].n_unique()
    threads = tuple(
        msgspec.structs.replace(one, name=names[int(one.name)])
        for one in _shares(found, "track", count)[:_MOST]
        if one.name is not None
    )
    return StepPath(
        host=host,
        steps=count,
        unexplained_percent=found.unexplained_percent,
        owners=_shares(found, "owner", count),
        ops=_shares(found, "name", count)[:_MOST],
        threads=threads,
    )


def _shares(found: CriticalPath, by: str, count: int) -> tuple[PathShare, ...]:
    shares = found.share(by).with_columns(pl.col(by).cast(pl.String))
    return tuple(
        PathShare(name=name, ms=time / max(count, 1) / PS_PER_MS, percent=percent)
        for name, time, percent in shares.select(by, "time_ps", "percent").iter_rows()
    )
