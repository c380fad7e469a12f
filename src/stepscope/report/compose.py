"""From a profile to what a renderer is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.signals.device import device_signals
from stepscope.advice.signals.vocabulary import seen
from stepscope.analysis.tools import answers
from stepscope.derive.consistency import consistency
from stepscope.report.document import REPORTED, Device, Document, Doubt, Profile
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.quality import QualityNote

__all__ = ["LIMITS", "STAGES", "Stages", "compose", "describe", "doubts"]

#: Options that limit long tables on a screen; a file gets all rows.
LIMITS: Final = frozenset({"points", "most_calls"})

#: Number of stages that `compose` announces.
STAGES: Final = 2 + len(REPORTED)


class Stages(Protocol):
    """A receiver of progress."""

    def stage(self, what: str) -> None:
        """Announce the next stage; the previous one is finished."""


def compose(profile: ProfileData, shown: Stages) -> Document:
    """Run each tool of a report once, and every rule."""
    shown.stage("Working out")
    found = answers(profile, REPORTED, begun=lambda tool: shown.stage(tool.title))
    shown.stage("Findings")
    signals = signals_of(profile, THRESHOLDS)
    return Document(
        profile=describe(profile),
        **{field: found[name] for name, field in REPORTED.items()},
        findings=evaluate(signals),
        quality=doubts(profile),
        silent_device=signals.of(device_signals).sign,
        frameworks=seen(profile),
    )


def describe(profile: ProfileData) -> Profile:
    """Return run, hosts and devices of a profile."""
    return Profile(
        run=profile.run,
        hosts=profile.hosts,
        devices=tuple(
            device for host in profile.hosts for device in _devices(profile, host)
        ),
    )


def doubts(profile: ProfileData) -> tuple[Doubt, ...]:
    """Return all rows of `quality`, and the doubts of the derivations."""
    return tuple(
        Doubt(host=host, **msgspec.structs.asdict(note))
        for host in profile.hosts
        for note in (*profile.trace(host).quality_notes(), *_noticed(profile, host))
    )


def _noticed(profile: ProfileData, host: str) -> tuple[QualityNote, ...]:
    notes = profile.derived(host, consistency)
    return () if isinstance(notes, Unavailable) else notes


def _devices(profile: ProfileData, host: str) -> list[Device]:
    table = profile.table(host, "devices")
    if isinstance(table, Unavailable):
        return []
    return [
        Device(
            host=host,
            device=row["device"],
            type=row["type"],
            name=row["name"],
            compute_capability=None
            if row["cc_major"] is None
            else f"{row['cc_major']}.{row['cc_minor'] or 0}",
            activities=row["activities"],
        )
        for row in table.iter_rows(named=True)
    ]
