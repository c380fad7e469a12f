"""Machines for the doctor: a healthy one, and the same one broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stepscope.doctor.checks import run_checks
from stepscope.doctor.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepscope.doctor.check import Check

GIB = 2**30
NO_RIGHTS = "Name:\tpython\nCapEff:\t0000000000000000\n"
ADMIN = "Name:\tpython\nCapEff:\t0000000000200000\n"
PERFMON = "Name:\tpython\nCapEff:\t0000004000000000\n"
VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5\n"


class Library:
    """A library of NVIDIA's: its functions write a version where they are pointed."""

    def __init__(self, version: int) -> None:
        def told(pointer: Any) -> int:
            pointer._obj.value = version
            return 0

        self.cuDriverGetVersion = told
        self.cuptiGetVersion = told


def loads(
    *missing: str, cuda: int = 12040, cupti: int = 22
) -> Callable[[str], Library]:
    """Load every library but those whose name holds one of these texts."""

    def load(name: str) -> Library:
        if any(text in name for text in missing):
            message = f"{name}: cannot open shared object file"
            raise OSError(message)
        return Library(cupti if "cupti" in name else cuda)

    return load


def healthy_machine(root: Path) -> Machine:
    """A machine with a GPU, on which all can be recorded."""
    files = {
        "dev/nvidia0": "",
        "dev/nvidiactl": "",
        "proc/driver/nvidia/version": VERSION,
        "proc/driver/nvidia/params": "RmProfilingAdminOnly: 0\n",
        "proc/self/status": NO_RIGHTS,
        "proc/sys/kernel/perf_event_paranoid": "2\n",
        "proc/77/comm": "python\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "site/nvidia/cuda_cupti/lib/libcupti.so.12": "",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return Machine(
        root=root,
        environ={},
        packages={"torch": "2.13.0+cu126", "grpcio": "1.85.1"},
        import_path=(root / "site",),
        load=loads(),
        which=lambda name: f"/usr/bin/{name}",
        free_bytes=lambda _: 50 * GIB,
        is_free=lambda _: True,
        packages_at=root / "site",
        servers=tuple,
    )


def looked(machine: Machine, logdir: Path) -> dict[tuple[str, str], Check]:
    return {(one.group, one.name): one for one in run_checks(machine, logdir)}


def with_file(name: str, content: str | None) -> Callable[[Machine], Machine]:
    def changed(machine: Machine) -> Machine:
        path = machine.root / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return machine

    return changed


def with_fields(**fields: Any) -> Callable[[Machine], Machine]:
    return lambda machine: msgspec.structs.replace(machine, **fields)


def with_packages(**versions: str) -> Callable[[Machine], Machine]:
    return with_fields(packages={"grpcio": "1.85.1", **versions})
