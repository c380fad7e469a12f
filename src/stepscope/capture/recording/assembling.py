"""Merging what the collectors recorded into one profile, without duplicate planes.

The framework's planes come first and keep their bytes. Stepscope's lines, and the lines
of a second framework, are added to the plane of the host's threads. All times are
relative to the earliest start.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepscope import __version__
from stepscope.capture.base.clock import drift_ns
from stepscope.capture.collectors.levels import environment_stats
from stepscope.cores import core_count
from stepscope.nvidia import cuda_versions, library_versions
from stepscope.xspace.merging.merge import Part, merge_messages
from stepscope.xspace.vocabulary import (
    ENVIRONMENT_PLANE,
    FORWARDED_PLANE,
    HOST_PLANE,
    EnvironmentStat,
)
from stepscope.xspace.writing.builders import Unsigned
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.collectors.levels import TracerLevels
    from stepscope.xspace.writing.builders import PlaneBuilder, Value

#: Maximum size of a protobuf message; other readers refuse larger ones.
_MESSAGE_LIMIT_BYTES: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Description of a recording without its events.

    Attributes:
        begin: Both clocks at the start; times of stepscope's lines are relative to it.
        asked: Tracer levels that were requested.
        own: Tracer levels in force if no framework reports its levels.
    """

    hostname: str
    begin: ClockPair
    asked: TracerLevels
    own: TracerLevels
    collectors: tuple[str, ...]


def spool_head(recording: Recording) -> bytes:
    """Return the first fragment of a spool: start time and options of a recording."""
    space = XSpaceBuilder(recording.hostname, start_ns=None)
    environment = space.environment()
    environment.stat(EnvironmentStat.START, Unsigned(recording.begin.wall_ns))
    _describe_recording(environment, recording, in_force=recording.own.message())
    return space.to_bytes()


def assemble_profile(
    frameworks: Sequence[tuple[str, bytes]],
    own_xspace: bytes,
    *,
    recording: Recording,
    end: ClockPair,
    warnings: Sequence[str] = (),
    forwarded_elsewhere: bool = False,
    since_ns: int | None = None,
) -> bytes:
    """Merge everything that was recorded into one message.

    Args:
        frameworks: Pairs of a collector's name and its XSpace, whose times are relative
            to its own start.
        own_xspace: XSpace of stepscope's own collectors.
        forwarded_elsewhere: Whether a framework recorded the forwarded annotations, so
            that stepscope's copies are left out.
        since_ns: Start of the profile in ns since 1970, for a recording of which only
            the last part was kept; None for the start of the recording.
    """
    all_warnings = list(warnings)
    readable = []
    for name, xspace in frameworks:
        try:
            merge_messages([Part(data=xspace)])
        except ValueError:
            all_warnings.append(f"the recording of {name} is malformed and is left out")
        else:
            readable.append(xspace)
    environments = [environment_stats(xspace) for xspace in readable]
    starts_ns = []
    for stats in environments:
        start = stats.get(EnvironmentStat.START) or recording.begin.wall_ns
        start = start.value if isinstance(start, Unsigned) else start
        starts_ns.append(int(start) if isinstance(start, int | float) else 0)
    began_ns = recording.begin.wall_ns if since_ns is None else since_ns
    start_ns = min([began_ns, *starts_ns])
    own = merge_messages(
        [Part(data=own_xspace)],
        without={ENVIRONMENT_PLANE}
        | ({FORWARDED_PLANE} if forwarded_elsewhere else set()),
        renamed={FORWARDED_PLANE: HOST_PLANE},
        join_lines=True,
        keep_first=False,
    )
    parts = [
        Part(data=xspace, shift_ns=own_ns - start_ns)
        for xspace, own_ns in zip(readable, starts_ns, strict=True)
    ]
    parts.append(Part(data=own, shift_ns=recording.begin.wall_ns - start_ns))
    # XProf assigns to a step only events on the line of its marker, so the lines of one
    # thread from several recorders are joined.
    merged = merge_messages(
        parts, start_ns=start_ns, without={ENVIRONMENT_PLANE}, join_lines=True
    )
    if len(merged) > _MESSAGE_LIMIT_BYTES:
        all_warnings.append(
            "the recording exceeds 2 GiB, the maximum size that TensorBoard and XProf "
            "can open; record fewer steps"
        )
    space = XSpaceBuilder(
        recording.hostname,
        start_ns=start_ns,
        stop_ns=max(recording.begin.wall_of(end.monotonic_ns), start_ns),
    )
    for warning in all_warnings:
        space.warning(warning)
    _describe_end(space, environments, recording, end=end)
    return merge_messages([Part(data=merged), Part(data=space.to_bytes())])


def _describe_end(
    space: XSpaceBuilder,
    environments: Sequence[dict[str, Value]],
    recording: Recording,
    *,
    end: ClockPair,
) -> None:
    environment = space.environment()
    in_force = recording.own.message()
    for stats in reversed(environments):
        for name, value in stats.items():
            environment.set_stat(name, value)
        recorded_options = stats.get(EnvironmentStat.OPTIONS)
        in_force = recorded_options if isinstance(recorded_options, bytes) else in_force
    _describe_recording(environment, recording, in_force=in_force)
    # Read the versions at the end, when the program has loaded its CUDA libraries.
    versions = cuda_versions()
    for name, version in (
        (EnvironmentStat.CUDA_RUNTIME, versions.runtime),
        (EnvironmentStat.CUDA_DRIVER, versions.driver),
    ):
        if version is not None:
            environment.set_stat(name, version)
    versions_by_name = {
        name: getattr(sys.modules.get(name), "__version__", None)
        for name in ("torch", "tensorflow", "jax")
    } | library_versions()
    listed = [f"{name} {text}" for name, text in versions_by_name.items() if text]
    if listed:
        environment.set_stat(EnvironmentStat.LIBRARIES, ", ".join(listed))
    environment.set_stat(EnvironmentStat.DRIFT_NS, drift_ns(recording.begin, end))


def _describe_recording(
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
