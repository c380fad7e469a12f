"""Print the Pythons of this machine that stepscope supports, one of each version.

    python build_tools/interpreters.py

They are looked for on the path, and beside the installation that runs this, where tools
such as pyenv and uv keep other versions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

#: Least and first unsupported minor version of Python 3.
LEAST, BEYOND = 11, 15
#: Prints the version of a Python that can make virtual environments.
SAYS_VERSION = "import ensurepip, sys, venv; print(*sys.version_info[:3])"


def interpreters() -> dict[str, str]:
    """Return version (`3.12`) → interpreter, the lowest version first."""
    names = [f"python3.{minor}" for minor in range(LEAST, BEYOND)]
    on_path = (
        Path(folder, name)
        for folder in os.environ.get("PATH", "").split(os.pathsep)
        for name in names
    )
    beside = Path(sys.base_prefix).resolve().parent.glob("*/bin/python3")
    found: dict[int, tuple[int, str]] = {}
    for path in chain([Path(sys.executable)], on_path, sorted(beside)):
        version = version_of(path)
        if version is None:
            continue
        major, minor, patch = version
        is_newer = minor not in found or patch > found[minor][0]
        if major == 3 and LEAST <= minor < BEYOND and is_newer:
            found[minor] = (patch, str(path))
    return {f"3.{minor}": found[minor][1] for minor in sorted(found)}


def version_of(python: Path) -> tuple[int, int, int] | None:
    """Return the version of an interpreter; None if it does not run."""
    if not python.is_file():
        return None
    said = subprocess.run(
        [python, "-I", "-c", SAYS_VERSION], capture_output=True, text=True, check=False
    )
    if said.returncode != 0:
        return None
    major, minor, patch = map(int, said.stdout.split())
    return major, minor, patch


if __name__ == "__main__":
    for version, python in interpreters().items():
        print(version, python)
