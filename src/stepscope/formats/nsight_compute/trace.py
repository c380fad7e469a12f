"""A table of Nsight Compute becomes the tables of a trace that has no timeline.

Reports (`.ncu-rep`) only Nsight Compute itself can read: it writes their tables.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.errors import BadInput
from stepscope.formats.assemble import environment_frame, only_file
from stepscope.formats.nsight_compute.columns import (
    metric_values,
    metrics,
    rule_results,
)
from stepscope.formats.nsight_compute.launches import collect
from stepscope.formats.nsight_compute.rows import TableFile, open_tables, tables_of
from stepscope.formats.vendor_tool import output_of
from stepscope.nvidia import find_tool
from stepscope.remedies import Remedy
from stepscope.rundir import shown_name
from stepscope.trace.model import TraceData
from stepscope.trace.quality import QualityNote, notes_frame
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import polars as pl

    from stepscope.formats.nsight_compute.launches import Measured
    from stepscope.formats.nsight_compute.rows import TableFile
    from stepscope.rundir import HostFiles

#: A report of many launches takes a while.
_LONGEST_S: Final = 600
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


def import_report(path: Path) -> TableFile:
    """Let the `ncu` of this machine write the tables of a report, and read them.

    Raises:
        BadInput: There is no `ncu`, or it cannot read the report.
    """
    return tables_of(printed_tables(path, find_tool("ncu")), str(path))


def printed_tables(path: Path, tool: str | None) -> bytes:
    """Return what `ncu` prints of a report: the raw page, then the details page.

    The raw page has the metrics, the details page what NVIDIA's rules say.

    Args:
        path: The report.
        tool: Path of `ncu`; None where there is none.

    Raises:
        BadInput: There is no `ncu`, or it cannot read the report.
    """
    if tool is None:
        raise BadInput.at(
            path,
            "an Nsight Compute report, and there is no `ncu` on this machine to read "
            "it",
            f"Where there is: `ncu --import {path} --csv --page raw > kernels.csv`, "
            "and give kernels.csv.",
        )
    return b"\n".join(_page(tool, path, page) for page in ("raw", "details"))


def _page(tool: str, path: Path, page: str) -> bytes:
    command = [tool, "--import", str(path.resolve()), "--csv", "--page", page]
    return output_of(
        command,
        path,
        product="Nsight Compute",
        longest_s=_LONGEST_S,
        by_hand=f"`{' '.join(command)} > kernels.csv`.",
    )


def notes(file: TableFile, measured: Measured) -> pl.DataFrame:
    """Return every doubt about a file, gravest first."""
    return notes_frame(
        (
            *_damage(file),
            *_refused(measured),
            *_said(file),
            *_numbers(measured),
            *_other_lines(file),
            _replayed(measured),
        )
    )


def _damage(file: TableFile) -> Iterator[QualityNote]:
    if file.damaged:
        yield QualityNote(
            kind="damaged_file",
            severity="error",
            message="The packing of the table is damaged: only the launches before the "
            "damage are shown.",
            remedy=Remedy.COPY_AGAIN,
        )


def _refused(measured: Measured) -> Iterator[QualityNote]:
    for reason, count in sorted(measured.refused.items()):
        yield QualityNote(
            kind="refused_rows",
            severity="warning",
            count=count,
            scope=reason,
            message=f"{count:,} rows of the table {reason} are left out.",
            remedy=Remedy.COPY_AGAIN,
        )
    if measured.impossible:
        yield QualityNote(
            kind="impossible_values",
            severity="warning",
            count=measured.impossible,
            scope="kernel_metrics",
            message=f"{measured.impossible:,} grids or blocks are ones that no device "
            "can have; they count as unknown.",
        )


def _said(file: TableFile) -> Iterator[QualityNote]:
    if file.said:
        yield QualityNote(
            kind="recorder_messages",
            severity="warning",
            count=len(file.said),
            message=f"Nsight Compute itself warns: {'; '.join(file.said[:3])}",
        )


def _numbers(measured: Measured) -> Iterator[QualityNote]:
    if measured.forms.mixed:
        yield QualityNote(
            kind="mixed_number_forms",
            severity="warning",
            scope="kernel_metrics",
            message="Some numbers of the table have a decimal comma and others a "
            "decimal point; those that can be read in both ways are read with "
            f"a decimal {'comma' if measured.forms.decimal == ',' else 'point'}.",
            remedy="Measure again with `LC_ALL=C`.",
        )


def _other_lines(file: TableFile) -> Iterator[QualityNote]:
    if file.other_lines:
        yield QualityNote(
            kind="other_lines",
            severity="info",
            count=file.other_lines,
            message=f"{file.other_lines:,} lines beside the table were written by the "
            "tool or by the program.",
        )


def _replayed(measured: Measured) -> QualityNote:
    return QualityNote(
        kind="replayed_kernels",
        severity="info",
        count=len(measured.launches),
        scope="kernel_metrics",
        message=f"Nsight Compute ran {len(measured.launches):,} launches again and "
        "again, one at a time: their times belong to no timeline.",
    )


def read(source: HostFiles) -> TraceData:
    """Read one table.

    Raises:
        BadInput: Nothing can be read; the message names the file, what was wrong and
            the way out.
    """
    path = only_file(source, "table")
    return _trace(source.host, path, open_tables(path, limit_bytes=source.limit_bytes))


def read_report(source: HostFiles) -> TraceData:
    """Read one report through the `ncu` of this machine.

    Raises:
        BadInput: Nothing can be read; the message names the file, what was wrong and
            the way out.
    """
    path = only_file(source, "table")
    return _trace(source.host, path, import_report(path))


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
