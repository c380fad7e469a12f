"""Which windows of several hosts belong together as one step of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.steps.matching import StepMatching
    from stepscope.analysis.steps.rows import HostSteps

SLOTS: Final[dict[str, pl.DataType]] = {
    "host": pl.String(),
    "window": pl.Int32(),  # row of the host's windows
    "slot": pl.Int64(),  # the step of the run, from 0 up
    "shared": pl.Boolean(),  # further hosts may have a part in it
}


def joined_steps(hosts: Sequence[HostSteps], matching: StepMatching) -> pl.DataFrame:
    """Number the steps of the run and say which windows belong to each.

    Hosts that do not run in lock step share no step, whatever their numbers are. Steps
    with numbers are joined by number, also where some hosts lack one; a number that a
    host has twice is two steps.

    Returns:
        Columns `SLOTS`, by slot and in the order of the hosts.
    """
    frames = [_keyed(host, matching, order) for order, host in enumerate(hosts)]
    keyed = pl.concat(frames).with_columns(
        turn=pl.int_range(pl.len()).over("host", "owner", "number")
    )
    # Shared steps first, in the order of the run; then what only one host has.
    slot = pl.struct("owner", "turn", "number").rank("dense").cast(pl.Int64) - 1
    return (
        keyed.with_columns(slot=slot, shared=pl.col("owner") < 0)
        .sort("slot", "order", "window")
        .select(*SLOTS)
    )


def _keyed(host: HostSteps, matching: StepMatching, order: int) -> pl.DataFrame:
    """Give each window whose step it is (-1: the run's) and its number there."""
    windows = host.by_window[["window", "step"]]
    alone = np.arange(len(windows), dtype=np.int64)
    joined = matching.in_lock_step and matching.by in ("step_num", "time")
    key = matching.key.get(host.host) if joined else None
    if key is None:
        key = np.full(len(windows), -1, np.int64)
    elif matching.by == "step_num":
        key = windows["step"].to_numpy()
    together = key >= 0
    return windows.select(
        pl.lit(host.host).alias("host"),
        "window",
        pl.lit(order).alias("order"),
        pl.Series("owner", np.where(together, -1, order).astype(np.int64)),
        pl.Series("number", np.where(together, key, alone)),
    )
