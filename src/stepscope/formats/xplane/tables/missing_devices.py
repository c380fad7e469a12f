"""Reasons why a profile has no device activity, with remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.formats.assemble import (
    IN_DOUBT,
    NO_LAUNCH,
    idle_devices,
    launches_work,
    or_lost,
)
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.xplane.tables.environment import task_environment
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.formats.xplane.tables.device_activity import Activity
    from stepscope.unavailable import Unavailable

#: Matches names of runtime or driver calls; tracers give ids to only some of them.
_CALL: Final = Pattern(r"^(?:cu|cuda|hip)[A-Z]\w*$")
#: Matches names of allocators of device memory.
_ON_DEVICE: Final = Pattern(r"(?i)gpu|cuda|rocm|hip(?!\w)")
#: PyTorch's device type of the host's memory.
_HOST: Final = 0
_MAY_NOT_PROFILE: Final = (
    "Let users profile: set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia "
    "kernel module, or give the container CAP_SYS_ADMIN."
)
_OTHER_CLIENT: Final = (
    "Close the other profiler of this GPU (Nsight, DCGM, a second trace): only one "
    "CUPTI client can record at a time."
)
_NO_LIBRARY: Final = (
    "Put the CUPTI library of the CUDA toolkit (extras/CUPTI/lib64) on LD_LIBRARY_PATH."
)
#: Words of a producer's error → remedy against the error.
_REMEDIES: Final = (
    ("insufficient_privilege", _MAY_NOT_PROFILE),
    ("insufficient privilege", _MAY_NOT_PROFILE),
    ("nvgpuctrperm", _MAY_NOT_PROFILE),
    ("multiple_subscribers", _OTHER_CLIENT),
    ("multiple subscribers", _OTHER_CLIENT),
    ("not_compatible", _OTHER_CLIENT),
    ("libcupti", _NO_LIBRARY),
    ("could not be loaded", _NO_LIBRARY),
    ("dlopen", _NO_LIBRARY),
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


def unused_devices(recording: Recording) -> Unavailable | None:
    """Return why listed GPUs have no activity; None if they were used.

    Tracers list every GPU of the machine, even if the program does not use it. Only
    recorded calls prove that the program launched nothing; if no call was recorded, the
    reason is `IN_DOUBT`. If the producer did not trace devices, the result is None.
    """
    kinds = {role.device_type for role in recording.roles if role.core}
    levels = task_environment(recording).levels
    if kinds != {"GPU"} or (levels is not None and levels[1] == 0):
        return None
    types = recording.timeline.type
    rows = recording.host_rows(lambda name: _CALL.search(name) is not None)
    with_id, _ = recording.host_values("correlation_id")
    called = np.unique(types[np.concatenate([rows, with_id])])
    if launches_work(recording.type_names[called].tolist()):
        return None
    if len(called):
        return idle_devices(NO_LAUNCH)
    # Allocated device memory shows that the program uses the device.
    _, names = recording.host_values("allocator_name")
    texts = recording.texts()
    allocators = texts.series("allocator", texts.numbers(names)).unique().drop_nulls()
    if any(_ON_DEVICE.search(name) for name in allocators):
        return None
    _, devices = recording.host_values("Device Type")
    number, present = devices.integer_values()
    return None if (number[present] != _HOST).any() else IN_DOUBT


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
    if unused is not None:
        return unused
    quoted = f" The producer reports: {'; '.join(errors)}" if errors else ""
    levels = task_environment(recording).levels
    if levels is not None and levels[1] == 0:
        return why_absent("xplane.tracer_off", quoted=quoted)
    return why_absent("xplane.no_activity", quoted=quoted, remedy=_remedy_for(errors))


def why_unused(recording: Recording, activity: Activity) -> Unavailable | None:
    """Return why no listed device was used; None if one was or may have been used.

    If the file is damaged or the producer reports a problem, the result is None.
    """
    if (
        activity.frame.height
        or _device_messages(recording)
        or recording.damaged_at is not None
    ):
        return None
    return unused_devices(recording)


def _device_messages(recording: Recording) -> list[str]:
    warnings = recording.space.warnings
    of_devices = (
        text for text in warnings if any(word in text.lower() for word in _OF_DEVICES)
    )
    return [*recording.space.errors, *of_devices]


def _remedy_for(errors: list[str]) -> str:
    text = " ".join(errors).lower()
    for symptom, remedy in _REMEDIES:
        if symptom in text:
            return remedy
    return _DEFAULT_REMEDY
