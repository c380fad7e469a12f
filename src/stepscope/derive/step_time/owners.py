"""The owners of time, and the category of the results that each belongs to."""

from __future__ import annotations

from typing import Final

from stepscope.frozen import Frozen


class Owner(Frozen, frozen=True, eq=True):
    """What an instant of a step is spent on.

    Attributes:
        category: The category of the results that the owner's time is part of.
        display: The category under the name that TensorFlow's guides use.
    """

    name: str
    category: str
    display: str


_OTHER: Final = ("other", "All others")
_COPIES: Final = ("device_to_device", "Device to device")
_COMPUTE_32: Final = ("device_compute_32", "Device compute")

#: What a device works on. Where activities overlap, the first of them is charged.
_BUSY: Final = (
    Owner("compute_16", "device_compute_16", "Device compute"),
    Owner("compute_tf32", *_COMPUTE_32),
    Owner("compute_32", *_COMPUTE_32),
    Owner("compute_64", *_COMPUTE_32),
    Owner("memset", *_COPIES),
    Owner("collective", "device_collectives", "Device to device"),
    Owner("copy_within", *_COPIES),
    Owner("copy_out", "output", "Output"),
    Owner("copy_in", "input", "Input"),
    Owner("transfer_wait", *_COPIES),
)
#: Why a device does nothing, or what the host does where there is no device. An instant
#: for which several hold belongs to the first.
_IDLE: Final = (
    Owner("profiler", *_OTHER),
    Owner("switch", *_OTHER),
    Owner("queued", *_OTHER),
    Owner("compile", "compilation", "Compilation"),
    Owner("peer", "device_collectives", "Device to device"),
    Owner("input", "input", "Input"),
    Owner("output", "output", "Output"),
    Owner("host_compute", "host_compute", "Host compute"),
    Owner("launch", "kernel_launch", "Kernel launch"),
    Owner("sync", *_OTHER),
    Owner("between", *_OTHER),
    Owner("unexplained", *_OTHER),
)
#: All owners: those of busy time in the order of charging, then those of idle time.
#: Definition: docs/where-a-steps-time-goes.md#owners.
OWNERS: Final = (*_BUSY, *_IDLE)
BUSY_OWNERS: Final = tuple(owner.name for owner in _BUSY)
IDLE_OWNERS: Final = tuple(owner.name for owner in _IDLE)
#: Busy owners up to this one are work that a device should spend its time on: all but
#: transfers of input, and waiting for transfers.
LAST_WORKING: Final = "copy_out"
#: Kind of device activity → owner of its time; kernels are divided by their precision.
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
#: Where an instant lies: while a step's own work goes on, or from its end to the next.
PLACES: Final = ("inside", "between")

#: The ten categories of the results, in the order of the contract.
CATEGORIES: Final = (
    "compilation",
    "input",
    "output",
    "kernel_launch",
    "host_compute",
    "device_collectives",
    "device_to_device",
    "device_compute_16",
    "device_compute_32",
    "other",
)


def owners_of(category: str) -> tuple[str, ...]:
    """Return the names of the owners whose time is part of a category."""
    return tuple(owner.name for owner in OWNERS if owner.category == category)
