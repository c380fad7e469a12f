"""The small grammars inside text stats: launch shapes and copies.

Each text is `key:value` pairs between blanks or newlines; the keys differ by vendor
and year. What lies beyond the hardware is refused: one
writer left such fields uninitialised.

Definition: docs/formats/xplane.md#device-activity.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.trace.reading.launch_limits import (
    MOST_GRID,
    MOST_REGISTERS,
    MOST_SHARED_BYTES,
    MOST_THREADS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAIR: Final = Pattern(r"([A-Za-z_]+):(\S+)")
_TRIPLE: Final = Pattern(r"(-?\d+),(-?\d+),(-?\d+)\Z")
_MOST_BYTES: Final = 2**63 - 1


class Geometry(NamedTuple):
    """A launch shape with its resources; None is unknown.

    Attributes:
        refused: Names of the fields that held something impossible.
    """

    registers: int | None = None
    static_shared: int | None = None
    dynamic_shared: int | None = None
    shared: int | None = None
    block: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    occupancy: float | None = None
    refused: tuple[str, ...] = ()


class Copy(Frozen, frozen=True, eq=True):
    """What the details of a copy or memset say; None is unknown."""

    source: str | None = None
    destination: str | None = None
    device: int | None = None
    size: int | None = None


def parse_geometry(text: str) -> Geometry:
    """Read `kernel_details` in any of its forms; an empty text knows nothing."""
    pairs = dict(_PAIR.findall(text))
    refused: list[str] = []

    def number(key: str, *, most: int, name: str) -> int | None:
        value = _integer(pairs.get(key))
        if value is not None and not 0 <= value <= most:
            refused.append(name)
            return None
        return value

    registers = number("regs", most=MOST_REGISTERS, name="registers")
    static = number("static_shared", most=MOST_SHARED_BYTES, name="shared memory")
    dynamic = number("dynamic_shared", most=MOST_SHARED_BYTES, name="shared memory")
    shared = number("shm", most=MOST_SHARED_BYTES, name="shared memory")
    if static is not None and dynamic is not None:
        shared = static + dynamic
    # AMD's tracer writes 0 for what it does not know.
    group = number("group_mem", most=MOST_SHARED_BYTES, name="shared memory")
    block = _triple(pairs.get("block"), most=MOST_THREADS)
    if block and math.prod(block) > MOST_THREADS:
        block = ()
    grid = _triple(pairs.get("grid"), most=MOST_GRID)
    refused += [name for name, it in (("block", block), ("grid", grid)) if it == ()]
    return Geometry(
        registers=registers or None,
        static_shared=static,
        dynamic_shared=dynamic,
        shared=shared if shared is not None else group or None,
        block=block or None,
        grid=grid or None,
        occupancy=_occupancy(pairs, refused),
        refused=tuple(refused),
    )


def parse_copy(text: str) -> Copy:
    """Read `memcpy_details` or the details of a memset in any of their forms."""
    pairs = dict(_PAIR.findall(text))
    size = _integer(pairs.get("size", pairs.get("num_bytes")))
    if size is not None and not 0 <= size <= _MOST_BYTES:
        size = None
    # AMD's tracer writes kind "Unknown" and size 0 where it knows neither.
    if size == 0 and pairs.get("kind", "").lower() == "unknown":
        size = None
    return Copy(
        source=pairs.get("kind_src"),
        destination=pairs.get("kind_dst"),
        device=_integer(pairs.get("dest")),
        size=size,
    )


def _integer(text: str | None) -> int | None:
    # Digits are counted before the conversion: int() of a long text is quadratic.
    if text is None or len(text) > 20:
        return None
    try:
        return int(text)
    except ValueError:
        return None


def _triple(text: str | None, *, most: int) -> tuple[int, int, int] | tuple[()] | None:
    """Three sizes; an empty tuple where one is impossible, None where not recorded."""
    if text is None:
        return None
    found = _TRIPLE.match(text) if len(text) <= 64 else None
    if found is None:
        return ()
    x, y, z = (int(part) for part in found.groups())
    return (x, y, z) if all(1 <= part <= most for part in (x, y, z)) else ()


def _occupancy(pairs: Mapping[str, str], refused: list[str]) -> float | None:
    """Return the occupancy in percent, None where the details hold 0 ("not available").

    Definition: docs/formats/xplane.md#device-activity.
    """
    text = pairs.get("occ_pct")
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0.0 <= value <= 100.0:
        refused.append("occupancy")
        return None
    return value or None
