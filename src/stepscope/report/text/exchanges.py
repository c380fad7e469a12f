"""What devices exchanged with each other, by kind of collective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from stepscope.report.page import table, wrapped
from stepscope.report.words.names import us
from stepscope.unavailable import Unavailable
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from stepscope.report.document import Document
    from stepscope.report.page import Line

_UNKNOWN = "–"
_RIGHT: Final[tuple[Literal["<", ">"], ...]] = (">",) * 7
#: All columns fit into so many characters.
_WIDE = 76
_WAITING = (
    "Waiting for other members is part of the time, and so of the rates. Rate of the "
    "bus: what a member's link carries."
)


def exchanges(document: Document, width: int) -> list[Line]:
    """Write the collectives by kind; none where devices exchanged nothing."""
    overview = document.overview
    if isinstance(overview, Unavailable) or not overview.collectives:
        return []
    body = [
        (
            one.kind,
            f"{one.count:,}",
            us(one.mean_us * one.count),
            us(one.exposed_us),
            _UNKNOWN if one.bytes is None else bytes_text(one.bytes),
            _rate(one.gib_per_s),
            _rate(one.bus_gib_per_s),
        )
        for one in overview.collectives
    ]
    header = ("kind", "count", "time", "exposed", "bytes", "GiB/s", "bus GiB/s")
    # On a narrow page the part of the time and the rate that say least go.
    shown = [0, 1, 2, 4, 6] if width < _WIDE else list(range(len(header)))
    lines = table(
        tuple(header[at] for at in shown),
        [tuple(row[at] for at in shown) for row in body],
        align=("<", *_RIGHT[1 : len(shown)]),
        width=width,
        stretch=0,
    )
    if any(one.bytes is not None for one in overview.collectives):
        lines += wrapped(_WAITING, width, indent=2, role="dim")
    return lines


def _rate(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:,.2f}"
