"""Convert a table of Nsight Compute to a trace, which has no timeline.

Only Nsight Compute can read its reports (`.ncu-rep`), so `ncu` prints their tables.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.errors import BadInput
from stepscope.formats.assemble import environment_frame, only_file
from stepscope.formats.declared_texts import quality_note, why_absent
from stepscope.formats.nsight_compute.columns import (
    kernel_metrics,
    metric_values,
    rule_results,
)
from stepscope.formats.nsight_compute.launches import Measured
from stepscope.formats.nsight_compute.rows import TableFile, find_tables, open_tables
from stepscope.formats.vendor_tool import run_vendor_tool
from stepscope.nvidia import find_tool
from stepscope.trace.model import TraceData
from stepscope.trace.quality import notes_frame
from stepscope.trace.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

    from stepscope.formats.nsight_compute.rows import TableFile
    from stepscope.rundir import HostFiles
    from stepscope.unavailable import Unavailable

#: Maximum duration of `ncu` for one report, in seconds; many launches take long.
_TIMEOUT_S: Final = 600
FORMAT: Final = "Nsight Compute"


def import_report(path: Path) -> TableFile:
    """Print the tables of a report with the local `ncu`, and parse them.

    Raises:
        BadInput: This machine has no `ncu`, or `ncu` cannot read the report.
    """
    return find_tables(printed_tables(path, find_tool("ncu")), str(path))


def printed_tables(path: Path, tool: str | None) -> bytes:
    """Return `ncu`'s output for a report: the raw page, then the details page.

    The raw page has the metrics; the details page has the results of NVIDIA's rules.

    Args:
        tool: Path of `ncu`; None if this machine has no `ncu`.

    Raises:
        BadInput: This machine has no `ncu`, or `ncu` cannot read the report.
    """
    if tool is None:
        raise BadInput.at(
            path,
            "an Nsight Compute report, which only `ncu` can read; this machine has no "
            "`ncu`",
            f"Elsewhere, run `ncu --import {path} --csv --page raw > kernels.csv`, and "
            "give kernels.csv.",
        )
    printed = []
    for page in ("raw", "details"):
        command = [tool, "--import", str(path.resolve()), "--csv", "--page", page]
        by_hand = f"`{' '.join(command)} > kernels.csv`."
        printed.append(
            run_vendor_tool(
                command,
                path,
                product="Nsight Compute",
                longest_s=_TIMEOUT_S,
                by_hand=by_hand,
            )
        )
    return b"\n".join(printed)


def quality_table(file: TableFile, measured: Measured) -> pl.DataFrame:
    """Return the quality notes on a file, most severe first."""
    notes = []
    if file.damaged:
        notes.append(quality_note("ncu.damaged_file"))
    notes += [
        quality_note("ncu.refused_rows", count, scope=reason)
        for reason, count in sorted(measured.refused.items())
    ]
    if measured.impossible:
        notes.append(quality_note("ncu.impossible_values", measured.impossible))
    if file.said:
        shown = "; ".join(file.said[:3])
        notes.append(quality_note("ncu.recorder_messages", len(file.said), shown=shown))
    if measured.forms.mixed:
        decimal = "comma" if measured.forms.decimal == "," else "point"
        notes.append(quality_note("ncu.mixed_number_forms", decimal=decimal))
    if file.other_lines:
        notes.append(quality_note("ncu.other_lines", file.other_lines))
    notes.append(quality_note("ncu.replayed_kernels", len(measured.launches)))
    return notes_frame(tuple(notes))


def read(source: HostFiles) -> TraceData:
    """Read one table; raise `BadInput` if nothing can be read."""
    path = only_file(source, "table")
    return _trace_of_table(
        source.host, path, open_tables(path, limit_bytes=source.limit_bytes)
    )


def read_report(source: HostFiles) -> TraceData:
    """Read one report with the local `ncu`; raise `BadInput` if that is impossible."""
    path = only_file(source, "table")
    return _trace_of_table(source.host, path, import_report(path))


def _trace_of_table(host: str, path: Path, file: TableFile) -> TraceData:
    measured = Measured(file)
    if not measured.launches:
        raise BadInput.at(
            path,
            "the table of Nsight Compute holds no launch",
            "Measure again, and let the program launch kernels "
            "(--launch-skip and --launch-count choose which).",
        )
    builders: dict[str, Callable[[], pl.DataFrame | Unavailable]] = {
        "kernel_metrics": partial(kernel_metrics, measured),
        "kernel_metric_values": partial(metric_values, measured),
        "kernel_rule_results": lambda: (
            rule_results(measured) if measured.rules else why_absent("ncu.no_rules")
        ),
        "environment": lambda: environment_frame([path], FORMAT, {}),
        "quality": partial(quality_table, file, measured),
    }
    return TraceData(
        host,
        {
            name: builders.get(name, partial(why_absent, "ncu.no_timeline"))
            for name in TABLES
        },
        strings=(),
        # Empty: texts of this format are interned, not read at offsets of the file.
        data=np.zeros(0, np.uint8),
    )
