"""Versions of libraries beside the generation of the devices that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from stepscope.advice.signals.signal import signal
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds


class HostVersions(Frozen, frozen=True):
    """What one host runs.

    Attributes:
        runtime: Version of the CUDA runtime, 1000 × major + 10 × minor; null where not
            recorded.
        driver: Newest CUDA version that its driver supports; null likewise.
        newest: Compute capability of the newest device that did work; null where not
            recorded.
        device: Product name of that device; null where not recorded.
        vendors: Vendors of the devices that did work.
    """

    runtime: int | None
    driver: int | None
    newest: tuple[int, int] | None
    device: str | None
    vendors: frozenset[str]


@signal("devices", "environment")
def version_signals(
    profile: ProfileData, _: Thresholds
) -> dict[str, HostVersions] | Unavailable:
    """Return what each host runs; hosts without devices are left out."""
    found: dict[str, HostVersions] = {}
    reasons: list[Unavailable] = []
    for host in profile.hosts:
        devices = profile.table(host, "devices")
        environment = profile.table(host, "environment")
        if isinstance(devices, Unavailable):
            reasons.append(devices)
            continue
        if isinstance(environment, Unavailable):
            reasons.append(environment)
            continue
        used = devices.filter(pl.col("activities") > 0)
        known = used.drop_nulls(["cc_major", "cc_minor"]).sort("cc_major", "cc_minor")
        newest = known[["cc_major", "cc_minor", "name"]].rows()[-1:]
        row = environment.row(0, named=True)
        if used.height:
            found[host] = HostVersions(
                runtime=row["cuda_runtime"],
                driver=row["cuda_driver"],
                newest=(newest[0][0], newest[0][1]) if newest else None,
                device=newest[0][2] if newest else None,
                vendors=frozenset(used["vendor"].drop_nulls().to_list()),
            )
    if reasons and not found:
        return reasons[0]
    return found
