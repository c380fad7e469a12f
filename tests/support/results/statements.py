"""What a run says of its time, as data, and what the account says of the same time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from stepscope.cli.output import Progress
from stepscope.derive.account.time_by_cause import account
from stepscope.derive.account.topics import idle_topics
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import IDLE_OWNERS, category_owners
from stepscope.derive.step_windows.windows import typical_rows, windows
from stepscope.reporting.compose import compose_report
from stepscope.session import open_profile
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.derive.profile_data import ProfileData
    from stepscope.reporting.document import Document

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
def opened(path: Path) -> ProfileWithTools:
    """A run that is opened once for all tests of a process; it is frozen."""
    return open_profile(path)


@cache
def read(path: Path) -> tuple[ProfileWithTools, Document]:
    """A run, and everything that its report says."""
    profile = opened(path)
    return profile, compose_report(profile, Progress(stages=9))


def owners_in(category: str, *, on_device: bool) -> tuple[str, ...]:
    """The owners of a category; without devices, waiting for others is in the rest."""
    owners = category_owners(category)
    if on_device:
        return owners
    if category == "other":
        return (*owners, "peer")
    return tuple(owner for owner in owners if owner != "peer")


@cache
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


class _Rows:
    """Rows of an account, as arrays: what is unknown is none."""

    def __init__(self, frame: pl.DataFrame, measured: pl.Series) -> None:
        self._ps = {
            column: frame[column].fill_null(0).to_numpy()
            for column in frame.columns
            if column.endswith("_ps")
        }
        self._devices = frame["device"].to_list()
        self._windows = frame["window"].to_numpy()
        self._measured = np.isin(self._windows, measured.to_numpy())

    def chosen(self, one: Statement) -> NDArray[np.bool_]:
        """Which rows a statement is about."""
        whole = self._measured if one.window is None else self._windows == one.window
        of_it = [one.device in (EVERY, it) for it in self._devices]
        return whole & np.array(of_it, bool)

    def total(self, column: str, rows: NDArray[np.bool_]) -> int:
        return int(self._ps[column][rows].sum())


@cache
def _rows_of(profile: ProfileData, host: str) -> tuple[_Rows, _Rows]:
    """The account of a host, and its part between steps."""
    found = profile.derived(host, account)
    placed = profile.derived(host, windows)
    assert not isinstance(found, Unavailable)
    assert not isinstance(placed, Unavailable)
    measured = typical_rows(placed.rows.with_row_index("window"))["window"]
    return _Rows(found.rows, measured), _Rows(found.between, measured)


def owned(profile: ProfileData, one: Statement) -> float:
    """The share of the owners, summed over the account's own rows."""
    rows, between = _rows_of(profile, one.host)
    mine, mine_between = rows.chosen(one), between.chosen(one)
    total = 0
    for owner in one.owners:
        column = f"{owner}_ps"
        every = rows.total(column, mine)
        out = between.total(column, mine_between) if owner in IDLE_OWNERS else 0
        total += {"any": every, "between": out, "inside": every - out}[one.place]
    if one.topics:
        total += _in_topics(profile, one)
    return 100 * total / rows.total("window_ps", mine)


def _in_topics(profile: ProfileData, one: Statement) -> int:
    """Sum the instants of a statement's topics, each of which has an owner too."""
    found, topics = (profile.derived(one.host, it) for it in (account, idle_topics))
    placed = profile.derived(one.host, windows)
    assert not isinstance(found, Unavailable)
    assert not isinstance(topics, Unavailable)
    assert not isinstance(placed, Unavailable)
    (whole,) = (it for it in found.devices if it.device == one.device)
    mine = next((it for it in topics.devices if it.device == one.device), None)
    if mine is None:
        return 0  # nothing of the host was recorded
    idle = Spans.union_of(whole.idle.values())
    measured = typical_rows(placed.rows.with_row_index("window"))
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
