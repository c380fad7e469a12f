"""Signals about kernels that Nsight Compute measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.advice.signals.computing.kernel_work import kernel_work
from stepscope.advice.signals.signal import signal
from stepscope.derive.account.owned_time import account
from stepscope.derive.device.kernels import kernels
from stepscope.derive.measured import measured_kernels
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.signals.computing.kernel_work import KernelWork
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


@signal(account, kernels, measured_kernels, reads=(kernel_work,))
def measured_work(
    profile: ProfileData, _: Thresholds, work: KernelWork | Unavailable
) -> pl.DataFrame | Unavailable:
    """Return the compute kernels of the judged device with their metrics.

    Returns:
        The rows of `KernelWork.rows` without collectives, with the columns of
        `MeasuredKernels.rows`, null where a kernel was not measured.
    """
    if isinstance(work, Unavailable):
        return work
    found = profile.derived(work.label.rpartition(":")[0], measured_kernels)
    if isinstance(found, Unavailable):
        return found
    rows = work.rows.filter(~pl.col("collective"))
    return rows.join(found.rows, on="class", how="left", maintain_order="left")
