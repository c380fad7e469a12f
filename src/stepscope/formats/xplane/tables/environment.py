"""Build the tables `environment` (the capture) and `devices` (the hardware)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.formats.assemble import environment_frame, or_lost
from stepscope.formats.declared_texts import why_absent
from stepscope.formats.xplane.decoded.tracks import (
    bytes_stat,
    integer_stat,
    real_stat,
    text_stat,
)
from stepscope.frozen import Frozen
from stepscope.trace.tables import DEVICES
from stepscope.units import PS_PER_NS
from stepscope.xspace.vocabulary import CLOCK_PLANE, ClockStat, EnvironmentStat
from stepscope.xspace.wire import MalformedMessage, number_fields

if TYPE_CHECKING:
    from stepscope.formats.xplane.decoded.recording import Recording
    from stepscope.formats.xplane.decoded.tracks import PlaneRole
    from stepscope.formats.xplane.tables.device_activity import Activity
    from stepscope.unavailable import Unavailable
    from stepscope.xspace.reading.columns import Plane

_PLANE: Final = "Task Environment"
#: Largest plausible clock offset, in ns: 100 years.
_MAX_NS: Final = 100 * 365 * 86_400 * 10**9
_HZ_PER_KHZ: Final = 1_000
_FLOPS_PER_TERAFLOPS: Final = 1e12
_BYTES_PER_GIGABYTE: Final = 1e9


#: Upper bound of the number of cores; a larger number comes from a damaged file.
_MAX_CORES: Final = 65_536
#: Largest valid CUDA version number: CUDA 999.
_MAX_VERSION: Final = 999_990
#: Field numbers of ProfileOptions.
_HOST_LEVEL: Final = 2
_DEVICE_LEVEL: Final = 3
_PYTHON_LEVEL: Final = 4


class TaskEnvironment(Frozen, frozen=True, kw_only=True, eq=True):
    """The producer's description of the capture; a value that was not recorded is None.

    Attributes:
        levels: Levels in effect of the host, device and Python tracers.
        asked_levels: Tracer levels that were requested; only stepscope records these.
        collectors: Names of the collectors that recorded.
        cores: Number of cores that the program may use.
        cuda_runtime: Version of the CUDA runtime; None also if it was not found.
        cuda_driver: Newest CUDA version that the driver supports.
        libraries: Versions of frameworks and libraries, as `environment` has them.
        complete_until_ns: Time from which events are missing, in ns since 1970; None if
            no events are known to be missing.
    """

    start_unix_ns: int | None = None
    stop_unix_ns: int | None = None
    levels: tuple[int, int, int] | None = None
    asked_levels: tuple[int, int, int] | None = None
    collectors: str | None = None
    cores: int | None = None
    cuda_runtime: int | None = None
    cuda_driver: int | None = None
    libraries: str | None = None
    complete_until_ns: int | None = None


def task_environment(recording: Recording) -> TaskEnvironment:
    """Read the plane that describes when and how the profile was recorded."""
    for plane in recording.space.planes:
        if plane.name == _PLANE:
            return TaskEnvironment(
                start_unix_ns=integer_stat(plane, "profile_start_time") or None,
                stop_unix_ns=integer_stat(plane, "profile_stop_time") or None,
                levels=_tracer_levels(bytes_stat(plane, EnvironmentStat.OPTIONS)),
                asked_levels=_tracer_levels(bytes_stat(plane, EnvironmentStat.ASKED)),
                collectors=text_stat(plane, EnvironmentStat.COLLECTORS),
                cores=_number_up_to(
                    integer_stat(plane, EnvironmentStat.CORES), _MAX_CORES
                ),
                cuda_runtime=_number_up_to(
                    integer_stat(plane, EnvironmentStat.CUDA_RUNTIME), _MAX_VERSION
                ),
                cuda_driver=_number_up_to(
                    integer_stat(plane, EnvironmentStat.CUDA_DRIVER), _MAX_VERSION
                ),
                libraries=text_stat(plane, EnvironmentStat.LIBRARIES),
                complete_until_ns=integer_stat(plane, EnvironmentStat.COMPLETE_UNTIL),
            )
    return TaskEnvironment()


class ComparedClock(Frozen, frozen=True, kw_only=True, eq=True):
    """Clock offset between the host and the client that requested the recording.

    Attributes:
        offset_ns: Time by which the host's clock was ahead of the client's, in ns.
        doubt_ns: Maximum error of `offset_ns`, in ns.
    """

    offset_ns: int
    doubt_ns: int


def compared_clock(recording: Recording) -> ComparedClock | None:
    """Return the clock offset that a client measured; None if none was measured."""
    for plane in recording.space.planes:
        if plane.name == CLOCK_PLANE:
            offset = integer_stat(plane, ClockStat.OFFSET_NS)
            doubt = integer_stat(plane, ClockStat.DOUBT_NS)
            if offset is not None and doubt is not None and abs(offset) <= _MAX_NS:
                return ComparedClock(offset_ns=offset, doubt_ns=doubt)
    return None


def start_unix_ns(recording: Recording) -> int | None:
    """Return time 0 in ns since 1970, on the clock with which hosts were compared."""
    # In a file with absolute times, time 0 is the start of its first line.
    start = recording.base.epoch_ns or task_environment(recording).start_unix_ns
    return _on_compared_clock(recording, start)


def _on_compared_clock(recording: Recording, unix_ns: int | None) -> int | None:
    clock = compared_clock(recording)
    return unix_ns if unix_ns is None or clock is None else unix_ns - clock.offset_ns


def environment_table(recording: Recording) -> pl.DataFrame:
    """Return the single row that describes the capture."""
    task = task_environment(recording)
    host, device, python = task.levels or (None, None, None)
    recorded_span = recording.time_range
    start_ns = recording.base.epoch_ns or task.start_unix_ns
    end_ns = task.complete_until_ns
    complete_until = None
    # If the end is more than a year from the start, one of the two is damaged.
    if start_ns and end_ns is not None and abs(end_ns - start_ns) <= _MAX_NS // 100:
        complete_until = (end_ns - start_ns) * PS_PER_NS
    row = {
        "hostname": next(iter(recording.space.hostnames), None) or None,
        "start_unix_ns": start_unix_ns(recording),
        "stop_unix_ns": _on_compared_clock(recording, task.stop_unix_ns),
        "host_tracer_level": host,
        "device_tracer_level": device,
        "python_tracer_level": python,
        "cuda_runtime": task.cuda_runtime,
        "cuda_driver": task.cuda_driver,
        "libraries": task.libraries,
        "grouped": recording.handle("group_id") >= 0,
        "collectors": task.collectors,
        "cores": task.cores,
        "complete_until_ps": complete_until,
        "begin_ps": recorded_span and recorded_span[0],
        "end_ps": recorded_span and recorded_span[1],
    }
    return environment_frame(recording.paths, "XSpace", row)


def devices_table(recording: Recording, work: Activity) -> pl.DataFrame | Unavailable:
    """Return every accelerator that the capture lists, used or not, by ordinal."""
    counts = dict.fromkeys(
        (role.device for role in recording.roles if role.device is not None), 0
    )
    for track, (begin, end) in work.by_track.items():
        counts[recording.tracks[track].role.device or 0] += end - begin
    devices: dict[int, dict[str, object]] = {}
    for plane, role in zip(recording.space.planes, recording.roles, strict=True):
        if role.core and role.device is not None:
            row = _device_row(plane, role, counts[role.device])
            # If several planes describe a device, the first recorded value is used.
            before = devices.setdefault(role.device, row)
            devices[role.device] = {
                key: value if value is not None else row[key]
                for key, value in before.items()
            }
    if not devices:
        return or_lost(why_absent("xplane.none_listed"), recording.damaged_at)
    return pl.DataFrame(
        [devices[device] for device in sorted(devices)], schema=DEVICES.dtypes()
    )


def _device_row(plane: Plane, role: PlaneRole, activities: int) -> dict[str, object]:
    clock_khz = integer_stat(plane, "clock_rate")
    teraflops = real_stat(plane, "peak_teraflops_per_second")
    gigabytes = real_stat(plane, "peak_hbm_bw_gigabytes_per_second")
    major = integer_stat(plane, "compute_cap_major")
    vendor = text_stat(plane, "device_vendor")
    if vendor is None and role.device_type == "GPU" and major is not None:
        # Producers that do not write the vendor support only Nvidia.
        vendor = "Nvidia"
    return {
        "device": role.device,
        "plane": plane.name,
        "type": role.device_type,
        "name": text_stat(plane, "gpu_device_name")
        or text_stat(plane, "device_type_string"),
        "vendor": vendor,
        "cc_major": major,
        "cc_minor": integer_stat(plane, "compute_cap_minor"),
        "cores": integer_stat(plane, "core_count") or None,
        "clock_hz": clock_khz * _HZ_PER_KHZ if clock_khz else None,
        "memory_bandwidth": integer_stat(plane, "memory_bandwidth") or None,
        "memory_bytes": integer_stat(plane, "memory_size") or None,
        "peak_flops": teraflops * _FLOPS_PER_TERAFLOPS if teraflops else None,
        "peak_hbm": gigabytes * _BYTES_PER_GIGABYTE if gigabytes else None,
        "activities": activities,
    }


def _number_up_to(number: int | None, limit: int) -> int | None:
    return number if number is not None and 0 < number <= limit else None


def _tracer_levels(options: bytes | None) -> tuple[int, int, int] | None:
    """Return the levels in a serialized ProfileOptions; an absent field is level 0."""
    if options is None:
        return None
    try:
        numbers = number_fields(options)
    except MalformedMessage:
        return None
    host, device, python = (
        numbers.get(field, 0) for field in (_HOST_LEVEL, _DEVICE_LEVEL, _PYTHON_LEVEL)
    )
    return host, device, python
