"""Which devices are listed or used, and why they have no work that is understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import (
    IN_DOUBT,
    NO_CALL_GIVES_WORK,
    gives_work,
    idle_devices,
    or_lost,
)
from stepscope.formats.declared_words import why_absent
from stepscope.formats.kineto.json.messages import DeviceProperties
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.formats.kineto.tables.device_activity import Activity
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
_MOST: Final = 3


def pair_devices(recording: Recording) -> dict[int, DeviceProperties]:
    """Device → what is known of it, for every device that is listed or used.

    ROCm numbers the devices that kernels name differently from those it lists. Where
    there is one of each, both are one device; otherwise it is unknown which is which.

    Definition: docs/formats/kineto.md#device-activity.
    """
    listed = {
        it.id: it
        for it in reversed(recording.device_properties)
        if it.id is not None and 0 <= it.id < 2**31
    }
    used = {track.device for track in recording.tracks if track.device is not None}
    if len(used) == 1 and len(listed) == 1 and not used & listed.keys():
        return {used.pop(): next(iter(listed.values()))}
    nothing = {device: DeviceProperties() for device in used - listed.keys()}
    return {**listed, **nothing}


def why_no_activity(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return the reason that there is no device activity, None where there is some."""
    if activity.frame.height:
        return None
    absent = foreign_work(recording) or why_unused(recording, activity)
    if absent is None:
        key = "no_activity" if pair_devices(recording) else "no_device"
        absent = why_absent(f"kineto.{key}")
    return or_lost(absent, recording.damaged_at)


def why_unused(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return why no listed device worked; None where one did, or may have."""
    if activity.frame.height or not pair_devices(recording):
        return None
    return unused_devices(recording)


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


def foreign_work(recording: Recording) -> Unavailable | None:
    """Return why the work of a device is not known; None where none is foreign."""
    count, listed = listed_foreign_events(recording)
    return why_absent("kineto.device_not_understood", listed=listed) if count else None


def listed_foreign_events(recording: Recording) -> tuple[int, str]:
    """Return how many events of foreign devices there are, and a list for a sentence.

    Calls of a runtime are understood where the work that they launch is.
    """
    foreign = recording.columns.foreign
    if len(recording.columns.activity.place):
        foreign = {
            name: count
            for name, count in foreign.items()
            if not name.lower().endswith(("_runtime", "_driver"))
        }
    most = sorted(foreign.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
    return sum(foreign.values()), ", ".join(
        f"{count:,} events of the category {name[:40]}" for name, count in most
    )
