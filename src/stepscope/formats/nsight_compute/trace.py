"""A table of Nsight Compute becomes the tables of a trace that has no timeline."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.errors import BadInput
from stepscope.formats.nsight_compute.columns import (
    metric_values,
    metrics,
    rule_results,
)
from stepscope.formats.nsight_compute.doubts import notes
from stepscope.formats.nsight_compute.launches import collect
from stepscope.formats.nsight_compute.report_file import import_report
from stepscope.formats.nsight_compute.rows import open_tables
from stepscope.rundir import shown_name
from stepscope.trace.environment import environment_frame
from stepscope.trace.model import TraceData
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

    from stepscope.formats.nsight_compute.rows import TableFile
    from stepscope.rundir import HostFiles

FORMAT: Final = "Nsight Compute"
_NO_TIMELINE: Final = Unavailable(
    code="FORMAT",
    reason="Nsight Compute measures kernels one at a time, and records no timeline.",
    remedy="Give the table beside a recording of the same program: "
    "`stepscope report RECORDING --kernels FILE`.",
)
_NO_RULES: Final = Unavailable(
    code="FORMAT",
    reason="only the details page of Nsight Compute holds what its rules say.",
    remedy="Write that page too: `ncu --import REPORT --csv --page details`.",
)


def read(source: HostFiles) -> TraceData:
    """Read one table.

    Raises:
        BadInput: Nothing can be read; the message names the file, what was wrong and
            the way out.
    """
    path = _only(source)
    return _trace(source.host, path, open_tables(path, limit_bytes=source.limit_bytes))


def read_report(source: HostFiles) -> TraceData:
    """Read one report through the `ncu` of this machine.

    Raises:
        BadInput: Nothing can be read; the message names the file, what was wrong and
            the way out.
    """
    path = _only(source)
    return _trace(source.host, path, import_report(path))


def _only(source: HostFiles) -> Path:
    if len(source.paths) != 1:
        raise BadInput.at(
            source.paths[0],
            f"is one of {len(source.paths)} tables given as parts of one",
            "Give each table as a file of its own.",
        )
    return source.paths[0]


def _trace(host: str, path: Path, file: TableFile) -> TraceData:
    measured = collect(file)
    if not measured.launches:
        raise BadInput.at(
            path,
            "the table of Nsight Compute holds no launch",
            "Measure again, and let the program launch kernels "
            "(--launch-skip and --launch-count choose which).",
        )
    held: dict[str, Callable[[], pl.DataFrame | Unavailable]] = {
        "kernel_metrics": partial(metrics, measured),
        "kernel_metric_values": partial(metric_values, measured),
        "kernel_rule_results": lambda: (
            rule_results(measured) if measured.rules else _NO_RULES
        ),
        "environment": partial(_environment, path),
        "quality": partial(notes, file, measured),
    }
    return TraceData(
        host,
        {name: held.get(name, _no_timeline) for name in TABLES},
        strings=(),
        # No value of this format is a place in the file.
        data=np.zeros(0, np.uint8),
    )


def _no_timeline() -> Unavailable:
    return _NO_TIMELINE


def _environment(path: Path) -> pl.DataFrame:
    given = {
        "file": shown_name(path),
        "format": FORMAT,
        "file_bytes": path.stat().st_size,
        "grouped": False,
    }
    return environment_frame(given)
