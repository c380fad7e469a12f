"""What the collectors recorded made into one profile: one plane of each name.

The framework's planes come first and keep their bytes; our lines and those of
a second framework join the plane of the host's threads. All times count from the
earliest start.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepscope import __version__
from stepscope.capture.ground.clock import drift_ns
from stepscope.cores import core_count
from stepscope.nvidia import cuda_versions
from stepscope.xspace.fields import UINT, PlaneTag, SpaceTag
from stepscope.xspace.merging.merge import Part, merge
from stepscope.xspace.reading.decode import decode_bytes
from stepscope.xspace.vocabulary import (
    ENVIRONMENT_PLANE,
    FORWARDED_PLANE,
    HOST_PLANE,
    EnvironmentStat,
)
from stepscope.xspace.wire import fields_of, text_of
from stepscope.xspace.writing.builders import Unsigned
from stepscope.xspace.writing.encode import sized_field
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.capture.collectors.levels import TracerLevels
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.xspace.writing.builders import PlaneBuilder, Value

#: A message of protobuf's cannot be larger; readers other than ours refuse it.
_MESSAGE_LIMIT_BYTES: Final = 2**31 - 1
_FIELD_OF_PLANES: Final = SpaceTag.PLANE >> 3
_FIELD_OF_NAME: Final = PlaneTag.NAME >> 3


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What is known of a recording beside its events.

    Attributes:
        hostname: Name of the machine.
        begin: Both clocks when it began: times of our own lines count from there.
        asked: Tracer levels that were asked for.
        own: Levels in force where no framework says its own.
        collectors: Names of those that recorded.
    """

    hostname: str
    begin: ClockPair
    asked: TracerLevels
    own: TracerLevels
    collectors: tuple[str, ...]


def spool_head(recording: Recording) -> bytes:
    """Return the first fragment of a spool: when and how the recording began."""
    space = XSpaceBuilder(recording.hostname, start_ns=None)
    environment = space.environment()
    environment.stat(EnvironmentStat.START, Unsigned(recording.begin.wall_ns))
    _describe(environment, recording, in_force=recording.own.message())
    return space.to_bytes()


def assemble(
    frameworks: Sequence[tuple[str, bytes]],
    ours: bytes,
    *,
    recording: Recording,
    end: ClockPair,
    warnings: Sequence[str] = (),
    forwarded_elsewhere: bool = False,
    since_ns: int | None = None,
) -> bytes:
    """Make one message of all that was recorded.

    Args:
        frameworks: Names of collectors and what they recorded, as XSpaces whose lines
            count from their own start.
        ours: Fragments of our own, one after the other.
        recording: What is known of the recording.
        end: Both clocks at its end.
        warnings: Warnings to store in the file.
        forwarded_elsewhere: Annotations that were forwarded stand in a framework's
            recording, and are left out of ours.
        since_ns: The profile begins then, in ns since 1970: of a recording of which
            only the last part was kept. None means with the recording.
    """
    told = list(warnings)
    readable = []
    for name, xspace in frameworks:
        if _is_readable(xspace):
            readable.append(xspace)
        else:
            told.append(f"what {name} recorded is malformed and is left out")
    environments = [_environment(xspace) for xspace in readable]
    starts = [
        found.get(EnvironmentStat.START) or recording.begin.wall_ns
        for found in environments
    ]
    began_ns = recording.begin.wall_ns if since_ns is None else since_ns
    start_ns = min([began_ns, *map(_number, starts)])
    own = merge(
        [Part(data=ours)],
        without={ENVIRONMENT_PLANE}
        | ({FORWARDED_PLANE} if forwarded_elsewhere else set()),
        renamed={FORWARDED_PLANE: HOST_PLANE},
        join_lines=True,
        keep_first=False,
    )
    parts = [
        Part(data=xspace, shift_ns=_number(start) - start_ns)
        for xspace, start in zip(readable, starts, strict=True)
    ]
    parts.append(Part(data=own, shift_ns=recording.begin.wall_ns - start_ns))
    # XProf counts as a step's only what is on the line of its marker, so a thread is
    # one line, whoever recorded it.
    merged = merge(
        parts, start_ns=start_ns, without={ENVIRONMENT_PLANE}, join_lines=True
    )
    if len(merged) > _MESSAGE_LIMIT_BYTES:
        told.append(
            "the recording exceeds 2 GiB, the largest message that TensorBoard and "
            "XProf open; record fewer steps"
        )
    closing = _closing(
        environments, recording, end=end, start_ns=start_ns, warnings=told
    )
    return merge([Part(data=merged), Part(data=closing)])


def _closing(
    environments: Sequence[dict[str, Value]],
    recording: Recording,
    *,
    end: ClockPair,
    start_ns: int,
    warnings: Sequence[str],
) -> bytes:
    """Return the plane that describes the recording, and the warnings."""
    space = XSpaceBuilder(
        recording.hostname,
        start_ns=start_ns,
        stop_ns=max(recording.begin.wall_of(end.monotonic_ns), start_ns),
    )
    environment = space.environment()
    in_force = recording.own.message()
    for stats in reversed(environments):
        for name, value in stats.items():
            environment.set_stat(name, value)
        found = stats.get(EnvironmentStat.OPTIONS)
        in_force = found if isinstance(found, bytes) else in_force
    _describe(environment, recording, in_force=in_force)
    _describe_cuda(environment)
    drift = drift_ns(recording.begin, end)
    environment.set_stat(EnvironmentStat.DRIFT_NS, drift)
    for warning in warnings:
        space.warning(warning)
    return space.to_bytes()


def _describe(
    environment: PlaneBuilder, recording: Recording, *, in_force: bytes
) -> None:
    for name, value in (
        (EnvironmentStat.OPTIONS, in_force),
        (EnvironmentStat.ASKED, recording.asked.message()),
        (EnvironmentStat.COLLECTORS, ",".join(recording.collectors)),
        (EnvironmentStat.VERSION, __version__),
        (EnvironmentStat.PROCESS, os.getpid()),
        (EnvironmentStat.CORES, core_count()),
    ):
        environment.set_stat(name, value)


def _describe_cuda(environment: PlaneBuilder) -> None:
    """Note the versions at the end: the program has loaded its libraries by then."""
    found = cuda_versions()
    for name, value in (
        (EnvironmentStat.CUDA_RUNTIME, found.runtime),
        (EnvironmentStat.CUDA_DRIVER, found.driver),
    ):
        if value is not None:
            environment.set_stat(name, value)


def _is_readable(xspace: bytes) -> bool:
    try:
        merge([Part(data=xspace)])
    except ValueError:
        return False
    return True


def _number(value: Value) -> int:
    if isinstance(value, Unsigned):
        return value.value
    return int(value) if isinstance(value, int | float) else 0


def _environment(xspace: bytes) -> dict[str, Value]:
    """Return what a framework says of its own recording."""
    found: dict[str, Value] = {}
    for plane in _environment_planes(xspace):
        space = decode_bytes(sized_field(SpaceTag.PLANE, plane))
        for name, kind, value in space.planes[0].stats:
            if value is not None:
                unsigned = kind == UINT and isinstance(value, int)
                found[name] = Unsigned(value) if unsigned else value  # type: ignore[arg-type]
    return found


def _environment_planes(xspace: bytes) -> Iterator[bytes]:
    for field, plane in fields_of(xspace):
        if field == _FIELD_OF_PLANES and not isinstance(plane, int):
            names = (text_of(it) for at, it in fields_of(plane) if at == _FIELD_OF_NAME)
            if next(names, "") == ENVIRONMENT_PLANE:
                yield bytes(plane)
