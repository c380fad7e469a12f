"""`TraceData`: the tables of one host, each built on first access."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stepscope.errors import BadUsage
from stepscope.trace.quality import QualityNote, notes_frame
from stepscope.trace.reading.texts import shorten_text
from stepscope.trace.tables import SEPARATE, TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import polars as pl


class TraceData:
    """Tables of the profile of one host.

    A reader passes one builder per table. A builder runs once, on the first access to
    its table, and its result does not depend on which builders ran before. If the
    capture cannot contain a table, its builder returns an `Unavailable`.

    Attributes:
        host: Name of the host, unique in its profile.
        strings: Interned texts; a handle is an index into this list. The list does not
            depend on which tables were built before.
        data: Bytes of the file (uint8); a place is an offset into this array.
        recorder: Recorder whose options apply: `kineto` or `nsight`; None for
            TensorFlow, JAX and stepscope, which share their options.
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
        # Readers may omit the builders of tables that need a separate file.
        file_builders = {name: _constant_builder(why) for name, why in SEPARATE.items()}
        builders = file_builders | dict(builders)
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
        """Return the frame of a declared table, or the reason why it is missing."""
        if name not in self._builders:
            raise BadUsage.unknown_name("table", name, TABLES)
        if name in self._tables:
            # Take no lock: a table that exists can be read while another one is built.
            return self._tables[name]
        with self._lock:
            if name not in self._tables:
                self._tables[name] = self._builders[name]()
            return self._tables[name]

    def text(self, place: int, length: int) -> str:
        """Return the text at an offset of the file, with invalid UTF-8 replaced.

        A text longer than the maximum length of texts is cut.
        """
        content = bytes(self.data[place : place + length])
        return shorten_text(content.decode("utf-8", "replace"))

    def without(self, name: str, reason: Unavailable) -> TraceData:
        """Return a copy of the trace in which one table is unavailable."""
        return self.with_tables({name: reason})

    def with_tables(
        self, tables: Mapping[str, pl.DataFrame | Unavailable]
    ) -> TraceData:
        """Return a copy of the trace with the given tables replaced."""
        for name in tables:
            if name not in self._builders:
                raise BadUsage.unknown_name("table", name, TABLES)
        return self._with_builders(
            {name: _constant_builder(table) for name, table in tables.items()}
        )

    def with_notes(self, notes: Sequence[QualityNote]) -> TraceData:
        """Return a copy of the trace with more notes in the table `quality`."""

        def build() -> pl.DataFrame:
            return notes_frame((*self.quality_notes(), *notes))

        return self._with_builders({"quality": build})

    def _with_builders(
        self, builders: Mapping[str, Callable[[], pl.DataFrame | Unavailable]]
    ) -> TraceData:
        return TraceData(
            self.host,
            self._builders | dict(builders),
            strings=self.strings,
            data=self.data,
            recorder=self.recorder,
        )

    def quality_notes(self) -> tuple[QualityNote, ...]:
        """Return the rows of the table `quality` as values."""
        frame = self.table("quality")
        if isinstance(frame, Unavailable):
            return ()
        return tuple(QualityNote(**row) for row in frame.iter_rows(named=True))


def _constant_builder(
    table: pl.DataFrame | Unavailable,
) -> Callable[[], pl.DataFrame | Unavailable]:
    return lambda: table
