"""Devices that a file lists although the program gave them no work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What the names of calls that put work or memory on a device have in common, of any
#: vendor.
_GIVES_WORK: Final = Pattern(
    r"(?i)launch|memcpy|memset|prefetch|enqueue|append|(?:malloc|memalloc)(?!host)"
)
#: The evidence that calls of a runtime give, where none of them gives a device work.
NO_CALL_GIVES_WORK: Final = "no recorded call gave it work"

#: Why there is no work of a device of which nothing says whether it was used.
IN_DOUBT: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="A device is listed, and neither its work nor a call to it was recorded: "
    "what was recorded ran on the CPU, or the device was not traced.",
    remedy="If the program uses the device, record while it does, and the device's "
    "activities too (in PyTorch's own profiler ProfilerActivity.CUDA); check that "
    "CUPTI or roctracer can be loaded, and that users may profile.",
)


def gives_work(calls: Iterable[str]) -> bool:
    """Return whether any of these calls of a runtime or driver puts work on a device.

    Memory is work to come. Calls that only ask for properties, or wait for what was
    never launched, give none.
    """
    return any(_GIVES_WORK.search(name) for name in calls if name)


def idle_devices(evidence: str) -> Unavailable:
    """Return why there is no work of a device that is listed, and was not used."""
    return Unavailable(
        code="NO_DEVICE_PLANE",
        reason=f"A device is listed, and {evidence}: what was recorded ran on the CPU.",
        remedy="If the program should use the device, move its model and its batches "
        "there, and record again.",
    )
