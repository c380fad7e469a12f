"""The lines of a file that are a table, between those of the tool and the program.

`ncu --csv` writes to the same place as the program that it measures, so lines of both
surround the table or stand within it. One file may hold several tables, each with its
own header.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadInput
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.rundir import LIMIT_BYTES
from stepscope.trace.reading.texts import shorten_text
from stepscope.xspace.reading.source import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HEADER: Final = re.compile(
    r'(?P<quote>"?)ID(?P=quote)(?P<delimiter>[,;])(?P=quote)Process ID(?P=quote)'
)
_SAID: Final = re.compile(r"==(?:ERROR|WARNING)==\s*(.*)|.*(ERR_NVGPUCTRPERM).*")
#: A line of what the tool prints for people, without `--csv`.
_FOR_PEOPLE: Final = re.compile(r"\s+(?:Section: \S|Metric Name\s+Metric Unit\s)")
_NO_PERMISSION: Final = "ERR_NVGPUCTRPERM"
#: A text in a row may have line breaks, but a quote that was lost must not swallow the
#: rest of the file.
_MOST_LINES: Final = 64
_LONGEST_SAID: Final = 300
CUT: Final = "that are cut within a cell"
_BELOW_NO_HEADER: Final = "below a header that is damaged"
_UNREADABLE: Final = "that are no row of a table"


class Table(Frozen, frozen=True):
    """One table: the names of its columns, and the cells of its rows as texts."""

    header: list[str]
    rows: list[list[str]]


class TableFile(Frozen, frozen=True):
    """Every table of a file.

    Attributes:
        tables: Those with a header, in order.
        other_lines: Lines of the tool and of the program.
        said: Errors and warnings of the tool, each once.
        refused: Why a row cannot be read → how many.
    """

    name: str
    tables: tuple[Table, ...]
    other_lines: int
    said: tuple[str, ...]
    refused: Counter[str]
    damaged: bool


def open_tables(path: Path, *, limit_bytes: int = LIMIT_BYTES) -> TableFile:
    """Read a file of tables, plain or gzip.

    Raises:
        BadInput: It cannot be opened or holds no table.
    """
    data, damage = open_bytes(path, limit_bytes=limit_bytes, mapped=False)
    return find_tables(data.tobytes(), str(path), damaged=bool(damage))


def find_tables(content: bytes, name: str, *, damaged: bool = False) -> TableFile:
    """Find the tables in what `ncu --csv` wrote.

    Raises:
        BadInput: There is none; the line says what the tool complained of.
    """
    refused: Counter[str] = Counter()
    rows_of: list[tuple[_Form, list[str]]] = []
    other: list[str] = []
    header_is_whole = False
    # The text; PowerShell writes UTF-16 where output goes into a file.
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        decoded = content.decode("utf-16", "replace")
    else:
        decoded = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    for form, row in _logical_rows(decoded.split("\n"), refused):
        if form is None:
            other.append(row)
        elif HEADER.match(row):
            # What a damaged header calls its columns is not known.
            header_is_whole = row.count('"') % 2 == 0 and _is_row(row)
            if header_is_whole:
                rows_of.append((form, [row]))
        elif not header_is_whole:
            refused[_BELOW_NO_HEADER] += 1
        else:
            rows_of[-1][1].append(row)
    other = [line for line in other if line.strip()]
    said = tuple(
        dict.fromkeys(
            shorten_text((found[1] or line).strip(), _LONGEST_SAID)
            for line in other
            if (found := _SAID.match(line))
        )
    )
    if not rows_of and refused:
        raise BadInput.at(
            name, "its table of Nsight Compute has a damaged header", Remedy.COPY_AGAIN
        )
    if not rows_of:
        raise _error_without_table(name, said, other)
    tables = tuple(_cells_of_table(form, rows, refused) for form, rows in rows_of)
    return TableFile(name, tables, len(other), said, refused, damaged)


class _Form(Frozen, frozen=True):
    """How the rows below a header are written.

    Attributes:
        row: Matches the begin of a row: the number of its launch, an empty cell in a
            row of units, or whatever damage left.
        next_row: Matches it where a row is expected to go on.
    """

    delimiter: str
    row: re.Pattern[str]
    next_row: re.Pattern[str]

    @classmethod
    def of_header(cls, found: re.Match[str]) -> _Form:
        quote, delimiter = found["quote"], found["delimiter"]
        number = re.compile(rf"{quote}\d*{quote}{delimiter}")
        anything = re.compile(rf'"[^"]*"{delimiter}') if quote else number
        return cls(delimiter, anything, number)


def _logical_rows(
    lines: Sequence[str], refused: Counter[str]
) -> Iterator[tuple[_Form | None, str]]:
    """Yield headers and rows with their form, other lines with none.

    Lines whose quotes span several are joined.
    """
    at = 0
    form: _Form | None = None
    while at < len(lines):
        line = lines[at].removesuffix("\r")
        at += 1
        if header := HEADER.match(line):
            form = _Form.of_header(header)
        elif form is None or not form.row.match(line):
            yield None, line
            continue
        if header or line.count('"') % 2 == 0:
            yield form, line
            continue
        joined, end = line, at
        # Where the next row begins, the quote that is missing was lost.
        while (
            joined.count('"') % 2
            and end < min(len(lines), at + _MOST_LINES)
            and not form.next_row.match(lines[end])
        ):
            joined += "\n" + lines[end].removesuffix("\r")
            end += 1
        if joined.count('"') % 2:
            refused[CUT] += 1
        else:
            at = end
            yield form, joined


def _is_row(text: str) -> bool:
    try:
        next(csv.reader([text]))
    except csv.Error:
        return False
    return True


def _cells_of_table(form: _Form, rows: Sequence[str], refused: Counter[str]) -> Table:
    reader = csv.reader(iter(rows), delimiter=form.delimiter)
    found: list[list[str]] = []
    while True:
        try:
            found.append(next(reader))
        except StopIteration:
            break
        except csv.Error:
            refused[_UNREADABLE] += 1
    header, width = found[0], len(found[0])
    # Rows of metrics lack the cells of rules at their end.
    return Table(header, [it[:width] + [""] * (width - len(it)) for it in found[1:]])


def _error_without_table(
    name: str, said: Sequence[str], lines: Sequence[str]
) -> BadInput:
    if any(_NO_PERMISSION in line for line in said):
        return BadInput.at(
            name,
            "holds no table: Nsight Compute had no permission to read the GPU's "
            "counters (ERR_NVGPUCTRPERM)",
            "Give the process that right (docs/errors/no_device_activity.md), and "
            "measure again.",
        )
    if any(_FOR_PEOPLE.match(line) for line in lines):
        return BadInput.at(
            name,
            "is what Nsight Compute prints for people, which is no table",
            "Print the table: `ncu --import REPORT.ncu-rep --csv --page raw`, or "
            "measure with `ncu --csv --page raw`.",
        )
    if said:
        return BadInput.at(
            name,
            f"holds no table of Nsight Compute, which says: {said[0].rstrip('.')}",
            "Measure again with `ncu --csv --page raw`.",
        )
    return BadInput.at(
        name,
        'holds no table of Nsight Compute (no line begins with "ID","Process ID")',
        f"Measure with `ncu --csv --page raw`. {Remedy.COPY_AGAIN}",
    )
