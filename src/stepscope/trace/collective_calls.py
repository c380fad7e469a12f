"""Collective calls of a job's ranks, as PyTorch's flight recorder writes them.

Definition: docs/hangs.md.
"""

from __future__ import annotations

import msgspec

from stepscope.frozen import Frozen


class CollectiveCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a collective on one rank.

    Attributes:
        group: Name of the process group.
        number: Number of the call in its group, from 1; equal on all ranks.
        operation: What is done, as `all_reduce`.
        sizes: Sizes of the inputs; "" if not recorded.
        dtypes: Element types of the inputs; "" if not recorded.
        is_started: Whether the device has started it; not recorded by Gloo.
        is_finished: Whether the call has finished on this rank.
        called_ns: Time of the call since 1970, by the clock of the rank's host.
        caller: Function, file and line that called it, outside of PyTorch; "" if no
            stack was recorded.
    """

    group: str
    number: int
    operation: str
    sizes: str
    dtypes: str
    is_started: bool
    is_finished: bool
    called_ns: int
    caller: str


class RankCalls(Frozen, frozen=True, eq=True):
    """The calls that one rank's flight recorder still holds, oldest first.

    Attributes:
        rank: Number of the rank in the job.
        groups: Name of each process group → its description and its ranks; no ranks if
            they were not recorded.
    """

    rank: int
    groups: dict[str, tuple[str, tuple[int, ...]]]
    calls: tuple[CollectiveCall, ...]

    @property
    def newest(self) -> CollectiveCall | None:
        """Return the newest call; None without calls."""
        return self.calls[-1] if self.calls else None
