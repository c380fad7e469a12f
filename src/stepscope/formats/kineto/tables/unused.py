"""Whether the program used any of the devices that its trace lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.idle_devices import NO_CALL_GIVES_WORK, gives_work, idle_devices

if TYPE_CHECKING:
    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.unavailable import Unavailable

__all__ = ["unused_devices"]

#: The host's memory, as PyTorch numbers kinds of devices.
_HOST: Final = 0
#: So many allocations at least show where a program keeps its tensors.
_ALLOCATIONS: Final = 10


def unused_devices(recording: Recording) -> Unavailable | None:
    """Return why listed devices have no work; None where they may have done some.

    PyTorch lists every device of the machine, whatever the program ran on. That it ran
    on the host needs evidence: calls of the runtime were recorded, and none of them
    gives a device work; or tensors were allocated, and none of them on a device.
    """
    line = recording.timeline
    row = line.row[recording.columns.calls.place]
    if len(row):
        types = np.unique(line.type[row[row >= 0]]).tolist()
        names = pl.Series(recording.type_names, dtype=pl.String).gather(types)
        return None if gives_work(names) else idle_devices(NO_CALL_GIVES_WORK)
    kinds = recording.columns.memory.frame["device_type"].drop_nulls()
    if len(kinds) >= _ALLOCATIONS and bool((kinds == _HOST).all()):
        return idle_devices("every tensor was allocated on the host")
    return None
