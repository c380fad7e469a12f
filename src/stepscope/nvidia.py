"""NVIDIA's software on this machine: its profilers, and CUDA in this process."""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

#: Directories, relative to `/`, in which NVIDIA's installers put a tool.
PLACES: Final = {
    "ncu": ("usr/local/cuda/bin", "opt/nvidia/nsight-compute/*"),
    "nsys": ("usr/local/cuda/bin", "opt/nvidia/nsight-systems/*/bin"),
}
_MAPS: Final = Path("/proc/self/maps")
#: Library → function that returns its version. These functions initialise no device.
_TELLING: Final = {
    "libcudart": "cudaRuntimeGetVersion",
    "libcuda": "cuDriverGetVersion",
    "libnccl": "ncclGetVersion",
}


def find_tool(name: str) -> str | None:
    """Return the path of `ncu` or `nsys`; None if it is not on this machine."""
    found = shutil.which(name)
    if found is not None:
        return found
    for pattern in PLACES[name]:
        # If several releases are installed, take the one whose name sorts last.
        for folder in sorted(Path("/").glob(pattern), reverse=True):
            if (found := shutil.which(name, path=str(folder))) is not None:
                return found
    return None


class CudaVersions(NamedTuple):
    """Versions as CUDA encodes them, 1000 x major + 10 x minor; None if unknown.

    Attributes:
        runtime: Version of the CUDA runtime.
        driver: Newest CUDA version that the driver supports.
    """

    runtime: int | None
    driver: int | None


def version_told(library: Any, name: str) -> int | None:
    """Return the version that a function of an NVIDIA library reports.

    None if the function fails or the library does not have it.
    """
    number = ctypes.c_int(0)
    function = getattr(library, name, None)
    return None if function is None or function(ctypes.byref(number)) else number.value


def cuda_versions() -> CudaVersions:
    """Return the versions of the CUDA libraries that this process has loaded.

    The call loads no library. It misses a CUDA runtime that is statically linked into
    another library.
    """
    return CudaVersions(*map(_number_told, ("libcudart", "libcuda")))


def library_versions() -> dict[str, str]:
    """Return the versions of cuDNN and NCCL, if this process has loaded them."""
    versions = {}
    for name in ("cudnn", "nccl"):
        if number := _number_told(f"lib{name}"):
            # Older releases count the major version in thousands: 8902 is 8.9.2.
            unit = 10_000 if number >= 10_000 else 1_000
            versions[name] = f"{number // unit}.{number % unit // 100}.{number % 100}"
    return versions


def _number_told(name: str) -> int | None:
    """Return the version that a loaded library reports; None if it is not loaded."""
    loaded = _MAPS.read_text("utf-8", "replace") if sys.platform == "linux" else ""
    found = re.search(rf"/\S*/{name}\.so\S*$", loaded, re.MULTILINE)
    if found is None:
        return None
    try:
        library = ctypes.CDLL(found[0])
        if name in _TELLING:
            return version_told(library, _TELLING[name])
        function = library.cudnnGetVersion
    except (OSError, AttributeError):
        # The library's file was replaced after the process had loaded it.
        return None
    function.restype = ctypes.c_size_t
    return int(function())
