"""What a run says of its time, as data, and what the account says of the same time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import polars as pl

from stepscope.cli.progress import Progress
from stepscope.derive.account.owned_time import account
from stepscope.derive.account.topics import idle_topics
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import IDLE_OWNERS, owners_of
from stepscope.derive.step_windows.windows import typical, windows
from stepscope.report.compose import compose
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.derive.profile_data import ProfileData
    from stepscope.report.document import Document

#: All devices of a host, averaged.
EVERY: Literal["every"] = "every"


class Statement(NamedTuple):
    """What somebody says of the time of some owners.

    Attributes:
        by: Who says it.
        host: Host whose account it is about.
        device: Ordinal of the device; None for the host's own threads; `EVERY` for the
            mean of its devices.
        owners: The owners.
        place: "inside", "between" or "any".
        percent: The share that is claimed.
        window: Row of windows; None for all that are measured.
        topics: Topics, that is parts of other owners' time.
    """

    by: str
    host: str
    device: int | str | None
    owners: tuple[str, ...]
    place: str
    percent: float
    window: int | None = None
    topics: tuple[str, ...] = ()


@cache
def read(path: Path) -> tuple[ProfileData, Document]:
    """A run, and everything that its report says."""
    profile = open_profile(path)
    return profile, compose(profile, Progress(stages=9))


def owners_in(category: str, *, on_device: bool) -> tuple[str, ...]:
    """The owners of a category; without devices, waiting for others is in the rest."""
    owners = owners_of(category)
    if on_device:
        return owners
    if category == "other":
        return (*owners, "peer")
    return tuple(owner for owner in owners if owner != "peer")


def accounted(profile: ProfileData) -> list[tuple[str, int | None]]:
    """Every host and device that has an account."""
    found = []
    for host in profile.hosts:
        mine = profile.derived(host, account)
        if not isinstance(mine, Unavailable):
            found += [(host, device) for device in mine.rows["device"].unique()]
    return found


def on_device(profile: ProfileData, host: str) -> bool:
    """Whether a host's account is that of devices."""
    return (host, None) not in accounted(profile)


def owned(profile: ProfileData, one: Statement) -> float:
    """The share of the owners, summed over the account's own rows."""
    found = profile.derived(one.host, account)
    assert not isinstance(found, Unavailable)
    rows, between = (_of(profile, frame, one) for frame in (found.rows, found.between))
    total = 0
    for owner in one.owners:
        every = rows[f"{owner}_ps"].fill_null(0).sum()
        out = between[f"{owner}_ps"].fill_null(0).sum() if owner in IDLE_OWNERS else 0
        total += {"any": every, "between": out, "inside": every - out}[one.place]
    if one.topics:
        total += _in_topics(profile, one)
    whole: Any = rows["window_ps"].sum()
    return 100 * total / whole


def _in_topics(profile: ProfileData, one: Statement) -> int:
    """Sum the instants of a statement's topics, each of which has an owner too."""
    found, topics = (profile.derived(one.host, it) for it in (account, idle_topics))
    placed = profile.derived(one.host, windows)
    assert not isinstance(found, Unavailable)
    assert not isinstance(topics, Unavailable)
    assert not isinstance(placed, Unavailable)
    (whole,) = (it for it in found.devices if it.device == one.device)
    (mine,) = (it for it in topics.devices if it.device == one.device)
    idle = Spans.union_of(whole.idle.values())
    measured = typical(placed.rows.with_row_index("window"))
    starts, ends = measured["start_ps"].to_numpy(), measured["end_ps"].to_numpy()
    total = 0
    for topic in one.topics:
        spans = mine.spans[topic]
        assert (spans - idle).length_ps == 0
        if one.place == "between":
            spans &= whole.between
        elif one.place == "inside":
            spans -= whole.between
        total += int(spans.within(starts, ends).sum())
    return total


def _of(profile: ProfileData, frame: pl.DataFrame, one: Statement) -> pl.DataFrame:
    if one.device != EVERY:
        device = pl.lit(one.device, pl.Int32)
        frame = frame.filter(pl.col("device").eq_missing(device))
    if one.window is not None:
        return frame.filter(pl.col("window") == one.window)
    placed = profile.derived(one.host, windows)
    assert not isinstance(placed, Unavailable)
    measured = typical(placed.rows.with_row_index("window"))["window"]
    return frame.filter(pl.col("window").is_in(measured.to_list()))
