"""Tables of Nsight Compute from literal rows, as `ncu --csv` writes them.

No GPU was at hand when these were written: the long form follows real files
(profiles/ncu of `make test-profiles`), the wide one NVIDIA's documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from tests.support.kept_promises import check_frame

from stepscope.formats.opening import read
from stepscope.trace.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from stepscope.trace.model import TraceData

__all__ = ["launch", "line", "long", "long_rows", "read_checked", "wide", "write"]

LEADING = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context"),
    *("Stream", "Block Size", "Grid Size", "Device", "CC"),
)
METRIC_CELLS = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
RULE_CELLS = (
    *("Rule Name", "Rule Type", "Rule Description"),
    *("Estimated Speedup Type", "Estimated Speedup"),
)


def line(*cells: object) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def launch(
    number: int,
    name: str,
    *,
    grid: tuple[int, int, int] = (216, 1, 1),
    block: tuple[int, int, int] = (128, 1, 1),
) -> tuple[object, ...]:
    """The leading cells of one launch."""
    return (number, 77, "python3", "127.0.0.1", name, 1, 7, block, grid, 0, "8.0")


def long_rows(leading: tuple[object, ...], *metrics: tuple[str, str, str]) -> list[str]:
    """Rows of one launch, without the cells of rules, as the tool writes them."""
    return [line(*leading, "Section", *metric) for metric in metrics]


def long(*rows: str, rules: bool = True) -> str:
    """A table with a row for each metric or rule."""
    return "\n".join(
        [line(*LEADING, *METRIC_CELLS, *(RULE_CELLS if rules else ())), *rows, ""]
    )


def wide(
    units: Mapping[str, str],
    launches: Sequence[tuple[tuple[object, ...], Sequence[str]]],
) -> str:
    """A table with a row for each launch, its second line the units."""
    return "\n".join(
        [
            line(*LEADING, *units),
            line(*("" for _ in LEADING), *units.values()),
            *(line(*leading, *values) for leading, values in launches),
            "",
        ]
    )


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def read_checked(path: Path) -> TraceData:
    """Read a file, and hold every table against its declaration."""
    trace = read(path)
    for name, schema in TABLES.items():
        table = trace.table(name)
        if isinstance(table, pl.DataFrame):
            assert check_frame(schema, table) == []
    return trace
