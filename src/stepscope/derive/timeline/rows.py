"""In which row of its track a span is drawn, so that no span covers another.

Spans of a nested track lie in the row of their depth. Spans that overlap without
nesting, and all that overlap on a flat track, go to further lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepscope._core import rows as kernels
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.intervals.nesting import NESTED_KINDS
from stepscope.frozen import Frozen
from stepscope.trace.reading.by_row import by_row
from stepscope.trace.tables import TRACK_KINDS

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.intervals.nesting import Nesting

#: Deep enough for nearly every track; a deeper one is done again with room for all.
_USUAL_DEPTH: Final = 1024
_KIND_CODES: Final = {kind: code for code, kind in enumerate(TRACK_KINDS.categories)}


class Lane(Frozen, frozen=True, eq=True):
    """Rows of a track whose spans nest in each other, and in nothing else.

    Attributes:
        kind: `main`; `overlap` for what overlaps without nesting; `undrawn` for
            events that are only shown on demand.
    """

    first_row: int
    rows: int
    kind: str


class TrackRows(Frozen, frozen=True):
    """The rows of recorded events.

    Attributes:
        row: int32 by row of events; the row inside its track.
        lanes: By row of the table `tracks`; from the top down.
    """

    row: NDArray[np.int32]
    lanes: tuple[tuple[Lane, ...], ...]


def lay(
    start_ps: NDArray[np.int64], dur_ps: NDArray[np.int64]
) -> tuple[NDArray[np.int32], tuple[Lane, ...]]:
    """Lay out one track's spans: starts ascending, durations descending.

    Spans that lie inside another one go below it.
    """
    row = np.empty(len(start_ps), np.int32)
    return row, _lay_chosen(start_ps, dur_ps, None, row, nested=True, kind="main")


def recorded_rows(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    nesting: Nesting,
    *,
    apart: NDArray[np.int64],
    undrawn: NDArray[np.bool_],
) -> TrackRows:
    """Lay out all recorded tracks.

    Where nothing overlaps and everything is drawn, the row is the depth of nesting,
    and no array is made.

    Args:
        apart: Rows of events, ascending, that are shown on a thread without having
            run there.
        undrawn: By row of event_types: whether its events are not drawn.
    """
    start_ps, dur_ps = ints(events, "start_ps"), ints(events, "dur_ps")
    types = handles(events, "type")
    begins, ends = ints(tracks, "event_begin"), ints(tracks, "event_end")
    nests = np.isin(codes(tracks, "kind"), [_KIND_CODES[kind] for kind in NESTED_KINDS])
    row, own = nesting.depth, False
    any_undrawn = bool(undrawn.any())
    lanes: list[tuple[Lane, ...]] = []
    for track, (begin, end) in enumerate(
        zip(begins.tolist(), ends.tolist(), strict=True)
    ):
        part = slice(begin, end)
        nested = bool(nests[track])
        hidden = by_row(undrawn, types[part]) if any_undrawn else None
        folds = hidden is not None and bool(hidden.any())
        beside = apart[slice(*np.searchsorted(apart, (begin, end)))] - begin
        starts, durs = start_ps[part], dur_ps[part]
        simple = not folds and not len(beside)
        if simple and _as_nested(starts, durs, nesting, track, nested=nested):
            rows = int(row[part].max(initial=0)) + 1
            lanes.append((Lane(0, rows, "main"),) if begin < end else ())
            continue
        if not own:
            row, own = row.copy(), True
        row[part], found = _lay_groups(starts, durs, nested, beside, hidden)
        lanes.append(found)
    return TrackRows(row, tuple(lanes))


def _as_nested(
    starts: NDArray[np.int64],
    durs: NDArray[np.int64],
    nesting: Nesting,
    track: int,
    *,
    nested: bool,
) -> bool:
    """Return whether depths can serve as rows: no span ends after the one around it."""
    if nested:
        return not nesting.overhangs[track]
    return bool((starts[1:] >= starts[:-1] + durs[:-1]).all())


def _lay_groups(
    starts: NDArray[np.int64],
    durs: NDArray[np.int64],
    nested: bool,  # noqa: FBT001 - private; the arrays beside it come in order
    beside: NDArray[np.int64],
    hidden: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int32], tuple[Lane, ...]]:
    """Lay out one track: nested spans, below them overlaps, then hidden events."""
    group = np.zeros(len(starts), np.uint8)
    group[beside] = 1
    if hidden is not None:
        group[hidden] = 2
    row = np.empty(len(starts), np.int32)
    lanes: list[Lane] = []
    for number, (nests, kind) in enumerate(
        ((nested, "main"), (False, "overlap"), (nested, "undrawn"))
    ):
        chosen = group == number
        found = _lay_chosen(starts, durs, chosen, row, nested=nests, kind=kind)
        below = lanes[-1].first_row + lanes[-1].rows if lanes else 0
        if below:
            np.add(row, np.int32(below), out=row, where=chosen)
        lanes += [
            msgspec.structs.replace(each, first_row=each.first_row + below)
            for each in found
        ]
    return row, tuple(lanes)


def _lay_chosen(
    start_ps: NDArray[np.int64],
    dur_ps: NDArray[np.int64],
    chosen: NDArray[np.bool_] | None,
    row: NDArray[np.int32],
    *,
    nested: bool,
    kind: str,
) -> tuple[Lane, ...]:
    """Write the rows of the chosen spans of a track, or of all, and return the lanes.

    `kind` is that of the first lane; where it is not `main`, of all lanes.
    """
    if not (len(start_ps) if chosen is None else chosen.any()):
        return ()
    further = "overlap" if kind == "main" else kind
    if not nested:
        some = np.arange(len(row)) if chosen is None else np.flatnonzero(chosen)
        count = _spread(start_ps, dur_ps, some, row)
        kinds = [kind, *[further] * (count - 1)]
        return tuple(Lane(at, 1, each) for at, each in enumerate(kinds))
    # Write the depths of the chosen spans.
    marks = np.empty(0, np.uint8) if chosen is None else chosen.view(np.uint8)
    answer = kernels.NO_ROOM
    for room in (_USUAL_DEPTH, len(start_ps)):
        answer = kernels.fit(start_ps, dur_ps, marks, row, np.empty(room, np.int64))
        if answer != kernels.NO_ROOM:
            break
    if answer < 0:
        raise ValueError(f"{len(start_ps)} rows could not be nested ({answer})")
    depths = int(answer)
    is_apart = row == kernels.APART
    apart = np.flatnonzero(is_apart if chosen is None else is_apart & chosen)
    lanes = [Lane(0, depths, kind)]
    if len(apart):
        count = _spread(start_ps, dur_ps, apart, row)
        row[apart] += depths
        lanes += [Lane(depths + at, 1, further) for at in range(count)]
    return tuple(lanes)


def _spread(
    start_ps: NDArray[np.int64],
    dur_ps: NDArray[np.int64],
    some: NDArray[np.int64],
    row: NDArray[np.int32],
) -> int:
    """Write the lanes of some spans, and return how many there are."""
    starts = start_ps[some]
    ends = starts + np.maximum(dur_ps[some], 0)
    lane, free = (np.empty(len(some), np.int32) for _ in range(2))
    by_end = np.argsort(ends, kind="stable")
    answer = kernels.spread(starts, ends, by_end, lane, free)
    if answer < 0:
        raise ValueError(f"{len(some)} rows could not be laid out ({answer})")
    row[some] = lane
    return int(answer)
