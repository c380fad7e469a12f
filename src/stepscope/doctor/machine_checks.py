"""The machine: its kernel, rights of this process, clock, and programs beside."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, fact
from stepscope.nvidia_tools import PLACES

if TYPE_CHECKING:
    from stepscope.doctor.machine import Machine

__all__ = ["capabilities", "machine_checks", "tool_checks"]

_MACHINE: Final = "machine"
_TOOLS: Final = "tools"
_BITS: Final = {"SYS_PTRACE": 19, "SYS_ADMIN": 21, "PERFMON": 38}
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
    found = []
    for name in ("nsys", "ncu"):
        path = machine.which(name) or _installed(machine, name)
        if path is None:
            missing = "neither on PATH nor where its installers put it"
            found.append(fact(_TOOLS, name, missing, state="skip"))
        else:
            found.append(fact(_TOOLS, name, path))
    return found


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
