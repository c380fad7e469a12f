"""Integer units, and texts of quantities for display."""

from __future__ import annotations

from typing import Final

PS_PER_NS: Final = 1_000
PS_PER_US: Final = 1_000_000
PS_PER_MS: Final = 1_000_000_000
PS_PER_S: Final = 1_000_000_000_000
GIB: Final = 2**30
MIB: Final = 2**20
MB: Final = 1_000_000

_DURATIONS: Final = (
    (PS_PER_S, "s"),
    (PS_PER_MS, "ms"),
    (PS_PER_US, "µs"),
    (PS_PER_NS, "ns"),
    (1, "ps"),
)
#: Number of decimals → smallest value that has four digits with these decimals.
_DIGITS: Final = {2: 10, 1: 100}
_SIZES: Final = ((GIB, "GiB"), (MIB, "MiB"), (2**10, "KiB"), (1, "B"))


def in_unit(ps: int | None, unit_ps: int) -> float | None:
    """Return a time in a unit of `unit_ps`; None if the time is unknown."""
    return None if ps is None else ps / unit_ps


def duration_text(ps: float) -> str:
    """Return a duration as text with three digits, in a fitting unit."""
    return _scaled_text(ps, _DURATIONS)


def bytes_text(count: float) -> str:
    """Return a byte count as text with three digits, in a fitting binary unit."""
    return _scaled_text(count, _SIZES)


def _scaled_text(value: float, scales: tuple[tuple[int, str], ...]) -> str:
    for index, (size, unit) in enumerate(scales):
        scaled = value / size
        if abs(scaled) < 1 and size != 1:
            continue
        # Round before choosing: 9.996 is shown as 10.0, and 99.96 as 100.
        digits = next(
            (one for one in (2, 1) if round(abs(scaled), one) < _DIGITS[one]), 0
        )
        digits = 0 if size == 1 else digits
        # 999.7 µs would be "1000 µs"; it is shown as "1.00 ms".
        if round(abs(scaled), digits) >= 1000 and index > 0:
            larger, larger_unit = scales[index - 1]
            return f"{value / larger:.2f} {larger_unit}"
        return f"{scaled:,.{digits}f} {unit}"
    return f"0 {scales[-1][1]}"
