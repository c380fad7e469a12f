"""Where NVIDIA's own profilers are on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

__all__ = ["PLACES", "find_tool"]

#: Where NVIDIA's installers put them, apart from `PATH`; below the root.
PLACES: Final = {
    "ncu": ("usr/local/cuda/bin", "opt/nvidia/nsight-compute/*"),
    "nsys": ("usr/local/cuda/bin", "opt/nvidia/nsight-systems/*/bin"),
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
