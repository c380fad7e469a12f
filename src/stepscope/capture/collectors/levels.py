"""Tracer levels: what was asked, and what a recording says was in force.

Producers write the options that they took into the plane `Task Environment` of what
they recorded. That is read back, because some versions take options and drop them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.xspace.fields import Entry, PlaneTag, SpaceTag, StatMetadata, StatTag
from stepscope.xspace.wire import MalformedMessage, fields_of, numbers_of, text_of
from stepscope.xspace.writing.encode import number_field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.capture.ground.options import ProfilerOptions

_ENVIRONMENT: Final = "Task Environment"
_OPTIONS: Final = "profile_options"
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
        """Serialize as ProfileOptions, with input pipeline ops and programs included.

        Args:
            duration_ms: How long to record at most; 0 leaves it out.
        """
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
    """Return the levels that a recording was made with; None if it does not say.

    No event is decoded.
    """
    try:
        for plane in _planes(xspace):
            if _name(plane) == _ENVIRONMENT:
                found = _options_of(plane)
                if found is not None:
                    return _levels_of(found)
    except MalformedMessage:
        return None
    return None


def level_warnings(
    name: str, asked: TracerLevels, in_force: TracerLevels | None
) -> tuple[str, ...]:
    """Return what to say of a recording whose levels differ from those asked for."""
    if in_force is None or in_force == asked:
        return ()
    return (f"{name} recorded with tracer levels {in_force}; asked for were {asked}",)


def _planes(xspace: bytes) -> Iterator[memoryview]:
    for field, value in fields_of(xspace):
        if field == SpaceTag.PLANE >> 3 and not isinstance(value, int):
            yield value


def _name(plane: memoryview) -> str:
    # Lines come after the name, so none of them is walked.
    for field, value in fields_of(plane):
        if field == PlaneTag.NAME >> 3:
            return text_of(value)
    return ""


def _options_of(plane: memoryview) -> memoryview | None:
    """Return the value of the stat that holds the options."""
    key, stats = None, []
    for field, value in fields_of(plane):
        if isinstance(value, int):
            continue
        if field == PlaneTag.STAT_METADATA >> 3:
            number, name = _entry(value)
            key = number if name == _OPTIONS else key
        elif field == PlaneTag.STAT >> 3:
            stats.append(value)
    for stat in stats:
        if numbers_of(stat).get(StatTag.METADATA_ID >> 3, 0) == key:
            for field, value in fields_of(stat):
                if field == StatTag.BYTES >> 3 and not isinstance(value, int):
                    return value
    return None


def _entry(entry: memoryview) -> tuple[int, str]:
    """Key and name of an entry of the names of values."""
    key, name = 0, ""
    for field, value in fields_of(entry):
        if field == Entry.KEY >> 3 and isinstance(value, int):
            key = value
        elif field == Entry.VALUE >> 3 and not isinstance(value, int):
            for inner, text in fields_of(value):
                if inner == StatMetadata.NAME >> 3:
                    name = text_of(text)
    return key, name


def _levels_of(options: memoryview) -> TracerLevels:
    numbers = numbers_of(options)
    return TracerLevels(
        *(
            numbers.get(tag >> 3, 0)
            for tag in (_Options.HOST, _Options.DEVICE, _Options.PYTHON)
        )
    )
