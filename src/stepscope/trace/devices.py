"""`devices`: what the hardware was."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

__all__ = ["DEVICES"]

DEVICES: Final = TableSchema(
    "devices",
    "an accelerator that the capture listed, used or not",
    "by ordinal",
    (
        Column("device", pl.Int32(), "ordinal", NEVER, "Number of the device."),
        Column("plane", pl.String(), "", NEVER, "Name as recorded."),
        Column("type", pl.String(), "", NEVER, "GPU, TPU or CUSTOM."),
        Column("name", pl.String(), "", "not recorded", "Product name."),
        Column("vendor", pl.String(), "", "not recorded", "Nvidia or AMD."),
        Column("cc_major", pl.Int32(), "", "not recorded", "Compute capability."),
        Column("cc_minor", pl.Int32(), "", "not recorded", "Compute capability."),
        Column("cores", pl.Int32(), "", "not recorded", "Multiprocessors."),
        Column("clock_hz", pl.Int64(), "Hz", "not recorded", "Core clock."),
        Column("memory_bandwidth", pl.Int64(), "bytes/s", "not recorded", "Peak rate."),
        Column("memory_bytes", pl.Int64(), "bytes", "not recorded", "Size."),
        Column("peak_flops", pl.Float64(), "FLOP/s", "not recorded", "As recorded."),
        Column("peak_hbm", pl.Float64(), "bytes/s", "not recorded", "As recorded."),
        Column("activities", pl.Int64(), "", NEVER, "Rows of device_activity it has."),
    ),
)
