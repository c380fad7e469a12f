"""Runner of NVIDIA's command-line tools, the only tools that read NVIDIA's reports."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Maximum number of characters of a tool's output that an error message repeats.
_MAX_CHARS: Final = 300


def run_vendor_tool(
    command: Sequence[str],
    report: Path,
    *,
    product: str,
    longest_s: int,
    by_hand: str,
    output_file: Path | None = None,
) -> bytes:
    """Run a vendor's tool on a report, and return its standard output.

    Args:
        command: The tool's path and its arguments. Give the report as an absolute path,
            because a relative path may look like an option.
        report: The report's path, for error messages.
        product: Name of the product that wrote the report, such as "Nsight Compute".
        longest_s: Maximum duration of the tool, in seconds.
        by_hand: What the user can do if the tool fails to start or times out.
        output_file: A file that the tool must write; None if there is none.

    Raises:
        BadInput: The tool cannot be run, takes too long, fails, or writes no file.
    """
    tool = command[0]
    try:
        run = subprocess.run(  # noqa: S603 - no shell; this program builds the arguments
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=longest_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput.at(
            report,
            f"an {product} report, on which `{tool}` failed ({error})",
            f"Run it yourself: {by_hand}",
        ) from error
    if run.returncode or (output_file is not None and not output_file.exists()):
        message = (run.stderr or run.stdout).decode("utf-8", "replace").strip(" .\n")
        raise BadInput.at(
            report,
            f"an {product} report that `{tool}` cannot read (exit status "
            f"{run.returncode}): {' '.join(message.split())[-_MAX_CHARS:]}",
            f"Use the release of {product} that wrote it, or a newer one.",
        )
    return run.stdout
