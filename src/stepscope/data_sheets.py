"""Highest clock and memory bandwidth of accelerators, as vendors publish them.

A recording may lack these values, and AMD's tracer records half of the true bandwidth.
The clock is the highest one of the product, which drivers also report. Different
products of one name are distinguished by their memory size.

Definition: docs/definitions/device-work.md#peak-rates.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern


class DataSheet(Frozen, frozen=True, eq=True):
    """Published data of one product.

    Attributes:
        product: Name of the product for display.
        pattern: Regular expression that the recorded name matches in lower case.
        clock_mhz: Highest clock of the cores; None if the vendor does not publish it.
        memory_gb_per_s: Bandwidth of the memory, in 10^9 bytes per second.
        least_memory_gib: Minimum memory size of the product, in GiB.
        cores: Number of compute units, which together with `version` identifies an AMD
            product in recordings without a product name; None if it does not.
        version: (major, minor) reported by ROCm, used together with `cores`.
    """

    product: str
    pattern: str
    clock_mhz: int | None
    memory_gb_per_s: float
    least_memory_gib: int = 0
    cores: int | None = None
    version: tuple[int, int] | None = None


#: Rows from vendors' data sheets and white papers; the first matching row is used.
DATA_SHEETS: Final[tuple[DataSheet, ...]] = (
    DataSheet("NVIDIA GB200", r"\bgb200\b", None, 8000),
    DataSheet("NVIDIA B300", r"\bg?b300\b", None, 8000),
    DataSheet("NVIDIA B200", r"\bb200\b", 1965, 8000),
    DataSheet("NVIDIA GH200 480GB", r"\bgh200 480gb", 1980, 4000),
    DataSheet("NVIDIA GH200 144G", r"\bgh200 144g", 1980, 4900),
    DataSheet("NVIDIA GH200", r"\bgh200\b", 1980, 4000),
    DataSheet("NVIDIA H200", r"\bh200\b", 1980, 4800),
    DataSheet("NVIDIA H20", r"\bh20\b", 1980, 4000),
    DataSheet("NVIDIA H100 NVL", r"\bh100 nvl", 1980, 3900),
    DataSheet("NVIDIA H100 PCIe", r"\bh100 (?:80gb )?(?:pcie|hbm2e)", 1755, 2000),
    DataSheet("NVIDIA H100 SXM", r"\bh[18]00\b", 1980, 3350),
    DataSheet("NVIDIA A100 80GB PCIe", r"\ba[18]00 80gb pcie", 1410, 1935),
    DataSheet("NVIDIA A100 SXM 80GB", r"\ba[18]00\b", 1410, 2039, 60),
    DataSheet("NVIDIA A100 40GB", r"\ba100\b", 1410, 1555),
    DataSheet("NVIDIA A40", r"\ba40\b", 1740, 696),
    DataSheet("NVIDIA A30", r"\ba30\b", 1440, 933),
    DataSheet("NVIDIA A10G", r"\ba10g\b", 1710, 600),
    DataSheet("NVIDIA A10", r"\ba10\b", 1695, 600),
    DataSheet("NVIDIA A2", r"\ba2\b", 1770, 200),
    DataSheet("NVIDIA L40S", r"\bl40s\b", 2520, 864),
    DataSheet("NVIDIA L40", r"\bl40\b", 2490, 864),
    DataSheet("NVIDIA L4", r"\bl4\b", 2040, 300),
    DataSheet("Tesla V100S", r"\bv100s\b", 1597, 1134),
    DataSheet("Tesla V100 PCIe", r"\bv100[- ]pcie", 1380, 900),
    DataSheet("Tesla V100 SXM2", r"\bv100\b", 1530, 900),
    DataSheet("Tesla T4", r"\bt4\b", 1590, 320),
    DataSheet("Tesla P100 12GB", r"\bp100[- ](?:pcie-)?12gb", 1328, 549),
    DataSheet("Tesla P100 PCIe", r"\bp100[- ]pcie", 1328, 732),
    DataSheet("Tesla P100 SXM2", r"\bp100\b", 1480, 732),
    DataSheet("Tesla P40", r"\bp40\b", 1531, 346),
    DataSheet("Tesla P4", r"\bp4\b", 1113, 192),
    DataSheet("Tesla K80", r"\bk80\b", 875, 240),
    DataSheet("RTX 6000 Ada", r"\brtx 6000 ada", 2505, 960),
    DataSheet("RTX A6000", r"\brtx a6000\b", 1800, 768),
    DataSheet("RTX A5000", r"\brtx a5000\b", 1695, 768),
    DataSheet("RTX A4000", r"\brtx a4000\b", 1560, 448),
    DataSheet("GeForce RTX 5090", r"\brtx 5090$", 2407, 1792),
    DataSheet("GeForce RTX 5080", r"\brtx 5080$", 2617, 960),
    DataSheet("GeForce RTX 5070 Ti", r"\brtx 5070 ti$", 2452, 896),
    DataSheet("GeForce RTX 5070", r"\brtx 5070$", 2512, 672),
    DataSheet("GeForce RTX 4090", r"\brtx 4090$", 2520, 1008),
    DataSheet("GeForce RTX 4080", r"\brtx 4080$", 2505, 717),
    DataSheet("GeForce RTX 4070 Ti", r"\brtx 4070 ti$", 2610, 504),
    DataSheet("GeForce RTX 4070", r"\brtx 4070$", 2475, 504),
    DataSheet("GeForce RTX 4060", r"\brtx 4060$", 2460, 272),
    DataSheet("GeForce RTX 3090 Ti", r"\brtx 3090 ti$", 1860, 1008),
    DataSheet("GeForce RTX 3090", r"\brtx 3090$", 1695, 936),
    DataSheet("GeForce RTX 3080 Ti", r"\brtx 3080 ti$", 1665, 912),
    DataSheet("GeForce RTX 3080", r"\brtx 3080$", 1710, 760),
    DataSheet("GeForce RTX 3070", r"\brtx 3070$", 1725, 448),
    DataSheet("GeForce RTX 3060 Ti", r"\brtx 3060 ti$", 1665, 448),
    DataSheet("GeForce RTX 3060", r"\brtx 3060$", 1777, 360),
    DataSheet("Titan RTX", r"\btitan rtx$", 1770, 672),
    DataSheet("Quadro RTX 8000", r"\bquadro rtx [68]000$", 1770, 672),
    DataSheet("GeForce RTX 2080 Ti", r"\brtx 2080 ti$", 1545, 616),
    DataSheet("GeForce RTX 2080 Super", r"\brtx 2080 super$", 1815, 496),
    DataSheet("GeForce RTX 2080", r"\brtx 2080$", 1710, 448),
    DataSheet("GeForce RTX 2070", r"\brtx 2070$", 1620, 448),
    DataSheet("GeForce RTX 2060", r"\brtx 2060$", 1680, 336),
    DataSheet("Titan V", r"\btitan v$", 1455, 653),
    DataSheet("Titan Xp", r"\btitan xp$", 1582, 548),
    DataSheet("GeForce GTX 1080 Ti", r"\bgtx 1080 ti$", 1582, 484),
    DataSheet("GeForce GTX 1080", r"\bgtx 1080$", 1733, 320),
    DataSheet("GeForce GTX 1070", r"\bgtx 1070$", 1683, 256),
    DataSheet("AMD Instinct MI355X", r"\bmi355x?\b", 2400, 8000),
    # MI350X and MI355X are gfx950 with equal memory.
    DataSheet("AMD Instinct MI350X", r"\bmi350x?\b", 2200, 8000, 0, 256, (9, 5)),
    DataSheet("AMD Instinct MI325X", r"\bmi325x?\b", 2100, 6000, 240, 304, (9, 4)),
    DataSheet("AMD Instinct MI300A", r"\bmi300a\b", 2100, 5300, 0, 228, (9, 4)),
    DataSheet("AMD Instinct MI300X", r"\bmi300x?\b", 2100, 5300, 0, 304, (9, 4)),
    # Each of the two dies of a card is a separate device.
    DataSheet("AMD Instinct MI250", r"\bmi250x?\b", 1700, 1638.4),
    DataSheet("AMD Instinct MI210", r"\bmi210\b", 1700, 1638.4),
    DataSheet("AMD Instinct MI100", r"\bmi100\b", 1502, 1228.8),
)

_GIB: Final = 1 << 30
#: Names of slower variants that contain the name of a full card: laptop chips,
#: low-profile cards, and parts of a card.
_SLOWER: Final = Pattern(r"laptop|max-q|mobile|fhhl|\bmig\b")


def data_sheet_of(
    *,
    name: str | None,
    vendor: str | None = None,
    version: tuple[int, int] | None = None,
    cores: int | None = None,
    memory_bytes: int | None = None,
) -> DataSheet | None:
    """Return the data sheet of a device; None if the table has none.

    Args:
        name: Product name as recorded; None if unknown.
        vendor: Vendor, if known.
        version: Compute capability, or the version that ROCm reports.
        cores: Number of multiprocessors.
        memory_bytes: Recorded memory size, in bytes; may exclude a reserved part.
    """
    memory_gib = (memory_bytes or 0) / _GIB
    if name:
        return _sheets_by_name(name.lower(), memory_gib)
    if vendor != "AMD" or None in (version, cores):
        return None
    return next(
        (
            sheet
            for sheet in DATA_SHEETS
            if (sheet.version, sheet.cores) == (version, cores)
            and memory_gib >= sheet.least_memory_gib
        ),
        None,
    )


@cache
def _sheets_by_name(name: str, memory_gib: float) -> DataSheet | None:
    if _SLOWER.search(name):
        return None
    return next(
        (
            sheet
            for sheet in DATA_SHEETS
            if memory_gib >= sheet.least_memory_gib and re.search(sheet.pattern, name)
        ),
        None,
    )


#: Products whose boards all have direct links, and the rate at which one device sends
#: over its links, in 10^9 bytes per second.
_LINKS: Final = (
    (r"\bv100-sxm", 150.0),
    (r"\ba[18]00-sxm", 300.0),
    (r"\bh[128]00\b(?!.*(?:pcie|nvl))", 450.0),
    (r"\bg?b[23]00\b", 900.0),
)


def link_gb_per_s(name: str | None) -> float | None:
    """Return the peak rate at which a device sends to its neighbours, in 10^9 bytes/s.

    None if some boards of the product have no direct links, for example PCIe cards.
    """
    lowered = (name or "").lower()
    return next((rate for part, rate in _LINKS if re.search(part, lowered)), None)
