"""`TraceData`: the tables of one host, each built when first asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stepscope.errors import BadUsage
from stepscope.trace.quality import QualityNote, notes_frame
from stepscope.trace.reading.texts import shorten_text
from stepscope.trace.tables import BESIDE, TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import polars as pl


class TraceData:
    """The tables of one host's profile.

    A reader hands over one builder per table. A builder runs when its table is first
    asked for, and once; what it returns does not depend on what ran before. A table
    that the capture cannot have is an `Unavailable`.

    Attributes:
        host: Name of the host, unique in its profile.
        strings: Interned texts; a handle is an index into it. They do not depend on
            which tables were built before.
        data: The file's bytes (uint8); a place is an offset into it.
        recorder: Whose options recorded it: `kineto`, `nsight`; None for TensorFlow,
            JAX and stepscope itself, which share theirs.
    """

    def __init__(
        self,
        host: str,
        builders: Mapping[str, Callable[[], pl.DataFrame | Unavailable]],
        *,
        strings: Sequence[str],
        data: np.ndarray,
        recorder: str | None = None,
    ) -> None:
        # What only a file beside the recording can hold, its reader need not name.
        beside = {name: _constant_builder(why) for name, why in BESIDE.items()}
        builders = beside | dict(builders)
        unknown = set(builders) ^ set(TABLES)
        if unknown:
            message = f"builders and declared tables differ in {sorted(unknown)}"
            raise ValueError(message)
        self.host = host
        self.strings = strings
        self.data = data
        self.recorder = recorder
        self._builders = builders
        self._tables: dict[str, pl.DataFrame | Unavailable] = {}
        self._lock = threading.RLock()

    def table(self, name: str) -> pl.DataFrame | Unavailable:
        """Return the frame of a declared table, or why this capture has none."""
        if name not in self._builders:
            raise BadUsage.unknown_name("table", name, TABLES)
        if name in self._tables:
            # While another table is being built, those that are there can be read.
            return self._tables[name]
        with self._lock:
            if name not in self._tables:
                self._tables[name] = self._builders[name]()
            return self._tables[name]

    def text(self, place: int, length: int) -> str:
        """Return the text at a place in the file; what is not UTF-8 is replaced.

        A text longer than names may be is cut.
        """
        content = bytes(self.data[place : place + length])
        return shorten_text(content.decode("utf-8", "replace"))

    def without(self, name: str, why: Unavailable) -> TraceData:
        """Return a copy of the trace without one table, for a stated reason."""
        return self.with_tables({name: why})

    def with_tables(
        self, tables: Mapping[str, pl.DataFrame | Unavailable]
    ) -> TraceData:
        """Return a copy of the trace in which some tables are these."""
        for name in tables:
            if name not in self._builders:
                raise BadUsage.unknown_name("table", name, TABLES)
        given = {name: _constant_builder(table) for name, table in tables.items()}
        builders = self._builders | given
        return TraceData(
            self.host,
            builders,
            strings=self.strings,
            data=self.data,
            recorder=self.recorder,
        )

    def named(self, host: str) -> TraceData:
        """Return a copy of the trace under another host name."""
        return TraceData(
            host,
            self._builders,
            strings=self.strings,
            data=self.data,
            recorder=self.recorder,
        )

    def with_notes(self, notes: Sequence[QualityNote]) -> TraceData:
        """Return a copy of the trace with further doubts in `quality`."""

        def build() -> pl.DataFrame:
            return notes_frame((*self.quality_notes(), *notes))

        builders = {**self._builders, "quality": build}
        return TraceData(
            self.host,
            builders,
            strings=self.strings,
            data=self.data,
            recorder=self.recorder,
        )

    def quality_notes(self) -> tuple[QualityNote, ...]:
        """Return the rows of `quality` as values."""
        frame = self.table("quality")
        if isinstance(frame, Unavailable):
            return ()
        return tuple(QualityNote(**row) for row in frame.iter_rows(named=True))


def _constant_builder(
    table: pl.DataFrame | Unavailable,
) -> Callable[[], pl.DataFrame | Unavailable]:
    return lambda: table
