"""NVIDIA's software on this machine: its profilers, and the CUDA of this process."""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

#: Where NVIDIA's installers put them, apart from `PATH`; below the root.
PLACES: Final = {
    "ncu": ("usr/local/cuda/bin", "opt/nvidia/nsight-compute/*"),
    "nsys": ("usr/local/cuda/bin", "opt/nvidia/nsight-systems/*/bin"),
}
_MAPS: Final = Path("/proc/self/maps")
#: Library → the function by which it tells its version. Neither begins to use a device.
_TELLING: Final = {
    "libcudart": "cudaRuntimeGetVersion",
    "libcuda": "cuDriverGetVersion",
}


def find_tool(name: str) -> str | None:
    """Return the path of `ncu` or `nsys`; None where it is not on this machine."""
    found = shutil.which(name)
    if found is not None:
        return found
    for pattern in PLACES[name]:
        # Of several releases the newest, by its name.
        for folder in sorted(Path("/").glob(pattern), reverse=True):
            if (found := shutil.which(name, path=str(folder))) is not None:
                return found
    return None


class CudaVersions(NamedTuple):
    """Versions as CUDA writes them, 1000 x major + 10 x minor; None for unknown.

    Attributes:
        runtime: That of the runtime.
        driver: The newest that the driver supports.
    """

    runtime: int | None
    driver: int | None


def version_told(library: Any, name: str) -> int | None:
    """Return what a function of NVIDIA's writes to where it is pointed.

    None where it fails, and where the library has no such function.
    """
    number = ctypes.c_int(0)
    function = getattr(library, name, None)
    return None if function is None or function(ctypes.byref(number)) else number.value


def cuda_versions() -> CudaVersions:
    """Ask the libraries of CUDA that this process has loaded, and load none.

    A runtime that is part of another library does not show.
    """
    loaded = _MAPS.read_text("utf-8", "replace") if sys.platform == "linux" else ""
    return CudaVersions(*(_parse_version(name, loaded) for name in _TELLING))


def _parse_version(name: str, loaded: str) -> int | None:
    found = re.search(rf"/\S*/{name}\.so\S*$", loaded, re.MULTILINE)
    if found is None:
        return None
    try:
        return version_told(ctypes.CDLL(found[0]), _TELLING[name])
    except OSError:
        # The file was replaced since it was loaded.
        return None
