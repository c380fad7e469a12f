"""What a recording produced, for the program that made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: Shorter waits for a recording are not spoken of: storing ten short steps takes up to
#: 0.5 s on a busy machine (docs/overhead.md), and a person notices twice that.
LONG_WAIT_S: Final = 2.0


def long_wait(waited_s: float) -> str | None:
    """Return a sentence about a long wait for the end of a recording; None if short."""
    if waited_s < LONG_WAIT_S:
        return None
    return f"the program waited {waited_s:.1f} s while the recording was stored"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a recording produced.

    Attributes:
        path: The file, None where none was to be saved or none could be written.
        run: Name of the run: the last part of its directory.
        hosts: Hosts (one file each) that the run's directory holds.
        warnings: What was lost, ignored or went wrong, a sentence each.
        waited_s: How long the program's main thread waited while the recording was
            ended and stored.
    """

    path: Path | None
    run: str
    hosts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    waited_s: float = 0.0
    #: The recording where no file holds it.
    unsaved: bytes = field(default=b"", repr=False)

    def xspace(self) -> bytes:
        """Return the recording as one serialized XSpace, whether it was saved or not.

        Raises:
            OSError: The file was taken away since.
        """
        return self.unsaved if self.path is None else self.path.read_bytes()
