"""What is said about devices whose clock is not the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.trace.quality import QualityNote
from stepscope.units import PS_PER_NS, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.formats.nsight_systems.decoded.recording import Recording

#: The most waits that may contradict the times of a device whose clock is right.
_MOST: Final = 0.5
_RECORD_AGAIN: Final = "Record again, with the newest Nsight Systems"


def device_clock_notes(recording: Recording) -> Iterator[QualityNote]:
    """Note which devices' times were moved, and which run late by an unknown time."""
    for device, clock in recording.clocks.items():
        if clock.late_ns is not None:
            word = "late" if clock.late_ns > 0 else "early"
            by = duration_text(abs(clock.late_ns) * PS_PER_NS)
            yield QualityNote(
                kind="device_clock_moved",
                severity="info",
                count=clock.waits,
                scope="device_activity",
                message=f"The times of device {device} ran {by} {word}: launches and "
                f"{clock.waits:,} waits for a stream agree on it. They were moved by "
                "that.",
                remedy=f"{_RECORD_AGAIN}, if a millisecond matters.",
            )
        elif clock.outlasted > _MOST * clock.waits:
            lateness = duration_text(clock.outlasted_ns * PS_PER_NS)
            yield QualityNote(
                kind="late_device_clock",
                severity="warning",
                count=clock.outlasted,
                scope="device_activity",
                message=f"In {clock.outlasted:,} of {clock.waits:,} waits for a stream "
                f"its work ends after the wait, by up to {lateness}: the times of "
                f"device {device} run late, and what it seems to wait for is not "
                "known.",
                remedy=f"{_RECORD_AGAIN}; times within the device, and within the "
                "host, are right.",
            )
