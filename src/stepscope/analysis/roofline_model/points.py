"""From work and time to a place under the roofs, for rows of ops or of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from stepscope.analysis.results.null_columns import share
from stepscope.analysis.roofline_model.roofs import GIGA
from stepscope.units import PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from stepscope.analysis.options.roofline_model import Options
    from stepscope.trace.schema import TableSchema

MEASURED: Final = "measured"
SHAPES: Final = "shapes"
UNKNOWN: Final = "unknown"


def points(work: pl.DataFrame, schema: TableSchema, options: Options) -> pl.DataFrame:
    """Return the columns of a table of points, most time first.

    Args:
        work: With the columns of names, `occurrences`, `total_ps`, `share_ps` (what
            counts in shares of time), `flops`, `accessed_bytes`, `peak_flops` and
            `peak_bytes` (what units and memory could have done in the time), and
            `evidence`; null means unknown.
        schema: The table.
        options: Peaks in place of what is known.
    """
    names = [it for it in ("kernel_name", "op_name", "name") if it in work.columns]
    whole = int(work["share_ps"].sum())
    return (
        _with_given_peaks(work, options)
        .with_columns(
            _lacks().alias("lacks"),
            (pl.col("share_ps") / PS_PER_US).alias("self_us"),
            (pl.col("total_ps") / PS_PER_US).alias("total_us"),
            share(pl.col("share_ps"), whole).alias("time_percent"),
            *_rates(),
            *_against_peaks(),
        )
        .with_columns(
            pl.when(pl.col("lacks") == _NOTHING_KNOWN)
            .then(pl.lit(UNKNOWN))
            .otherwise("evidence")
            .alias("evidence")
        )
        .sort("share_ps", *names, descending=[True, *[False] * len(names)])
        .with_row_index("rank", offset=1)
        .select(pl.col(name).cast(kind) for name, kind in schema.dtypes().items())
    )


_SECONDS: Final = pl.col("total_ps") / PS_PER_S
_RAN: Final = pl.col("total_ps") > 0
_NOTHING_KNOWN: Final = "operations and bytes"


def _with_given_peaks(work: pl.DataFrame, options: Options) -> pl.DataFrame:
    given = {
        "peak_flops": options.peak_tflops and options.peak_tflops * 1000 * GIGA,
        "peak_bytes": options.peak_gb_per_s and options.peak_gb_per_s * GIGA,
    }
    return work.with_columns(
        pl.when(_RAN).then(rate * _SECONDS).alias(name)
        for name, rate in given.items()
        if rate is not None
    )


def _lacks() -> pl.Expr:
    no_flops, no_bytes = pl.col("flops").is_null(), pl.col("accessed_bytes").is_null()
    return (
        pl.when(no_flops & no_bytes)
        .then(pl.lit(_NOTHING_KNOWN))
        .when(no_flops)
        .then(pl.lit("operations"))
        .when(no_bytes)
        .then(pl.lit("bytes"))
    )


def _intensity() -> pl.Expr:
    moved = pl.col("accessed_bytes") > 0
    return pl.when(moved).then(pl.col("flops") / pl.col("accessed_bytes"))


def _rates() -> list[pl.Expr]:
    per_s = {"flops": "gflops_per_s", "accessed_bytes": "gb_per_s"}
    return [
        _intensity().alias("operational_intensity"),
        *(
            pl.when(_RAN).then(pl.col(name) / _SECONDS / GIGA).alias(rate)
            for name, rate in per_s.items()
        ),
    ]


def _against_peaks() -> list[pl.Expr]:
    # What does not compute uses no unit, whatever that could do.
    compute = (
        pl.when(pl.col("flops") == 0)
        .then(0.0)
        .otherwise(100.0 * pl.col("flops") / pl.col("peak_flops"))
    )
    memory = 100.0 * pl.col("accessed_bytes") / pl.col("peak_bytes")
    both = _RAN & compute.is_not_null() & memory.is_not_null()
    sloped = _intensity() * pl.col("peak_bytes")
    roofed = pl.col("peak_flops").is_not_null() & sloped.is_not_null()
    roof = pl.min_horizontal(pl.col("peak_flops"), sloped) / _SECONDS / GIGA
    return [
        pl.when(_RAN & roofed).then(roof).alias("roof_gflops_per_s"),
        pl.when(_RAN).then(compute).alias("of_compute_percent"),
        pl.when(_RAN).then(memory).alias("of_memory_percent"),
        pl.when(both).then(pl.max_horizontal(compute, memory)).alias("of_roof_percent"),
        pl.when(both & (memory >= compute))
        .then(pl.lit("Memory"))
        .when(both)
        .then(pl.lit("Compute"))
        .alias("bound_by"),
    ]


def unknown_percent(rows: pl.DataFrame) -> float | None:
    """Return the share of time of rows without a place; None where nothing ran."""
    if not len(rows) or rows["time_percent"].null_count() == len(rows):
        return None
    return float(
        rows.filter(pl.col("operational_intensity").is_null())["time_percent"].sum()
    )
