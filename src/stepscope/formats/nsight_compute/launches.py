"""Convert rows of an Nsight Compute file to launches, metrics and rule results.

The unit of one metric may change from row to row (`us`, `ms`). K, M and G are powers of
1,000: 8,192 bytes appear as 8.19 Kbyte. Separators in numbers depend on the locale:
`12,345` may mean 12345 or 12.345. Other numbers of the same file show the locale:
`1,234,567` and `0.52` have only one meaning.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.formats.launch_shapes import MAX_GRID, MAX_THREADS
from stepscope.trace.reading.texts import shorten_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepscope.formats.nsight_compute.rows import Table, TableFile

#: Unit of time → its length in ns, the base unit of times.
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
DECIMAL_POINT: Final = "."
DECIMAL_COMMA: Final = ","
_NUMBER: Final = re.compile(r"([+-]?)([\d.,]*\d[\d.,]*)([eE][+-]?\d{1,3})?\Z")
#: Characters that separate thousands: spaces, thin spaces, apostrophes and underscores.
_SEPARATORS: Final = str.maketrans("", "", " \t\u00a0\u2009\u202f'\u2019_")
_GROUP: Final = 3
_GROUPS: Final = (2, 3)
_LEADING: Final = frozenset(
    {
        *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name"),
        *("Kernel Time", "Context", "Stream", "Block Size", "Grid Size", "Device"),
        *("CC", "Section Name"),
    }
)
_SIZES: Final = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?\Z")
_AXES: Final = 3
_MAX_VALUE_CHARS: Final = 200
NO_LAUNCH: Final = "without a launch number or a kernel name"
NO_METRIC: Final = "without a metric and without a rule"
_ABSENT: Final = frozenset({"", "n/a", "nan", "no data", "(!) n/a"})


@cache
def base_unit(unit: str) -> tuple[str, float]:
    """Return the base unit, and the factor that converts values to the base unit.

    The base unit of an unknown unit is the unit itself.
    """
    above, slash, below = unit.strip().partition("/")
    name, factor = _base_of_simple_unit(above)
    if not slash:
        return name, factor
    if below in _TIMES_NS:
        rate = factor * _NS_PER_S / _TIMES_NS[below]
        return ("Hz" if name == "cycle" else f"{name}/s"), rate
    lower, divisor = _base_of_simple_unit(below)
    return f"{name}/{lower}", factor / divisor


def _base_of_simple_unit(unit: str) -> tuple[str, float]:
    if unit in _TIMES_NS:
        return "ns", _TIMES_NS[unit]
    match = _COUNTED.match(unit)
    if match is None:
        return unit, 1.0
    name = match["unit"].lower()
    return ("Hz" if name == "hz" else name), _PREFIXES[match["prefix"].lower()]


class NumberForms:
    """Parser of the numbers of one file.

    Attributes:
        decimal: Decimal mark of the file, assumed for numbers like `12,345`.
        mixed: Whether some numbers have a decimal point and others a decimal comma.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        shown = [_decimal_mark(text) for text in texts]
        commas, points = shown.count(DECIMAL_COMMA), shown.count(DECIMAL_POINT)
        self.decimal = DECIMAL_COMMA if commas > points else DECIMAL_POINT
        self.mixed = bool(commas and points)

    def number(self, text: str) -> float | None:
        """Parse a text as a finite number; return None if the text is not a number."""
        match = _NUMBER.match(text.translate(_SEPARATORS))
        if match is None:
            return None
        decimal = _decimal_mark(text) or self.decimal
        separator = DECIMAL_POINT if decimal == DECIMAL_COMMA else DECIMAL_COMMA
        integer, _, fraction = match[2].partition(decimal)
        first, *groups = integer.split(separator)
        # Indian numbers have groups of two digits before the last group of three.
        if not fraction.isdigit() and fraction:
            return None
        if any(len(group) not in _GROUPS for group in groups):
            return None
        value = float(f"{match[1]}{first}{''.join(groups)}.{fraction}0{match[3] or ''}")
        return value if math.isfinite(value) else None


def _decimal_mark(text: str) -> str | None:
    """Return the decimal mark of a number if it is unambiguous, else None."""
    commas, points = text.count(","), text.count(".")
    if not commas and not points:
        return None
    match = _NUMBER.match(text.translate(_SEPARATORS))
    if match is None:
        return None
    digits = match[2]
    if commas and points:
        last = max(",.", key=digits.rfind)
        return last if digits.count(last) == 1 else None
    mark = "," if commas else "."
    other_mark = "." if commas else ","
    if commas + points > 1:
        return other_mark
    whole, _, fraction = digits.partition(mark)
    # A thousands separator follows one to three digits and precedes exactly three.
    grouped = len(fraction) == _GROUP and 0 < len(whole) <= _GROUP and whole[0] != "0"
    return None if grouped else mark


class Launch(NamedTuple):
    """One kernel launch; a missing or impossible value is None."""

    launch: int
    process: int | None
    kernel_name: str
    device: int | None
    compute_capability: str | None
    stream: int | None
    block: tuple[int, int, int] | None
    grid: tuple[int, int, int] | None


class Metric(NamedTuple):
    """One metric value; `row` is the index of its launch, `text` the CSV cell."""

    row: int
    section: str | None
    metric: str
    value: float | None
    unit: str | None
    text: str


class RuleResult(NamedTuple):
    """Result of one rule of Nsight Compute for one launch."""

    row: int
    section: str | None
    rule: str
    kind: str | None
    text: str
    speedup_percent: float | None
    speedup_kind: str | None


class Measured:
    """All launches, metrics and rule results of a file.

    One launch may have rows in several tables.

    Attributes:
        launches: Launches in the order of the file.
        metrics: Metrics of all launches, without empty cells.
        forms: Parser of the file's numbers.
        impossible: Number of grids and blocks larger than any device allows.
    """

    def __init__(self, file: TableFile) -> None:
        self.launches: list[Launch] = []
        self.metrics: list[Metric] = []
        self.rules: list[RuleResult] = []
        self.refused = Counter(file.refused)
        self.forms = NumberForms(_number_texts(file.tables))
        self.impossible = 0
        self._row_of: dict[tuple[str, str, str], int] = {}
        for table in file.tables:
            if "Metric Name" in table.header or "Rule Name" in table.header:
                self._add_long(table)
            else:
                self._add_wide(table)

    def _add_long(self, table: Table) -> None:
        """Add a table with one row per metric or rule."""
        cells = _Cells(table.header)
        for cells.row in table.rows:
            row = self._launch_row(cells)
            name, rule = cells["Metric Name"], cells["Rule Name"]
            if row is None:
                continue
            if name:
                self._add_metric(
                    row,
                    cells["Section Name"],
                    name,
                    cells["Metric Unit"],
                    cells["Metric Value"],
                )
            elif rule:
                self.rules.append(
                    RuleResult(
                        row=row,
                        section=cells["Section Name"] or None,
                        rule=rule,
                        kind=cells["Rule Type"] or None,
                        text=shorten_text(cells["Rule Description"]),
                        speedup_percent=self.forms.number(cells["Estimated Speedup"]),
                        speedup_kind=cells["Estimated Speedup Type"] or None,
                    )
                )
            else:
                self.refused[NO_METRIC] += 1

    def _add_metric(
        self, row: int, section: str, name: str, unit: str, text: str
    ) -> None:
        if text.strip().lower() in _ABSENT:
            return
        base, factor = base_unit(unit)
        number = self.forms.number(text)
        self.metrics.append(
            Metric(
                row=row,
                section=section or None,
                metric=name,
                value=None if number is None else number * factor,
                unit=base or None,
                text=shorten_text(text, _MAX_VALUE_CHARS),
            )
        )

    def _add_wide(self, table: Table) -> None:
        """Add a table with one row per launch; rows without a launch contain units."""
        cells = _Cells(table.header)
        columns = [
            (col, name) for col, name in enumerate(table.header) if name not in _LEADING
        ]
        units = [""] * len(table.header)
        for cells.row in table.rows:
            if not cells["ID"].strip() and not cells["Kernel Name"].strip():
                units = cells.row
                continue
            row = self._launch_row(cells)
            if row is not None:
                for col, name in columns:
                    self._add_metric(row, "", name, units[col], cells.row[col])

    def _launch_row(self, cells: _Cells) -> int | None:
        """Return the index of a row's launch; None if the row names no launch."""
        key = (cells["Process ID"], cells["ID"], cells["Kernel Name"])
        known_row = self._row_of.get(key)
        if known_row is not None:
            return known_row
        launch = _whole_number(key[1])
        if launch is None or not key[2].strip():
            self.refused[NO_LAUNCH] += 1
            return None
        block = self._read_sizes(cells["Block Size"], MAX_THREADS)
        self.launches.append(
            Launch(
                launch=launch,
                process=_whole_number(key[0]),
                kernel_name=shorten_text(key[2]),
                device=_whole_number(cells["Device"], 2**31),
                compute_capability=cells["CC"] or None,
                stream=_whole_number(cells["Stream"]),
                block=block,
                grid=self._read_sizes(cells["Grid Size"], None),
            )
        )
        self._row_of[key] = len(self.launches) - 1
        return self._row_of[key]

    def _read_sizes(self, text: str, limit: int | None) -> tuple[int, int, int] | None:
        match = _SIZES.match(text.strip())
        if match is None:
            return None
        x, y, z = (int(match[axis][:12]) for axis in range(1, _AXES + 1))
        possible = min(x, y, z) >= 1 and max(x, y, z) <= MAX_GRID
        if not possible or (limit is not None and x * y * z > limit):
            self.impossible += 1
            return None
        return x, y, z


def _number_texts(tables: Iterable[Table]) -> Iterator[str]:
    for table in tables:
        if "Metric Value" in table.header:
            col = table.header.index("Metric Value")
            yield from (row[col] for row in table.rows)
        else:
            columns = [
                col for col, name in enumerate(table.header) if name not in _LEADING
            ]
            for row in table.rows:
                yield from (row[col] for col in columns)


class _Cells:
    """The cells of a row by column name; "" for a column that the table lacks."""

    def __init__(self, header: Sequence[str]) -> None:
        self._place = {name: col for col, name in reversed(list(enumerate(header)))}
        self.row: list[str] = []

    def __getitem__(self, name: str) -> str:
        place = self._place.get(name)
        return "" if place is None else self.row[place]


def _whole_number(text: str, end: int = 2**63) -> int | None:
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        return None
    value = int(digits)
    return value if value < end else None
