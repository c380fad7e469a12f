"""Tables of hardware limits of accelerators: peak rates and limits of occupancy.

Rates are dense operations per clock cycle and multiprocessor. The rates are the peak
rates of the architecture; some products reach only half of them. Limits of occupancy
are those of the CUDA C++ Programming Guide, "Compute Capabilities", and of the
occupancy calculator that ships with the CUDA toolkit.

Definition: docs/definitions/device-work.md#peak-rates.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

from stepscope.frozen import Frozen

#: Unit that a kernel computes with: vector lanes or matrix units, at one precision.
Unit = Literal["fp32", "fp16", "matrix_tf32", "matrix_fp16"]


class Rates(Frozen, frozen=True, eq=True):
    """Operations per cycle and multiprocessor; 0 if the architecture lacks the unit.

    Attributes:
        fp32: Floating-point operations of the vector lanes on 32-bit operands.
        fp16: Floating-point operations of the vector lanes on 16-bit operands.
        matrix_tf32: Operations of the matrix units (Tensor Cores) on 32-bit operands.
        matrix_fp16: Operations of the matrix units on 16-bit operands.
    """

    fp32: int
    fp16: int
    matrix_tf32: int
    matrix_fp16: int


#: Compute capability → rates. A capability between two rows of one major version has
#: the rates of the lower row.
NVIDIA_RATES: Final[dict[tuple[int, int], Rates]] = {
    (2, 0): Rates(64, 0, 0, 0),
    (3, 0): Rates(384, 0, 0, 0),
    (5, 0): Rates(256, 0, 0, 0),
    (6, 0): Rates(128, 256, 0, 0),
    (6, 1): Rates(256, 4, 0, 0),
    (7, 0): Rates(128, 256, 0, 1024),
    (7, 5): Rates(128, 256, 0, 1024),
    (8, 0): Rates(128, 512, 1024, 2048),
    (8, 6): Rates(256, 256, 256, 1024),
    (8, 9): Rates(256, 256, 512, 1024),
    (9, 0): Rates(256, 512, 2048, 4096),
    (10, 0): Rates(296, 592, 4096, 8192),
    (12, 0): Rates(256, 256, 256, 1024),
}

#: (major, minor) reported by ROCm → rates: gfx908 and gfx90a, gfx942, gfx950.
AMD_RATES: Final[dict[tuple[int, int], Rates]] = {
    (9, 0): Rates(128, 0, 256, 1024),
    (9, 4): Rates(256, 256, 256, 2048),
    (9, 5): Rates(256, 256, 256, 4096),
}


@cache
def peak_rates(vendor: str | None, major: int, minor: int) -> Rates | None:
    """Return a device's row of the rate tables; None if the device is not listed.

    A device without a recorded vendor is assumed to be an NVIDIA device, because only
    NVIDIA's tools leave out the vendor.
    """
    table = AMD_RATES if vendor == "AMD" else NVIDIA_RATES
    known = [key for key in table if key[0] == major and key[1] <= minor]
    return table[max(known)] if known else None


def peak_flops(rates: Rates, unit: Unit, cores: int, clock_hz: int) -> float | None:
    """Return the peak FLOP/s of a device's units of one kind; None if it lacks them."""
    per_cycle: int = getattr(rates, unit)
    return float(per_cycle) * cores * clock_hz if per_cycle else None


def computing_unit(*, bits: int, fp64: bool, matrix: bool | None) -> Unit | None:
    """Return the unit that a kernel computes with; None if unknown.

    Args:
        bits: Precision of the kernel's operands, 16 or 32.
        fp64: Whether the operands have 64 bits, for which the tables have no rate.
        matrix: Whether the kernel uses matrix units; None if unknown.
    """
    if fp64 or matrix is None:
        return None
    if matrix:
        return "matrix_fp16" if bits == _NARROW_BITS else "matrix_tf32"
    return "fp16" if bits == _NARROW_BITS else "fp32"


_NARROW_BITS: Final = 16


#: (Major, first minor, architecture), newest first
#: (docs/definitions/device-work.md#peak-rates).
_ARCHITECTURES: Final = (
    (10, 0, "Blackwell"),
    (9, 0, "Hopper"),
    (8, 9, "Ada Lovelace"),
    (8, 0, "Ampere"),
    (7, 5, "Turing"),
    (7, 0, "Volta"),
    (6, 0, "Pascal"),
    (5, 0, "Maxwell"),
    (3, 0, "Kepler"),
    (2, 0, "Fermi"),
)
#: (major, minor) reported by ROCm → architecture, if only one reports this version.
_AMD_ARCHITECTURES: Final = {(9, 4): "gfx942", (9, 5): "gfx950"}


def device_type(
    *, name: str | None, vendor: str | None, major: int | None, minor: int | None
) -> str | None:
    """Return the display name of a device: product name, else vendor and architecture.

    None if neither product nor architecture was recorded. A compute capability without
    a vendor is assumed to be NVIDIA's, and the text says that the vendor was inferred.
    """
    if name:
        return name
    if vendor == "AMD":
        architecture = _AMD_ARCHITECTURES.get((major or 0, minor or 0))
        return f"AMD GPU ({architecture})" if architecture else "AMD GPU"
    if major is None:
        return f"{vendor} GPU" if vendor else None
    version = (major, minor or 0)
    family = next((a for *first, a in _ARCHITECTURES if version >= tuple(first)), None)
    inferred = "" if vendor else ", inferred"
    return f"Nvidia GPU ({family or f'compute capability {major}'}{inferred})"


class MultiprocessorLimits(Frozen, frozen=True, eq=True):
    """Resources of one multiprocessor that running blocks share.

    Attributes:
        threads: Maximum number of resident threads; a warp is 32 of them.
        blocks: Maximum number of resident blocks.
        registers: Number of 32-bit registers.
        shared_memory_bytes: Maximum size of shared memory, in bytes.
        reserved_bytes: Shared memory that the system reserves in each block, in bytes.
        shared_unit_bytes: Allocation unit of shared memory, in bytes.
    """

    threads: int
    blocks: int
    registers: int
    shared_memory_bytes: int
    reserved_bytes: int
    shared_unit_bytes: int


#: On every compute capability in `OCCUPANCY_LIMITS`, registers are allocated per warp
#: in multiples of 256, and the warps of a block are spread over four partitions.
_WARP: Final = 32
_REGISTER_UNIT: Final = 256
_PARTITIONS: Final = 4

#: Compute capability → limits; there is no estimate for versions that are not listed.
OCCUPANCY_LIMITS: Final[dict[tuple[int, int], MultiprocessorLimits]] = {
    (5, 0): MultiprocessorLimits(2048, 32, 65536, 64 << 10, 0, 256),
    (5, 2): MultiprocessorLimits(2048, 32, 65536, 96 << 10, 0, 256),
    (5, 3): MultiprocessorLimits(2048, 32, 65536, 64 << 10, 0, 256),
    (6, 0): MultiprocessorLimits(2048, 32, 65536, 64 << 10, 0, 256),
    (6, 1): MultiprocessorLimits(2048, 32, 65536, 96 << 10, 0, 256),
    (7, 0): MultiprocessorLimits(2048, 32, 65536, 96 << 10, 0, 256),
    (7, 2): MultiprocessorLimits(2048, 32, 65536, 96 << 10, 0, 256),
    (7, 5): MultiprocessorLimits(1024, 16, 65536, 64 << 10, 0, 256),
    (8, 0): MultiprocessorLimits(2048, 32, 65536, 164 << 10, 1024, 128),
    (8, 6): MultiprocessorLimits(1536, 16, 65536, 100 << 10, 1024, 128),
    (8, 7): MultiprocessorLimits(1536, 16, 65536, 164 << 10, 1024, 128),
    (8, 9): MultiprocessorLimits(1536, 24, 65536, 100 << 10, 1024, 128),
    (9, 0): MultiprocessorLimits(2048, 32, 65536, 228 << 10, 1024, 128),
    (10, 0): MultiprocessorLimits(2048, 32, 65536, 228 << 10, 1024, 128),
    (12, 0): MultiprocessorLimits(1536, 24, 65536, 100 << 10, 1024, 128),
}


class Occupancy(Frozen, frozen=True, eq=True):
    """Theoretical occupancy of one launch shape.

    Attributes:
        percent: Share of the multiprocessor's maximum of resident threads, 0 to 100.
        limiter: Resource that prevents more resident blocks; if several do, the first
            of registers, shared_memory, threads, blocks.
    """

    percent: float
    limiter: Literal["registers", "shared_memory", "threads", "blocks"]


def theoretical_occupancy(
    limits: MultiprocessorLimits,
    *,
    threads: int,
    registers: int,
    shared_memory_bytes: int,
) -> Occupancy | None:
    """Compute the maximum occupancy of a multiprocessor with blocks of one shape.

    Args:
        limits: A row of `OCCUPANCY_LIMITS`.
        threads: Number of threads of a block, at least 1.
        registers: Number of registers of a thread.
        shared_memory_bytes: Static and dynamic shared memory of a block, in bytes.

    Returns:
        The occupancy; None for a block that has no threads or does not fit, because
        this device cannot have run such a launch.
    """
    if threads < 1:
        return None
    warps = -(-threads // _WARP)
    per_warp = _round_up(registers * _WARP, _REGISTER_UNIT)
    per_partition = limits.registers // _PARTITIONS
    warps_of_registers = (
        per_partition // per_warp * _PARTITIONS if per_warp else limits.threads
    )
    shared = _round_up(
        shared_memory_bytes + limits.reserved_bytes, limits.shared_unit_bytes
    )
    blocks_by: dict[Literal["registers", "shared_memory", "threads", "blocks"], int] = {
        "registers": warps_of_registers // warps,
        "shared_memory": (
            limits.shared_memory_bytes // shared if shared else limits.threads
        ),
        "threads": limits.threads // _WARP // warps,
        "blocks": limits.blocks,
    }
    limiter = min(blocks_by, key=lambda what: blocks_by[what])
    blocks = blocks_by[limiter]
    if blocks == 0:
        return None
    resident = min(blocks * warps * _WARP, limits.threads)
    return Occupancy(100.0 * resident / limits.threads, limiter)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
