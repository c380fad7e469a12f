"""Whether the device's times run late: work that ends after the host has waited for it.

A device that seems early is found by every analysis, since nothing can begin before its
launch. One that seems late looks like a long queue, unless the host waited for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.trace.quality import QualityNote
from stepscope.units import PS_PER_NS, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.formats.nsight_systems.decoded.recording import Recording

__all__ = ["late_devices"]

#: Clocks that were aligned differ by some microseconds.
_APART_NS: Final = 1_000_000
#: The most waits that may contradict the times of a device whose clock is right.
_MOST: Final = 0.5
_STREAM: Final = "Stream Synchronize"


def late_devices(recording: Recording) -> Iterator[QualityNote]:
    """Note by how much devices run late, where most waits for streams say so.

    Work of a stream ends in the order of its launches: that launched last before a wait
    has ended when the wait returns.
    """
    wait = recording.names.number(_STREAM)
    key = ["process", "device", "id"]
    waits = recording.gpus.renumbered(recording.beside.syncs)
    waits = waits.filter(pl.col("name") == wait).select(*key, "start", "end")
    calls = recording.host.calls.select("process", "correlation", called="end")
    done = pl.col("start") + pl.col("dur")
    work = recording.work.select(*key, "correlation", done=done)
    work = work.join(calls, on=["process", "correlation"]).drop_nulls()
    # Sorted by what is compared, as the join asks for; groups may be in any order.
    last = waits.sort("start").join_asof(
        work.sort("called"),
        left_on="start",
        right_on="called",
        by=key,
        check_sortedness=False,
    )
    late = last.select(by=pl.col("done") - pl.col("end")).drop_nulls()["by"]
    contradicting = late.filter(late > _APART_NS)
    if len(contradicting) > _MOST * len(late):
        lateness = duration_text(int(contradicting.to_numpy().max()) * PS_PER_NS)
        yield QualityNote(
            kind="late_device_clock",
            severity="warning",
            count=len(contradicting),
            scope="device_activity",
            message=f"In {len(contradicting):,} of {len(late):,} waits for a stream "
            f"its work ends after the wait, by up to {lateness}: the device's times "
            "run late, and what it seems to wait for is not known.",
            remedy="Record again, with the newest Nsight Systems; times within "
            "the device, and within the host, are right.",
        )
