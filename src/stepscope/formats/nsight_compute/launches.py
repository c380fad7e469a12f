"""Rows of any form become launches, their metrics, and what NVIDIA's rules say."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope.formats.nsight_compute.base_units import base_unit
from stepscope.formats.nsight_compute.numbers import NumberForms
from stepscope.frozen import Frozen
from stepscope.trace.reading.launch_limits import MOST_GRID, MOST_THREADS
from stepscope.trace.reading.texts import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepscope.formats.nsight_compute.rows import Table, TableFile

_LEADING: Final = frozenset(
    {
        *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name"),
        *("Kernel Time", "Context", "Stream", "Block Size", "Grid Size", "Device"),
        *("CC", "Section Name"),
    }
)
_SIZES: Final = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?\Z")
_AXES: Final = 3
_LONGEST_VALUE: Final = 200
NO_LAUNCH: Final = "that name no launch or no kernel"
NO_METRIC: Final = "that hold neither a metric nor a rule"
_ABSENT: Final = frozenset({"", "n/a", "nan", "no data", "(!) n/a"})


class Launch(NamedTuple):
    """One launch; None where a cell is missing or impossible."""

    launch: int
    process: int | None
    kernel_name: str
    device: int | None
    compute_capability: str | None
    stream: int | None
    block: tuple[int, int, int] | None
    grid: tuple[int, int, int] | None


class Metric(NamedTuple):
    """One value as it is in the file, the launch by its place in the list."""

    row: int
    section: str | None
    metric: str
    value: float | None
    unit: str | None
    text: str


class RuleResult(NamedTuple):
    """What a rule of Nsight Compute says."""

    row: int
    section: str | None
    rule: str
    kind: str | None
    text: str
    speedup_percent: float | None
    speedup_kind: str | None


class Measured(Frozen, frozen=True):
    """What a file holds.

    Attributes:
        launches: In the order of the file.
        metrics: Of all launches, those without a value left out.
        rules: What NVIDIA's rules say.
        refused: Why a row was left out → how many.
        forms: How the file writes numbers.
        impossible: Grids and blocks that no device can have.
    """

    launches: list[Launch]
    metrics: list[Metric]
    rules: list[RuleResult]
    refused: Counter[str]
    forms: NumberForms
    impossible: int


def collect(file: TableFile) -> Measured:
    """Read every table of a file; rows of one launch may be in several tables."""
    forms = NumberForms(_number_texts(file.tables))
    collected = _Collected(forms, Counter(file.refused))
    for table in file.tables:
        if "Metric Name" in table.header or "Rule Name" in table.header:
            collected.add_long(table)
        else:
            collected.add_wide(table)
    return Measured(
        collected.launches,
        collected.metrics,
        collected.rules,
        collected.refused,
        forms,
        collected.impossible,
    )


def _number_texts(tables: Iterable[Table]) -> Iterator[str]:
    for table in tables:
        if "Metric Value" in table.header:
            at = table.header.index("Metric Value")
            yield from (row[at] for row in table.rows)
        else:
            columns = [
                at for at, name in enumerate(table.header) if name not in _LEADING
            ]
            for row in table.rows:
                yield from (row[at] for at in columns)


class _Collected:
    """What was read so far."""

    def __init__(self, forms: NumberForms, refused: Counter[str]) -> None:
        self.launches: list[Launch] = []
        self.metrics: list[Metric] = []
        self.rules: list[RuleResult] = []
        self.refused = refused
        self.impossible = 0
        self._forms = forms
        self._row_of: dict[tuple[str, str, str], int] = {}

    def add_long(self, table: Table) -> None:
        """Add a table with one row for each metric or rule."""
        cells = _Cells(table.header)
        for cells.row in table.rows:
            row = self._launch(cells)
            name, rule = cells["Metric Name"], cells["Rule Name"]
            if row is None:
                continue
            if name:
                self._add_metric(row, cells["Section Name"], name, cells)
            elif rule:
                self._add_rule(row, rule, cells)
            else:
                self.refused[NO_METRIC] += 1

    def _add_metric(self, row: int, section: str, name: str, cells: _Cells) -> None:
        text = cells["Metric Value"]
        self._metric(row, section, name, cells["Metric Unit"], text)

    def _metric(self, row: int, section: str, name: str, unit: str, text: str) -> None:
        if text.strip().lower() in _ABSENT:
            return
        base, factor = base_unit(unit)
        number = self._forms.number(text)
        self.metrics.append(
            Metric(
                row=row,
                section=section or None,
                metric=name,
                value=None if number is None else number * factor,
                unit=base or None,
                text=shortened(text, _LONGEST_VALUE),
            )
        )

    def _add_rule(self, row: int, rule: str, cells: _Cells) -> None:
        speedup = self._forms.number(cells["Estimated Speedup"])
        self.rules.append(
            RuleResult(
                row=row,
                section=cells["Section Name"] or None,
                rule=rule,
                kind=cells["Rule Type"] or None,
                text=shortened(cells["Rule Description"]),
                speedup_percent=speedup,
                speedup_kind=cells["Estimated Speedup Type"] or None,
            )
        )

    def add_wide(self, table: Table) -> None:
        """Add a table with one row for each launch, the units in its first row."""
        cells = _Cells(table.header)
        columns = [
            (at, name) for at, name in enumerate(table.header) if name not in _LEADING
        ]
        units = [""] * len(table.header)
        for cells.row in table.rows:
            if not cells["ID"].strip() and not cells["Kernel Name"].strip():
                units = cells.row
                continue
            row = self._launch(cells)
            if row is not None:
                for at, name in columns:
                    self._metric(row, "", name, units[at], cells.row[at])

    def _launch(self, cells: _Cells) -> int | None:
        """Return the place of the launch that a row is of; None where it names none."""
        key = (cells["Process ID"], cells["ID"], cells["Kernel Name"])
        found = self._row_of.get(key)
        if found is not None:
            return found
        launch = _whole(key[1])
        if launch is None or not key[2].strip():
            self.refused[NO_LAUNCH] += 1
            return None
        block = self._sizes(cells["Block Size"], MOST_THREADS)
        grid = self._sizes(cells["Grid Size"], None)
        self.launches.append(
            Launch(
                launch=launch,
                process=_whole(key[0]),
                kernel_name=shortened(key[2]),
                device=_whole(cells["Device"], 2**31),
                compute_capability=cells["CC"] or None,
                stream=_whole(cells["Stream"]),
                block=block,
                grid=grid,
            )
        )
        self._row_of[key] = len(self.launches) - 1
        return self._row_of[key]

    def _sizes(self, text: str, most: int | None) -> tuple[int, int, int] | None:
        found = _SIZES.match(text.strip())
        if found is None:
            return None
        x, y, z = (int(found[axis][:12]) for axis in range(1, _AXES + 1))
        possible = min(x, y, z) >= 1 and max(x, y, z) <= MOST_GRID
        if not possible or (most is not None and x * y * z > most):
            self.impossible += 1
            return None
        return x, y, z


class _Cells:
    """The cells of a row by the name of their column; "" where it has none."""

    def __init__(self, header: Sequence[str]) -> None:
        self._place = {name: at for at, name in reversed(list(enumerate(header)))}
        self.row: list[str] = []

    def __getitem__(self, name: str) -> str:
        place = self._place.get(name)
        return "" if place is None else self.row[place]


def _whole(text: str, end: int = 2**63) -> int | None:
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        return None
    value = int(digits)
    return value if value < end else None
