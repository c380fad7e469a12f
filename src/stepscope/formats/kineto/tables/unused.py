"""Whether the program used any of the devices that its trace lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.idle_devices import (
    IN_DOUBT,
    NO_CALL_GIVES_WORK,
    gives_work,
    idle_devices,
)
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.unavailable import Unavailable

#: Ops that exist for a device only, or that serve one, and ops of a library for CPUs.
_OF_DEVICES: Final = Pattern(
    r"cudnn|miopen|nccl|rccl|_pin_memory|_(?:flash|efficient)_attention_forward$"
)
_OF_CPUS: Final = Pattern(r"mkldnn|onednn|_for_cpu")

#: The host's memory, as PyTorch numbers kinds of devices.
_HOST: Final = 0
#: So many allocations at least show where a program keeps its tensors.
_ALLOCATIONS: Final = 10


def unused_devices(recording: Recording) -> Unavailable | None:
    """Return why listed devices have no work; None where they did some.

    PyTorch lists every device of the machine, whatever the program ran on. That it ran
    on the host needs evidence: calls of the runtime were recorded, and none of them
    gives a device work; or tensors were allocated, and none of them on a device; or
    ops are those of a library for CPUs, and none is one for devices. Without any
    evidence it stays in doubt.
    """
    line = recording.timeline
    row = line.row[recording.columns.calls.place]
    if len(row):
        types = np.unique(line.type[row[row >= 0]]).tolist()
        calls = pl.Series(recording.type_names, dtype=pl.String).gather(types)
        return None if gives_work(calls) else idle_devices(NO_CALL_GIVES_WORK)
    kinds = recording.columns.memory.frame["device_type"].drop_nulls()
    if not bool((kinds == _HOST).all()):
        return None
    if len(kinds) >= _ALLOCATIONS:
        return idle_devices("every tensor was allocated on the host")
    used = recording.type_names
    if any(_OF_DEVICES.search(name) for name in used):
        return None
    if any(_OF_CPUS.search(name) for name in used):
        return idle_devices("ops of a library for CPUs computed")
    return IN_DOUBT
