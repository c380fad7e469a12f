"""The machine: its kernel, rights of this process, clock, programs and places."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, fact
from stepscope.nvidia import PLACES

if TYPE_CHECKING:
    from stepscope.doctor.machine import Machine

_MACHINE: Final = "machine"
_TOOLS: Final = "tools"
_BITS: Final = {"SYS_PTRACE": 19, "SYS_ADMIN": 21, "PERFMON": 38}
_PARANOID: Final = "proc/sys/kernel/perf_event_paranoid"
#: Where the kernel lets a process sample itself.
_MOST_PARANOID: Final = 2
_STEADY: Final = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")


def machine_checks(machine: Machine) -> list[Check]:
    """Look at what bounds every recording here."""
    rights = capabilities(machine)
    inside = _container(machine)
    held = ", ".join(sorted(rights)) or "none of SYS_PTRACE, SYS_ADMIN, PERFMON"
    found = [
        fact(_MACHINE, "container", inside or "This is no container."),
        fact(_MACHINE, "capabilities", f"This process has {held}."),
    ]
    found.append(_clock(machine))
    return found


def capabilities(machine: Machine) -> frozenset[str]:
    """Return the capabilities of this process that profilers ask for."""
    status = machine.text("proc/self/status") or ""
    found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status, re.MULTILINE)
    mask = int(found[1], 16) if found else 0
    return frozenset(name for name, bit in _BITS.items() if mask >> bit & 1)


def tool_checks(machine: Machine) -> list[Check]:
    """Look for NVIDIA's own profilers."""
    names = ("nsys", "ncu")
    paths = {it: machine.which(it) or _installed(machine, it) for it in names}
    found = []
    for name, path in paths.items():
        if path is None:
            missing = "neither on PATH nor where its installers put it"
            found.append(fact(_TOOLS, name, missing, state="skip"))
        else:
            found.append(fact(_TOOLS, name, path))
    if paths["nsys"] is not None:
        found.append(_samples_of_cores(machine))
    return found


def _samples_of_cores(machine: Machine) -> Check:
    """Look whether nsys may sample the processor's cores."""
    name = "samples of cores by nsys"
    text = (machine.text(_PARANOID) or "").strip()
    if not text.lstrip("-").isdecimal():
        return fact(_TOOLS, name, "The kernel does not say.", state="skip")
    if int(text) <= _MOST_PARANOID or capabilities(machine) & {"PERFMON", "SYS_ADMIN"}:
        return fact(_TOOLS, name, "The kernel lets this process take them.")
    return Check(
        group=_TOOLS,
        name=name,
        state="warn",
        fact=f"The kernel refuses them (perf_event_paranoid is {text}): stepscope nsys "
        "records no functions of the program.",
        remedy=f"Let an administrator allow them, until the next start of the machine: "
        f"{_MOST_PARANOID} is enough.",
        commands=(f"sudo sysctl kernel.perf_event_paranoid={_MOST_PARANOID}",),
    )


def _installed(machine: Machine, name: str) -> str | None:
    """Return the newest release of a tool where NVIDIA's installers put it."""
    found = [
        path for place in PLACES[name] for path in machine.find(f"{place}/{name}")[-1:]
    ]
    return str(found[0]) if found else None


def _container(machine: Machine) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in machine.environ:
        return "This is a container of Kubernetes."
    if machine.find(".dockerenv"):
        return "This is a container of Docker."
    if machine.find("run/.containerenv"):
        return "This is a container of Podman."
    return None


def _clock(machine: Machine) -> Check:
    path = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    source = (machine.text(path) or "").strip()
    if not source:
        return fact(_MACHINE, "clock", "The kernel does not say.", state="skip")
    if source in _STEADY:
        return fact(_MACHINE, "clock", f"The kernel reads {source}.")
    return Check(
        group=_MACHINE,
        name="clock",
        state="warn",
        fact=f"The kernel reads the clock from {source}, which is slow: annotations "
        "cost many times more.",
        remedy="Let an administrator choose a faster one, where the hardware has it.",
        commands=(f"cat /{path.replace('current_', 'available_')}",),
    )


_HERE: Final = "here and now"
#: A recording of some steps takes a few to some hundred megabytes.
_LEAST_BYTES: Final = 2**30
_GIB: Final = 2**30
#: Programs that are named.
_LISTED: Final = 5
#: Ports that are used unless others are given, in documentation too, and by what.
_PORTS: Final = {6007: "stepscope serve", 6009: "profiler servers"}
_WITH_ANY_PORT: Final = {
    6007: "stepscope serve --port 0 LOGDIR",
    6009: "stepscope run --serve 0 -- python train.py",
}


def place_checks(machine: Machine, logdir: Path) -> list[Check]:
    """Look where recordings are written, which ports are free, and who listens."""
    return [*_log_directory(machine, logdir), _ports(machine), _servers(machine)]


def _servers(machine: Machine) -> Check:
    """Say which programs can be recorded now."""
    name = "programs that listen"
    found = machine.servers()
    if not found:
        text = "No program of yours listens for profiler clients."
        return fact(_HERE, name, text, state="skip")
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return fact(_HERE, name, f"{', '.join(found[:_LISTED])}{more}.")


def _ports(machine: Machine) -> Check:
    used = {port: what for port, what in _PORTS.items() if not machine.is_free(port)}
    if not used:
        usual = " and ".join(f"{port} ({what})" for port, what in _PORTS.items())
        return fact(_HERE, "ports", f"{usual} are free.")
    taken = " and ".join(f"{port} ({what})" for port, what in used.items())
    return Check(
        group=_HERE,
        name="ports",
        state="warn",
        fact=f"Another program listens at {taken}.",
        remedy="Give another port; 0 takes a free one.",
        commands=tuple(_WITH_ANY_PORT[port] for port in used),
    )


def _log_directory(machine: Machine, logdir: Path) -> list[Check]:
    folder = _existing(logdir.absolute())
    name = "log directory"
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".stepscope-") as made:
            first, second = Path(made) / "a", Path(made) / "b"
            first.write_bytes(b"x")
            os.replace(first, second)  # noqa: PTH105 - as recordings do
    except OSError as error:
        return [
            Check(
                group=_HERE,
                name=name,
                state="fail",
                fact=f"{folder} cannot be written to ({error.strerror}).",
                remedy="Give another --logdir.",
            )
        ]
    found = [fact(_HERE, name, f"{folder} can be written to.")]
    free = machine.free_bytes(folder)
    if free < _LEAST_BYTES:
        found.append(
            Check(
                group=_HERE,
                name="free space",
                state="warn",
                fact=f"{free / _GIB:.2f} GiB are free; a long recording needs more.",
                remedy="Free some space, or give another --logdir.",
            )
        )
    else:
        found.append(fact(_HERE, "free space", f"{free / _GIB:,.1f} GiB are free."))
    return found


def _existing(folder: Path) -> Path:
    """Return the deepest folder above that exists: the others would be made."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder
