"""`open`: from paths to a profile whose tools can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepscope.analysis.profile import ProfileWithTools
from stepscope.errors import BadInput
from stepscope.formats.opening import open_hosts, open_run, read
from stepscope.rundir import shown_name
from stepscope.trace.measured.kernel_metrics import KERNEL_METRICS
from stepscope.trace.tables import BESIDE
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from os import PathLike

    from stepscope.rundir import Run

__all__ = ["open_found", "open_profile", "with_kernels"]


def open_profile(*paths: str | PathLike[str]) -> ProfileWithTools:
    """Read a log directory (its newest run), a run directory, or files.

    Several paths are several workers of one run. A path may be a URL (`s3://…`).

    Raises:
        BadInput: A path cannot be read as a profile; the message names the file, what
            was wrong and the way out.
    """
    run, traces = open_hosts(*paths)
    return ProfileWithTools(run, traces)


def with_kernels(
    profile: ProfileWithTools, path: str | PathLike[str]
) -> ProfileWithTools:
    """Return a profile beside which stands what Nsight Compute measured.

    Args:
        profile: A recording; the table counts for each of its hosts.
        path: A table (CSV) or report of Nsight Compute, of the same program.

    Raises:
        BadInput: The file cannot be read, or was not written by Nsight Compute.
    """
    measured = read(path)
    tables = {name: measured.table(name) for name in BESIDE}
    if isinstance(tables[KERNEL_METRICS.name], Unavailable):
        raise BadInput.at(
            path,
            "holds no metrics of Nsight Compute",
            "Give the table that `ncu --csv --page raw` writes.",
        )
    name = shown_name(Path(path))
    notes = [
        msgspec.structs.replace(note, scope=f"{name}: {note.scope}")
        for note in measured.quality_notes()
    ]
    traces = {
        host: trace.with_tables(tables).with_notes(notes)
        for host, trace in profile.traces.items()
    }
    return type(profile)(profile.run, traces)


def open_found(run: Run) -> ProfileWithTools:
    """Read every host of a run that `scan` or `find_runs` has found.

    Raises:
        BadInput: No host can be read; the message names the file, what was wrong and
            the way out.
    """
    name, traces = open_run(run)
    return ProfileWithTools(name, traces)
