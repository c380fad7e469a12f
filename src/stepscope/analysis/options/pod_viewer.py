"""Options of `pod_viewer`."""

from __future__ import annotations

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to show.

    Attributes:
        hosts: Only the workers of these hosts; empty for all. The comparison still
            takes all hosts into account: whom they waited for, say.
    """

    hosts: tuple[str, ...] = ()
