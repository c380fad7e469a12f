"""Collectives between devices, as the overview shows them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from stepscope.analysis.results.tables import package_reasons, sum_of_known
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.collectives.calls import collectives
from stepscope.unavailable import Missing, Unavailable
from stepscope.units import GIB, PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("overview_page")

#: Bytes of a 32-bit gradient in an all-reduce (the estimate of TensorFlow's guide).
_BYTES_PER_PARAMETER: Final = 4


class Collective(msgspec.Struct, frozen=True, kw_only=True):
    """All collectives of one kind between devices.

    Attributes:
        kind: Kind of collective: all-reduce, all-gather, …
        count: Number of collectives of the kind.
        count_per_step: Number per step on each device; null without steps.
        mean_us: Mean duration.
        min_over_devices_us: Mean duration on the device whose mean is shortest, because
            it waits least for other devices.
        exposed_us: Total time in which the device ran nothing else.
        bytes: Total bytes of the collectives with a known size. The size is the larger
            of the bytes that a member sends and receives. Null if no size is known.
        gib_per_s: `bytes` divided by the time of these collectives, in GiB/s; the time
            includes waiting for other members. Null if no size is known.
        bus_gib_per_s: Rate of a member's link, in GiB/s, from the part of the bytes
            that this kind of collective sends over the link in a group of this size.
            Null if no size or group is known.
        expected_us: Expected time of an all-reduce: parameters × 4 bytes / bandwidth;
            null unless the number of parameters and the bandwidth are known.
    """

    kind: str
    count: int
    count_per_step: float | None
    mean_us: float
    min_over_devices_us: float
    exposed_us: float
    bytes: int | None
    gib_per_s: float | None
    bus_gib_per_s: float | None
    expected_us: float | None


def described_parameters(profile: ProfileData, hosts: Sequence[str]) -> int | None:
    """Count the elements of all trained variables; None if no host describes them.

    Every host trains the same model, so the first host that describes the model is
    used. If the shape of a variable is unknown, so is the count.
    """
    for host in hosts:
        described = profile.table(host, "parameters")
        if isinstance(described, Unavailable):
            continue
        trained = described.filter(pl.col("trainable").ne_missing(other=False))
        shapes = trained["shape"].to_list()
        return None if None in shapes else sum(map(math.prod, shapes))
    return None


def collective_kinds(
    profile: ProfileData,
    hosts: Sequence[str],
    *,
    step_count: int | None,
    parameters: int | None,
    gib_per_s: float | None,
) -> tuple[Collective, ...] | Unavailable:
    """Measure collectives by kind; empty if the devices ran no collectives.

    Args:
        step_count: Number of steps with the collectives; None without steps.
        parameters: Number of the model's parameters; None if unknown.
        gib_per_s: Bandwidth between devices, from the user; None if not given.
    """
    by_host, absent = derived_by_host(profile, collectives, hosts)
    if not by_host:
        return next(reversed(absent.values()), _WHY["no_kernels"])
    expected = None
    if parameters is not None and gib_per_s:
        seconds = parameters * _BYTES_PER_PARAMETER / (gib_per_s * GIB)
        expected = seconds * PS_PER_S / PS_PER_US
    rows = (
        pl.concat(by_host.values())
        .with_columns(mean=pl.col("total_ps") / pl.col("count"))
        .group_by("kind")
        .agg(
            pl.col("count", "total_ps", "exposed_ps", "sized_ps", "bus_ps").sum(),
            *(sum_of_known(name) for name in ("bytes", "bus_bytes")),
            pl.col("mean").min().alias("least_ps"),
            pl.len().alias("devices"),
        )
        .sort("total_ps", "kind", descending=[True, False])
    )
    return tuple(
        Collective(
            kind=row["kind"],
            count=row["count"],
            count_per_step=row["count"] / row["devices"] / step_count
            if step_count
            else None,
            mean_us=row["total_ps"] / row["count"] / PS_PER_US,
            min_over_devices_us=row["least_ps"] / PS_PER_US,
            exposed_us=row["exposed_ps"] / PS_PER_US,
            bytes=row["bytes"],
            gib_per_s=_rate_gib(row["bytes"], row["sized_ps"]),
            bus_gib_per_s=_rate_gib(row["bus_bytes"], row["bus_ps"]),
            expected_us=expected,
        )
        for row in rows.iter_rows(named=True)
    )


def missing_of_collectives(collectives: Sequence[Collective] | None) -> list[Missing]:
    """Return the reasons for null fields of collectives."""
    reasons = {
        "bytes": _WHY["no_sizes"],
        "gib_per_s": _WHY["no_sizes"],
        "bus_gib_per_s": _WHY["no_groups"],
        "expected_us": _WHY["not_expected"],
    }
    return [
        why.missing_field(f"collectives.{field}")
        for field, why in reasons.items()
        if any(getattr(collective, field) is None for collective in collectives or ())
    ]


def _rate_gib(size: int | None, time_ps: int) -> float | None:
    return size / GIB / (time_ps / PS_PER_S) if size is not None and time_ps else None
