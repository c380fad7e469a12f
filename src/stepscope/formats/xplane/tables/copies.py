"""Copies distinguished by their details, which are parsed once per text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.formats.xplane.decoded.details import parse_copy
from stepscope.formats.xplane.decoded.texts import distinct_handles
from stepscope.trace.reading.activity_names import SOME_COPY, copy_kind
from stepscope.trace.reading.by_row import by_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


class CopyTable:
    """The details of some events' copies, by the number of their text.

    Args:
        handles: Number of each event's details, -1 where it has none; None where no
            event has any.
        strings: Number → text.
    """

    def __init__(
        self, handles: NDArray[np.int32] | None, strings: Sequence[str]
    ) -> None:
        self._handles = handles
        self._table = len(strings) + 1
        distinct = (
            [] if handles is None else distinct_handles(handles, len(strings)).tolist()
        )
        self._copies = {text: parse_copy(strings[text]) for text in distinct}

    def sizes(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
        """Return bytes by event and where they are known; None where none are."""
        if self._handles is None or not self._copies:
            return None
        size = np.zeros(self._table, np.int64)
        known = np.zeros(self._table, np.bool_)
        for text, copy in self._copies.items():
            if copy.size is not None:
                size[text], known[text] = copy.size, True
        return (
            by_row(size, self._handles, none=0),
            by_row(known, self._handles, none=False),
        )

    def resolve(
        self,
        code: NDArray[np.uint8],
        *,
        codes: Mapping[str, int],
        track: NDArray[np.int32],
        device: NDArray[np.int64],
        fallback: NDArray[np.uint8],
    ) -> int:
        """Settle in `code` what names leave open, and count what stays unsettled.

        A local copy whose destination is another device goes between devices. A copy
        without a direction takes that of its kinds of memory, else that of its
        stream, else it counts as local.

        Args:
            code: Kind of each event, changed in place.
            codes: Kind → code.
            track: Row of the next two, by event.
            device: Ordinal by track.
            fallback: Code of the one kind of copy that a track's name lists.
        """
        some = code == codes[SOME_COPY]
        rows = np.flatnonzero(some | (code == codes["local_copy"]))
        if not len(rows):
            return 0
        kind = np.full(self._table, codes[SOME_COPY], np.uint8)
        destination = np.full(self._table, -1, np.int64)
        for text, copy in self._copies.items():
            found = copy_kind(copy.source, copy.destination)
            kind[text] = codes[found or SOME_COPY]
            if copy.device is not None:
                destination[text] = copy.device
        given = np.full(len(rows), -1) if self._handles is None else self._handles[rows]
        local, open_rows = codes["local_copy"], some[rows]
        settled = np.where(open_rows, kind[given], code[rows])
        settled = np.where(settled == codes[SOME_COPY], fallback[track[rows]], settled)
        undirected = settled == codes[SOME_COPY]
        settled[undirected] = local
        elsewhere = (destination[given] >= 0) & (
            destination[given] != device[track[rows]]
        )
        settled[(settled == local) & elsewhere] = codes["p2p_copy"]
        code[rows] = settled
        return int(undirected.sum())
