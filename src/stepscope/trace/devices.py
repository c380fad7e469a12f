"""`devices`: what the hardware was."""

from __future__ import annotations

from typing import Final

import polars as pl

from stepscope.trace.schema import NEVER, Column, TableSchema

DEVICES: Final = TableSchema(
    "devices",
    "an accelerator that the capture listed, used or not",
    "by ordinal",
    (
        Column("device", pl.Int32(), "ordinal", NEVER, "Number of the device."),
        Column(
            "plane", pl.String(), "", NEVER, "Name of the device's plane, as recorded."
        ),
        Column(
            "type", pl.String(), "", NEVER, "Type of the device: GPU, TPU or CUSTOM."
        ),
        Column("name", pl.String(), "", "not recorded", "Product name of the device."),
        Column(
            "vendor",
            pl.String(),
            "",
            "not recorded",
            "Vendor of the device: Nvidia or AMD.",
        ),
        Column(
            "cc_major",
            pl.Int32(),
            "",
            "not recorded",
            "Compute capability, major number.",
        ),
        Column(
            "cc_minor",
            pl.Int32(),
            "",
            "not recorded",
            "Compute capability, minor number.",
        ),
        Column("cores", pl.Int32(), "", "not recorded", "Number of multiprocessors."),
        Column(
            "clock_hz", pl.Int64(), "Hz", "not recorded", "Clock rate of the cores."
        ),
        Column(
            "memory_bandwidth",
            pl.Int64(),
            "bytes/s",
            "not recorded",
            "Peak bandwidth of the device memory.",
        ),
        Column(
            "memory_bytes",
            pl.Int64(),
            "bytes",
            "not recorded",
            "Size of the device memory.",
        ),
        Column(
            "peak_flops",
            pl.Float64(),
            "FLOP/s",
            "not recorded",
            "Peak rate of arithmetic, as recorded.",
        ),
        Column(
            "peak_hbm",
            pl.Float64(),
            "bytes/s",
            "not recorded",
            "Peak bandwidth of the high-bandwidth memory, as recorded.",
        ),
        Column(
            "activities",
            pl.Int64(),
            "",
            NEVER,
            "Number of rows in `device_activity` that ran on it.",
        ),
    ),
)
