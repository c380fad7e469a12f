"""The machine: its kernel, rights of this process, clock, and programs beside."""

from __future__ import annotations

import re
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
