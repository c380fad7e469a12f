"""What a reader is, and every reader there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.formats import kineto, xplane

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepscope.rundir import HostFiles
    from stepscope.trace.model import TraceData

__all__ = ["READERS", "Reader"]


class Reader(NamedTuple):
    """One format that can be read.

    Attributes:
        format: Its name, as `sniff.detect` says it.
        read: Fills the tables of one host; raises `BadInput` where nothing can be
            read, and notes in `quality` what could not.
        hosts_of: Names the hosts of files that are opened together; None where the
            names of the files do.
    """

    format: str
    read: Callable[[HostFiles], TraceData]
    hosts_of: Callable[[Sequence[Path]], tuple[HostFiles, ...]] | None = None


READERS: Final = (
    Reader("xspace", xplane.read),
    Reader("kineto", kineto.read, kineto.hosts_of),
)
