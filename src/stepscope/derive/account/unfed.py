"""Idle time that what comes next explains: the copy of a batch, or a look at gradients.

Profilers that know no loader (Nsight Systems without ranges of PyTorch, JAX fed with
arrays) show nothing of how a batch is made: the program is silent, and what it does
next is to copy the batch.

With dynamic loss scaling a kernel looks, after the last gradient, for numbers that are
not finite, its answer is copied to the host, and the host decides whether the optimizer
may run. Until then the device has nothing to do.

Definition: docs/where-a-steps-time-goes.md#topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.account.host_states import long_stretch_ps
from stepscope.derive.columns.arrays import codes, handles, ints
from stepscope.derive.intervals.spans import Spans
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import filled
from stepscope.trace.tables import ACTIVITY_KINDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from stepscope.derive.account.owned_time import DeviceAccount
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.device.launch_facts import LaunchLatency
    from stepscope.derive.step_windows.windows import Windows

#: Kernels and ops that look for numbers that are not finite.
FINITE_CHECK: Final = (
    r"(?i)non_?finite_check|(?:^|[^a-z])(?:is|all)_?finite(?:[^a-z]|$)|multi_?tensor_?"
    r"(?:scale|l2norm_?scale)_?check"
)
#: The answer is no larger than this.
_ANSWER_BYTES: Final = 16
#: So many activities at most lie between the look and the copy of its answer: the
#: answers about several tensors are put together first.
_NEAR: Final = 8
_KINDS: Final = ACTIVITY_KINDS.categories.to_list()
_KERNEL, _D2H, _H2D = (_KINDS.index(kind) for kind in ("kernel", "d2h", "h2d"))

#: Owners of time of which nothing says what the program did.
UNFED_OWNERS: Final = ("between", "unexplained")
#: What is smaller is a scalar or a few indices, no batch.
_LEAST_BYTES: Final = 4096
#: A batch is copied in this share of the closed windows, at least.
_USUAL: Final = 0.8


class BatchCopies(Frozen, frozen=True):
    """When batches were copied to devices, in a program of which no fetch is known.

    Attributes:
        windows: The windows, most of which must copy a batch.
        soon_ps: Silence is longer than this; a copy comes sooner after it.
    """

    windows: Windows
    correlation: Correlation
    soon_ps: int

    @classmethod
    def of(
        cls,
        windows: Windows,
        correlation: Correlation | Unavailable,
        launch_latency: LaunchLatency | Unavailable,
    ) -> BatchCopies | None:
        """Collect the copies; None where one of the tables is missing."""
        if isinstance(correlation, Unavailable) or isinstance(
            launch_latency, Unavailable
        ):
            return None
        return cls(windows, correlation, long_stretch_ps(launch_latency.latency_ps))

    def waits(self, one: DeviceAccount, doing: Spans, blocked: Spans) -> Spans:
        """Return the long silence of a device's program before it copies a batch.

        Args:
            doing: When something says what a step thread does.
            blocked: The part of its idle time in which the program was blocked by
                something else than a device.
        """
        # When calls began that copy as much as a batch, ascending.
        activity = self.correlation.activity
        launch = self.correlation.launch_of_activity
        mine = codes(activity, "kind") == _H2D
        mine &= handles(activity, "device") == one.device
        size = filled(activity["bytes"], 0)
        mine &= (size > _LEAST_BYTES) & (launch >= 0)
        called = np.sort(ints(self.correlation.launches, "start_ps")[launch[mine]])
        rows = self.windows.rows.filter(~self.windows.rows["open_end"])
        if not rows.height or not len(called):
            return Spans.empty()
        starts, ends = ints(rows, "start_ps"), ints(rows, "end_ps")
        copies = np.searchsorted(called, ends) - np.searchsorted(called, starts)
        if (copies > 0).mean() < _USUAL:
            return Spans.empty()
        silent = Spans.union_of((blocked, *(one.idle[owner] for owner in UNFED_OWNERS)))
        # Small work may be launched between the silence and the copy.
        # The stretches that end less than some time before a call, or with it.
        silences = Spans.union_of(one.walked_by.values())
        at = np.searchsorted(called, silences.end_ps)
        next_call = np.append(called, np.iinfo(np.int64).max)[at]
        soon = next_call - silences.end_ps <= self.soon_ps
        walks = Spans(silences.start_ps[soon], silences.end_ps[soon])
        found = (silent & walks) - doing
        long = found.end_ps - found.start_ps > self.soon_ps
        return Spans(found.start_ps[long], found.end_ps[long])


def scaling_holes(
    device_activity: pl.DataFrame, event_types: pl.DataFrame, device: int | None
) -> Spans:
    """Return from each look to the first kernel after the copy of its answer."""
    looks = event_types["name"].str.contains(FINITE_CHECK).to_numpy()
    if not looks.any():
        return Spans.empty()
    mine = np.flatnonzero(handles(device_activity, "device") == device)
    start = ints(device_activity, "start_ps")[mine]
    order = np.argsort(start, kind="stable")
    mine, start = mine[order], start[order]
    end = start + ints(device_activity, "dur_ps")[mine]
    kernel = codes(device_activity, "kind")[mine] == _KERNEL
    looking = kernel & looks[handles(device_activity, "type")[mine]]
    size = device_activity["bytes"].fill_null(_ANSWER_BYTES + 1).to_numpy()[mine]
    answers = codes(device_activity, "kind")[mine] == _D2H
    copies = np.flatnonzero(answers & (size <= _ANSWER_BYTES))
    # The last look before each copy; -1 where there is none.
    rows = np.flatnonzero(looking)
    place = np.searchsorted(rows, copies) - 1
    look = np.where(place >= 0, np.append(rows, -1)[place], -1)
    # The first kernel after each copy; their number for none.
    kernels = np.append(np.flatnonzero(kernel), len(kernel))
    following: NDArray[np.int64] = kernels[
        np.searchsorted(kernels, copies, side="right")
    ]
    found = (look >= 0) & (copies - look <= _NEAR) & (following < len(mine))
    begin = end[look[found]]
    return Spans.from_events(begin, np.maximum(start[following[found]] - begin, 0))
