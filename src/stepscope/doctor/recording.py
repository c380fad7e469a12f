"""Checks of a recording: what it lacks, and why, as its report states it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.doctor.check import Check, State, plain_check
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.derive.profile_data import ProfileData

_OF_DOUBTS: Final = "quality"
_STATES: Final[dict[str, State]] = {"error": "fail", "warning": "warn", "info": "ok"}


def recording_checks(
    profile: ProfileData, fitting: Callable[[Unavailable], str | None]
) -> tuple[Check, ...]:
    """Check which events each host lost, and which tables each host has.

    Args:
        profile: The recording.
        fitting: Returns the remedy for missing data that fits this recorder and
            program; None if the program cannot have the data.
    """
    checks = []
    for host in profile.hosts:
        checks += [
            Check(
                group=host,
                name=note.kind,
                state=_STATES[note.severity],
                fact=note.message,
                remedy=note.remedy,
            )
            for note in profile.trace(host).quality_notes()
        ]
        for name in TABLES:
            if name == _OF_DOUBTS:
                continue
            table = profile.table(host, name)
            if not isinstance(table, Unavailable):
                rows = "1 row" if len(table) == 1 else f"{len(table):,} rows"
                checks.append(plain_check(host, name, rows))
                continue
            remedy = fitting(table)
            checks.append(
                Check(
                    group=host,
                    name=name,
                    state="skip" if remedy is None else "warn",
                    fact=table.reason,
                    remedy=remedy,
                )
            )
    return tuple(checks)
