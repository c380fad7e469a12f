"""Files that add tables to a recording, such as kernel metrics of Nsight Compute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepscope.errors import BadInput
from stepscope.formats.opening import read
from stepscope.rundir import shown_name
from stepscope.trace.tables import KERNEL_METRICS, SEPARATE
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from stepscope.trace.model import TraceData


def read_kernels(path: str | PathLike[str]) -> TraceData:
    """Read the kernel metrics of Nsight Compute from a table (CSV) or a report.

    Raises:
        BadInput: The file cannot be read, or was not written by Nsight Compute.
    """
    measured = read(path)
    if isinstance(measured.table(KERNEL_METRICS.name), Unavailable):
        raise BadInput.at(
            path,
            "holds no metrics of Nsight Compute",
            "Give the table that `ncu --csv --page raw` writes.",
        )
    return measured


def add_kernel_metrics(
    traces: Mapping[str, TraceData], path: str | PathLike[str]
) -> dict[str, TraceData]:
    """Return the traces with the kernel metrics of Nsight Compute added.

    Args:
        traces: Host → its trace; every host gets the same metrics.
        path: A table (CSV) or report of Nsight Compute, recorded from the same program.

    Raises:
        BadInput: The file cannot be read, or was not written by Nsight Compute.
    """
    measured = read_kernels(path)
    tables = {name: measured.table(name) for name in SEPARATE}
    name = shown_name(Path(path))
    notes = [
        msgspec.structs.replace(note, scope=f"{name}: {note.scope}")
        for note in measured.quality_notes()
    ]
    return {
        host: trace.with_tables(tables).with_notes(notes)
        for host, trace in traces.items()
    }
