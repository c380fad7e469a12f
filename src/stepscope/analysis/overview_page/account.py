"""The breakdown of the mean step: time by cause on every device, with named parts."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from stepscope.analysis.steps.measured_hosts import measured_rows
from stepscope.derive.account.parts import account_parts
from stepscope.derive.step_time.owners import OWNERS
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.steps.rows import HostSteps
    from stepscope.derive.profile_data import ProfileData

#: Maximum number of names per cause; all further names are listed as one.
_MAX_PARTS = 20


class AccountPart(msgspec.Struct, frozen=True, kw_only=True):
    """The time of the mean step that has one cause and one name.

    Attributes:
        name: Op, call or function that took the time; null for all further parts.
        detail: What took most of this time, shown next to `name`; null for none.
        place: `inside` a step, or `between` two steps.
        function: Python function; null if `name` is not a function.
        file: File of the function; null if unknown.
        line: First line of the function; null if unknown.
        ms: Mean time per step.
    """

    name: str | None = None
    detail: str | None = None
    place: str
    function: str | None = None
    file: str | None = None
    line: int | None = None
    ms: float


class AccountEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The mean time per step that has one cause (owner).

    Attributes:
        host: Name of the host.
        device: Ordinal of the device; null for the threads of a host without devices.
        owner: What the time is attributed to.
        category: Category of step time that the cause belongs to.
        ms: Mean time per step; all causes of a device add up to the step.
        percent: Share of the step time.
        between_ms: Part of `ms` between steps; null for work of the device.
        parts: This time by name; null for work of the device.
    """

    host: str
    device: int | None
    owner: str
    category: str
    ms: float
    percent: float
    between_ms: float | None
    parts: tuple[AccountPart, ...] | None


def account_entries(
    run: ProfileData, hosts: Sequence[HostSteps], excluded_flags: Sequence[str]
) -> tuple[AccountEntry, ...]:
    """Return every cause that has time, by host and device, longest time first."""
    return tuple(
        entry
        for host in hosts
        for entry in _host_entries(run, host, measured_rows(host, excluded_flags))
    )


def _host_entries(
    run: ProfileData, host: HostSteps, measured: pl.DataFrame
) -> list[AccountEntry]:
    all_entries = []
    for device in measured["device"].unique().sort().to_list():
        of_device = pl.col("device").eq_missing(pl.lit(device, pl.Int32))
        rows = measured.filter(of_device)
        between = host.account.between.filter(of_device).join(
            rows.select("window"), on="window", how="semi"
        )
        total_ps = int(rows["window_ps"].sum())
        count = len(rows)
        entries = []
        for owner in OWNERS:
            column = rows[f"{owner.name}_ps"]
            time = 0 if column.null_count() else int(column.sum())
            if not time:
                continue
            outside: float | None = None
            if f"{owner.name}_ps" in between.columns:
                outside = int(between[f"{owner.name}_ps"].sum()) / count / PS_PER_MS
            entries.append(
                AccountEntry(
                    host=host.host,
                    device=device,
                    owner=owner.name,
                    category=owner.category,
                    ms=time / count / PS_PER_MS,
                    percent=100 * time / total_ps,
                    between_ms=outside,
                    parts=None,
                )
            )
        parts = run.derived(host.host, account_parts)
        # Parts cover all complete windows: they are shown only if all of these count.
        if not isinstance(parts, Unavailable) and parts.windows == len(rows):
            of_owner = parts.rows.filter(of_device).partition_by("owner", as_dict=True)
            entries = [
                _add_parts(entry, of_owner.get((entry.owner,)), parts.windows)
                for entry in entries
            ]
        all_entries += sorted(entries, key=lambda entry: -entry.ms)
    return all_entries


def _add_parts(
    entry: AccountEntry, owner_rows: pl.DataFrame | None, windows: int
) -> AccountEntry:
    if owner_rows is None:
        return entry
    rows = (row for row in owner_rows.iter_rows(named=True) if row["name"] is not None)
    named = [*islice(rows, _MAX_PARTS)]
    parts = [
        AccountPart(
            ms=row["time_ps"] / windows / PS_PER_MS,
            **{name: row[name] for name in AccountPart.__struct_fields__[:-1]},
        )
        for row in named
    ]
    left = entry.ms - sum(part.ms for part in parts)
    if len(named) < len(owner_rows) and left > 0:
        parts.append(AccountPart(place=owner_rows["place"][0], ms=left))
    return msgspec.structs.replace(entry, parts=tuple(parts))
