"""`open`: from paths to a profile whose tools can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.tools import ProfileWithTools
from stepscope.formats.beside import add_kernel_metrics
from stepscope.formats.opening import open_hosts, open_run

if TYPE_CHECKING:
    from os import PathLike

    from stepscope.rundir import Run


def open_profile(
    *paths: str | PathLike[str], kernels: str | PathLike[str] | None = None
) -> ProfileWithTools:
    """Read a log directory (its newest run), a run directory, or files.

    Several paths are several workers of one run. A path may be a URL (`s3://…`).

    Args:
        paths: As above.
        kernels: What Nsight Compute measured of the same program's kernels, a table
            (CSV) or a report; it counts for every worker. None for nothing.

    Raises:
        BadInput: A path cannot be read as a profile, or `kernels` as metrics; the
            message names the file, what was wrong and the way out.
    """
    run, traces = open_hosts(*paths)
    return ProfileWithTools(
        run, traces if kernels is None else add_kernel_metrics(traces, kernels)
    )


def open_found(
    run: Run, kernels: str | PathLike[str] | None = None
) -> ProfileWithTools:
    """Read every host of a run that `scan` or `find_runs` has found.

    Args:
        run: The run.
        kernels: As for `open_profile`.

    Raises:
        BadInput: No host can be read, or `kernels` cannot; the message names the file,
            what was wrong and the way out.
    """
    name, traces = open_run(run)
    return ProfileWithTools(
        name, traces if kernels is None else add_kernel_metrics(traces, kernels)
    )
