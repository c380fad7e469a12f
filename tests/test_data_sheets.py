"""Which data sheet belongs to a device that a recording names."""

from __future__ import annotations

import pytest

from stepscope.data_sheets import DATA_SHEETS, data_sheet_of
from stepscope.hardware import Unit, peak_flops, peak_rates

GIB = 1 << 30


@pytest.mark.parametrize(
    ("name", "memory_gib", "clock_mhz", "gb_per_s"),
    [
        # Names as recordings hold them; numbers of the vendors' data sheets.
        ("NVIDIA H100 80GB HBM3", 79, 1980, 3350),
        ("NVIDIA H100 PCIe", 79, 1755, 2000),
        ("NVIDIA H100 80GB HBM2e", 79, 1755, 2000),
        ("NVIDIA H200", 140, 1980, 4800),
        ("NVIDIA B200", 178, 1965, 8000),
        ("NVIDIA A100-SXM4-80GB", 79, 1410, 2039),
        ("NVIDIA A100-SXM4-40GB", 39, 1410, 1555),
        # The engineering name; only its memory says which of the two it is.
        ("NVIDIA A100-PG509-200", 39, 1410, 1555),
        ("NVIDIA A100 80GB PCIe", 79, 1410, 1935),
        ("Tesla V100-SXM2-32GB", 31, 1530, 900),
        ("Tesla V100-PCIE-16GB", 15, 1380, 900),
        ("Tesla V100-DGXS-32GB", 31, 1530, 900),
        ("Tesla T4", 14, 1590, 320),
        ("Tesla P100-PCIE-16GB", 15, 1328, 732),
        ("NVIDIA GeForce RTX 2080 Ti", 10, 1545, 616),
        ("NVIDIA GeForce RTX 4090", 23, 2520, 1008),
        ("AMD Instinct MI300X VF", 191, 2100, 5300),
        ("AMD Instinct MI250X", 63, 1700, 1638.4),
    ],
)
def test_a_recorded_name_leads_to_its_data_sheet(
    name: str, memory_gib: int, clock_mhz: int, gb_per_s: float
) -> None:
    sheet = data_sheet_of(name=name, memory_bytes=memory_gib * GIB)
    assert sheet is not None
    assert (sheet.clock_mhz, sheet.memory_gb_per_s) == (clock_mhz, gb_per_s)


@pytest.mark.parametrize(
    "name",
    [
        # The same word, other chips; half of a card; nothing that is listed.
        *("NVIDIA GeForce RTX 3080 Laptop GPU", "NVIDIA GeForce RTX 2080 with Max-Q"),
        *("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4060 Ti"),
        "Tesla V100-FHHL-16GB",
        *("Quadro P4000", "TPU v6 Lite", "GeForce GTX 1080 with something"),
    ],
)
def test_a_device_that_is_not_listed_has_none(name: str) -> None:
    assert data_sheet_of(name=name, memory_bytes=40 * GIB) is None


@pytest.mark.parametrize(
    ("version", "cores", "memory_gib", "gb_per_s"),
    [
        ((9, 4), 304, 191, 5300),
        ((9, 4), 304, 255, 6000),
        ((9, 5), 256, 287, 8000),
    ],
)
def test_amd_s_devices_without_a_name_are_known_by_their_compute_units(
    version: tuple[int, int], cores: int, memory_gib: int, gb_per_s: float
) -> None:
    about = {"version": version, "cores": cores, "memory_bytes": memory_gib * GIB}
    sheet = data_sheet_of(name=None, vendor="AMD", **about)  # type: ignore[arg-type]
    assert sheet is not None
    assert sheet.memory_gb_per_s == gb_per_s
    assert data_sheet_of(name=None, vendor="Nvidia", **about) is None  # type: ignore[arg-type]


def test_no_product_hides_another() -> None:
    """Each entry is found by its own name, with enough memory."""
    for sheet in DATA_SHEETS:
        memory = max(sheet.least_memory_gib, 40 if "40GB" in sheet.product else 64)
        found = data_sheet_of(name=sheet.product, memory_bytes=memory * GIB)
        assert found is not None, sheet.product
        same = (found.clock_mhz, found.memory_gb_per_s)
        assert same == (sheet.clock_mhz, sheet.memory_gb_per_s), sheet.product


@pytest.mark.parametrize(
    ("product", "version", "cores", "unit", "published_tflops"),
    [
        # Dense rates of the vendors' white papers.
        ("GeForce RTX 5090", (12, 0), 170, "matrix_fp16", 419.0),
        ("GeForce RTX 5090", (12, 0), 170, "fp32", 104.8),
        ("GeForce RTX 4090", (8, 9), 128, "matrix_fp16", 330.3),
        ("Tesla V100 SXM2", (7, 0), 80, "matrix_fp16", 125.0),
        ("NVIDIA A100 40GB", (8, 0), 108, "matrix_fp16", 312.0),
    ],
)
def test_clocks_give_the_published_peaks(
    *,
    product: str,
    version: tuple[int, int],
    cores: int,
    unit: Unit,
    published_tflops: float,
) -> None:
    (sheet,) = (one for one in DATA_SHEETS if one.product == product)
    rates = peak_rates("Nvidia", *version)
    assert rates is not None
    assert sheet.clock_mhz is not None
    peak = peak_flops(rates, unit, cores, sheet.clock_mhz * 1_000_000)
    assert peak == pytest.approx(published_tflops * 1e12, rel=0.01)
