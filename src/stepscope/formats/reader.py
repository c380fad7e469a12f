"""What a reader is, and every reader there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.formats import xplane

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.rundir import HostFiles
    from stepscope.trace.model import TraceData

__all__ = ["READERS", "Reader"]


class Reader(NamedTuple):
    """One format that can be read.

    Attributes:
        format: Its name, as `sniff.detect` says it.
        read: Fills the tables of one host; raises `BadInput` where nothing can be
            read, and notes in `quality` what could not.
    """

    format: str
    read: Callable[[HostFiles], TraceData]


READERS: Final = (Reader("xspace", xplane.read),)
