"""How full each memory became."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.report.page import Piece, line, more, table, wrapped
from stepscope.report.words.names import ms, percent, sentence
from stepscope.unavailable import Unavailable
from stepscope.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepscope.analysis.memory_profile.memory import Memory
    from stepscope.report.document import Document
    from stepscope.report.page import Line, Role
    from stepscope.unavailable import Missing

_SHOWN: Final = 8
#: Lines of the program that are named for each memory.
_LINES: Final = 3
_HEADER: Final[tuple[str, ...]] = (
    "memory",
    "peak",
    "of capacity",
    "capacity",
    "peak at",
)
#: A file that shows one instant knows no peak, and no time of one.
_AT_ONE_INSTANT: Final[tuple[str, ...]] = (
    "memory",
    "in use",
    "of capacity",
    "capacity",
)
#: Columns of the result that the section shows.
_COLUMNS: Final = ("rows.peak_bytes", "rows.peak_capacity", "rows.capacity")
_ROLES: Final[dict[str, Role]] = {"warning": "warn", "critical": "bad"}


def memories(document: Document, width: int) -> list[Line]:
    """Write the peak of each memory, and which were nearly full."""
    result = document.memory
    if isinstance(result, Unavailable):
        return []
    body = [
        (
            row["memory_id"],
            _or_dash(row["peak_bytes"], bytes_text),
            _or_dash(row["peak_capacity_percent"], percent),
            _or_dash(row["capacity_bytes"], bytes_text),
            _or_dash(row["peak_time_ms"], ms),
        )
        for row in result.rows.head(_SHOWN).iter_rows(named=True)
    ]
    known = result.memories.values()
    header = _AT_ONE_INSTANT if all(map(_is_instant, known)) else _HEADER
    columns = len(header)
    align = ("<", *">" * (columns - 1))
    shown = [row[:columns] for row in body]
    lines = table(header, shown, align=align, width=width, stretch=0)
    left = result.rows.height - len(body)
    if left:
        lines.append(line(Piece(f"  {left} more", "dim")))
    lines += _lines_of_program(result.memories, width)
    for name, memory in result.memories.items():
        # How free memory is fragmented matters where it runs short; the page shows it.
        for warning in memory.warnings:
            if warning.kind == "near_capacity":
                share = percent(100 * warning.value)
                text = f"{name}: {share} of its capacity is in use at the peak."
                lines += wrapped(text, width, indent=2, role=_ROLES[warning.severity])
    reasons = dict.fromkeys((one.reason, one.remedy) for one in dashes(document))
    for reason, remedy in reasons:
        text = f"– {sentence(reason)} {remedy}"
        lines += wrapped(text, width, indent=2, role="dim")
    return [*lines, more("stepscope show memory_profile PATH")]


def _is_instant(memory: Memory) -> bool:
    return memory.level == "one_instant"


def dashes(document: Document) -> tuple[Missing, ...]:
    """Return why columns of the section are unknown."""
    if isinstance(document.memory, Unavailable):
        return ()
    found = document.memory.missing
    return tuple(one for one in found if one.field.startswith(_COLUMNS))


def _lines_of_program(memories: Mapping[str, Memory], width: int) -> list[Line]:
    """Write which lines of the program hold most at the peak, where that is known.

    Devices that do the same hold the same: they are written once.
    """
    holding: dict[tuple[str, ...], list[str]] = {}
    for name, memory in memories.items():
        holding.setdefault(_held(memory), []).append(name)
    found: list[Line] = []
    for held, names in holding.items():
        others = len(names) - 1
        of = f"{names[0]} and {others} alike" if others else names[0]
        for part in held:
            found += wrapped(f"{of}: {part}", width, indent=2)
    return found


def _held(memory: Memory) -> tuple[str, ...]:
    """Return size, share and place of what holds most of a memory."""
    known = memory.lines.drop_nulls("source").head(_LINES)
    columns = known.select("allocation_bytes", "share_percent", "source")
    return tuple(
        f"{bytes_text(size)}{'' if share is None else f', {percent(share)}'}: {source}"
        for size, share, source in columns.iter_rows()
    )


def _or_dash(value: float | None, words: Callable[[float], str]) -> str:
    return "–" if value is None else words(value)
