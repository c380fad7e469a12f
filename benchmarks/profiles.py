"""The profiles that benchmarks measure on, each found or made when it is asked for."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Recorded profiles that are not in the repository (`make bench PROFILES=DIR`).
RECORDED = Path(os.environ.get("STEPSCOPE_PROFILES") or os.devnull)
MADE = ROOT / ".cache" / "benchmarks"
GPU_EVENTS = 5_300_000
# The file (50 bytes an event), and as much again while it is being written.
ROOM_BYTES_PER_EVENT = 200


class NoProfile(Exception):
    """A profile is not available on this machine; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A profile under the name that tables show."""

    name: str
    text: str
    profile: Callable[[], Path]


def recorded(source: str) -> Path:
    """Return one of the recorded profiles that are not in the repository.

    Raises:
        NoProfile: It is not there.
    """
    found = sorted((RECORDED / source).rglob("*.xplane.pb"))
    if not found:
        raise NoProfile(f"{source} is not there: make bench PROFILES=DIR")
    return found[0]


def gpu_shaped(events: int = GPU_EVENTS) -> Path:
    """Return a GPU-shaped profile of this size, written on first use and kept.

    Raises:
        NoProfile: The disk has no room for it.
    """
    target = MADE / f"gpu_{events}.xplane.pb"
    if not target.exists():
        MADE.mkdir(parents=True, exist_ok=True)
        free, needed = shutil.disk_usage(MADE).free, events * ROOM_BYTES_PER_EVENT
        if free < needed:
            raise NoProfile(
                f"{MADE} has {free >> 20} MiB left, and needs {needed >> 20}"
            )
        script = ROOT / "benchmarks" / "gpu_shaped.py"
        partial = target.with_suffix(".partial")
        subprocess.run(
            [sys.executable, str(script), str(partial), "--events", str(events)],
            check=True,
        )
        partial.rename(target)
    return target


CASES = (
    Case(
        name="tf_cpu/eager_1m",
        text="recorded with TensorFlow 2.21 on CPU; 1,116,441 events, 25 MB",
        profile=lambda: recorded("tf_cpu/eager_1m"),
    ),
    Case(
        name="gpu_5m",
        text="`benchmarks/gpu_shaped.py`: 5.3 million events, 21 million stats",
        profile=gpu_shaped,
    ),
)
