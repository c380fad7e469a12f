"""NVIDIA's devices, driver, and who may read counters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, fact, mended_by
from stepscope.doctor.machine_checks import capabilities
from stepscope.doctor.python_checks import cuda_major
from stepscope.nvidia import version_told
from stepscope.remedies import Remedy

if TYPE_CHECKING:
    from stepscope.doctor.machine import Machine

_NVIDIA: Final = "NVIDIA"
NO_GPU: Final = "This machine shows no NVIDIA GPU."
_DRIVER: Final = "libcuda.so.1"
_MANAGEMENT: Final = "libnvidia-ml.so.1"
#: The first driver that lets whoever has PERFMON read counters.
_WITH_PERFMON: Final = 565


def nvidia_checks(machine: Machine) -> list[Check]:
    """Look at the devices, the driver, and who may read counters."""
    devices = machine.find("dev/nvidia[0-9]*")
    if not devices:
        return [fact(_NVIDIA, "devices", NO_GPU, state="skip")]
    names = ", ".join(path.name for path in devices)
    found = [fact(_NVIDIA, "devices", f"/dev has {names}."), _kernel_driver(machine)]
    found += [_driver(machine), _management(machine), _permission(machine)]
    return found


def _driver_version(machine: Machine) -> str | None:
    """Return the version of the kernel's driver; None where it does not show."""
    text = machine.text("proc/driver/nvidia/version") or ""
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)", text)
    return None if found is None else found[1]


def _kernel_driver(machine: Machine) -> Check:
    version = _driver_version(machine)
    if version is None:
        return Check(
            group=_NVIDIA,
            name="kernel driver",
            state="warn",
            fact="The kernel does not show its NVIDIA driver.",
            remedy="In a container, start it with the NVIDIA runtime (--gpus all).",
            commands=("docker run --gpus all …",),
        )
    return fact(_NVIDIA, "kernel driver", f"version {version}")


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
    number = version_told(library, "cuDriverGetVersion")
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
    right = _right(machine)
    if capabilities(machine) & {"SYS_ADMIN", right}:
        return fact(_NVIDIA, name, "Only administrators may; this process is one.")
    return mended_by(
        Remedy.ALLOW_PROFILING,
        _NVIDIA,
        name,
        f"Only administrators may read counters, and this process has no {right}.",
        state="warn",
        commands=tuple(
            it.replace("PERFMON", right).replace("perfmon", right.lower())
            for it in Remedy.ALLOW_PROFILING.commands
        ),
    )


def _right(machine: Machine) -> str:
    """Return the least capability that the driver takes for an administrator."""
    version = (_driver_version(machine) or "").partition(".")[0]
    is_new = version.isdecimal() and int(version) >= _WITH_PERFMON
    return "PERFMON" if is_new else "SYS_ADMIN"
