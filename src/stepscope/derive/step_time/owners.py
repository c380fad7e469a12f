"""The owners of step time in their order of priority, and the ten categories.

Definition: docs/where-a-steps-time-goes.md#owners.
"""

from __future__ import annotations

from typing import Final

from stepscope.frozen import Frozen


class Owner(Frozen, frozen=True, eq=True):
    """Owner of time: what a step spends the time on.

    Attributes:
        category: The category of the results that contains the owner's time.
        display: The name of the category in TensorFlow's guides.
    """

    name: str
    category: str
    display: str


_OTHER: Final = ("other", "All others")
_COPIES: Final = ("device_to_device", "Device to device")
_COMPUTE_32: Final = ("device_compute_32", "Device compute")

#: Owners of a device's busy time. Overlapping time is charged to the first such owner.
_BUSY: Final = (
    Owner("compute_16", "device_compute_16", "Device compute"),
    Owner("compute_tf32", *_COMPUTE_32),
    Owner("compute_32", *_COMPUTE_32),
    Owner("compute_64", *_COMPUTE_32),
    Owner("compute_unknown", *_COMPUTE_32),
    Owner("memset", *_COPIES),
    Owner("collective", "device_collectives", "Device to device"),
    Owner("copy_within", *_COPIES),
    Owner("copy_out", "output", "Output"),
    Owner("copy_in", "input", "Input"),
    Owner("transfer_wait", *_COPIES),
)
#: Reasons for a device being idle; if there is no device, kinds of host work. If
#: several reasons apply at a time, the time is charged to the first one.
_IDLE: Final = (
    Owner("profiler", *_OTHER),
    Owner("startup", "compilation", "Compilation"),
    Owner("switch", *_OTHER),
    Owner("queued", *_OTHER),
    Owner("compile", "compilation", "Compilation"),
    Owner("peer", "device_collectives", "Device to device"),
    Owner("input", "input", "Input"),
    Owner("output", "output", "Output"),
    Owner("wait", *_OTHER),
    Owner("host_compute", "host_compute", "Host compute"),
    Owner("launch", "kernel_launch", "Kernel launch"),
    Owner("sync", *_OTHER),
    Owner("between", *_OTHER),
    Owner("unexplained", *_OTHER),
)
#: All owners: owners of busy time in the order of charging, then owners of idle time.
#: Definition: docs/where-a-steps-time-goes.md#owners.
OWNERS: Final = (*_BUSY, *_IDLE)
BUSY_OWNERS: Final = tuple(owner.name for owner in _BUSY)
IDLE_OWNERS: Final = tuple(owner.name for owner in _IDLE)
#: Owners of the time in which a device computes.
COMPUTE_OWNERS: Final = tuple(
    owner for owner in BUSY_OWNERS if owner.startswith("compute")
)
#: Last busy owner that is useful work of a device. Later owners transfer data or wait.
LAST_WORKING: Final = "copy_out"
#: Owner of the time, by kind of device activity; kernels are divided by precision.
OWNER_OF_KIND: Final = {
    "kernel": "compute_32",
    "collective": "collective",
    "memset": "memset",
    "p2p_copy": "copy_within",
    "local_copy": "copy_within",
    "d2h": "copy_out",
    "h2d": "copy_in",
    "transfer_wait": "transfer_wait",
}
#: Where time is: inside a step's work, or between a step's end and the next step.
PLACES: Final = ("inside", "between")

#: The ten categories of step time in the results, in this order.
CATEGORIES: Final = (
    *("compilation", "input", "output", "kernel_launch", "host_compute"),
    *("device_collectives", "device_to_device"),
    *("device_compute_16", "device_compute_32", "other"),
)


def category_owners(category: str) -> tuple[str, ...]:
    """Return the names of the owners in a category."""
    return tuple(owner.name for owner in OWNERS if owner.category == category)
