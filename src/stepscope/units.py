"""Integer units, and their text for people."""

from __future__ import annotations

from typing import Final

__all__ = [
    "GIB",
    "MIB",
    "PS_PER_MS",
    "PS_PER_NS",
    "PS_PER_S",
    "PS_PER_US",
    "bytes_text",
    "duration_text",
]

PS_PER_NS: Final = 1_000
PS_PER_US: Final = 1_000_000
PS_PER_MS: Final = 1_000_000_000
PS_PER_S: Final = 1_000_000_000_000
GIB: Final = 2**30
MIB: Final = 2**20

_DURATIONS: Final = (
    (PS_PER_S, "s"),
    (PS_PER_MS, "ms"),
    (PS_PER_US, "µs"),
    (PS_PER_NS, "ns"),
    (1, "ps"),
)
_SIZES: Final = ((GIB, "GiB"), (MIB, "MiB"), (2**10, "KiB"), (1, "B"))


def duration_text(ps: float) -> str:
    """Write a duration with three significant digits in the largest unit below it."""
    return _scaled(ps, _DURATIONS)


def bytes_text(count: float) -> str:
    """Write a byte count with three significant digits in the largest binary unit."""
    return _scaled(count, _SIZES)


def _scaled(value: float, scales: tuple[tuple[int, str], ...]) -> str:
    for index, (size, unit) in enumerate(scales):
        scaled = value / size
        if abs(scaled) < 1 and size != 1:
            continue
        digits = 0 if abs(scaled) >= 100 or size == 1 else 1 if abs(scaled) >= 10 else 2
        # 999.7 µs rounds to "1000 µs"; the next unit up reads better.
        if round(abs(scaled), digits) >= 1000 and index > 0:
            larger, larger_unit = scales[index - 1]
            return f"{value / larger:.2f} {larger_unit}"
        return f"{scaled:,.{digits}f} {unit}"
    return f"0 {scales[-1][1]}"
