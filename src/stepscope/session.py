"""`open`: from paths to a profile whose tools can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.profile import ProfileWithTools
from stepscope.formats import beside
from stepscope.formats.opening import open_hosts, open_run

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
    traces = beside.with_kernels(profile.traces, path)
    return type(profile)(profile.run, traces)


def open_found(run: Run) -> ProfileWithTools:
    """Read every host of a run that `scan` or `find_runs` has found.

    Raises:
        BadInput: No host can be read; the message names the file, what was wrong and
            the way out.
    """
    name, traces = open_run(run)
    return ProfileWithTools(name, traces)
