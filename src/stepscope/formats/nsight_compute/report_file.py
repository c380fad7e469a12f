"""Reports (`.ncu-rep`), which only Nsight Compute itself can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.errors import BadInput
from stepscope.formats.nsight_compute.rows import TableFile, tables_of
from stepscope.formats.vendor_tool import output_of
from stepscope.nvidia import find_tool

if TYPE_CHECKING:
    from pathlib import Path

#: A report of many launches takes a while.
_LONGEST_S: Final = 600


def import_report(path: Path) -> TableFile:
    """Let the `ncu` of this machine write the tables of a report, and read them.

    Raises:
        BadInput: There is no `ncu`, or it cannot read the report.
    """
    return tables_of(printed_tables(path, find_tool("ncu")), str(path))


def printed_tables(path: Path, tool: str | None) -> bytes:
    """Return what `ncu` prints of a report: the raw page, then the details page.

    The raw page has the metrics, the details page what NVIDIA's rules say.

    Args:
        path: The report.
        tool: Path of `ncu`; None where there is none.

    Raises:
        BadInput: There is no `ncu`, or it cannot read the report.
    """
    if tool is None:
        raise BadInput.at(
            path,
            "an Nsight Compute report, and there is no `ncu` on this machine to read "
            "it",
            f"Where there is: `ncu --import {path} --csv --page raw > kernels.csv`, "
            "and give kernels.csv.",
        )
    return b"\n".join(_page(tool, path, page) for page in ("raw", "details"))


def _page(tool: str, path: Path, page: str) -> bytes:
    command = [tool, "--import", str(path.resolve()), "--csv", "--page", page]
    return output_of(
        command,
        path,
        product="Nsight Compute",
        longest_s=_LONGEST_S,
        by_hand=f"`{' '.join(command)} > kernels.csv`.",
    )
