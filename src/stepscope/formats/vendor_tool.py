"""NVIDIA's own command-line tools, which alone read NVIDIA's reports."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Longest part of what a tool says that a message repeats.
_LONGEST_SAID: Final = 300


def run_vendor_tool(
    command: Sequence[str],
    report: Path,
    *,
    product: str,
    longest_s: int,
    by_hand: str,
    made: Path | None = None,
) -> bytes:
    """Run a tool on a report, and return what it prints.

    Args:
        command: The tool's path and its arguments. Give the report by an absolute
            path, which cannot be taken for an option.
        report: The report, for messages.
        product: What wrote the report, such as "Nsight Compute".
        longest_s: How long the tool may take.
        by_hand: What a person does instead where the tool does not end.
        made: A file that the tool must leave.

    Raises:
        BadInput: The tool cannot be run, takes too long, fails, or leaves no file.
    """
    tool = command[0]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the arguments are ours
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=longest_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput.at(
            report,
            f"an {product} report that `{tool}` did not read ({error})",
            f"Run it yourself: {by_hand}",
        ) from error
    if done.returncode or (made is not None and not made.exists()):
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip(" .\n")
        raise BadInput.at(
            report,
            f"an {product} report that `{tool}` cannot read (exit status "
            f"{done.returncode}): {' '.join(said.split())[-_LONGEST_SAID:]}",
            f"Use the release of {product} that wrote it, or a newer one.",
        )
    return done.stdout
