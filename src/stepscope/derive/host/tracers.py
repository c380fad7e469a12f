"""`tracers`: the tracers that were active while recording, with their levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.derive.columns.arrays import handles
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.remedies import Tracers
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.names.event_kinds import EventKinds


def tracers(
    *,
    environment: pl.DataFrame | Unavailable,
    events: pl.DataFrame,
    tracks: pl.DataFrame,
    device_activity: pl.DataFrame | Unavailable,
    event_kinds: EventKinds,
) -> Tracers:
    """Read the tracer levels from the recording, or infer them from events.

    Exact frames prove that the Python tracer ran, and device activities prove that the
    device tracer ran, whatever level a file states. Sampled frames prove nothing.
    """
    host, device, python = None, None, None
    if not isinstance(environment, Unavailable) and len(environment):
        row = environment.row(0, named=True)
        host = row["host_tracer_level"]
        device = row["device_tracer_level"]
        python = row["python_tracer_level"]
    framed = event_kinds.has(EventFlag.PYTHON_FRAME)
    if not python and framed.any():
        frames = framed[handles(events, "type")]
        traced = (tracks["kind"] != "samples").to_numpy()
        python = 1 if traced[handles(events, "track")[frames]].any() else python
    if not isinstance(device_activity, Unavailable) and len(device_activity):
        device = device or 1
    return Tracers(host=host, device=device, python=python)
