"""Why there is no work of devices: whether the program used any that is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.assemble import NO_CALL_GIVES_WORK, gives_work, idle_devices
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.formats.assemble import DeviceTables
    from stepscope.formats.nsight_systems.decoded.recording import Recording

_NO_GPU: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="The database lists no GPU and holds no call of CUDA: the program ran on "
    "the CPU, or CUDA was not recorded.",
    remedy="If the program used a GPU, record with `nsys profile --trace=cuda,nvtx`.",
)
_NO_ACTIVITY: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="The database holds no kernel, copy or memset.",
    remedy="Record with `nsys profile --trace=cuda,nvtx` while the device works.",
)
#: Nsight Systems lists the GPUs of the machine, whatever the program does.
_NEVER_CALLED: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="A GPU is listed, and neither its work nor a call of CUDA was recorded: the "
    "program ran on the CPU, or ended before, or CUDA was not traced.",
    remedy="If the program used the GPU, let it run to its end under `nsys profile "
    "--trace=cuda,nvtx`, and look at what it printed.",
)
_CALLS_LOST: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="A GPU is listed, no recorded call gave it work, and Nsight Systems says "
    "that it lost events of CUDA: whether the program used it is not known.",
    remedy="Let the program run to its end under `nsys profile --trace=cuda,nvtx`, "
    "with an Nsight Systems that knows the driver.",
)
#: Why there is no work of a device that the program certainly called.
CALLS_SEEN: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="Samples found the program in calls of CUDA that give a device work, and "
    "neither that work nor these calls were recorded.",
    remedy="Let the program run to its end under `nsys profile --trace=cuda,nvtx`, "
    "with an Nsight Systems that knows the driver, and look at what it printed.",
)
#: How samples name a call of CUDA or HIP.
_SAMPLED: Final = r"^\$<[^>]*>!((?:cu|hip)\w*)$"
#: Why there is no work of a device of which nothing says whether it was used.
IN_DOUBT: Final = (_NEVER_CALLED, _CALLS_LOST)
#: What Nsight Systems notes, whatever the severity, where calls may be missing.
_LOST: Final = (
    r"(?i)not all CUDA events|CUPTI events might be missing|CUDA profiling might"
)


def why_no_activity(recording: Recording, work: DeviceTables) -> Unavailable | None:
    """Return the reason that there is no device activity, None where there is some."""
    if work.frame.height:
        return None
    return unused_devices(recording) or _NO_ACTIVITY


def why_unused(recording: Recording, work: DeviceTables) -> Unavailable | None:
    """Return why no device worked, where none is listed or calls ask none to."""
    return None if work.frame.height else unused_devices(recording)


def unused_devices(recording: Recording) -> Unavailable | None:
    """Return why devices have no work where none has; None where they were used.

    That the program gave them none needs calls that were recorded whole.
    """
    calls = recording.host.calls
    texts = pl.Series(recording.names.texts(), dtype=pl.String)
    if gives_work(texts.gather(calls["name"].unique().sort())):
        return None
    if gives_work(texts.str.extract(_SAMPLED).drop_nulls()):
        return CALLS_SEEN
    if calls.is_empty():
        return _NEVER_CALLED if recording.gpus.listed else _NO_GPU
    notes = recording.export.frame("DIAGNOSTIC_EVENT")["text"].drop_nulls()
    if recording.gpus.listed and notes.str.contains(_LOST).any():
        return _CALLS_LOST
    return idle_devices(NO_CALL_GIVES_WORK)
