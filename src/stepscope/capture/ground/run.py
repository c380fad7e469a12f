"""What a recording produced, for the program that made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Run"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a recording produced.

    Attributes:
        path: The file, None where none was to be saved or none could be written.
        run: Name of the run: the last part of its directory.
        hosts: Hosts (one file each) that the run's directory holds.
        warnings: What was lost, ignored or went wrong, a sentence each.
    """

    path: Path | None
    run: str
    hosts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: The recording where no file holds it.
    unsaved: bytes = field(default=b"", repr=False)

    def xspace(self) -> bytes:
        """Return the recording as one serialized XSpace, whether it was saved or not.

        Raises:
            OSError: The file was taken away since.
        """
        return self.unsaved if self.path is None else self.path.read_bytes()
