"""The class of readers, and the list of all readers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepscope.rundir import HostFiles
    from stepscope.trace.model import TraceData


class Reader(Frozen, frozen=True, eq=True):
    """A file format and the functions that read it.

    Attributes:
        format: Name of the format, as `sniff.detect_format` returns it.
        read: Reads the tables of one host. It raises `BadInput` if nothing can be read,
            and notes unreadable parts in `quality`.
        hosts_of: Names the hosts of files that are opened together; None if the file
            names are the host names.
        together: Groups files of a directory that were recorded together; None if they
            all were.
        is_added: Whether files of this format are ignored in a search for runs if the
            folder also has a readable file of a format without this flag.
    """

    format: str
    read: Callable[[HostFiles], TraceData]
    hosts_of: Callable[[Sequence[Path]], tuple[HostFiles, ...]] | None = None
    together: Callable[[Sequence[Path]], list[tuple[Path, ...]]] | None = None
    is_added: bool = False


def _import_later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports its module when it is first called.

    Opening a file then imports only the reader of its format.
    """

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments)

    return call


_XPLANE: Final = "stepscope.formats.xplane"
_KINETO: Final = "stepscope.formats.kineto"
_NSIGHT_SYSTEMS: Final = "stepscope.formats.nsight_systems"
_NSIGHT_COMPUTE: Final = "stepscope.formats.nsight_compute"
_MEMORY: Final = "stepscope.formats.memory"

_READERS: Final = (
    Reader("xspace", _import_later(_XPLANE, "read")),
    Reader("xla_trace", _import_later(_XPLANE, "read_timeline")),
    Reader(
        "kineto",
        _import_later(_KINETO, "read"),
        hosts_of=_import_later(_KINETO, "name_hosts"),
        together=_import_later(_KINETO, "recorded_together"),
    ),
    Reader(
        "nsight_systems",
        _import_later(_NSIGHT_SYSTEMS, "read"),
        together=_import_later(_NSIGHT_SYSTEMS, "recorded_together"),
    ),
    # If a report's database is in the same folder, the database is read instead.
    Reader("nsys_rep", _import_later(_NSIGHT_SYSTEMS, "read_report"), is_added=True),
    Reader("nsight_compute_csv", _import_later(_NSIGHT_COMPUTE, "read"), is_added=True),
    Reader("ncu_rep", _import_later(_NSIGHT_COMPUTE, "read_report"), is_added=True),
    Reader("memory_snapshot", _import_later(f"{_MEMORY}.snapshot", "read")),
    Reader("device_memory_profile", _import_later(f"{_MEMORY}.pprof", "read")),
)
#: Format → its reader.
READERS: Final = {reader.format: reader for reader in _READERS}
#: Function that returns a report's CSV tables, given the paths of report and `ncu`.
printed_tables: Final[Callable[[Path, str | None], bytes]] = _import_later(
    _NSIGHT_COMPUTE, "printed_tables"
)
