"""Which ops each worker runs, and how often, in programs that use no device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import handles, ints
from stepscope.derive.names.event_kinds import event_kinds
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable, present

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


class WorkerOps(Frozen, frozen=True):
    """The ops that began in the judged steps.

    Attributes:
        runs: Host → name of an op → how often it ran in a step.
    """

    runs: Mapping[str, Mapping[str, float]]

    def runs_op(self, host: str, name: str) -> bool:
        """Return whether a worker runs an op."""
        return name in self.runs.get(host, {})

    def beyond_others(self, host: str) -> float | None:
        """Return which part of a worker's runs the others do not have, in percent.

        Args:
            host: The worker; of the others the median counts, op by op.

        Returns:
            The part; None where ops of too few workers were recorded.
        """
        mine = self.runs.get(host)
        others = [ops for name, ops in self.runs.items() if name != host]
        if not mine or not others or not all(others):
            return None
        more = sum(
            max(runs - float(np.median([ops.get(name, 0.0) for ops in others])), 0.0)
            for name, runs in mine.items()
        )
        return 100 * more / sum(mine.values())


@signal(event_kinds, windows, "events", "event_types", seldom=True)
def worker_ops(profile: ProfileData, _: Thresholds) -> WorkerOps:
    """Count the ops of every host."""
    found: dict[str, dict[str, float]] = {}
    for host in profile.hosts:
        kinds = profile.derived(host, event_kinds)
        placed = profile.derived(host, windows)
        events, types = (profile.table(host, it) for it in ("events", "event_types"))
        if (
            isinstance(kinds, Unavailable)
            or isinstance(placed, Unavailable)
            or isinstance(events, Unavailable)
            or isinstance(types, Unavailable)
        ):
            continue
        starts = ints(placed.measured, "start_ps")
        ends = ints(placed.measured, "end_ps")
        kind, begun = handles(events, "type"), ints(events, "start_ps")
        at = np.searchsorted(starts, begun, side="right") - 1
        inside = (at >= 0) & (begun < ends[at]) & kinds.is_op()[kind]
        which, count = np.unique(kind[inside], return_counts=True)
        names = present(profile.table(host, "event_types"))["name"]
        found[host] = {
            str(names[int(one)]): int(number) / len(starts)
            for one, number in zip(which.tolist(), count.tolist(), strict=True)
        }
    return WorkerOps(found)
