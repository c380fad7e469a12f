"""Tracer levels: what was asked, and what a recording says was in force.

Producers write the options that they took into the plane `Task Environment` of what
they recorded. That is read back, because some versions take options and drop them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.xspace.fields import UINT, PlaneTag, SpaceTag
from stepscope.xspace.reading.decode import decode_bytes
from stepscope.xspace.vocabulary import ENVIRONMENT_PLANE, EnvironmentStat
from stepscope.xspace.wire import (
    MalformedMessage,
    field_text,
    number_fields,
    read_fields,
)
from stepscope.xspace.writing.builders import Unsigned
from stepscope.xspace.writing.encode import number_field, sized_field

if TYPE_CHECKING:
    from stepscope.capture.ground.options import ProfilerOptions
    from stepscope.xspace.writing.builders import Value

#: The version of ProfileOptions that clients send.
_VERSION: Final = 1


class _Options:
    """Tags of ProfileOptions.

    Definition: docs/capture.md#how-the-recorders-are-driven.
    """

    DATASET_OPS: Final = 1 << 3
    HOST: Final = 2 << 3
    DEVICE: Final = 3 << 3
    PYTHON: Final = 4 << 3
    VERSION: Final = 5 << 3
    HLO: Final = 7 << 3
    DURATION_MS: Final = 9 << 3


class TracerLevels(NamedTuple):
    """How closely the host, the device and Python are traced."""

    host: int
    device: int
    python: int

    @classmethod
    def asked(cls, options: ProfilerOptions) -> TracerLevels:
        """Return the levels of the user's options."""
        return cls(
            options.host_tracer_level,
            options.device_tracer_level,
            options.python_tracer_level,
        )

    def message(self, *, duration_ms: int = 0) -> bytes:
        """Serialize as ProfileOptions, with programs; a duration of 0 is left out."""
        return b"".join(
            (
                number_field(_Options.DATASET_OPS, 1),
                number_field(_Options.HOST, self.host),
                number_field(_Options.DEVICE, self.device),
                number_field(_Options.PYTHON, self.python),
                number_field(_Options.VERSION, _VERSION),
                number_field(_Options.HLO, 1),
                number_field(_Options.DURATION_MS, duration_ms),
            )
        )

    def __str__(self) -> str:
        return f"host {self.host}, device {self.device}, python {self.python}"


def levels_in_force(xspace: bytes) -> TracerLevels | None:
    """Return the levels that a recording was made with; None if it does not say."""
    try:
        options = environment_stats(xspace).get(EnvironmentStat.OPTIONS)
        numbers = number_fields(options) if isinstance(options, bytes) else None
    except MalformedMessage:
        return None
    if numbers is None:
        return None
    tags = (_Options.HOST, _Options.DEVICE, _Options.PYTHON)
    return TracerLevels(*(numbers.get(tag >> 3, 0) for tag in tags))


def environment_stats(xspace: bytes) -> dict[str, Value]:
    """Return what a framework says of its own recording; no event is decoded.

    Raises:
        MalformedMessage: The recording is damaged.
    """
    stats: dict[str, Value] = {}
    for field, plane in read_fields(xspace):
        if field != SpaceTag.PLANE >> 3 or isinstance(plane, int):
            continue
        # Lines come after the name, so none of them is walked.
        names = (it for tag, it in read_fields(plane) if tag == PlaneTag.NAME >> 3)
        if field_text(next(names, memoryview(b""))) != ENVIRONMENT_PLANE:
            continue
        space = decode_bytes(sized_field(SpaceTag.PLANE, bytes(plane)))
        for name, kind, value in space.planes[0].stats:
            if value is not None:
                unsigned = kind == UINT and isinstance(value, int)
                stats[name] = Unsigned(value) if unsigned else value  # type: ignore[arg-type]
    return stats


def level_warnings(
    name: str, asked: TracerLevels, in_force: TracerLevels | None
) -> tuple[str, ...]:
    """Return what to say of a recording whose levels differ from those asked for."""
    if in_force is None or in_force == asked:
        return ()
    return (f"{name} recorded with tracer levels {in_force}; asked for were {asked}",)
