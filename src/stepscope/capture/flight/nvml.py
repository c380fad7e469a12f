"""Utilization and memory use of NVIDIA devices, as their driver reports them.

The driver's library is called directly. AMD devices and TPUs are not supported.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, NamedTuple

_LIBRARY: Final = "libnvidia-ml.so.1"
_NAME_BYTES: Final = 96


class DeviceUse(NamedTuple):
    """Current state of one device.

    Attributes:
        busy: Share of the driver's last sampling period in which a kernel ran.
        used_bytes: Memory in use by all processes, in bytes.
    """

    name: str
    busy: float
    used_bytes: int
    total_bytes: int


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class Nvml:
    """The driver's library; without a driver the list of devices is empty."""

    def __init__(self, library: Any = None) -> None:
        self._handles: list[ctypes.c_void_p] = []
        try:
            self._library: Any = library or ctypes.CDLL(_LIBRARY)
        except OSError:
            return
        if self._library.nvmlInit_v2():
            return
        count = ctypes.c_uint()
        if self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return
        for number in range(count.value):
            handle = ctypes.c_void_p()
            pointer = ctypes.byref(handle)
            if not self._library.nvmlDeviceGetHandleByIndex_v2(number, pointer):
                self._handles.append(handle)

    def device_uses(self) -> list[DeviceUse]:
        """Return the current state of all devices, without those whose query fails."""
        uses = []
        for handle in self._handles:
            use, memory = _Utilization(), _Memory()
            name = ctypes.create_string_buffer(_NAME_BYTES)
            failed = (
                self._library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use)),
                self._library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)),
                self._library.nvmlDeviceGetName(handle, name, _NAME_BYTES),
            )
            if not any(failed):
                uses.append(
                    DeviceUse(
                        name.value.decode("utf-8", "replace"),
                        use.gpu / 100,
                        memory.used,
                        memory.total,
                    )
                )
        return uses
