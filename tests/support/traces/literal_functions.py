"""Calls of functions written out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.host.function_frames import FunctionFrames
from stepscope.derive.host.function_names import FunctionName

if TYPE_CHECKING:
    from collections.abc import Sequence

#: One sample in 10 ps.
HZ = 1e11


def named(function: str, *, library: bool | None = False) -> FunctionName:
    return FunctionName(function, f"{function}.py", 3, library)


def frames_of(
    names: Sequence[FunctionName],
    *rows: tuple[int, int, int, int, int],
    hz: float | None = HZ,
    of_framework: frozenset[int] = frozenset(),
) -> FunctionFrames:
    """Calls of functions: type, track, start, end and row of the caller."""
    type_, track, start, end, parent = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    return FunctionFrames(
        track=track.astype(np.int32),
        start_ps=start.astype(np.int64),
        end_ps=end.astype(np.int64),
        parent=parent.astype(np.int32),
        self_ps=np.zeros(len(rows), np.int64),
        type=type_.astype(np.int32),
        event=np.arange(len(rows), dtype=np.int32),
        sampled=hz is not None,
        hz=hz,
        names=dict(enumerate(names)),
        of_framework=of_framework,
    )
