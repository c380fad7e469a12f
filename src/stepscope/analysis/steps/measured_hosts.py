"""Which hosts and which of their windows the numbers about steps are taken from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.analysis.steps.matching import StepMatching, match_steps
from stepscope.analysis.steps.rows import HostSteps, host_steps
from stepscope.derive.step_windows.windows import typical
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.profile_data import ProfileData

_NO_SUCH_MARKER: Final = Unavailable(
    code="NO_STEPS",
    reason="No step of this host has the marker that was asked for.",
    remedy="Leave the option marker out to see all steps.",
)
_COORDINATOR: Final = Unavailable(
    code="NO_DEVICE_PLANE",
    reason="This host lists no device beside hosts that do; its steps are not theirs.",
    remedy="Select this host alone to see its steps.",
)


class MeasuredRun(Frozen, frozen=True):
    """A run and the hosts of it whose steps count.

    Attributes:
        run: The hosts that were chosen.
        hosts: The hosts whose windows count; at least one.
        absent: Host → why its windows do not count.
        matching: How the steps of these hosts belong together.
    """

    run: ProfileData
    hosts: list[HostSteps]
    absent: dict[str, Unavailable]
    matching: StepMatching

    @property
    def names(self) -> list[str]:
        """Names of the hosts whose windows count."""
        return [host.host for host in self.hosts]


def measured_run(
    profile: ProfileData, *, host: str = "", marker: str = ""
) -> MeasuredRun | Unavailable:
    """Choose the hosts that count; unavailable where none of them does.

    Args:
        profile: The whole run.
        host: Only this host; empty for all.
        marker: Only the steps of this marker name; empty for all.
    """
    run = profile.select([host]) if host else profile
    found, absent = _measured_hosts(run, marker=marker)
    if not found:
        return next(iter(absent.values()))
    starts = [start_unix_ns(run, one.host) for one in found]
    return MeasuredRun(run, found, absent, match_steps(found, starts))


def _measured_hosts(
    run: ProfileData, *, marker: str
) -> tuple[list[HostSteps], dict[str, Unavailable]]:
    """Return the hosts whose windows count, and why each of the others does not.

    A host without a device beside hosts with devices only coordinates them, and one
    without steps says nothing about steps.

    Definition: docs/how-steps-are-found.md#steps-of-several-hosts.

    Args:
        run: The hosts to choose from.
        marker: Only the steps of this marker name; empty for all.
    """
    found: list[HostSteps] = []
    absent: dict[str, Unavailable] = {}
    for host in run.hosts:
        rows = host_steps(run, host, marker=marker or None)
        if isinstance(rows, Unavailable):
            absent[host] = rows
        elif not rows.rows.height:
            absent[host] = _NO_SUCH_MARKER
        else:
            found.append(rows)
    with_devices = [host for host in found if host.has_device]
    if with_devices and len(with_devices) < len(found):
        absent |= {rows.host: _COORDINATOR for rows in found if not rows.has_device}
        found = with_devices
    with_steps = [host for host in found if host.windows.has_steps]
    if with_steps and len(with_steps) < len(found):
        absent |= {
            rows.host: rows.steps
            for rows in found
            if isinstance(rows.steps, Unavailable)
        }
        found = with_steps
    return found, absent


def measured_rows(host: HostSteps, excluded_flags: Sequence[str]) -> pl.DataFrame:
    """Return the rows that statistics use: of closed windows of the main kind.

    Without any of these the closed ones, and without a closed one all.

    Args:
        host: The host whose `rows` to choose from.
        excluded_flags: Windows with one of these flags are left out.
    """
    if not excluded_flags:
        return host.measured
    return typical(_without(host.rows, excluded_flags))


def measured_any_device(host: HostSteps, excluded_flags: Sequence[str]) -> pl.DataFrame:
    """Return the rows that statistics use, with the devices of a host taken as one."""
    return typical(_without(host.any_device, excluded_flags))


def _without(rows: pl.DataFrame, flags: Sequence[str]) -> pl.DataFrame:
    if not flags:
        return rows
    flagged = pl.col("flags").list.set_intersection(list(flags))
    return rows.filter(flagged.list.len() == 0)


def start_unix_ns(run: ProfileData, host: str) -> int | None:
    """Return absolute time of a host's 0; None where it was not recorded."""
    environment = run.table(host, "environment")
    if isinstance(environment, Unavailable):
        return None
    start: int | None = environment["start_unix_ns"][0]
    return start
