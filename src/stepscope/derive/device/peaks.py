"""`device_peaks`: clock and memory bandwidth of each device, with their source."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from stepscope.data_sheets import data_sheet_of
from stepscope.frozen import Frozen
from stepscope.trace.quality import QualityNote

#: Columns of `DevicePeaks.rows`; null means unknown.
DEVICE_PEAKS: Final[dict[str, pl.DataType]] = {
    "device": pl.Int32(),
    "vendor": pl.String(),
    "cc_major": pl.Int32(),
    "cc_minor": pl.Int32(),
    "cores": pl.Int32(),
    "clock_hz": pl.Int64(),
    "clock_source": pl.String(),  # recorded or data_sheet
    "memory_bandwidth": pl.Float64(),  # bytes/s
    "memory_source": pl.String(),  # recorded or data_sheet
    "peak_flops": pl.Float64(),  # as recorded; one value for all units of the device
}
_RECORDED: Final = "recorded"
_DATA_SHEET: Final = "data_sheet"
#: A recorded bandwidth is used only if it is this fraction of the published one or
#: more. All devices of a product have one memory speed; a lower value was computed
#: wrongly (AMD's tracer omits the double data rate).
_MIN_BANDWIDTH_SHARE: Final = 0.75
_MEGA: Final = 1_000_000
_GIGA: Final = 1_000_000_000


class DevicePeaks(Frozen, frozen=True):
    """Peak rates of the devices of one host.

    Attributes:
        rows: Columns `DEVICE_PEAKS`, one row per device.
        notes: Which values are from data sheets, and recorded values in doubt.
    """

    rows: pl.DataFrame
    notes: tuple[QualityNote, ...]


def device_peaks(*, devices: pl.DataFrame) -> DevicePeaks:
    """Take each peak from the recording, or, if missing, from the device's data sheet.

    A recorded bandwidth far below that of the data sheet is not used.

    Definition: docs/definitions/device-work.md#peak-rates.
    """
    rows: list[dict[str, Any]] = []
    notes: dict[tuple[str, str], QualityNote] = {}
    # One row per accelerator of a machine.
    for device in devices.iter_rows(named=True):
        row, note = _device_row(device)
        rows.append(row)
        if note is not None:
            notes.setdefault((note.kind, note.message), note)
    return DevicePeaks(pl.DataFrame(rows, schema=DEVICE_PEAKS), tuple(notes.values()))


def _device_row(device: dict[str, Any]) -> tuple[dict[str, Any], QualityNote | None]:
    version = (device["cc_major"], device["cc_minor"] or 0)
    sheet = data_sheet_of(
        name=device["name"],
        vendor=device["vendor"],
        version=None if version[0] is None else version,
        cores=device["cores"],
        memory_bytes=device["memory_bytes"],
    )
    row = {name: device.get(name) for name in DEVICE_PEAKS}
    recorded = device["peak_hbm"] or device["memory_bandwidth"]
    row |= {
        "clock_source": _RECORDED if row["clock_hz"] else None,
        "memory_bandwidth": recorded,
        "memory_source": _RECORDED if recorded else None,
    }
    if sheet is None:
        return row, None
    published = sheet.memory_gb_per_s * _GIGA
    if not row["clock_hz"] and sheet.clock_mhz:
        row |= {"clock_hz": sheet.clock_mhz * _MEGA, "clock_source": _DATA_SHEET}
    doubtful = bool(recorded) and recorded < _MIN_BANDWIDTH_SHARE * published
    if not recorded or doubtful:
        row |= {"memory_bandwidth": published, "memory_source": _DATA_SHEET}
    if doubtful:
        return row, QualityNote(
            kind="memory_bandwidth_doubtful",
            severity="info",
            scope="devices",
            message=f"The recorded memory bandwidth, {recorded / _GIGA:,.0f} GB/s, is "
            f"{100 * recorded / published:.0f} % of the {published / _GIGA:,.0f} GB/s "
            f"in the data sheet of {sheet.product}. The data sheet's value is used.",
        )
    if _DATA_SHEET in (row["clock_source"], row["memory_source"]):
        parts = []
        if row["clock_source"] == _DATA_SHEET:
            parts.append(f"a clock of {sheet.clock_mhz:,.0f} MHz")
        if row["memory_source"] == _DATA_SHEET:
            parts.append(f"{sheet.memory_gb_per_s:,.0f} GB/s of memory")
        return row, QualityNote(
            kind="peaks_from_data_sheet",
            severity="info",
            scope="devices",
            message="Peak rates that were not recorded come from the data sheet of "
            f"{sheet.product}: {' and '.join(parts)}.",
        )
    return row, None
