"""The roofs of a run, and the place of an op or a kernel under them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

import polars as pl

from stepscope.analysis.results.tables import room_reasons, share, tables_of
from stepscope.derive.device.peaks import device_peaks
from stepscope.hardware import Unit, device_type, peak_flops, rates_of
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.options import RooflineModelOptions
    from stepscope.derive.profile_data import ProfileData
    from stepscope.trace.schema import TableSchema

_WHY: Final = room_reasons("roofline_model")

ROOF_ROWS: Final = tables_of("roofline_model")["roofs"]

GIGA: Final = 1e9
_TERA: Final = 1e12
NO_PEAKS: Final = _WHY["no_peaks"]
NO_HOST_PEAKS: Final = _WHY["no_host_peaks"]

MEASURED: Final = "measured"
SHAPES: Final = "shapes"
UNKNOWN: Final = "unknown"


def roof_rows(profile: ProfileData, options: RooflineModelOptions) -> pl.DataFrame:
    """Return what the devices in use can do at best, columns `ROOF_ROWS`.

    Devices of equal peaks are one. An option takes the place of what is known.
    """
    rows = [row for host in profile.hosts for row in _of_host(profile, host)]
    if options.peak_tflops is not None:
        known = [row["memory_gb_per_s"] for row in rows]
        rows = [
            {
                "device": rows[0]["device"] if rows else "device",
                "unit": "given",
                "peak_gflops_per_s": options.peak_tflops * _TERA / GIGA,
                "memory_gb_per_s": max((it for it in known if it), default=None),
                "source": "given",
            }
        ]
    if options.peak_gb_per_s is not None:
        rows = [{**row, "memory_gb_per_s": options.peak_gb_per_s} for row in rows]
    ridge = pl.col("peak_gflops_per_s") / pl.col("memory_gb_per_s")
    return (
        pl.DataFrame(rows, schema=ROOF_ROWS.dtypes())
        .unique(maintain_order=True)
        .with_columns(ridge.alias("ridge_flops_per_byte"))
        .sort("device", "peak_gflops_per_s", descending=[False, True])
    )


def _of_host(profile: ProfileData, host: str) -> Iterator[dict[str, Any]]:
    peaks = profile.derived(host, device_peaks)
    devices = profile.table(host, "devices")
    if isinstance(peaks, Unavailable) or isinstance(devices, Unavailable):
        return
    used = devices.filter(pl.col("activities") > 0)
    names = {
        row["device"]: device_type(
            name=row["name"],
            vendor=row["vendor"],
            major=row["cc_major"],
            minor=row["cc_minor"],
        )
        for row in used.iter_rows(named=True)
    }
    for row in peaks.rows.iter_rows(named=True):
        if row["device"] not in names:
            continue
        memory = row["memory_bandwidth"]
        for unit, rate in unit_peaks(row).items():
            yield {
                "device": names[row["device"]] or f"device {row['device']}",
                "unit": unit,
                "peak_gflops_per_s": rate / GIGA,
                "memory_gb_per_s": memory / GIGA if memory else None,
                "source": row["clock_source"] or "recorded",
            }


def unit_peaks(row: dict[str, Any]) -> dict[str, float]:
    """Return FLOP/s by unit of one device, a row of `device_peaks`; none if unknown."""
    if row["peak_flops"]:
        return {"all": float(row["peak_flops"])}
    major, minor = row["cc_major"], row["cc_minor"]
    cores, clock_hz = row["cores"], row["clock_hz"]
    if major is None or not cores or not clock_hz:
        return {}
    rates = rates_of(row["vendor"], major, minor or 0)
    if rates is None:
        return {}
    units: tuple[Unit, ...] = get_args(Unit)
    found = {unit: peak_flops(rates, unit, cores, clock_hz) for unit in units}
    return {unit: rate for unit, rate in found.items() if rate}


def points(
    work: pl.DataFrame, schema: TableSchema, options: RooflineModelOptions
) -> pl.DataFrame:
    """Return the columns of a table of points, most time first.

    Args:
        work: With the columns of names, `occurrences`, `total_ps`, `share_ps` (what
            counts in shares of time), `flops`, `accessed_bytes`, `peak_flops` and
            `peak_bytes` (what units and memory could have done in the time), and
            `evidence`; null means unknown.
        options: Peaks in place of what is known.
    """
    names = [it for it in ("kernel_name", "op_name", "name") if it in work.columns]
    whole = int(work["share_ps"].sum())
    given = {
        "peak_flops": options.peak_tflops and options.peak_tflops * 1000 * GIGA,
        "peak_bytes": options.peak_gb_per_s and options.peak_gb_per_s * GIGA,
    }
    no_flops, no_bytes = pl.col("flops").is_null(), pl.col("accessed_bytes").is_null()
    per_s = {"flops": "gflops_per_s", "accessed_bytes": "gb_per_s"}
    return (
        work.with_columns(
            pl.when(_RAN).then(rate * _SECONDS).alias(name)
            for name, rate in given.items()
            if rate is not None
        )
        .with_columns(
            pl.when(no_flops & no_bytes)
            .then(pl.lit(_NOTHING_KNOWN))
            .when(no_flops)
            .then(pl.lit("operations"))
            .when(no_bytes)
            .then(pl.lit("bytes"))
            .alias("lacks"),
            (pl.col("share_ps") / PS_PER_US).alias("self_us"),
            (pl.col("total_ps") / PS_PER_US).alias("total_us"),
            share(pl.col("share_ps"), whole).alias("time_percent"),
            *[
                _intensity().alias("operational_intensity"),
                *(
                    pl.when(_RAN).then(pl.col(name) / _SECONDS / GIGA).alias(rate)
                    for name, rate in per_s.items()
                ),
            ],
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
        .select(schema.cast_columns())
    )


_SECONDS: Final = pl.col("total_ps") / PS_PER_S
_RAN: Final = pl.col("total_ps") > 0
_NOTHING_KNOWN: Final = "operations and bytes"


def _intensity() -> pl.Expr:
    moved = pl.col("accessed_bytes") > 0
    return pl.when(moved).then(pl.col("flops") / pl.col("accessed_bytes"))


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
