"""Doubts that every reader words alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.remedies import Remedy
from stepscope.trace.quality import QualityNote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def damaged_file(count: int, message: str) -> QualityNote:
    """Note that a file holds what no producer writes, in `count` places."""
    return QualityNote(
        kind="damaged_file",
        severity="error",
        count=count,
        scope="file",
        message=f"{message} What lies before and between the damage is shown.",
        remedy=Remedy.COPY_AGAIN,
    )


def launch_and_copy_notes(
    refused: Mapping[str, int], undirected: int
) -> Iterator[QualityNote]:
    """Note which details of launches are impossible, and copies without direction.

    Args:
        refused: Field of a launch → kernels in which it was impossible.
        undirected: Number of copies whose direction is not recorded.
    """
    for field, count in sorted(refused.items()):
        yield QualityNote(
            kind="impossible_launch_details",
            severity="warning",
            count=count,
            scope=field,
            message=f"BAD_VALUE: {count:,} kernels carry an impossible {field}, which "
            "is shown as unknown.",
        )
    if undirected:
        yield QualityNote(
            kind="copies_without_direction",
            severity="info",
            count=undirected,
            scope="device_activity",
            message=f"{undirected:,} copies record no direction and count as "
            "copies within a device.",
        )
