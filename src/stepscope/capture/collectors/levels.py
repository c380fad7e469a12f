"""Requested tracer levels, and the levels in effect according to a recording.

Frameworks write the options that they used into the plane `Task Environment`. The plane
is read back, because some versions accept options and ignore them.
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
    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.xspace.writing.builders import Value

#: Version of the ProfileOptions message that clients send.
_VERSION: Final = 1


class _Options:
    """Field tags of the ProfileOptions message.

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
    """Levels of detail of host, device and Python tracing."""

    host: int
    device: int
    python: int

    @classmethod
    def asked(cls, options: ProfilerOptions) -> TracerLevels:
        """Return the levels that the user's options request."""
        return cls(
            options.host_tracer_level,
            options.device_tracer_level,
            options.python_tracer_level,
        )

    def message(self, *, duration_ms: int = 0) -> bytes:
        """Return serialized ProfileOptions that request HLO; omit a duration of 0."""
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
    """Return the levels in effect in a recording; None if not recorded."""
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
    """Return the stats of a recording's `Task Environment`, without decoding events.

    Raises:
        MalformedMessage: The recording is damaged.
    """
    stats: dict[str, Value] = {}
    for field, plane in read_fields(xspace):
        if field != SpaceTag.PLANE >> 3 or isinstance(plane, int):
            continue
        # A plane's name precedes its lines, so the search reads no lines.
        names = (body for tag, body in read_fields(plane) if tag == PlaneTag.NAME >> 3)
        if field_text(next(names, memoryview(b""))) != ENVIRONMENT_PLANE:
            continue
        space = decode_bytes(sized_field(SpaceTag.PLANE, bytes(plane)))
        for name, kind, body in space.planes[0].stats:
            if body is not None:
                unsigned = kind == UINT and isinstance(body, int)
                stats[name] = Unsigned(body) if unsigned else body  # type: ignore[arg-type]
    return stats


def level_warnings(
    name: str, wanted: TracerLevels, in_force: TracerLevels | None
) -> tuple[str, ...]:
    """Return a warning if the levels in effect differ from those requested."""
    if in_force is None or in_force == wanted:
        return ()
    return (f"{name} recorded with tracer levels {in_force}; requested were {wanted}",)
