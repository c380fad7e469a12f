"""Reports (`.nsys-rep`, `.qdrep`), which only Nsight Systems itself can read."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.errors import BadInput
from stepscope.formats.nsight_systems.database.rows import read_export
from stepscope.formats.vendor_tool import output_of
from stepscope.nvidia import find_tool

if TYPE_CHECKING:
    from stepscope.formats.nsight_systems.database.rows import Export

#: A report of some gigabytes takes a while.
_LONGEST_S: Final = 1800


def export_report(path: Path, limit_bytes: int) -> Export:
    """Let the `nsys` of this machine write a database of a report, and read it.

    The database lies in a folder of its own for so long; nothing is left beside the
    report.

    Args:
        path: The report.
        limit_bytes: Largest content of a packed file.

    Raises:
        BadInput: There is no `nsys`, or it cannot read the report.
    """
    tool = find_tool("nsys")
    if tool is None:
        raise BadInput.at(
            path,
            "an Nsight Systems report, and there is no `nsys` on this machine to read "
            "it",
            f"Where there is: `nsys export --type sqlite {path}`, and give the "
            "database.",
        )
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        database = Path(folder, "report.sqlite")
        _export(tool, path, database)
        return msgspec.structs.replace(read_export(database, limit_bytes), path=path)


def _export(tool: str, path: Path, database: Path) -> None:
    report = str(path.resolve())
    output_of(
        [tool, "export", "--type=sqlite", f"--output={database}", report],
        path,
        product="Nsight Systems",
        longest_s=_LONGEST_S,
        by_hand=f"`{tool} export --type sqlite {report}`, and give the database.",
        made=database,
    )
