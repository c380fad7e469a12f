"""What is doubtful about a table of Nsight Compute, and what was left out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.remedies import Remedy
from stepscope.trace.quality import QualityNote, notes_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from stepscope.formats.nsight_compute.launches import Measured
    from stepscope.formats.nsight_compute.rows import TableFile


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
            scope="file",
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
            scope="file",
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
            scope="file",
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
