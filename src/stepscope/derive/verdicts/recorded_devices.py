"""The accelerators that the program used, and the device whose time is judged.

The verdict "no device" needs evidence: ops ran on the host, and nothing indicates a
device. A program whose device was used but not recorded is a separate case.

Definition: docs/definitions/judging.md#whether-there-is-a-device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

import msgspec
import polars as pl

from stepscope.derive.run_derivation import OfHosts, first_reason, known_hosts, of_run
from stepscope.patterns import Pattern
from stepscope.trace.quality import DEVICE_CALLED, DEVICE_IN_DOUBT
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepscope.derive.account.time_by_cause import Account
    from stepscope.trace.model import TraceData

#: Evidence of accelerators. "recorded": their work was recorded. "silent": the program
#: used an accelerator, or may have, but its work was not recorded. "host_only": nothing
#: indicates a device, and the host worked or waited. "unknown": no evidence.
Recorded = Literal["recorded", "silent", "host_only", "unknown"]
#: Pattern of names of device memory allocators, which contain the kind of device.
_DEVICE_MEMORY: Final = r"(?i)\b(gpu|cuda|rocm|hip)(_|:|\b)|^(GPU|CUDA)"
#: Pattern of absolute paths of Windows.
_WINDOWS_PATH: Final = Pattern(r"(?:^|[\s\"'(])[A-Za-z]:\\")
#: Pattern of host memory; even a program without a device may allocate pinned memory.
HOST_MEMORY: Final = r"(?i)host|cpu|pinned"


class _Worked(Protocol):
    """The time of one device, or of a host without devices."""

    @property
    def device(self) -> int | None: ...
    @property
    def working_ps(self) -> int: ...
    @property
    def total_ps(self) -> int: ...


_T = TypeVar("_T", bound=_Worked)


def judged_device(shares: Sequence[_T], percent: Callable[[_T], float]) -> _T:
    """Return the busiest device; if there is none, the host with the largest `percent`.

    Hosts that run in lock step all wait for the busiest device.
    """
    devices = [share for share in shares if share.device is not None]
    if devices:
        return max(devices, key=lambda share: share.working_ps / max(share.total_ps, 1))
    return max(shares, key=percent)


def working_time_ps(rows: pl.DataFrame) -> int:
    """Return the device's working time, without input copies and collectives."""
    working = rows["device_working_ps"].fill_null(0).sum()
    return int(working) - int(rows["collective_ps"].fill_null(0).sum())


class DeviceSignals(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence of the program's accelerators.

    Attributes:
        recorded: Whether a device was used, and whether its work was recorded.
        sign: Evidence of a device whose work was not recorded; null for none.
        in_doubt: Whether the device is only listed; the program may not have used it.
        windows: Whether the paths in the recording are those of Windows.
        compute_capability: By device with work; null if not recorded.
        reason: Why device work is missing; null if it is recorded.
    """

    recorded: Recorded
    sign: str | None = None
    in_doubt: bool = False
    windows: bool = False
    compute_capability: tuple[tuple[int, int] | None, ...] = ()
    reason: Unavailable | None = None


NO_KERNELS: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="No kernel was recorded on any device.",
    remedy="Record a window in which the device computes.",
)
#: Why statements about devices do not apply to a program that ran on the host only.
HOST_ONLY: Final = Unavailable(
    code="NO_DEVICE_PLANE", reason="Every op ran on the host.", remedy="Nothing to do."
)


@of_run
def device_signals(
    *, trace: OfHosts[TraceData], account: OfHosts[Account]
) -> DeviceSignals:
    """Check every host. If any host recorded a device, the run has recorded devices."""
    hosts = known_hosts(trace)
    tables = {host: of_host.table("device_activity") for host, of_host in hosts.items()}
    recorded = [host for host, table in known_hosts(tables).items() if table.height]
    if recorded:
        capabilities = (
            capability
            for host in recorded
            for capability in _compute_capabilities(hosts[host])
        )
        return DeviceSignals(
            recorded="recorded", compute_capability=tuple(dict.fromkeys(capabilities))
        )
    reason = first_reason(tables) or _NO_ACTIVITY
    signs = [sign for of_host in hosts.values() if (sign := _sign_of_device(of_host))]
    windows = any(
        any(map(_WINDOWS_PATH.search, of_host.strings)) for of_host in hosts.values()
    )
    if signs:
        return DeviceSignals(
            recorded="silent", sign=signs[0], reason=reason, windows=windows
        )
    for of_host in hosts.values():
        if _is_noted(of_host, DEVICE_IN_DOUBT):
            return DeviceSignals(
                recorded="silent",
                sign=_listed_sign(of_host),
                in_doubt=True,
                reason=reason,
                windows=windows,
            )
    ran = any(
        accounted.rows[column].fill_null(0).sum()
        for accounted in known_hosts(account).values()
        for column in ("host_compute_ps", "wait_ps")
    )
    return DeviceSignals(recorded="host_only" if ran else "unknown", reason=reason)


_NO_ACTIVITY: Final = Unavailable(
    code="NO_DEVICE_EVENTS",
    reason="A device is listed, but none of its activity was recorded.",
    remedy="Allow the device tracer and record again.",
)


def _compute_capabilities(trace: TraceData) -> list[tuple[int, int] | None]:
    devices = trace.table("devices")
    if isinstance(devices, Unavailable):
        return [None]
    used = devices.filter(pl.col("activities") > 0)
    return [
        None if major is None else (major, minor or 0)
        for major, minor in used[["cc_major", "cc_minor"]].iter_rows()
    ]


def _sign_of_device(trace: TraceData) -> str | None:
    """Return the evidence of a device whose work was not recorded, or not decoded."""
    if isinstance(trace.table("tracks"), Unavailable):
        # A file with only memory records lacks device work and host work.
        return None
    activity = trace.table("device_activity")
    code = activity.code if isinstance(activity, Unavailable) else None
    if code == "UNKNOWN_DEVICE":
        return "its kind of device is not supported"
    launches = trace.table("launches")
    if not isinstance(launches, Unavailable) and launches.height:
        return f"the host made {launches.height:,} launch calls"
    if _is_noted(trace, DEVICE_CALLED):
        return "samples found it in calls that launch device work"
    allocated = _allocated_sign(trace)
    # A file may list devices and yet prove, or not show, that the program used one.
    if allocated is not None or code == HOST_ONLY.code:
        return allocated
    listed = _listed_sign(trace)
    waits = listed is None and code == "NO_DEVICE_EVENTS"
    return "the host waits for it" if waits else listed


def _allocated_sign(trace: TraceData) -> str | None:
    allocations = trace.table("allocations")
    if isinstance(allocations, Unavailable):
        return None
    names = allocations["allocator"].unique().sort()
    on_device = names.filter(
        names.str.contains(_DEVICE_MEMORY) & ~names.str.contains(HOST_MEMORY)
    )
    return f"memory of {on_device[0]} was allocated" if len(on_device) else None


def _listed_sign(trace: TraceData) -> str | None:
    devices = trace.table("devices")
    if isinstance(devices, Unavailable) or not devices.height:
        return None
    return f"{devices['plane'][0]} is listed"


def _is_noted(trace: TraceData, kind: str) -> bool:
    return any(note.kind == kind for note in trace.quality_notes())
