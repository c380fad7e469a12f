"""`account_parts`: the time of each owner by name: ops, calls, functions, lines.

Definition: docs/where-a-steps-time-goes.md#names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from stepscope.derive.account.naming import UNNAMED
from stepscope.derive.account.topics import TOPICS
from stepscope.derive.columns.arrays import ints
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.step_time.owners import IDLE_OWNERS, PLACES
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.derive.account.naming import Name, Naming
    from stepscope.derive.account.owned_time import Account, DeviceAccount
    from stepscope.derive.account.topics import IdleTopics
    from stepscope.derive.step_windows.windows import Windows

#: Columns of `AccountParts.rows`.
PART_ROWS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),  # null where no device could be looked at
    "owner": pl.String(),
    "place": pl.String(),  # one of `PLACES`
    "name": pl.String(),  # null where nobody named it
    "detail": pl.String(),  # what most of it is, beside the name; null for nothing
    "function": pl.String(),  # null where the name is no function
    "file": pl.String(),
    "line": pl.Int64(),
    "loop": pl.Boolean(),  # whether the function runs around steps: none of their work
    "time_ps": pl.Int64(),
}
#: Columns of `AccountParts.callers`.
CALLER_ROWS: Final[dict[str, pl.DataType]] = {
    name: kind
    for name, kind in PART_ROWS.items()
    if name not in ("name", "detail", "loop")
}
#: What takes less than this share of the windows need not be called by anybody.
_CALLED: Final = 0.02


class AccountParts(Frozen, frozen=True):
    """The idle time of the measured windows, by owner, place and name.

    Attributes:
        rows: Columns `PART_ROWS`, most time first. The parts of one (device, owner,
            place) add up to the owner's time there.
        topics: Columns `PART_ROWS`, likewise of the topics of idle time, which stand in
            place of owners.
        callers: Columns `CALLER_ROWS`: of a (device, owner, place) the program's own
            deepest function within a step from which most of that time is called, with
            the time inside it. What takes next to nothing of the windows has none.
        window_ps: Sum of the measured windows.
    """

    rows: pl.DataFrame
    topics: pl.DataFrame
    callers: pl.DataFrame
    window_ps: int
    windows: int


def account_parts(
    *,
    account: Account,
    idle_topics: IdleTopics,
    windows: Windows,
    naming: Naming | Unavailable,
) -> AccountParts:
    """Name the time of each owner as exactly as the recording does."""
    measured = windows.measured
    starts, ends = ints(measured, "start_ps"), ints(measured, "end_ps")
    judged = Spans.from_events(starts, ends - starts)
    namer = None if isinstance(naming, Unavailable) else naming
    found, callers = [], []
    for device in account.devices:
        for owner in (one for one in IDLE_OWNERS if one not in account.missing):
            for place, spans in _places(device, device.idle[owner] & judged):
                key = (device.device, owner, place)
                found += [
                    (*key, *name, time)
                    for name, time in _parts(namer, device, owner, spans)
                ]
                if namer is not None and spans.length_ps >= _CALLED * judged.length_ps:
                    callers += [
                        (*key, name.function, name.file, name.line, time)
                        for name, time in namer.callers(owner, spans)
                    ]
    topics = [
        (one.device, topic, place, *name, time)
        for device, one in zip(account.devices, idle_topics.devices, strict=False)
        for topic in TOPICS
        for place, spans in _places(device, one.spans[topic] & judged)
        for name, time in _parts(namer, device, topic, spans)
    ]
    return AccountParts(
        _grouped(found),
        _grouped(topics),
        pl.DataFrame(callers, schema=CALLER_ROWS, orient="row"),
        int((ends - starts).sum()),
        len(starts),
    )


def _grouped(found: list[tuple[Any, ...]]) -> pl.DataFrame:
    rows = pl.DataFrame(found, schema=PART_ROWS, orient="row")
    grouped = rows.group_by(list(PART_ROWS)[:-1], maintain_order=True).agg(
        pl.col("time_ps").sum()
    )
    return grouped.sort("time_ps", descending=True, maintain_order=True)


def _places(device: DeviceAccount, spans: Spans) -> Iterator[tuple[str, Spans]]:
    for place, part in zip(
        PLACES, (spans - device.between, spans & device.between), strict=True
    ):
        if len(part):
            yield place, part


def _parts(
    named: Naming | None, device: DeviceAccount, owner: str, spans: Spans
) -> list[tuple[Name, int]]:
    if named is None:
        return [(UNNAMED, spans.length_ps)]
    return named.parts(device, owner, spans)
