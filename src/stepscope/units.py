"""Integer units, and texts of quantities for display."""

from __future__ import annotations

from typing import Final

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
#: Number of decimals → value from which fewer decimals give three digits.
_DIGITS: Final = {2: 10, 1: 100}
_SIZES: Final = ((GIB, "GiB"), (MIB, "MiB"), (2**10, "KiB"), (1, "B"))


def duration_text(ps: float) -> str:
    """Return a duration with three significant digits, in the largest unit below it."""
    return _scaled_text(ps, _DURATIONS)


def bytes_text(count: float) -> str:
    """Return a byte count with three significant digits, in the largest binary unit."""
    return _scaled_text(count, _SIZES)


def _scaled_text(value: float, scales: tuple[tuple[int, str], ...]) -> str:
    for index, (size, unit) in enumerate(scales):
        scaled = value / size
        if abs(scaled) < 1 and size != 1:
            continue
        # 9.996 has three digits as 10.0, and 99.96 as 100.
        digits = next(
            (one for one in (2, 1) if round(abs(scaled), one) < _DIGITS[one]), 0
        )
        digits = 0 if size == 1 else digits
        # 999.7 µs rounds to "1000 µs"; the next unit up reads better.
        if round(abs(scaled), digits) >= 1000 and index > 0:
            larger, larger_unit = scales[index - 1]
            return f"{value / larger:.2f} {larger_unit}"
        return f"{scaled:,.{digits}f} {unit}"
    return f"0 {scales[-1][1]}"
