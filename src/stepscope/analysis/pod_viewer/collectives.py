"""The collectives of all workers of a run: matched, on one clock, with waits.

A worker without a device takes part by its threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.analysis.steps.measured_hosts import start_unix_ns
from stepscope.derive.collectives.arguments import host_collectives
from stepscope.derive.collectives.calls import collective_calls
from stepscope.derive.collectives.clocks import HostClock, align
from stepscope.derive.collectives.waits import (
    collective_waits,
    matched_collectives,
    without_contradictions,
)
from stepscope.derive.columns.arrays import ints
from stepscope.frozen import Frozen
from stepscope.trace.reading.nullable import nullable
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.analysis.steps.rows import HostSteps
    from stepscope.derive.profile_data import ProfileData

#: What is compared of each collective.
_COMPARED: Final[dict[str, pl.DataType]] = {
    "host": pl.String(),
    "device": pl.Int32(),  # null of a thread's
    "window": pl.Int32(),
    "kind": pl.String(),
    "group": pl.String(),
    "start_ps": pl.Int64(),
    "dur_ps": pl.Int64(),
}
#: What ties clocks so that times within a step can be compared.
_TIED_BY_COLLECTIVES = ("reference", "collectives")


class WorkerCollectives(Frozen, frozen=True):
    """The collectives of a run.

    Attributes:
        calls: One row per call with `host`, `window`, `device`, `kind`, `start_ps`,
            `dur_ps`, `instance`, `members`, `wait_ps` and `waited_for_ps`; no rows
            where there are none.
        clocks: Host → its clock.
        absent: Host → why it has no collectives.
    """

    calls: pl.DataFrame
    clocks: Mapping[str, HostClock]
    absent: Mapping[str, Unavailable]


def worker_collectives(
    run: ProfileData, hosts: Sequence[HostSteps], slots: pl.DataFrame
) -> WorkerCollectives:
    """Match the collectives of all devices of all hosts.

    Args:
        hosts: The hosts that are looked at.
        slots: Rows that `joined_steps` returns.
    """
    frames = [pl.DataFrame(schema=_COMPARED)]
    absent: dict[str, Unavailable] = {}
    for host in hosts:
        calls = _calls(run, host)
        if isinstance(calls, Unavailable):
            absent[host.host] = calls
        else:
            frames.append(calls.select(*_COMPARED))
    calls = pl.concat(frames).join(
        slots.select("host", "window", pl.col("slot").alias("step")),
        on=["host", "window"],
        how="left",
        maintain_order="left",
    )
    matched = matched_collectives(calls)
    clocks = align(
        {host.host: start_unix_ns(run, host.host) for host in hosts},
        matched,
        _shared_steps(hosts, slots),
    )
    tied = pl.DataFrame(
        [
            (
                clock.host,
                clock.shift_ps if clock.source in _TIED_BY_COLLECTIVES else None,
                clock.doubt_ps,
            )
            for clock in clocks.values()
        ],
        schema={"host": pl.String, "shift_ps": pl.Int64, "doubt_ps": pl.Int64},
        orient="row",
    )
    on_one_clock = matched.join(tied, on="host", how="left", maintain_order="left")
    waits = collective_waits(without_contradictions(on_one_clock))
    return WorkerCollectives(waits.drop("shift_ps", "doubt_ps"), clocks, absent)


def _calls(run: ProfileData, host: HostSteps) -> pl.DataFrame | Unavailable:
    """Return the collectives of a host's devices, of its threads where it has none.

    Columns `_COMPARED`.
    """
    calls = run.derived(host.host, collective_calls)
    if not isinstance(calls, Unavailable):
        return _in_windows(host, calls)
    if host.rows["device"].null_count() == 0:
        return calls
    own = run.derived(host.host, host_collectives)
    return own if isinstance(own, Unavailable) else _begun_in_windows(host, own)


def _in_windows(host: HostSteps, calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls with the window that each belongs to; null for none."""
    rows = host.windows.rows.with_row_index("window").select(
        pl.col("window").cast(pl.Int32), "step_row"
    )
    if not host.windows.has_steps:
        placed = calls.with_columns(window=pl.lit(0, pl.Int32))
    else:
        placed = calls.join(rows, on="step_row", how="left", maintain_order="left")
    return placed.with_columns(host=pl.lit(host.host))


def _begun_in_windows(host: HostSteps, calls: pl.DataFrame) -> pl.DataFrame:
    """Return collectives of threads with the window in which each begins, or null."""
    start = ints(calls, "start_ps")
    at = np.searchsorted(ints(host.windows.rows, "start_ps"), start, side="right") - 1
    inside = (at >= 0) & (start < ints(host.windows.rows, "end_ps")[at])
    return calls.with_columns(
        nullable("window", at.astype(np.int32), inside),
        device=pl.lit(None, pl.Int32),
        host=pl.lit(host.host),
    )


def _shared_steps(
    hosts: Sequence[HostSteps], slots: pl.DataFrame
) -> dict[str, dict[int, tuple[int, int]]]:
    """Map hosts to the steps that others may share, with start and length."""
    found = {}
    for host in hosts:
        mine = slots.filter((pl.col("host") == host.host) & pl.col("shared"))
        rows = mine.join(host.by_window, on="window").select(
            "slot", "start_ps", "window_ps"
        )
        # Steps, not events.
        found[host.host] = {slot: (start, dur) for slot, start, dur in rows.rows()}
    return found
