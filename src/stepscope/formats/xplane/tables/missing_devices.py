"""Reasons why a profile has no device activity, with remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from stepscope.formats.assemble import (
    IN_DOUBT,
    NO_LAUNCH,
    launches_work,
    or_lost,
)
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.xplane.tables.environment import task_environment
from stepscope.patterns import Pattern
from stepscope.remedies import Remedy

if TYPE_CHECKING:
    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.formats.xplane.tables.device_activity import Activity
    from stepscope.unavailable import Unavailable

#: Matches names of runtime or driver calls; tracers give ids to only some of them.
_CALL: Final = Pattern(r"^(?:cu|cuda|hip)[A-Z]\w*$")
#: Matches names of ops of TensorFlow, and of ops that send tensors between devices.
_OP: Final = Pattern(r"^[\w.][\w./>-]*:[A-Z_]\w*$")
_SENDING_OP: Final = Pattern(r":_(?:Host)?(?:Send|Recv)$")
#: Reason for missing activity if ops ran only on the host.
_NO_MEMORY: Final = why_absent(
    "any.idle_devices",
    evidence="ops ran, and no memory was allocated on it nor data sent to it",
)
#: Matches names of allocators of device memory.
_ON_DEVICE: Final = Pattern(r"(?i)gpu|cuda|rocm|hip(?!\w)")
#: PyTorch's device type of the host's memory.
_HOST: Final = 0
#: Words of a producer's error → remedy against the error.
_REMEDIES: Final = (
    ("insufficient_privilege", Remedy.ALLOW_PROFILING),
    ("insufficient privilege", Remedy.ALLOW_PROFILING),
    ("nvgpuctrperm", Remedy.ALLOW_PROFILING),
    ("multiple_subscribers", Remedy.STOP_OTHER_PROFILERS),
    ("multiple subscribers", Remedy.STOP_OTHER_PROFILERS),
    ("not_compatible", Remedy.STOP_OTHER_PROFILERS),
    ("libcupti", Remedy.FIND_CUPTI),
    ("could not be loaded", Remedy.FIND_CUPTI),
    ("dlopen", Remedy.FIND_CUPTI),
)
#: A warning with one of these words may explain missing device activity. Other warnings
#: are about the host, such as annotations left open at the end.
_OF_DEVICES: Final = (
    *(words for words, _ in _REMEDIES),
    *("device", "accelerator", "gpu", "tpu", "cuda", "cupti", "hip", "rocm", "driver"),
    *("roctracer", "rocprof", "profiler", "tracer", "did not record", "recorded is"),
)
_DEFAULT_REMEDY: Final = (
    "Record with device_tracer_level 1 while the device works; check that CUPTI or "
    "roctracer can be loaded and that users may profile."
)


def why_unused(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return why no listed GPU was used; None if one was or may have been used.

    Tracers list every GPU of the machine, even if the program does not use it. Recorded
    calls that launch nothing prove that it was unused, if the tracer worked; so do ops
    that neither allocate device memory nor send data. Otherwise the reason is
    `IN_DOUBT`. In a damaged file the result is None.
    """
    if activity.frame.height or recording.damaged_at is not None:
        return None
    if {role.device_type for role in recording.roles if role.core} != {"GPU"}:
        return None
    types = recording.timeline.type
    rows = recording.host_rows(lambda name: _CALL.search(name) is not None)
    with_id, _ = recording.host_values("correlation_id")
    called = np.unique(types[np.concatenate([rows, with_id])])
    if launches_work(recording.type_names[called].tolist()):
        return None
    traced = not _device_messages(recording) and not _is_tracer_off(recording)
    if len(called) and traced:
        return NO_LAUNCH
    if _holds_data(recording):
        return None
    ops = recording.host_rows(lambda name: _OP.search(name) is not None)
    return _NO_MEMORY if len(ops) else IN_DOUBT


def _holds_data(recording: Recording) -> bool:
    """Return whether memory was allocated on a device, or data sent to one."""
    _, names = recording.host_values("allocator_name")
    texts = recording.texts()
    allocators = texts.series("allocator", texts.numbers(names)).unique().drop_nulls()
    _, devices = recording.host_values("Device Type")
    number, present = devices.integer_values()
    return (
        any(_ON_DEVICE.search(name) for name in allocators)
        or bool((number[present] != _HOST).any())
        or any(_SENDING_OP.search(name) for name in recording.type_names)
    )


def _is_tracer_off(recording: Recording) -> bool:
    levels = task_environment(recording).levels
    return levels is not None and levels[1] == 0


def why_no_activity(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return why there is no device activity; None if there is activity."""
    errors = _device_messages(recording)
    if not any(role.core for role in recording.roles):
        if errors:
            return why_absent(
                "xplane.no_device.reported",
                messages="; ".join(errors),
                remedy=_remedy_for(errors),
            )
        return or_lost(why_absent("xplane.no_device"), recording.damaged_at)
    if activity.frame.height:
        return None
    unused = why_unused(recording, activity)
    quoted = f" The producer reports: {'; '.join(errors)}" if errors else ""
    if unused not in {None, IN_DOUBT}:
        return unused
    if _is_tracer_off(recording):
        absent = why_absent("xplane.tracer_off", quoted=quoted)
    elif unused is None or errors:
        key = "no_activity" if unused is None else "in_doubt.reported"
        absent = why_absent(f"xplane.{key}", quoted=quoted, remedy=_remedy_for(errors))
    else:
        return unused
    return absent if unused is None else replace(absent, code=unused.code)


def _device_messages(recording: Recording) -> list[str]:
    warnings = recording.space.warnings
    return [*recording.space.errors, *filter(is_about_devices, warnings)]


def is_about_devices(message: str) -> bool:
    """Return whether a producer's message is about devices or their tracer."""
    return any(word in message.lower() for word in _OF_DEVICES)


def _remedy_for(errors: list[str]) -> str:
    text = " ".join(errors).lower()
    for symptom, remedy in _REMEDIES:
        if symptom in text:
            return remedy
    return _DEFAULT_REMEDY
