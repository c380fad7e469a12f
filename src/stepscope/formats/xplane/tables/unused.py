"""Whether the program used any of the GPUs that a profile lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.idle_devices import (
    IN_DOUBT,
    NO_CALL_GIVES_WORK,
    gives_work,
    idle_devices,
)
from stepscope.formats.xplane.tables.environment import task_environment
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.unavailable import Unavailable

#: Calls of a runtime or driver; tracers give them ids, but not each of them.
_CALL: Final = Pattern(r"^(?:cu|cuda|hip)[A-Z]\w*$")
#: Allocators of device memory carry the device in their name.
_ON_DEVICE: Final = Pattern(r"(?i)gpu|cuda|rocm|hip(?!\w)")
#: The host's memory, as PyTorch numbers kinds of devices.
_HOST: Final = 0


def unused_devices(recording: Recording) -> Unavailable | None:
    """Return why listed GPUs have no work where none has; None where they were used.

    Tracers list every GPU of the machine, whatever the program does. That it gave them
    none needs calls that were recorded: where there is no call at all it stays in
    doubt. A producer that reports trouble, or did not trace devices, says more.
    """
    kinds = {role.device_type for role in recording.roles if role.core}
    levels = task_environment(recording).levels
    if kinds != {"GPU"} or (levels is not None and levels[1] == 0):
        return None
    types = recording.timeline.type
    rows = recording.host_rows(lambda name: _CALL.search(name) is not None)
    with_id, _ = recording.host_values("correlation_id")
    called = np.unique(types[np.concatenate([rows, with_id])])
    if gives_work(recording.type_names[called].tolist()):
        return None
    if len(called):
        return idle_devices(NO_CALL_GIVES_WORK)
    return None if _allocated(recording) else IN_DOUBT


def _allocated(recording: Recording) -> bool:
    """Return whether memory of a device was allocated: it is work to come."""
    _, names = recording.host_values("allocator_name")
    texts = recording.texts()
    allocators = texts.series("allocator", texts.numbers(names)).unique().drop_nulls()
    if any(_ON_DEVICE.search(name) for name in allocators):
        return True
    _, devices = recording.host_values("Device Type")
    number, present = devices.integers()
    return bool((number[present] != _HOST).any())
