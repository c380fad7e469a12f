"""Nsight Compute's measurements of the kernels, if a table of them was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.analysis.results.tables import (
    package_reasons,
    shared_value,
    sum_of_known,
    tool_tables,
)
from stepscope.analysis.results.tool import host_tables
from stepscope.derive.device.kernels import kernels, launch_dimensions
from stepscope.derive.device.measured_kernels import measured_kernels
from stepscope.trace.tables import NOT_MEASURED
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

_WHY: Final = package_reasons("kernel_stats")

_TABLES: Final = tool_tables("kernel_stats")
LAUNCH_ROWS: Final = _TABLES["measured"]
NVIDIA_ROWS: Final = _TABLES["nvidia_rules"]

#: The last columns of the table of kernels, named as in `measured_kernels`.
MEASURED_COLUMNS: Final = _TABLES["rows"].dtypes_from("measured_launches")
_TEXTS: Final = ("match", "bound", "stall_reason")
_SECTOR: Final = 32


def without_measures(profile: ProfileData) -> dict[str, Unavailable]:
    """Return why the measured columns can be null in every row."""
    given = host_tables(profile, "kernel_metrics")
    return dict.fromkeys(
        MEASURED_COLUMNS, _WHY["not_of_these"] if given else NOT_MEASURED
    )


def measured_columns(profile: ProfileData, host: str) -> pl.DataFrame:
    """Return Nsight Compute's columns by kernel `class`; no rows without its table."""
    measured = profile.derived(host, measured_kernels)
    if isinstance(measured, Unavailable):
        return pl.DataFrame(schema={"class": pl.Int32, **MEASURED_COLUMNS})
    derived = {
        "measured_launches": pl.col("launches"),
        "match": pl.col("pairing"),
        "match_confidence": pl.col("confidence"),
        "measured_us": pl.col("duration_ps") / PS_PER_US,
        "local_memory_bytes": pl.col("local_memory_sectors") * _SECTOR,
    }
    return measured.rows.select(
        "class",
        *(
            derived.get(name, pl.col(name)).cast(dtype).alias(name)
            for name, dtype in MEASURED_COLUMNS.items()
        ),
    )


def merged_measures() -> list[pl.Expr]:
    """Return expressions that merge measured columns of several hosts and devices."""
    special = {
        "measured_launches": pl.col("measured_launches").max(),
        "match_confidence": pl.col("match_confidence").min(),
    }
    return [
        shared_value(name)
        if name in _TEXTS
        else special.get(name, pl.col(name).mean()).alias(name)
        for name in MEASURED_COLUMNS
    ]


def launch_rows(profile: ProfileData) -> pl.DataFrame:
    """Return every measured kernel, even if the recording does not contain it."""
    members = _measured_launches(profile)
    if members is None:
        return pl.DataFrame(schema=LAUNCH_ROWS.dtypes())
    shape = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    return (
        members.group_by("kernel_name", *shape, maintain_order=True)
        .agg(
            pl.col("row").n_unique().alias("launches"),
            pl.col("ops").first(),
            pl.col("found").any(),
            (sum_of_known("duration_ps") / PS_PER_US).alias("measured_us"),
        )
        .sort("measured_us", "kernel_name", descending=[True, False], nulls_last=True)
        .with_row_index("rank", offset=1)
        .with_columns(launch_dimensions("grid"), launch_dimensions("block"))
        .select(LAUNCH_ROWS.cast_columns())
    )


def nvidia_rows(profile: ProfileData) -> pl.DataFrame | Unavailable:
    """Return the results of NVIDIA's rules, or why they are unknown."""
    rule_results = profile.table(profile.hosts[0], "kernel_rule_results")
    members = _measured_launches(profile)
    if isinstance(rule_results, Unavailable) or members is None:
        return rule_results if isinstance(rule_results, Unavailable) else NOT_MEASURED
    only = pl.when(pl.col("ops").list.len() == 1).then(pl.col("ops").list.first())
    key = ["kernel_name", "op_name", "rule", "kind", "text", "speedup_kind"]
    return (
        rule_results.join(members, on="row", how="left", maintain_order="left")
        .with_columns(only.alias("op_name"))
        .group_by(*key, maintain_order=True)
        .agg(
            pl.col("row").n_unique().cast(pl.Int64).alias("launches"),
            pl.col("speedup_percent").max(),
        )
        .sort("speedup_percent", descending=True, nulls_last=True, maintain_order=True)
        .select(*NVIDIA_ROWS.dtypes())
    )


def _measured_launches(profile: ProfileData) -> pl.DataFrame | None:
    """Return each measured launch with the ops of the recorded kernels that match it.

    All hosts share one table of measurements, so the first host's is used.
    """
    host = profile.hosts[0]
    metrics = profile.table(host, "kernel_metrics")
    if isinstance(metrics, Unavailable):
        return None
    table = metrics.with_row_index("row").cast({"row": pl.Int32})
    of_hosts = []
    for host in profile.hosts:
        measured = profile.derived(host, measured_kernels)
        launched = profile.derived(host, kernels)
        if isinstance(measured, Unavailable) or isinstance(launched, Unavailable):
            continue
        classes = measured.rows.select("class", "group").join(
            launched.rows.select("class", "op_name"), on="class"
        )
        named = measured.members.join(classes, on="group")
        of_hosts.append(named.select(pl.col("row").cast(pl.Int32), "op_name").unique())
    if not of_hosts:
        return table.with_columns(
            ops=pl.lit([], pl.List(pl.String)), found=pl.lit(value=False)
        )
    op = pl.col("op_name")
    ops = (
        pl.concat(of_hosts)
        .group_by("row")
        .agg(op.filter(op != "").unique().sort().alias("ops"))
        .with_columns(found=pl.lit(value=True))
    )
    return table.join(ops, on="row", how="left", maintain_order="left").with_columns(
        pl.col("ops").fill_null(pl.lit([], pl.List(pl.String))),
        pl.col("found").fill_null(value=False),
    )
