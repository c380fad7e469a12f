"""Events that announce a step by a value or by a number in their name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import polars as pl

from stepscope.derive.columns.arrays import codes, handles, ints, picked
from stepscope.derive.columns.stat_values import (
    find_handle,
    numbers_of,
    rows_of_owners,
    rows_with_key,
    texts_of,
)
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import absent, filled, held
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.trace.tables import TRACK_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.trace.model import TraceData

#: The name of the marker of Keras 3, which may record only one.
_SURE_WITHOUT_ROOT: Final = "Profiled batch"
#: A numbered range whose name says that it is a step.
STEP_RANGE: Final = (
    r"^(?:NVTX:)?(ProfilerStep|(?i:(?:.*[^a-z])?(?:step|iter|iteration|batch)))"
    r"(?:\s*#\s*|\s+)([0-9]{1,18})$"
)

#: How a producer names a step that it stored: a name, and the step's number.
_STORED_NAME: Final = r"^(.*\S) ([0-9]{1,18})$"


class Marks(Frozen, frozen=True):
    """Marker events, one entry each.

    `name` is equal for markers that differ in their number only.
    """

    event: NDArray[np.int32]
    track: NDArray[np.int32]
    type: NDArray[np.int32]
    name: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    number: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.event)

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Marks:
        """Return the entries chosen by a mask, or by positions in the order given."""
        return Marks(*(column[chosen] for column in msgspec.structs.astuple(self)))


def numbered_events(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    *,
    stats: pl.DataFrame,
    type_stats: pl.DataFrame,
    strings: Sequence[str],
    event_kinds: EventKinds,
) -> tuple[Marks, NDArray[np.bool_]]:
    """Return host events with a `step_num`, and which of them are roots.

    A root says so (`_r` ≥ 1), or is called as older releases of a framework call roots.
    """
    number_key, root_key = (
        find_handle(strings, key) for key in (StatKey.STEP_NUM, StatKey.ROOT_LEVEL)
    )
    own = rows_with_key(stats, "event", number_key)
    event = np.unique(own.owner)
    number, present = numbers_of(own, event, number_key)
    own_root = rows_of_owners(stats, "event", event)
    level, has_level = numbers_of(own_root, event, root_key)
    shared = rows_with_key(type_stats, "type", number_key)
    if len(shared.owner):
        types = np.unique(shared.owner)
        shared_number, _ = numbers_of(shared, types, number_key)
        of_type = handles(events, "type")
        more = np.flatnonzero(np.isin(of_type, types)).astype(np.int32)
        more = more[~np.isin(more, event[present])]
        event = np.concatenate([event[present], more])
        number = np.concatenate(
            [number[present], shared_number[np.searchsorted(types, of_type[more])]]
        )
        own_root = rows_of_owners(stats, "event", np.sort(event))
        event, order = np.unique(event, return_index=True)
        number, present = number[order], np.ones(len(event), np.bool_)
        level, has_level = numbers_of(own_root, event, root_key)
    event, number = event[present], number[present]
    level, has_level = level[present], has_level[present]
    marks = _marks(events, event, number)
    level = np.where(has_level, level, _shared_level(type_stats, marks.type, root_key))
    on_host = _is_thread(tracks)[marks.track]
    root = (level >= 1) | event_kinds.has(EventFlag.TRACE_CONTEXT)[marks.type]
    return marks.only(on_host), root[on_host]


def stored_names(trace: TraceData, marks: Marks, stats: pl.DataFrame) -> pl.Series:
    """Return the name that the producer stored for each step, without its number.

    Null where it stored none, or one that does not end in the step's number.
    """
    order = np.argsort(marks.event, kind="stable")
    event = marks.event[order]
    key = find_handle(trace.strings, StatKey.STEP_NAME)
    found: list[str | None] = [None] * len(marks)
    if key >= 0:
        texts = texts_of(trace, rows_of_owners(stats, "event", event), event, key)
        for at, text in zip(order.tolist(), texts, strict=True):
            found[at] = text
    parts = pl.DataFrame({"text": found}, schema={"text": pl.String}).select(
        name=pl.col("text").str.extract(_STORED_NAME, 1),
        number=pl.col("text").str.extract(_STORED_NAME, 2).cast(pl.Int64),
    )
    same = parts["number"] == pl.Series(marks.number)
    return pl.select(pl.when(same).then(parts["name"])).to_series()


def growing_numbers(marks: Marks, event_types: pl.DataFrame) -> Marks:
    """Without `_r`: the well-known name, or numbers that strictly grow on a thread."""
    if not len(marks):
        return marks
    ordered = marks.only(np.lexsort((marks.event, marks.name, marks.track)))
    size, falls, run = _falls(ordered)
    names = event_types["name"].gather(ordered.type)
    sure = (names == _SURE_WITHOUT_ROOT).to_numpy()
    return ordered.only(sure | ((size >= 2) & (falls == 0))[run])


def numbered_ranges(
    tracks: pl.DataFrame, events: pl.DataFrame, event_types: pl.DataFrame
) -> Marks:
    """Return ranges named `<text> <n>` or `<text>#<n>` whose text says step.

    Numbers that fall, or a range that occurs twice on its thread, do not count steps.
    """
    parts = event_types.select(
        text=pl.col("name").str.extract(STEP_RANGE, 1),
        number=pl.col("name").str.extract(STEP_RANGE, 2).cast(pl.Int64),
    )
    named = held(parts["number"])
    of_type = handles(events, "type")
    event = picked(of_type, named).astype(np.int32)
    number = filled(parts["number"], 0)[of_type[event]]
    marks = _marks(events, event, number)
    keep = _is_thread(tracks)[marks.track]
    marks = marks.only(keep)
    if not len(marks):
        return marks
    texts, text = np.unique(
        parts["text"].gather(marks.type).to_numpy().astype(str), return_inverse=True
    )
    marks = msgspec.structs.replace(marks, name=text.astype(np.int32))
    marks = marks.only(np.lexsort((marks.event, marks.name, marks.track)))
    size, falls, run = _falls(marks)
    steps = [text.startswith("ProfilerStep") for text in texts.tolist()]
    sure = np.array(steps, bool)[marks.name]
    return marks.only(((falls == 0) & (size >= 2))[run] | (sure & (falls == 0)[run]))


def _shared_level(
    type_stats: pl.DataFrame, types: NDArray[np.int32], root_key: int
) -> NDArray[np.int64]:
    """Return the `_r` that all events of a type share; 0 where there is none."""
    rows = rows_with_key(type_stats, "type", root_key)
    if not len(rows.owner):
        return np.zeros(len(types), np.int64)
    owners = np.unique(rows.owner)
    level, _ = numbers_of(rows, owners, root_key)
    at = np.minimum(np.searchsorted(owners, types), len(owners) - 1)
    return np.where(owners[at] == types, level[at], 0)


def _marks(
    events: pl.DataFrame, event: NDArray[np.int32], number: NDArray[np.int64]
) -> Marks:
    start = ints(events, "start_ps")[event]
    of_type = handles(events, "type")[event]
    return Marks(
        event=event,
        track=handles(events, "track")[event],
        type=of_type,
        name=of_type,
        start_ps=start,
        end_ps=start + ints(events, "dur_ps")[event],
        number=number,
    )


def _is_thread(tracks: pl.DataFrame) -> NDArray[np.bool_]:
    kind = codes(tracks, "kind") == TRACK_KINDS.categories.to_list().index("thread")
    host: NDArray[np.bool_] = absent(tracks["device"])
    thread: NDArray[np.bool_] = kind & host
    return thread


def _falls(
    marks: Marks,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the size of each run of one name on one thread, and how often it falls.

    The last array is the run of each marker. The markers are ordered by thread, name
    and time.
    """
    same = (np.diff(marks.track) == 0) & (np.diff(marks.name) == 0)
    run = np.concatenate([[0], np.cumsum(~same)])
    falls = np.zeros(int(run[-1]) + 1, np.int64)
    np.add.at(falls, run[1:], same & (np.diff(marks.number) <= 0))
    return np.bincount(run), falls, run
