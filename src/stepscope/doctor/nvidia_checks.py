"""NVIDIA's devices, driver, who may read counters, and CUPTI, which traces them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, fact, mended_by
from stepscope.doctor.machine_checks import capabilities
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


_CUPTI: Final = "CUPTI"
#: What `cuptiGetVersion` says where no driver is usable.
_NO_DRIVER: Final = 999
_TOOLKITS: Final = (
    "usr/local/cuda*/extras/CUPTI/lib64/libcupti.so*",
    "usr/local/cuda*/targets/*/lib/libcupti.so*",
)
_WHEELS: Final = ("nvidia/cuda_cupti/lib/libcupti.so*", "nvidia/cu*/lib/libcupti.so*")
_IN_NAME: Final = re.compile(r"libcupti\.so\.(\d+)")
#: The package that brings it, until CUDA 12 with the version in its name.
_PACKAGE: Final = "nvidia-cuda-cupti"
_WITHOUT_SUFFIX: Final = 13
#: Programs that trace GPUs, by the names that the kernel has for them (15 letters).
_TRACERS: Final = frozenset(
    ("nsys", "nsys-launcher", "ncu", "nv-hostengine", "dcgm-exporter")
)


def cupti_checks(machine: Machine) -> list[Check]:
    """Look for the library that records what runs on a GPU, and who holds it."""
    if not machine.find("dev/nvidia[0-9]*"):
        return [fact(_CUPTI, "library", NO_GPU, state="skip")]
    return [_library(machine), _subscriber(machine)]


def _library(machine: Machine) -> Check:
    candidates = _candidates(machine)
    wanted = cuda_major(machine)
    if not candidates:
        return _lacking(machine, "No libcupti was found on this machine.")
    majors = {path: _IN_NAME.search(path.name) for path in candidates}
    fitting = [
        path
        for path, found in majors.items()
        if wanted is None or (found is not None and int(found[1]) in _names(wanted))
    ]
    if not fitting:
        listed = ", ".join(str(path) for path in candidates[:3])
        return _lacking(
            machine,
            f"The frameworks are built for CUDA {wanted}, and no libcupti here is of "
            f"that version ({listed}).",
        )
    best = fitting[0]
    try:
        library = machine.load(str(best))
    except OSError as error:
        return _lacking(machine, f"{best} cannot be loaded: {error}.")
    version = version_told(library, "cuptiGetVersion")
    if version is None or version == _NO_DRIVER:
        return _unusable(machine, best, version)
    if best not in _of_packages(machine) and not _is_on_path(machine, best):
        return mended_by(
            Remedy.FIND_CUPTI,
            _CUPTI,
            "library",
            f"{best} can be loaded, and is not on the loader's path: a framework that "
            "does not bring its own does not find it.",
            state="warn",
            commands=(_on_path(best.parent),),
        )
    more = f", and {len(candidates) - 1} more" if len(candidates) > 1 else ""
    return fact(_CUPTI, "library", f"{best}, API version {version}{more}.")


def _unusable(machine: Machine, library: Path, version: int | None) -> Check:
    """Return a check of a library that can be loaded, and not be used."""
    if version is None:
        what = (
            f"{library} does not tell its version: it is damaged, or another library."
        )
        return _lacking(machine, what)
    return Check(
        group=_CUPTI,
        name="library",
        state="fail",
        fact=f"{library} finds no driver that it can use.",
        remedy="Install a driver as new as this CUDA, or start the container with the "
        "driver.",
        commands=("nvidia-smi", "docker run --gpus all …"),
    )


def _lacking(machine: Machine, text: str) -> Check:
    """Return a check of a library that cannot be used; a package brings another one."""
    wanted = cuda_major(machine)
    # Without a version in its name, the package is of the newest CUDA.
    package, folder = f"'{_PACKAGE}=={wanted}.*'", f"nvidia/cu{wanted}/lib"
    if wanted is not None and wanted < _WITHOUT_SUFFIX:
        package, folder = f"{_PACKAGE}-cu{wanted}", "nvidia/cuda_cupti/lib"
    site = machine.packages_at
    return mended_by(
        Remedy.FIND_CUPTI,
        _CUPTI,
        "library",
        text,
        commands=None
        if wanted is None
        else (f"pip install --force-reinstall {package}", _on_path(site / folder)),
    )


def _on_path(folder: Path) -> str:
    return f'export LD_LIBRARY_PATH="{folder}:$LD_LIBRARY_PATH"'


def _is_on_path(machine: Machine, library: Path) -> bool:
    try:
        machine.load(library.name)
    except OSError:
        return False
    return True


def _names(cuda: int) -> tuple[int, ...]:
    """Return the numbers that libcupti of a CUDA version carries in its name."""
    by_year = {11: (2020, 2021, 2022), 12: (2022, 2023, 2024, 2025), 13: (2025, 2026)}
    return (cuda, *by_year.get(cuda, ()))


def _of_packages(machine: Machine) -> list[Path]:
    """Return the libraries that packages of Python bring, which frameworks find."""
    return [
        path
        for folder in machine.import_path
        for pattern in _WHEELS
        for path in sorted(folder.glob(pattern))
    ]


def _candidates(machine: Machine) -> list[Path]:
    found = _of_packages(machine)
    found += [path for pattern in _TOOLKITS for path in machine.find(pattern)]
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
            Remedy.STOP_OTHER_PROFILERS,
            _CUPTI,
            name,
            f"CUDA_INJECTION64_PATH={injected}: a tool is put into every CUDA program.",
            state="warn",
        )
    running = _running(machine)
    if running:
        listed = ", ".join(f"{what} (process {number})" for number, what in running)
        return mended_by(
            Remedy.STOP_OTHER_PROFILERS,
            _CUPTI,
            name,
            f"{listed} may hold the GPU's tracer; until CUDA 13.2 it serves one only.",
            state="warn",
        )
    return fact(_CUPTI, name, "None is put into CUDA programs, and none runs here.")


def _running(machine: Machine) -> list[tuple[int, str]]:
    """Return the programs in sight that trace GPUs, with their numbers."""
    named = (
        (path.parent.name, machine.text(f"proc/{path.parent.name}/comm"))
        for path in machine.find("proc/[0-9]*/comm")
    )
    found = [(number, (name or "").strip()) for number, name in named]
    return sorted(
        (int(number), name)
        for number, name in found
        if number.isdecimal() and name in _TRACERS
    )
