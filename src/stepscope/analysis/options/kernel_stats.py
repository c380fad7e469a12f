"""Options of `kernel_stats`."""

from __future__ import annotations

import msgspec

from stepscope.analysis.options.values import Name, Prefix


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to show.

    Attributes:
        op: Only kernels of the op with this name.
        scope: Only kernels of ops whose name begins with this path; not with `op`.
    """

    op: Name | None = None
    scope: Prefix | None = None
