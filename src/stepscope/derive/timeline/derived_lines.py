"""Lines that are derived from what was recorded: their spans and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


class Names:
    """Texts of name codes, each distinct pair once.

    The codes below the number of event types are the rows of that table.
    """

    def __init__(self, event_types: pl.DataFrame) -> None:
        self._types = event_types
        self._code: dict[tuple[str, str | None], int] = {}

    def name_code(self, shown: str, full: str | None = None) -> int:
        """Return the code of a displayed name and its full name where that differs."""
        key = (shown, full if full != shown else None)
        return self._code.setdefault(key, len(self._types) + len(self._code))

    def name_codes(self, shown: Iterable[str]) -> NDArray[np.int32]:
        """Return the codes of displayed names."""
        return np.array([self.name_code(each) for each in shown], np.int32)

    def name_texts(self) -> tuple[pl.Series, pl.Series]:
        """Return by code the displayed name, and the full name where that differs."""
        recorded = self._types.select(
            shown=pl.coalesce("display_name", "name"),
            full=pl.when(pl.col("display_name") != pl.col("name")).then("name"),
        )
        derived = pl.DataFrame(
            list(self._code),
            schema={"shown": pl.String, "full": pl.String},
            orient="row",
        )
        both = pl.concat((recorded, derived))
        return both["shown"], both["full"]


class LineSpans(NamedTuple):
    """The spans of a derived line, in any order; arrays of equal length.

    Attributes:
        level: Depth within the line, 0 outermost.
        event: Row of events with which the span begins, -1 for none.
        busy_ps: How much of the duration the work takes that a span stands for; None
            for the spans of steps, which are all of their time.
    """

    start_ps: NDArray[np.int64]
    dur_ps: NDArray[np.int64]
    level: NDArray[np.int32]
    name: NDArray[np.int32]
    event: NDArray[np.int32]
    step: NDArray[np.int32]
    busy_ps: NDArray[np.int64] | None = None

    def order_spans(self) -> LineSpans:
        """Return the spans by start, then duration descending, then level."""
        if self.is_ordered():
            return self
        # One level after the other, each by start: a stable sort merges such runs,
        # and where starts are equal the outer level, which is no shorter, stays first.
        merged = self._take_spans(np.argsort(self.start_ps, kind="stable"))
        if merged.is_ordered():
            return merged
        return self._take_spans(np.lexsort((self.level, -self.dur_ps, self.start_ps)))

    def _take_spans(self, order: NDArray[np.int64]) -> LineSpans:
        return LineSpans(
            self.start_ps[order],
            self.dur_ps[order],
            self.level[order],
            self.name[order],
            self.event[order],
            self.step[order],
            None if self.busy_ps is None else self.busy_ps[order],
        )

    def is_ordered(self) -> bool:
        """Return whether the spans already have the order of `ordered`."""
        start, dur, level = self.start_ps, self.dur_ps, self.level
        same = start[1:] == start[:-1]
        longer = dur[1:] > dur[:-1]
        outer = (dur[1:] == dur[:-1]) & (level[1:] < level[:-1])
        return not ((start[1:] < start[:-1]) | (same & (longer | outer))).any()


class DerivedLine(Frozen, frozen=True, eq=True):
    """One derived line and where it belongs.

    Attributes:
        view: View that the line shows, a value of the column `derived` of `tracks`, or
            `step_windows`.
        device: Ordinal of the device; None for a line of the host.
        track: Row of `tracks` of the stream or thread that the line is derived from;
            None where it is derived from a whole device or host.
        spans: Spans in the order of `LineSpans.order_spans`.
    """

    view: str
    device: int | None
    track: int | None
    spans: LineSpans


def no_spans() -> LineSpans:
    """Return a line without spans."""
    wide, narrow = np.empty(0, np.int64), np.empty(0, np.int32)
    return LineSpans(wide, wide, narrow, narrow, narrow, narrow)
