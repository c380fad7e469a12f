"""`ss.open`: read files or directories as a profile that tools can analyse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.tools import ProfileWithTools
from stepscope.formats.added_files import add_kernel_metrics
from stepscope.formats.opening import open_hosts, open_run

if TYPE_CHECKING:
    from os import PathLike

    from stepscope.rundir import Run


def open_profile(
    *paths: str | PathLike[str], kernels: str | PathLike[str] | None = None
) -> ProfileWithTools:
    """Read a log directory (its newest run), a run directory, or files.

    Several paths are read as several workers of one run. A path may be a URL
    (`s3://…`).

    Args:
        paths: Paths or URLs.
        kernels: Table (CSV) or report of Nsight Compute with metrics of the program's
            kernels, used for every worker; None without metrics.

    Raises:
        BadInput: A path cannot be read as a profile, or `kernels` as metrics; the
            message names the file, the problem and what to do.
    """
    run, traces = open_hosts(*paths)
    return ProfileWithTools(
        run, traces if kernels is None else add_kernel_metrics(traces, kernels)
    )


def open_found(
    run: Run, kernels: str | PathLike[str] | None = None
) -> ProfileWithTools:
    """Read every host of a run that `scan_directory` or `find_runs` found.

    Args:
        run: The run.
        kernels: As for `open_profile`.

    Raises:
        BadInput: No host can be read, or `kernels` cannot; the message names the file,
            the problem and what to do.
    """
    name, traces = open_run(run)
    return ProfileWithTools(
        name, traces if kernels is None else add_kernel_metrics(traces, kernels)
    )
