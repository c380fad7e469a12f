"""When lines of a function were the program's innermost ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.derive.host.function_names import is_nameless
from stepscope.derive.intervals.nesting import nest_subset
from stepscope.derive.intervals.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.host.function_lines import FunctionLines


def own_lines(
    lines: FunctionLines, kinds: Sequence[int], *, tracks: Sequence[int]
) -> dict[int, Spans]:
    """Return by line of a function when no other function of the program ran in it.

    What libraries do for a line is its own, and what has no name and stands in it.

    Args:
        kinds: The function, as in `FunctionLines.type`.
        tracks: Rows of tracks of the threads that are asked.
    """
    own = [
        kind
        for kind, name in lines.names.items()
        if name.library is False and not is_nameless(name.function)
    ]
    chosen = np.isin(lines.track, tracks) & np.isin(lines.type, own)
    rows = np.flatnonzero(chosen)
    start, dur = lines.start_ps[rows], (lines.end_ps - lines.start_ps)[rows]
    around = nest_subset(start, dur, track=lines.track[rows]).parent
    mine = np.isin(lines.type[rows], kinds)
    called = ~mine & (around >= 0)
    called[called] = mine[around[called]]
    others = Spans.from_events(start[called], dur[called])
    number = lines.line[rows]
    return {
        line: Spans.from_events(start[at], dur[at]) - others
        for line in np.unique(number[mine]).tolist()
        if line >= 0
        for at in (mine & (number == line),)
    }
