"""Times as people write them on the command line."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from stepscope.errors import BadUsage
from stepscope.units import PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US

_UNITS: Final = {
    "s": PS_PER_S,
    "ms": PS_PER_MS,
    "us": PS_PER_US,
    "µs": PS_PER_US,
    "μs": PS_PER_US,
    "ns": PS_PER_NS,
    "ps": 1,
}
#: A number as a page writes it, and a unit.
_TIME: Final = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[^\W\d]*)",
    re.ASCII,
)
_EXAMPLES: Final = "1.2345s, 12ms or 850us"


def time_ps(option: str, text: str) -> int:
    """Read a time since the start of the profile, to the picosecond.

    Args:
        option: The option that it was given to.
        text: What was given.

    Raises:
        BadUsage: It is no number with a unit.
    """
    found = _TIME.match(text.strip())
    unit = text.strip()[found.start("unit") :] if found is not None else ""
    if found is None:
        message = f"{option}: {text!r} is no time; write a number and a unit, as in "
        raise BadUsage(message + _EXAMPLES)
    if not unit:
        message = f"{option}: {text!r} says no unit; write it behind the number, as in "
        raise BadUsage(message + _EXAMPLES)
    if unit not in _UNITS:
        raise BadUsage.unknown_name("unit", unit, _UNITS, hint=f"({option} {text})")
    number = Decimal(found["number"].replace(",", ""))
    return int((number * _UNITS[unit]).to_integral_value())
