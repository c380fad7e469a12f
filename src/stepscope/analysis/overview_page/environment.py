"""The environment part of the overview page: hosts, devices and files.

Definition: docs/tools/overview_page.md#other-fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.analysis.results.tables import package_reasons
from stepscope.hardware import device_type
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("overview_page")


class DeviceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One accelerator that a recording lists.

    Attributes:
        host: Host of the device.
        device: Ordinal of the device on its host.
        type: Product name of the device; null if unknown.
        cores: Number of multiprocessors; null if not recorded.
        compute_capability: Compute capability, as in `8.0`; null if not recorded.
        memory_bytes: Size of the device's memory; null if not recorded.
        memory_bandwidth_bytes_per_s: Peak memory bandwidth; null if not recorded.
        used: Whether the device has recorded activity.
    """

    host: str
    device: int
    type: str | None
    cores: int | None
    compute_capability: str | None
    memory_bytes: int | None
    memory_bandwidth_bytes_per_s: int | None
    used: bool


class HostEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the run, and how it was recorded.

    Attributes:
        host: Name of the host in this profile.
        hostname: Name of the host in the file; null if the file contains no name.
        file: Path of the file that was read.
        format: Format of the file.
        file_bytes: Size of the file.
        start_unix_ns: Time 0 of the profile, in ns since 1970; null if not recorded.
        duration_ms: Time from the first event to the last; null without events.
        events: Number of events in the file; null if unknown.
        host_tracer_level: Host tracer's level while recording; null if not recorded.
        device_tracer_level: Device tracer's level while recording; null if unknown.
        python_tracer_level: Python tracer's level while recording; null if unknown.
        grouped: Whether the producer stored step groups.
    """

    host: str
    hostname: str | None
    file: str
    format: str
    file_bytes: int
    start_unix_ns: int | None
    duration_ms: float | None
    events: int | None
    host_tracer_level: int | None
    device_tracer_level: int | None
    python_tracer_level: int | None
    grouped: bool


class RunEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The run's hosts and devices.

    Attributes:
        hosts: Number of selected hosts.
        tasks: Number of files that were read.
        hostnames: Names of the hosts.
        device_type: Types of the devices, joined by commas; `CPU` if no device is
            listed; null if unknown.
        device_count: Number of devices listed; 0 on CPU, null if unknown.
        used_device_count: Number of devices with recorded activity; null if unknown.
        devices: One entry per device.
        captures: One entry per file.
        dropped_events: Number of lost events by the tracer's count; null if unknown.
    """

    hosts: int
    tasks: int
    hostnames: tuple[str, ...]
    device_type: str | None
    device_count: int | None
    used_device_count: int | None
    devices: tuple[DeviceEntry, ...]
    captures: tuple[HostEntry, ...]
    dropped_events: int | None


def run_environment(profile: ProfileData) -> tuple[RunEnvironment, tuple[Missing, ...]]:
    """Return the environment of the selected hosts, and its missing values."""
    hosts = profile.hosts
    devices: list[DeviceEntry] = []
    captures: list[HostEntry] = []
    missing: list[Missing] = []
    known = True
    for host in hosts:
        table = profile.table(host, "devices")
        if isinstance(table, Unavailable) and table.code != "NO_DEVICE_PLANE":
            known = False
            missing += [
                table.missing_field(f"environment.{name}") for name in _OF_DEVICES
            ]
        elif not isinstance(table, Unavailable):
            devices += _device_entries(host, table)
        capture = _capture_entry(profile, host)
        if isinstance(capture, Unavailable):
            missing.append(capture.missing_field("environment.captures"))
        else:
            captures.append(capture)
    kind = None
    if known:
        types = dict.fromkeys(entry.type for entry in devices if entry.type)
        kind = ", ".join(types) or None if devices else "CPU"
    if kind is None and known:
        missing.append(_WHY["nameless"].missing_field("environment.device_type"))
    counts = [
        note.count
        for host in hosts
        for note in profile.trace(host).quality_notes()
        if note.kind == "dropped_events" and note.count is not None
    ]
    dropped = sum(counts) if counts else None
    if dropped is None:
        missing.append(_WHY["not_counted"].missing_field("environment.dropped_events"))
    return RunEnvironment(
        hosts=len(hosts),
        tasks=len(captures) if len(captures) == len(hosts) else len(hosts),
        hostnames=tuple(hosts),
        device_type=kind,
        device_count=len(devices) if known else None,
        used_device_count=sum(entry.used for entry in devices) if known else None,
        devices=tuple(devices),
        captures=tuple(captures),
        dropped_events=dropped,
    ), tuple(missing)


#: Fields that are unknown if the table of devices is absent.
_OF_DEVICES: Final = ("devices", "device_type", "device_count", "used_device_count")


def _device_entries(host: str, frame: pl.DataFrame) -> list[DeviceEntry]:
    # This loop runs once per accelerator; a machine has few.
    return [
        DeviceEntry(
            host=host,
            device=row["device"],
            type=device_type(
                name=row["name"],
                vendor=row["vendor"],
                major=row["cc_major"],
                minor=row["cc_minor"],
            )
            or (row["type"] if row["type"] != "GPU" else None),
            cores=row["cores"],
            compute_capability=None
            if row["cc_major"] is None
            else f"{row['cc_major']}.{row['cc_minor'] or 0}",
            memory_bytes=row["memory_bytes"],
            memory_bandwidth_bytes_per_s=row["memory_bandwidth"],
            used=row["activities"] > 0,
        )
        for row in frame.iter_rows(named=True)
    ]


def _capture_entry(profile: ProfileData, host: str) -> HostEntry | Unavailable:
    frame = profile.table(host, "environment")
    if isinstance(frame, Unavailable):
        return frame
    row = frame.row(0, named=True)
    events = profile.table(host, "events")
    duration_ms = None
    if row["begin_ps"] is not None and row["end_ps"] is not None:
        duration_ms = (row["end_ps"] - row["begin_ps"]) / PS_PER_MS
    return HostEntry(
        host=host,
        duration_ms=duration_ms,
        events=None if isinstance(events, Unavailable) else events.height,
        grouped=bool(row["grouped"]),
        **{
            name: row[name]
            for name in HostEntry.__struct_fields__
            if name in row and name != "grouped"
        },
    )
