"""Time of ops by type: all instances of a type, on all threads of a host.

Definition: docs/where-a-steps-time-goes.md#names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepscope.derive.intervals.nesting import flatten_rows
from stepscope.derive.intervals.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.array_types import Int32s, Int64s

#: Maximum number of types, those with most self time, that are distinguished.
_MAX_TYPES: Final = 32


class ThreadOps(NamedTuple):
    """The ops of one thread by start, and the time in which they compute (`spans`)."""

    spans: Spans
    start_ps: Int64s
    dur_ps: Int64s
    self_ps: Int64s
    type: Int32s


def time_by_op_type(
    threads: Sequence[ThreadOps], spans: Spans
) -> tuple[list[tuple[int, int]], Spans]:
    """Return the time of each type of op, and the spans in which no such op runs.

    If ops of several types run at once, the type with the most self time on all threads
    gets the time, so that the largest type gets all of its time.
    """
    if not threads:
        return [], spans
    types = np.concatenate([ran.type for ran in threads])
    weights = np.concatenate([ran.self_ps for ran in threads])
    total_ps = np.bincount(types, weights)
    ranked = np.argsort(-total_ps, kind="stable")[:_MAX_TYPES]
    ranked = ranked[total_ps[ranked] > 0]
    # All other types have the last code, so that they interrupt the types around them.
    code_of = np.full(len(total_ps), 255, np.uint8)
    code_of[ranked] = np.arange(1, len(ranked) + 1)
    sets = [
        flatten_rows(ran.start_ps, ran.dur_ps, code_of[ran.type]) for ran in threads
    ]
    times, left = [], spans
    for code, op_type in enumerate(ranked.tolist(), start=1):
        ran_ops = (
            by_code[code] & ran.spans
            for ran, by_code in zip(threads, sets, strict=True)
            if code in by_code
        )
        own = left & Spans.union_of(ran_ops)
        times.append((op_type, own.length_ps))
        left = left - own
    return times, left
