"""Checks of NVIDIA's devices, driver, permissions, and CUPTI, which traces devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, plain_check, problem_check
from stepscope.doctor.machine_checks import capabilities_held
from stepscope.doctor.python_checks import cuda_major
from stepscope.nvidia import version_told
from stepscope.remedies import Remedy

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.doctor.machine import Machine

_NVIDIA: Final = "NVIDIA"
NO_GPU: Final = "This machine shows no NVIDIA GPU."
_DRIVER: Final = "libcuda.so.1"
_MANAGEMENT: Final = "libnvidia-ml.so.1"
#: First driver version that lets a process with CAP_PERFMON read counters.
_WITH_PERFMON: Final = 565


def nvidia_checks(machine: Machine) -> list[Check]:
    """Check the devices, the driver, and the permission to read counters."""
    devices = machine.find("dev/nvidia[0-9]*")
    if not devices:
        return [plain_check(_NVIDIA, "devices", NO_GPU, state="skip")]
    names = ", ".join(path.name for path in devices)
    version = _driver_version(machine)
    if version is None:
        kernel_driver = problem_check(
            _NVIDIA,
            "kernel driver",
            "The kernel does not show its NVIDIA driver.",
            "In a container, start it with the NVIDIA runtime (--gpus all).",
            "docker run --gpus all …",
        )
    else:
        kernel_driver = plain_check(_NVIDIA, "kernel driver", f"version {version}")
    return [
        plain_check(_NVIDIA, "devices", f"/dev has {names}."),
        kernel_driver,
        _check_cuda_driver(machine),
        _check_management(machine),
        _check_permission(machine),
    ]


def _driver_version(machine: Machine) -> str | None:
    text = machine.text("proc/driver/nvidia/version") or ""
    match = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d[\d.]*)", text)
    return None if match is None else match[1]


def _check_cuda_driver(machine: Machine) -> Check:
    of_what = _NVIDIA, "CUDA driver"
    try:
        library = machine.load(_DRIVER)
    except OSError as error:
        return problem_check(
            *of_what,
            f"{_DRIVER} cannot be loaded: {error}.",
            "Install the driver's libraries, or start the container with them.",
            "docker run --gpus all …",
            state="fail",
        )
    number = version_told(library, "cuDriverGetVersion")
    if number is None:
        return plain_check(
            *of_what, "The driver does not report its version.", state="warn"
        )
    version = f"CUDA {number // 1000}.{number % 1000 // 10}"
    wanted = cuda_major(machine)
    if wanted is not None and wanted > number // 1000:
        return problem_check(
            *of_what,
            f"{version}, but the frameworks are built for CUDA {wanted}.",
            "Install a newer driver, or frameworks built for the driver's CUDA.",
            "nvidia-smi",
            state="fail",
        )
    return plain_check(*of_what, version)


def _check_management(machine: Machine) -> Check:
    try:
        machine.load(_MANAGEMENT)
    except OSError as error:
        return problem_check(
            _NVIDIA,
            "NVML",
            f"{_MANAGEMENT} cannot be loaded ({error}): power and clocks are unknown.",
            "Give the container the driver's capability `utility`.",
            "docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …",
        )
    return plain_check(_NVIDIA, "NVML", "The library can be loaded.")


def _check_permission(machine: Machine) -> Check:
    parameters = machine.text("proc/driver/nvidia/params")
    of_what = _NVIDIA, "permission to profile"
    if parameters is None:
        text = "The driver does not show its options."
        return plain_check(*of_what, text, state="skip")
    if not re.search(r"^RmProfilingAdminOnly:\s*1", parameters, re.MULTILINE):
        return plain_check(*of_what, "Every user may read counters.")
    # Least Linux capability with which the driver lets a process read counters.
    version = (_driver_version(machine) or "").partition(".")[0]
    is_new = version.isdecimal() and int(version) >= _WITH_PERFMON
    right = "PERFMON" if is_new else "SYS_ADMIN"
    if capabilities_held(machine) & {"SYS_ADMIN", right}:
        return plain_check(
            *of_what, "Only administrators may read counters; this process may."
        )
    remedy = Remedy.ALLOW_PROFILING
    return problem_check(
        *of_what,
        f"Only administrators may read counters, and this process has no {right}.",
        remedy,
        *(
            command.replace("PERFMON", right).replace("perfmon", right.lower())
            for command in remedy.commands
        ),
    )


_CUPTI: Final = "CUPTI"
#: Version that `cuptiGetVersion` returns if there is no usable driver.
_NO_DRIVER: Final = 999
_TOOLKITS: Final = (
    "usr/local/cuda*/extras/CUPTI/lib64/libcupti.so*",
    "usr/local/cuda*/targets/*/lib/libcupti.so*",
)
_WHEELS: Final = ("nvidia/cuda_cupti/lib/libcupti.so*", "nvidia/cu*/lib/libcupti.so*")
_IN_NAME: Final = re.compile(r"libcupti\.so\.(\d+)")
#: CUDA version → years that may be the version in the file name of its libcupti.
_NUMBERS_BY_YEAR: Final = {
    11: (2020, 2021, 2022),
    12: (2022, 2023, 2024, 2025),
    13: (2025, 2026),
}
#: Python package of libcupti; up to CUDA 12 its name ends with the CUDA version.
_PACKAGE: Final = "nvidia-cuda-cupti"
_LOADER_PATH: Final = 'export LD_LIBRARY_PATH="{}:$LD_LIBRARY_PATH"'
_WITHOUT_SUFFIX: Final = 13
#: Programs that trace GPUs, by their names in the kernel (at most 15 characters).
_TRACERS: Final = frozenset(
    ("nsys", "nsys-launcher", "ncu", "nv-hostengine", "dcgm-exporter")
)


def cupti_checks(machine: Machine) -> list[Check]:
    """Check the library that records GPU activity, and other programs that use it."""
    if not machine.find("dev/nvidia[0-9]*"):
        return [plain_check(_CUPTI, "library", NO_GPU, state="skip")]
    return [_check_library(machine), _check_other_profilers(machine)]


def _check_library(machine: Machine) -> Check:
    # Frameworks also load CUDA libraries from Python packages.
    packaged = [
        path
        for folder in machine.import_path
        for pattern in _WHEELS
        for path in sorted(folder.glob(pattern))
    ]
    candidates = _numbered_libraries(machine, packaged)
    wanted = cuda_major(machine)
    numbers = (wanted, *_NUMBERS_BY_YEAR.get(wanted or 0, ()))
    fitting = [
        path
        for path, number in candidates.items()
        if wanted is None or number in numbers
    ]
    if not fitting:
        text = "No libcupti was found on this machine."
        if candidates:
            listed = ", ".join(str(path) for path in [*candidates][:3])
            text = (
                f"The frameworks are built for CUDA {wanted}, but no libcupti on this "
                f"machine has that version ({listed})."
            )
        return _missing_library_check(machine, text)
    best = fitting[0]
    try:
        library = machine.load(str(best))
    except OSError as error:
        return _missing_library_check(machine, f"{best} cannot be loaded: {error}.")
    version = version_told(library, "cuptiGetVersion")
    if version is None:
        text = f"{best} does not report its version: it is damaged, or not libcupti."
        return _missing_library_check(machine, text)
    if version == _NO_DRIVER:
        return problem_check(
            _CUPTI,
            "library",
            f"{best} finds no driver that it can use.",
            "Install a driver as new as this CUDA, or start the container with the "
            "driver.",
            *("nvidia-smi", "docker run --gpus all …"),
            state="fail",
        )
    try:
        if best not in packaged:
            machine.load(best.name)
    except OSError:
        return problem_check(
            _CUPTI,
            "library",
            f"{best} can be loaded, but is not on the loader's path: a framework "
            "without its own libcupti does not find it.",
            Remedy.FIND_CUPTI,
            _LOADER_PATH.format(best.parent),
        )
    further = f", and {len(candidates) - 1} more" if len(candidates) > 1 else ""
    return plain_check(_CUPTI, "library", f"{best}, API version {version}{further}.")


def _missing_library_check(machine: Machine, fact: str) -> Check:
    """Return a check of an unusable library; its remedy installs another one."""
    wanted = cuda_major(machine)
    # From CUDA 13 on, the package's name has no version.
    package, folder = f"'{_PACKAGE}=={wanted}.*'", f"nvidia/cu{wanted}/lib"
    if wanted is not None and wanted < _WITHOUT_SUFFIX:
        package, folder = f"{_PACKAGE}-cu{wanted}", "nvidia/cuda_cupti/lib"
    remedy = Remedy.FIND_CUPTI
    commands = remedy.commands
    if wanted is not None:
        path = _LOADER_PATH.format(machine.packages_at / folder)
        commands = (f"pip install --force-reinstall {package}", path)
    return problem_check(_CUPTI, "library", fact, remedy, *commands, state="fail")


def _numbered_libraries(machine: Machine, packaged: list[Path]) -> dict[Path, int]:
    installed = [path for pattern in _TOOLKITS for path in machine.find(pattern)]
    for text in machine.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if text:
            installed += machine.find(f"{text.lstrip('/')}/libcupti.so*")
    return {
        path: int(number[1])
        for path in (*packaged, *installed)
        if (number := _IN_NAME.search(path.name))
    }


def _check_other_profilers(machine: Machine) -> Check:
    of_what = _CUPTI, "other profilers"
    injected = machine.environ.get("CUDA_INJECTION64_PATH")
    running = sorted(
        (int(path.parent.name), name)
        for path in machine.find("proc/[0-9]*/comm")
        if path.parent.name.isdecimal()
        and (name := (machine.text(f"proc/{path.parent.name}/comm") or "").strip())
        in _TRACERS
    )
    if injected:
        fact = f"CUDA_INJECTION64_PATH={injected}: a tool is loaded into CUDA programs."
    elif running:
        listed = ", ".join(f"{name} (process {number})" for number, name in running)
        fact = f"{listed} may use the GPU's tracer; until CUDA 13.2 only one tool can."
    else:
        fact = "No other profiler is loaded into CUDA programs or runs here."
        return plain_check(*of_what, fact)
    remedy = Remedy.STOP_OTHER_PROFILERS
    return problem_check(*of_what, fact, remedy, *remedy.commands)
