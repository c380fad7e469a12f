"""Units of Nsight Compute, and how many base units each is.

The same metric changes its unit from row to row (`us`, `ms`). K, M and G are powers of
1,000: 8,192 bytes appear as 8.19 Kbyte.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

#: Base units are ns for times, and one for each that is counted.
_TIMES_NS: Final = {
    **dict.fromkeys(("ns", "nsecond", "nanosecond"), 1.0),
    **dict.fromkeys(("us", "usecond", "microsecond", "µs"), 1e3),
    **dict.fromkeys(("ms", "msecond", "millisecond"), 1e6),
    **dict.fromkeys(("s", "second"), 1e9),
}
_COUNTED: Final = re.compile(
    r"(?P<prefix>[KMGTPkmgtp]?)(?P<unit>byte|bit|hz|cycle|inst|sector|request|warp"
    r"|block|thread|register)s?\Z",
    re.IGNORECASE,
)
_PREFIXES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_NS_PER_S: Final = 1e9


@cache
def base_unit(unit: str) -> tuple[str, float]:
    """Return the base unit, and by what a value in the unit is multiplied.

    An unknown unit is its own.
    """
    above, slash, below = unit.strip().partition("/")
    name, factor = _part(above)
    if not slash:
        return name, factor
    if below in _TIMES_NS:
        rate = factor * _NS_PER_S / _TIMES_NS[below]
        return ("Hz" if name == "cycle" else f"{name}/s"), rate
    lower, divisor = _part(below)
    return f"{name}/{lower}", factor / divisor


def _part(unit: str) -> tuple[str, float]:
    if unit in _TIMES_NS:
        return "ns", _TIMES_NS[unit]
    found = _COUNTED.match(unit)
    if found is None:
        return unit, 1.0
    name = found["unit"].lower()
    factor = _PREFIXES[found["prefix"].lower()]
    return ("Hz" if name == "hz" else name), factor
