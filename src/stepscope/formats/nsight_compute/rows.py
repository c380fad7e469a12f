"""Find the table rows in the output of `ncu --csv`.

`ncu --csv` and the program that it measures write to the same output, so other lines
may be around and between a table's rows. One file may hold several tables with headers.
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
_MESSAGE: Final = re.compile(r"==(?:ERROR|WARNING)==\s*(.*)|.*(ERR_NVGPUCTRPERM).*")
#: Matches a line that `ncu` prints only without `--csv`.
_FOR_PEOPLE: Final = re.compile(r"\s+(?:Section: \S|Metric Name\s+Metric Unit\s)")
_NO_PERMISSION: Final = "ERR_NVGPUCTRPERM"
#: Maximum number of lines of one row. A cell may contain line breaks, but a missing
#: quote must not join the rest of the file to one row.
_MAX_LINES: Final = 64
_MAX_CHARS: Final = 300
CUT: Final = "that are cut inside a cell"
_BELOW_NO_HEADER: Final = "below a damaged header"
_UNREADABLE: Final = "that cannot be parsed"


class Table(Frozen, frozen=True):
    """One table: the names of its columns, and the cells of its rows as texts."""

    header: list[str]
    rows: list[list[str]]


class TableFile(Frozen, frozen=True):
    """Every table of a file.

    Attributes:
        tables: Tables with a header, in file order.
        other_lines: Number of lines outside of tables, of the tool or the program.
        said: Distinct errors and warnings that the tool printed.
        refused: Reason why rows cannot be read → number of such rows.
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
        BadInput: The file cannot be opened or holds no table.
    """
    data, damage = open_bytes(path, limit_bytes=limit_bytes, mapped=False)
    return find_tables(data.tobytes(), str(path), damaged=bool(damage))


def find_tables(content: bytes, name: str, *, damaged: bool = False) -> TableFile:
    """Find the tables in the output of `ncu --csv`.

    Raises:
        BadInput: There is no table; the message repeats the tool's error, if any.
    """
    refused: Counter[str] = Counter()
    rows_of: list[tuple[_Form, list[str]]] = []
    other_lines: list[str] = []
    header_is_readable = False
    # PowerShell writes UTF-16 when it redirects output to a file.
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        decoded = content.decode("utf-16", "replace")
    else:
        decoded = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    for form, row in _logical_rows(decoded.split("\n"), refused):
        if form is None:
            other_lines.append(row)
        elif HEADER.match(row):
            # The column names in a damaged header are not usable.
            header_is_readable = row.count('"') % 2 == 0 and _is_row(row)
            if header_is_readable:
                rows_of.append((form, [row]))
        elif not header_is_readable:
            refused[_BELOW_NO_HEADER] += 1
        else:
            rows_of[-1][1].append(row)
    other_lines = [line for line in other_lines if line.strip()]
    messages = tuple(
        dict.fromkeys(
            shorten_text((match[1] or line).strip(), _MAX_CHARS)
            for line in other_lines
            if (match := _MESSAGE.match(line))
        )
    )
    if not rows_of and refused:
        raise BadInput.at(
            name, "the table of Nsight Compute has a damaged header", Remedy.COPY_AGAIN
        )
    if not rows_of:
        raise _error_without_table(name, messages, other_lines)
    tables = tuple(_cells_of_table(form, rows, refused) for form, rows in rows_of)
    return TableFile(name, tables, len(other_lines), messages, refused, damaged)


class _Form(Frozen, frozen=True):
    """Format of the rows below a header.

    Attributes:
        row: Matches the start of a row: a launch number, an empty or a damaged cell.
        next_row: Matches the start of an undamaged row. A row with an unclosed quote
            ends before this start.
    """

    delimiter: str
    row: re.Pattern[str]
    next_row: re.Pattern[str]

    @classmethod
    def of_header(cls, match: re.Match[str]) -> _Form:
        quote, delimiter = match["quote"], match["delimiter"]
        number = re.compile(rf"{quote}\d*{quote}{delimiter}")
        anything = re.compile(rf'"[^"]*"{delimiter}') if quote else number
        return cls(delimiter, anything, number)


def _logical_rows(
    lines: Sequence[str], refused: Counter[str]
) -> Iterator[tuple[_Form | None, str]]:
    """Yield each header or row with its format, and each other line with None.

    If a row continues on further lines inside a quoted cell, its lines are joined.
    """
    index = 0
    form: _Form | None = None
    while index < len(lines):
        line = lines[index].removesuffix("\r")
        index += 1
        if header := HEADER.match(line):
            form = _Form.of_header(header)
        elif form is None or not form.row.match(line):
            yield None, line
            continue
        if header or line.count('"') % 2 == 0:
            yield form, line
            continue
        joined, end = line, index
        # If the next row starts before the quote closes, the closing quote is missing.
        while (
            joined.count('"') % 2
            and end < min(len(lines), index + _MAX_LINES)
            and not form.next_row.match(lines[end])
        ):
            joined += "\n" + lines[end].removesuffix("\r")
            end += 1
        if joined.count('"') % 2:
            refused[CUT] += 1
        else:
            index = end
            yield form, joined


def _is_row(text: str) -> bool:
    try:
        next(csv.reader([text]))
    except csv.Error:
        return False
    return True


def _cells_of_table(form: _Form, rows: Sequence[str], refused: Counter[str]) -> Table:
    reader = csv.reader(iter(rows), delimiter=form.delimiter)
    cells: list[list[str]] = []
    while True:
        try:
            cells.append(next(reader))
        except StopIteration:
            break
        except csv.Error:
            refused[_UNREADABLE] += 1
    header, width = cells[0], len(cells[0])
    # Rows of metrics lack the last columns, which are those of rules.
    return Table(header, [row[:width] + [""] * (width - len(row)) for row in cells[1:]])


def _error_without_table(
    name: str, messages: Sequence[str], lines: Sequence[str]
) -> BadInput:
    if any(_NO_PERMISSION in line for line in messages):
        return BadInput.at(
            name,
            "holds no table: Nsight Compute had no permission to read the GPU's "
            "counters (ERR_NVGPUCTRPERM)",
            "Give the process this permission (docs/errors/no_device_activity.md), and "
            "measure again.",
        )
    if any(_FOR_PEOPLE.match(line) for line in lines):
        return BadInput.at(
            name,
            "is text output of Nsight Compute, which is not a table",
            "Print the table: `ncu --import REPORT.ncu-rep --csv --page raw`, or "
            "measure with `ncu --csv --page raw`.",
        )
    if messages:
        return BadInput.at(
            name,
            "holds no table of Nsight Compute, which reports: "
            f"{messages[0].rstrip('.')}",
            "Measure again with `ncu --csv --page raw`.",
        )
    return BadInput.at(
        name,
        'holds no table of Nsight Compute (no line begins with "ID","Process ID")',
        f"Measure with `ncu --csv --page raw`. {Remedy.COPY_AGAIN}",
    )
