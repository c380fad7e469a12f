"""What Nsight Compute measured of the kernels, where its table was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.analysis.results.columns import BLOCK_DIM, GRID_DIM, OP_NAME, RANK
from stepscope.derive.device.kernels import kernels, launch_dimensions
from stepscope.derive.measured import measured_kernels
from stepscope.trace.measured.kernel_metrics import NOT_MEASURED
from stepscope.trace.schema import NEVER, Column, TableSchema
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData

_ABSENT: Final = "not measured"


def _number(name: str, unit: str, about: str) -> Column:
    return Column(name, pl.Float64(), unit, _ABSENT, about)


#: Columns of the table of kernels; the name is also that in `measured_kernels`.
MEASURED_COLUMNS: Final = (
    Column(
        "measured_launches",
        pl.Int64(),
        "",
        _ABSENT,
        "Launches that Nsight Compute measured, of which the numbers are means.",
    ),
    Column(
        "match",
        pl.String(),
        "",
        _ABSENT,
        "How they were found again: one_op, order, cycle, or shared: a mean over "
        "several ops; mixed where hosts differ.",
    ),
    _number(
        "match_confidence",
        "0 to 1",
        "How sure it is that they are launches of this kernel for this op.",
    ),
    _number(
        "measured_us",
        "us",
        "Time of a launch when it was measured, alone and at the base clock.",
    ),
    Column(
        "bound",
        pl.String(),
        "",
        _ABSENT,
        "compute or memory, the busier of the two from 60 % of its peak on; latency "
        "where neither is.",
    ),
    _number("compute_percent", "percent", "Throughput of computing, of its peak."),
    _number(
        "memory_percent", "percent", "Throughput of caches and memory, of its peak."
    ),
    _number("dram_percent", "percent", "Throughput of device memory, of its peak."),
    _number("dram_bytes", "bytes", "Moved to and from device memory by a launch."),
    _number(
        "achieved_occupancy_percent", "percent", "Warps at work, of those that fit."
    ),
    _number(
        "tensor_pipe_percent", "percent", "Share of time that the Tensor pipe was busy."
    ),
    _number(
        "load_sectors_per_request",
        "",
        "Sectors of 32 bytes that one load of a warp touches: 4 where neighbours read "
        "neighbouring 4-byte values.",
    ),
    _number("store_sectors_per_request", "", "As for loads, of stores."),
    _number(
        "bank_conflict_percent",
        "percent",
        "Passes of shared memory that bank conflicts add, of all passes.",
    ),
    _number("l1_hit_percent", "percent", "Requests that the L1 cache answers."),
    _number("l2_hit_percent", "percent", "Requests that the L2 cache answers."),
    _number(
        "local_memory_bytes",
        "bytes",
        "Moved to and from local memory by a launch: spilled registers and arrays of "
        "threads.",
    ),
    _number("threads_per_instruction", "", "Threads at work in a warp, at most 32."),
    Column(
        "stall_reason", pl.String(), "", _ABSENT, "What warps wait for most, by NVIDIA."
    ),
    _number("stall_percent", "percent", "Share of this wait in all cycles of a warp."),
)
_NAMES: Final = tuple(column.name for column in MEASURED_COLUMNS)
_TEXTS: Final = ("match", "bound", "stall_reason")
_SECTOR: Final = 32

LAUNCH_ROWS: Final = TableSchema(
    "measured",
    "a kernel and launch shape that Nsight Compute measured",
    "by measured time",
    (
        RANK,
        Column(
            "kernel_name", pl.String(), "", NEVER, "Name as Nsight Compute writes it."
        ),
        GRID_DIM,
        BLOCK_DIM,
        Column("launches", pl.Int64(), "", NEVER, "Launches that were measured."),
        _number("measured_us", "us", "Their times added up."),
        Column(
            "ops",
            pl.List(pl.String()),
            "",
            NEVER,
            "Ops that launched it in the recording; empty where none did.",
        ),
        Column(
            "found",
            pl.Boolean(),
            "",
            NEVER,
            "Whether the recording holds a kernel of this name and shape.",
        ),
    ),
)
NVIDIA_ROWS: Final = TableSchema(
    "nvidia_rules",
    "what a rule of Nsight Compute says of a kernel; NVIDIA's words and estimates",
    "by NVIDIA's estimate of the gain",
    (
        Column(
            "kernel_name", pl.String(), "", NEVER, "Name as Nsight Compute writes it."
        ),
        Column(
            "op_name",
            pl.String(),
            "",
            "no recorded kernel matches, or several ops launch it",
            OP_NAME.about,
        ),
        Column("rule", pl.String(), "", NEVER, "Name of NVIDIA's rule."),
        Column(
            "kind",
            pl.String(),
            "",
            "not recorded",
            "OPT, INF or WRN, by NVIDIA.",
        ),
        Column("text", pl.String(), "", NEVER, "NVIDIA's words."),
        Column(
            "speedup_percent",
            pl.Float64(),
            "percent",
            "not estimated",
            "NVIDIA's estimate of the gain, not ours.",
        ),
        Column(
            "speedup_kind",
            pl.String(),
            "",
            "not estimated",
            "global (of the kernel) or local (of a part of it).",
        ),
        Column("launches", pl.Int64(), "", NEVER, "Launches that it is said of."),
    ),
)
_NOT_OF_THESE: Final = Unavailable(
    code="NOT_RECORDED",
    reason="Nsight Compute measured other kernels, or not this metric.",
    remedy="Measure these kernels too: `ncu --set full --csv --page raw`.",
)


def without_measures(profile: ProfileData) -> dict[str, Unavailable]:
    """Return why the measured columns may be null as a whole."""
    given = any(
        not isinstance(profile.table(host, "kernel_metrics"), Unavailable)
        for host in profile.hosts
    )
    return dict.fromkeys(_NAMES, _NOT_OF_THESE if given else NOT_MEASURED)


def measures_of(profile: ProfileData, host: str) -> pl.DataFrame:
    """Return the measured columns by `class`; no rows where nothing was measured."""
    found = profile.derived(host, measured_kernels)
    if isinstance(found, Unavailable):
        return pl.DataFrame(schema={"class": pl.Int32, **_dtypes()})
    return found.rows.select(
        "class",
        *(
            expression.cast(dtype).alias(name)
            for (name, dtype), expression in zip(
                _dtypes().items(), map(_source, _NAMES), strict=True
            )
        ),
    )


def _dtypes() -> dict[str, pl.DataType]:
    return {column.name: column.dtype for column in MEASURED_COLUMNS}


def _source(name: str) -> pl.Expr:
    derived = {
        "measured_launches": pl.col("launches"),
        "match": pl.col("pairing"),
        "match_confidence": pl.col("confidence"),
        "measured_us": pl.col("duration_ps") / PS_PER_US,
        "local_memory_bytes": pl.col("local_memory_sectors") * _SECTOR,
    }
    return derived.get(name, pl.col(name))


def merged_measures() -> list[pl.Expr]:
    """Return how the measured columns of several hosts and devices become one."""
    special = {
        "measured_launches": pl.col("measured_launches").max(),
        "match_confidence": pl.col("match_confidence").min(),
    }
    return [
        _one_word(name)
        if name in _TEXTS
        else special.get(name, pl.col(name).mean()).alias(name)
        for name in _NAMES
    ]


def _one_word(name: str) -> pl.Expr:
    words = pl.col(name).drop_nulls().unique()
    return (
        pl.when(words.len() > 1)
        .then(pl.lit("mixed"))
        .otherwise(words.first())
        .alias(name)
    )


def launch_rows(profile: ProfileData) -> pl.DataFrame:
    """Return every kernel that was measured, whether the recording holds it or not."""
    members = _members(profile)
    schema = LAUNCH_ROWS.dtypes()
    if members is None:
        return pl.DataFrame(schema=schema)
    shape = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    return (
        members.group_by("kernel_name", *shape, maintain_order=True)
        .agg(
            pl.col("row").n_unique().alias("launches"),
            pl.col("ops").first(),
            pl.col("found").any(),
            # The sum of nothing would be 0.
            pl.when(pl.col("duration_ps").count() > 0)
            .then(pl.col("duration_ps").sum() / PS_PER_US)
            .alias("measured_us"),
        )
        .sort("measured_us", "kernel_name", descending=[True, False], nulls_last=True)
        .with_row_index("rank", offset=1)
        .with_columns(launch_dimensions("grid"), launch_dimensions("block"))
        .select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    )


def nvidia_rows(profile: ProfileData) -> pl.DataFrame | Unavailable:
    """Return what NVIDIA's rules say, or why it is not known."""
    host = profile.hosts[0]
    said = profile.table(host, "kernel_rule_results")
    members = _members(profile)
    if isinstance(said, Unavailable) or members is None:
        return said if isinstance(said, Unavailable) else NOT_MEASURED
    only = pl.when(pl.col("ops").list.len() == 1).then(pl.col("ops").list.first())
    key = ["kernel_name", "op_name", "rule", "kind", "text", "speedup_kind"]
    return (
        said.join(members, on="row", how="left", maintain_order="left")
        .with_columns(only.alias("op_name"))
        .group_by(*key, maintain_order=True)
        .agg(
            pl.col("row").n_unique().cast(pl.Int64).alias("launches"),
            pl.col("speedup_percent").max(),
        )
        .sort("speedup_percent", descending=True, nulls_last=True, maintain_order=True)
        .select(*NVIDIA_ROWS.dtypes())
    )


def _members(profile: ProfileData) -> pl.DataFrame | None:
    """Return each measured launch with the ops of the recorded kernels that it is of.

    Of several hosts the first that has the table counts: they share one.
    """
    host = profile.hosts[0]
    metrics = profile.table(host, "kernel_metrics")
    if isinstance(metrics, Unavailable):
        return None
    table = metrics.with_row_index("row").cast({"row": pl.Int32})
    of_hosts = [
        ops for host in profile.hosts if (ops := _ops_by_row(profile, host)) is not None
    ]
    if not of_hosts:
        return table.with_columns(
            ops=pl.lit([], pl.List(pl.String)), found=pl.lit(value=False)
        )
    ops = (
        pl.concat(of_hosts)
        .group_by("row")
        .agg(
            pl.col("op_name")
            .filter(pl.col("op_name") != "")
            .unique()
            .sort()
            .alias("ops")
        )
        .with_columns(found=pl.lit(value=True))
    )
    return table.join(ops, on="row", how="left", maintain_order="left").with_columns(
        pl.col("ops").fill_null(pl.lit([], pl.List(pl.String))),
        pl.col("found").fill_null(value=False),
    )


def _ops_by_row(profile: ProfileData, host: str) -> pl.DataFrame | None:
    found = profile.derived(host, measured_kernels)
    of_host = profile.derived(host, kernels)
    if isinstance(found, Unavailable) or isinstance(of_host, Unavailable):
        return None
    classes = found.rows.select("class", "group").join(
        of_host.rows.select("class", "op_name"), on="class"
    )
    return (
        found.members.join(classes, on="group")
        .select(pl.col("row").cast(pl.Int32), "op_name")
        .unique()
    )
