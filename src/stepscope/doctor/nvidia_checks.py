"""NVIDIA's driver and CUPTI: whether work on a GPU can be recorded."""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any, Final

from stepscope.doctor.check import Check, fact, mended_by
from stepscope.doctor.machine_checks import capabilities
from stepscope.doctor.python_checks import cuda_major

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.doctor.machine import Machine

__all__ = ["cupti_checks", "nvidia_checks"]

_NVIDIA: Final = "NVIDIA"
_CUPTI: Final = "CUPTI"
_NO_GPU: Final = "This machine shows no NVIDIA GPU."
_DRIVER: Final = "libcuda.so.1"
_MANAGEMENT: Final = "libnvidia-ml.so.1"
#: What `cuptiGetVersion` says where no driver is usable.
_NO_DRIVER: Final = 999
_TOOLKITS: Final = (
    "usr/local/cuda*/extras/CUPTI/lib64/libcupti.so*",
    "usr/local/cuda*/targets/*/lib/libcupti.so*",
)
_WHEELS: Final = ("nvidia/cuda_cupti/lib/libcupti.so*", "nvidia/cu*/lib/libcupti.so*")
_IN_NAME: Final = re.compile(r"libcupti\.so\.(\d+)")


def nvidia_checks(machine: Machine) -> list[Check]:
    """Look at the devices, the driver, and who may read counters."""
    devices = machine.find("dev/nvidia[0-9]*")
    if not devices:
        return [fact(_NVIDIA, "devices", _NO_GPU, state="skip")]
    names = ", ".join(path.name for path in devices)
    found = [fact(_NVIDIA, "devices", f"/dev has {names}."), _kernel_driver(machine)]
    found += [_driver(machine), _management(machine), _permission(machine)]
    return found


def cupti_checks(machine: Machine) -> list[Check]:
    """Look for the library that records what runs on a GPU, and who holds it."""
    if not machine.find("dev/nvidia[0-9]*"):
        return [fact(_CUPTI, "library", _NO_GPU, state="skip")]
    return [_library(machine), _subscriber(machine)]


def _kernel_driver(machine: Machine) -> Check:
    version = machine.text("proc/driver/nvidia/version") or ""
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)", version)
    if found is None:
        return Check(
            group=_NVIDIA,
            name="kernel driver",
            state="warn",
            fact="The kernel does not show its NVIDIA driver.",
            remedy="In a container, start it with the NVIDIA runtime (--gpus all).",
        )
    return fact(_NVIDIA, "kernel driver", f"version {found[1]}")


def _driver(machine: Machine) -> Check:
    try:
        library = machine.load(_DRIVER)
    except OSError as error:
        return Check(
            group=_NVIDIA,
            name="CUDA driver",
            state="fail",
            fact=f"{_DRIVER} cannot be loaded: {error}.",
            remedy="Install the driver's libraries, or start the container with them.",
            commands=("docker run --gpus all …",),
        )
    number = _version(library.cuDriverGetVersion)
    if number is None:
        return fact(
            _NVIDIA, "CUDA driver", "It does not tell its version.", state="warn"
        )
    version = f"CUDA {number // 1000}.{number % 1000 // 10}"
    wanted = cuda_major(machine)
    if wanted is not None and wanted > number // 1000:
        return Check(
            group=_NVIDIA,
            name="CUDA driver",
            state="fail",
            fact=f"{version}, and the frameworks are built for CUDA {wanted}.",
            remedy="Install a newer driver, or frameworks built for the driver's CUDA.",
            commands=("nvidia-smi",),
        )
    return fact(_NVIDIA, "CUDA driver", version)


def _management(machine: Machine) -> Check:
    try:
        machine.load(_MANAGEMENT)
    except OSError as error:
        return Check(
            group=_NVIDIA,
            name="NVML",
            state="warn",
            fact=f"{_MANAGEMENT} cannot be loaded ({error}): no power and clocks.",
            remedy="Give the container the driver's capability `utility`.",
            commands=("docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …",),
        )
    return fact(_NVIDIA, "NVML", "It can be loaded.")


def _permission(machine: Machine) -> Check:
    parameters = machine.text("proc/driver/nvidia/params")
    name = "permission to profile"
    if parameters is None:
        return fact(
            _NVIDIA, name, "The driver does not show its options.", state="skip"
        )
    if not re.search(r"^RmProfilingAdminOnly:\s*1", parameters, re.MULTILINE):
        return fact(_NVIDIA, name, "Every user may read counters.")
    if "SYS_ADMIN" in capabilities(machine):
        return fact(_NVIDIA, name, "Only administrators may; this process is one.")
    return mended_by(
        "cupti_privilege",
        _NVIDIA,
        name,
        "Only administrators may read counters, and this process has no SYS_ADMIN.",
        state="warn",
    )


def _library(machine: Machine) -> Check:
    candidates = _candidates(machine)
    wanted = cuda_major(machine)
    if not candidates:
        return mended_by(
            "cupti_missing", _CUPTI, "library", "No libcupti was found on this machine."
        )
    majors = {path: _IN_NAME.search(path.name) for path in candidates}
    fitting = [
        path
        for path, found in majors.items()
        if wanted is None or (found is not None and int(found[1]) in _names(wanted))
    ]
    listed = ", ".join(str(path) for path in candidates[:3])
    if not fitting:
        return mended_by(
            "cupti_missing",
            _CUPTI,
            "library",
            f"The frameworks are built for CUDA {wanted}, and no libcupti here is of "
            f"that version ({listed}).",
        )
    try:
        library = machine.load(str(fitting[0]))
    except OSError as error:
        return mended_by(
            "cupti_missing",
            _CUPTI,
            "library",
            f"{fitting[0]} cannot be loaded: {error}.",
        )
    version = _version(library.cuptiGetVersion)
    if version == _NO_DRIVER:
        return Check(
            group=_CUPTI,
            name="library",
            state="fail",
            fact=f"{fitting[0]} finds no driver that it can use.",
            remedy="Install a driver as new as this CUDA, or start the container with "
            "the driver.",
            commands=("nvidia-smi", "docker run --gpus all …"),
        )
    more = f", and {len(candidates) - 1} more" if len(candidates) > 1 else ""
    return fact(_CUPTI, "library", f"{fitting[0]}, API version {version}{more}.")


def _names(cuda: int) -> tuple[int, ...]:
    """Return the numbers that libcupti of a CUDA version carries in its name."""
    by_year = {11: (2020, 2021, 2022), 12: (2022, 2023, 2024, 2025), 13: (2025, 2026)}
    return (cuda, *by_year.get(cuda, ()))


def _candidates(machine: Machine) -> list[Path]:
    found = [path for pattern in _TOOLKITS for path in machine.find(pattern)]
    for folder in machine.import_path:
        found += [path for pattern in _WHEELS for path in sorted(folder.glob(pattern))]
    for text in machine.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if text:
            found += machine.find(f"{text.lstrip('/')}/libcupti.so*")
    numbered = [path for path in found if _IN_NAME.search(path.name)]
    return list(dict.fromkeys(numbered))


def _subscriber(machine: Machine) -> Check:
    name = "other profilers"
    injected = machine.environ.get("CUDA_INJECTION64_PATH")
    if injected:
        return mended_by(
            "cupti_busy",
            _CUPTI,
            name,
            f"CUDA_INJECTION64_PATH={injected}: a tool is put into every CUDA program.",
            state="warn",
        )
    return fact(_CUPTI, name, "None is put into CUDA programs from here.")


def _version(function: Any) -> int | None:
    """Return what one of NVIDIA's functions writes to where it is pointed."""
    number = ctypes.c_int(0)
    return None if function(ctypes.byref(number)) else number.value
