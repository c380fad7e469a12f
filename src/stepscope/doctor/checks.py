"""All checks of a machine, in the order of the output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.doctor.kernel_checks import kernel_checks
from stepscope.doctor.machine_checks import machine_checks, place_checks, tool_checks
from stepscope.doctor.nvidia_checks import cupti_checks, nvidia_checks
from stepscope.doctor.python_checks import (
    framework_checks,
    python_checks,
    version_checks,
)

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.doctor.check import Check
    from stepscope.doctor.machine import Machine


def run_checks(machine: Machine, logdir: Path) -> tuple[Check, ...]:
    """Check everything that determines what can be recorded on a machine.

    Definition: docs/doctor.md.
    """
    return (
        *python_checks(),
        *kernel_checks(),
        *framework_checks(machine),
        *version_checks(machine),
        *machine_checks(machine),
        *nvidia_checks(machine),
        *cupti_checks(machine),
        *tool_checks(machine),
        *place_checks(machine, logdir),
    )
