"""Checks of the machine: kernel, process rights, clock, tools and directories."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, plain_check, problem_check
from stepscope.nvidia import PLACES
from stepscope.units import GIB

if TYPE_CHECKING:
    from stepscope.doctor.check import State
    from stepscope.doctor.machine import Machine

_MACHINE: Final = "machine"
_TOOLS: Final = "tools"
_BITS: Final = {"SYS_PTRACE": 19, "SYS_ADMIN": 21, "PERFMON": 38}
_PARANOID: Final = "proc/sys/kernel/perf_event_paranoid"
#: Maximum value of perf_event_paranoid at which a process may sample itself.
_MAX_PARANOID: Final = 2
_STEADY: Final = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
_CLOCK: Final = "sys/devices/system/clocksource/clocksource0/current_clocksource"


def machine_checks(machine: Machine) -> list[Check]:
    """Check the container, the process rights and the clock."""
    rights = ", ".join(sorted(capabilities_held(machine)))
    rights = rights or "none of SYS_PTRACE, SYS_ADMIN, PERFMON"
    if "KUBERNETES_SERVICE_HOST" in machine.environ:
        inside = "This is a container of Kubernetes."
    elif machine.find(".dockerenv"):
        inside = "This is a container of Docker."
    elif machine.find("run/.containerenv"):
        inside = "This is a container of Podman."
    else:
        inside = "This is not a container."
    return [
        plain_check(_MACHINE, "container", inside),
        plain_check(_MACHINE, "capabilities", f"This process has {rights}."),
        _check_clock(machine),
    ]


def _check_clock(machine: Machine) -> Check:
    source = (machine.text(_CLOCK) or "").strip()
    if not source:
        return plain_check(_MACHINE, "clock", "The kernel names none.", state="skip")
    if source in _STEADY:
        return plain_check(_MACHINE, "clock", f"The kernel reads {source}.")
    return problem_check(
        _MACHINE,
        "clock",
        f"The kernel reads the clock from {source}, which is slow: annotations take "
        "many times longer.",
        "Let an administrator choose a faster clock, if the hardware has one.",
        f"cat /{_CLOCK.replace('current_', 'available_')}",
    )


def capabilities_held(machine: Machine) -> frozenset[str]:
    """Return the Linux capabilities of this process that profilers need."""
    status = machine.text("proc/self/status") or ""
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status, re.MULTILINE)
    mask = int(match[1], 16) if match else 0
    return frozenset(name for name, bit in _BITS.items() if mask >> bit & 1)


def tool_checks(machine: Machine) -> list[Check]:
    """Check whether NVIDIA's own profilers are installed."""
    checks = []
    for name in ("nsys", "ncu"):
        # Take the newest release in each folder of NVIDIA's installers.
        releases = [
            path
            for place in PLACES[name]
            for path in machine.find(f"{place}/{name}")[-1:]
        ]
        path = machine.which(name) or next(map(str, releases), None)
        missing = "neither on PATH nor where its installers put it"
        state: State = "skip" if path is None else "ok"
        checks.append(plain_check(_TOOLS, name, path or missing, state=state))
    if checks[0].state == "ok":
        checks.append(_check_core_samples(machine))
    return checks


def _check_core_samples(machine: Machine) -> Check:
    of_what = _TOOLS, "samples of cores by nsys"
    text = (machine.text(_PARANOID) or "").strip()
    if not text.lstrip("-").isdecimal():
        return plain_check(*of_what, "The kernel lacks this setting.", state="skip")
    rights = capabilities_held(machine)
    if int(text) <= _MAX_PARANOID or rights & {"PERFMON", "SYS_ADMIN"}:
        return plain_check(*of_what, "This process may sample cores.")
    return problem_check(
        *of_what,
        f"The kernel refuses samples (perf_event_paranoid is {text}): stepscope nsys "
        "records no functions of the program.",
        f"Let an administrator set the value {_MAX_PARANOID}, which allows samples "
        "until the next reboot.",
        f"sudo sysctl kernel.perf_event_paranoid={_MAX_PARANOID}",
    )


_HERE: Final = "here and now"
#: Sufficient free space, in bytes: a recording takes a few to a few hundred MB.
_MIN_FREE_BYTES: Final = GIB
_MAX_LISTED: Final = 5
#: Default port, also used in the documentation → program that listens there.
_PORTS: Final = {6007: "stepscope serve", 6009: "profiler servers"}
_WITH_ANY_PORT: Final = {
    6007: "stepscope serve --port 0 LOGDIR",
    6009: "stepscope run --serve 0 -- python train.py",
}


def place_checks(machine: Machine, logdir: Path) -> list[Check]:
    """Check the log directory, the default ports and the running servers."""
    servers = machine.servers()
    if servers:
        unlisted = len(servers) - _MAX_LISTED
        listed = ", ".join(servers[:_MAX_LISTED]) + (
            f" and {unlisted} more" if unlisted > 0 else ""
        )
        listening = plain_check(_HERE, "programs that listen", f"{listed}.")
    else:
        text = "No program of yours listens for profiler clients."
        listening = plain_check(_HERE, "programs that listen", text, state="skip")
    return [*_check_log_directory(machine, logdir), _check_ports(machine), listening]


def _check_ports(machine: Machine) -> Check:
    used = {port: use for port, use in _PORTS.items() if not machine.is_free(port)}
    listed = " and ".join(f"{port} ({use})" for port, use in (used or _PORTS).items())
    if not used:
        return plain_check(_HERE, "ports", f"{listed} are free.")
    return problem_check(
        _HERE,
        "ports",
        f"Another program listens at {listed}.",
        "Give another port; 0 selects a free one.",
        *(_WITH_ANY_PORT[port] for port in used),
    )


def _check_log_directory(machine: Machine, logdir: Path) -> list[Check]:
    folder = logdir.absolute()
    # A recording would create missing folders, so check the first existing one.
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    name = "log directory"
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".stepscope-") as trial:
            first, second = Path(trial) / "a", Path(trial) / "b"
            first.write_bytes(b"x")
            os.replace(first, second)  # noqa: PTH105 - recordings call it, too
    except OSError as error:
        fact = f"{folder} cannot be written to ({error.strerror})."
        return [
            problem_check(_HERE, name, fact, "Give another --logdir.", state="fail")
        ]
    writable = plain_check(_HERE, name, f"{folder} can be written to.")
    free = machine.free_bytes(folder)
    if free >= _MIN_FREE_BYTES:
        fact = f"{free / GIB:,.1f} GiB are free."
        return [writable, plain_check(_HERE, "free space", fact)]
    fact = f"{free / GIB:.2f} GiB are free; a long recording needs more."
    remedy = "Free some space, or give another --logdir."
    return [writable, problem_check(_HERE, "free space", fact, remedy)]
