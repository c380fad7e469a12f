"""The roofs of a run: what the units and the memory of its devices can do at best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

import polars as pl

from stepscope.analysis.results.tool_tables import tables_of
from stepscope.derive.device.peaks import device_peaks
from stepscope.hardware import Unit, device_type, peak_flops, rates_of
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.analysis.options.roofline_model import Options
    from stepscope.derive.profile_data import ProfileData

ROOF_ROWS: Final = tables_of("roofline_model")["roofs"]

GIGA: Final = 1e9
_TERA: Final = 1e12
NO_PEAKS: Final = Unavailable(
    code="NO_PEAKS",
    reason="The peak rates of this device are not known: its name, its clock or its "
    "multiprocessors were not recorded, or its data sheet is not in the list.",
    remedy="Give them: `--peak-tflops RATE --peak-gb-per-s RATE`, from its data sheet.",
)
NO_HOST_PEAKS: Final = Unavailable(
    code="NO_PEAKS",
    reason="The ops ran on the host, whose peak rates no recording holds.",
    remedy="Give them: `--peak-tflops RATE --peak-gb-per-s RATE`, of all its cores.",
)


def roof_rows(profile: ProfileData, options: Options) -> pl.DataFrame:
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
