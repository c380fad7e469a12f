"""Peak rates, device types and occupancy, against published numbers."""

from __future__ import annotations

import pytest

from stepscope.hardware import (
    AMD_RATES,
    NVIDIA_RATES,
    OCCUPANCY_LIMITS,
    Unit,
    device_type,
    peak_flops,
    peak_rates,
    theoretical_occupancy,
)


@pytest.mark.parametrize(
    ("product", "version", "cores", "boost_mhz", "unit", "published_tflops"),
    [
        # Data sheets of the vendor, dense rates at the boost clock.
        ("V100 SXM2", (7, 0), 80, 1530, "fp32", 15.7),
        ("V100 SXM2", (7, 0), 80, 1530, "matrix_fp16", 125.0),
        ("T4", (7, 5), 40, 1590, "fp32", 8.1),
        ("T4", (7, 5), 40, 1590, "matrix_fp16", 65.0),
        ("A100 SXM", (8, 0), 108, 1410, "fp32", 19.5),
        ("A100 SXM", (8, 0), 108, 1410, "matrix_tf32", 156.0),
        ("A100 SXM", (8, 0), 108, 1410, "matrix_fp16", 312.0),
        ("H100 SXM", (9, 0), 132, 1830, "matrix_fp16", 989.5),
        ("H100 SXM", (9, 0), 132, 1980, "fp32", 66.9),
    ],
)
def test_peaks_agree_with_data_sheets(
    *,
    product: str,
    version: tuple[int, int],
    cores: int,
    boost_mhz: int,
    unit: Unit,
    published_tflops: float,
) -> None:
    rates = peak_rates("Nvidia", *version)
    assert rates is not None
    peak = peak_flops(rates, unit, cores, boost_mhz * 1_000_000)
    assert peak == pytest.approx(published_tflops * 1e12, rel=0.01), product


def test_the_peak_of_the_device_of_a1() -> None:
    # A.1: fp16 tensor 311.9 TFLOP/s.
    rates = peak_rates("Nvidia", 8, 0)
    assert rates is not None
    peak = peak_flops(rates, "matrix_fp16", 108, 1_410_000_000)
    assert peak == pytest.approx(311.9e12, rel=1e-3)


def test_mi300x_follows_the_table_of_amd() -> None:
    rates = peak_rates("AMD", 9, 4)
    assert rates is AMD_RATES[(9, 4)]
    peak = peak_flops(rates, "matrix_fp16", 304, 2_100_000_000)
    assert peak == pytest.approx(1307.4e12, rel=1e-3)


def test_a_version_between_rows_uses_the_row_below_of_its_major_version() -> None:
    assert peak_rates("Nvidia", 8, 7) is NVIDIA_RATES[(8, 6)]
    assert peak_rates(None, 7, 2) is NVIDIA_RATES[(7, 0)]


def test_a_version_outside_of_the_table_has_no_peak() -> None:
    assert peak_rates("Nvidia", 13, 0) is None
    assert peak_rates("Nvidia", 1, 3) is None
    assert peak_rates("AMD", 11, 0) is None


def test_a_unit_that_a_device_lacks_has_no_peak() -> None:
    assert peak_flops(NVIDIA_RATES[(6, 1)], "matrix_fp16", 20, 10**9) is None


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"name": "H200"}, "H200"),
        ({"vendor": "Nvidia", "major": 8, "minor": 0}, "Nvidia GPU (Ampere)"),
        ({"vendor": "Nvidia", "major": 8, "minor": 9}, "Nvidia GPU (Ada Lovelace)"),
        ({"vendor": "Nvidia", "major": 12, "minor": 0}, "Nvidia GPU (Blackwell)"),
        ({"major": 7, "minor": 5}, "Nvidia GPU (Turing, inferred)"),
        ({"vendor": "AMD", "major": 9, "minor": 4}, "AMD GPU (gfx942)"),
        ({"vendor": "AMD"}, "AMD GPU"),
        ({"vendor": "Nvidia"}, "Nvidia GPU"),
        ({}, None),
    ],
)
def test_devices_are_called_by_product_or_architecture(
    known: dict[str, str | int], expected: str | None
) -> None:
    nothing = dict.fromkeys(("name", "vendor", "major", "minor"))
    assert device_type(**(nothing | known)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "threads", "registers", "shared", "blocks", "limiter"),
    [
        # Worked by hand from the limits of the programming guide.
        ((7, 0), 256, 32, 0, 8, "registers"),
        ((7, 0), 256, 64, 0, 4, "registers"),
        ((7, 0), 1024, 16, 0, 2, "threads"),
        ((7, 0), 32, 16, 0, 32, "blocks"),
        ((7, 0), 128, 16, 48 << 10, 2, "shared_memory"),
        # 33 registers are handed out as 40: 51 warps fit, 12 per partition.
        ((7, 0), 128, 33, 0, 12, "registers"),
        ((8, 0), 128, 16, 41 << 10, 3, "shared_memory"),
        ((8, 9), 512, 16, 0, 3, "threads"),
        ((7, 5), 256, 16, 0, 4, "threads"),
    ],
)
def test_occupancy_is_the_scarcest_resource(
    *,
    version: tuple[int, int],
    threads: int,
    registers: int,
    shared: int,
    blocks: int,
    limiter: str,
) -> None:
    limits = OCCUPANCY_LIMITS[version]
    found = theoretical_occupancy(
        limits, threads=threads, registers=registers, shared_memory_bytes=shared
    )
    assert found is not None
    assert found.percent == pytest.approx(100 * blocks * threads / limits.threads)
    assert found.limiter == limiter


@pytest.mark.parametrize(
    "block",
    [
        {"threads": 0, "registers": 16, "shared_memory_bytes": 0},
        {"threads": 1024, "registers": 255, "shared_memory_bytes": 0},
        {"threads": 32, "registers": 16, "shared_memory_bytes": 200 << 10},
    ],
)
def test_a_block_that_cannot_run_has_no_occupancy(block: dict[str, int]) -> None:
    assert theoretical_occupancy(OCCUPANCY_LIMITS[(7, 0)], **block) is None
