"""Options of `framework_op_stats`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from stepscope.analysis.options.values import MOST_CALLS, Name, Prefix


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to show.

    Attributes:
        include_idle: Give idle time rows of its own, and count it in percentages.
        op: Only the op with this name: its calls, kernels, copies, launches, share of
            the step, and what dominates.
        scope: Only the ops whose names begin with this path: their calls, kernels,
            copies, launches, share of the step, and what dominates; not with `op`.
        most_calls: Largest number of calls to list; none for all.
    """

    include_idle: bool = False
    op: Name | None = None
    scope: Prefix | None = None
    most_calls: Annotated[int, msgspec.Meta(ge=1)] | None = MOST_CALLS
