"""Find listed and used devices, and reasons why a file has no readable activity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.assemble import (
    IN_DOUBT,
    NO_LAUNCH,
    launches_work,
    or_lost,
)
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.kineto.json.messages import DeviceProperties
from stepscope.patterns import Pattern
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.formats.kineto.decoded.recording import Recording
    from stepscope.formats.kineto.tables.device_activity import Activity
    from stepscope.unavailable import Unavailable


#: Match names of ops that need a device, and names of ops of CPU libraries.
_OF_DEVICES: Final = Pattern(
    r"cudnn|miopen|nccl|rccl|_pin_memory|_(?:flash|efficient)_attention_forward$"
)
_OF_CPUS: Final = Pattern(r"mkldnn|onednn|_for_cpu")
#: PyTorch's device type of the host's memory.
_HOST: Final = 0
#: Minimum number of allocations that prove where a program keeps its tensors.
_MIN_ALLOCATIONS: Final = 10
_MAX_KINDS: Final = 3
#: The op that reads one value, and the duration from which a read waits, in ps. The
#: scheduler alone does not delay this number of reads for this share of the recording.
_READ_OF_VALUE: Final = "aten::_local_scalar_dense"
_MIN_WAIT_PS: Final = 100 * PS_PER_US
_MIN_WAITS: Final = 3
_MIN_WAIT_SHARE: Final = 0.05


def pair_devices(recording: Recording) -> dict[int, DeviceProperties]:
    """Return device → its properties, for every device that is listed or used.

    ROCm uses different device numbers in its kernels and in its list of devices. If one
    device is listed and one is used, they are the same device. If there are several, it
    is not known which numbers mean the same device.

    Definition: docs/formats/kineto.md#device-activity.
    """
    listed = {
        device.id: device
        for device in reversed(recording.device_properties)
        if device.id is not None and 0 <= device.id < 2**31
    }
    used = {track.device for track in recording.tracks if track.device is not None}
    if len(used) == 1 and len(listed) == 1 and not used & listed.keys():
        return {used.pop(): next(iter(listed.values()))}
    unlisted = {device: DeviceProperties() for device in used - listed.keys()}
    return {**listed, **unlisted}


def why_no_activity(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return why there is no device activity; None if there is activity."""
    if activity.frame.height:
        return None
    absent = foreign_work(recording) or why_unused(recording, activity)
    if absent in {None, IN_DOUBT} and waits_for_values(recording):
        absent = why_absent("kineto.unseen_device")
    if absent is None:
        key = "no_activity" if pair_devices(recording) else "no_device"
        absent = why_absent(f"kineto.{key}")
    return or_lost(absent, recording.damaged_at)


def why_unused(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return why no listed device was used; None if one was or may have been used.

    PyTorch lists every device of the machine, even if the program does not use it. One
    of these facts must show that the program ran on the host: runtime calls were
    recorded, but none launches work; tensors were allocated, but none on a device; or
    ops of a CPU library were recorded, but no device ops. If none of these facts is
    recorded, the result is `IN_DOUBT`.
    """
    if activity.frame.height or not pair_devices(recording):
        return None
    line = recording.timeline
    row = line.row[recording.columns.calls.place]
    if len(row):
        types = np.unique(line.type[row[row >= 0]]).tolist()
        calls = pl.Series(recording.type_names, dtype=pl.String).gather(types)
        return None if launches_work(calls) else NO_LAUNCH
    kinds = recording.columns.memory.frame["device_type"].drop_nulls()
    is_on_host = bool((kinds == _HOST).all())
    if is_on_host and len(kinds) >= _MIN_ALLOCATIONS:
        evidence = "every tensor was allocated on the host"
        return why_absent("any.idle_devices", evidence=evidence)
    used = recording.type_names
    if not is_on_host or any(_OF_DEVICES.search(name) for name in used):
        return None
    if any(_OF_CPUS.search(name) for name in used):
        evidence = "the ops are those of a CPU library"
        return why_absent("any.idle_devices", evidence=evidence)
    return IN_DOUBT


def waits_for_values(recording: Recording) -> bool:
    """Return whether reading single values waits, which only a device makes it do.

    On a host the value is there at once. Files with calls of a device's runtime, or
    with memory of the host only, show otherwise whether a device was used.
    """
    line = recording.timeline
    if len(recording.columns.calls.place):
        return False
    named = np.array(
        [name == _READ_OF_VALUE for name in recording.type_names], np.bool_
    )
    dur_ps = line.dur_ps[named[line.type]] if len(named) else line.dur_ps[:0]
    waited_ps = dur_ps[dur_ps >= _MIN_WAIT_PS]
    bounds = line.time_range(range(len(recording.tracks)))
    return (
        len(waited_ps) >= _MIN_WAITS
        and bounds is not None
        and int(waited_ps.sum()) >= _MIN_WAIT_SHARE * (bounds[1] - bounds[0])
    )


def foreign_work(recording: Recording) -> Unavailable | None:
    """Return why a device's activity is unreadable; None if all is readable."""
    count, listed = listed_foreign_events(recording)
    return why_absent("kineto.device_not_understood", listed=listed) if count else None


def listed_foreign_events(recording: Recording) -> tuple[int, str]:
    """Return the number of events of unsupported devices, and a text that lists them.

    Runtime calls are not counted if the file has readable device activity.
    """
    foreign = recording.columns.foreign
    if len(recording.columns.activity.place):
        foreign = {
            name: count
            for name, count in foreign.items()
            if not name.lower().endswith(("_runtime", "_driver"))
        }
    top = sorted(foreign.items(), key=lambda item: (-item[1], item[0]))[:_MAX_KINDS]
    return sum(foreign.values()), ", ".join(
        f"{count:,} events of the category {name[:40]}" for name, count in top
    )
