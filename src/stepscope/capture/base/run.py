"""Result of a recording, for the program that was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: Shortest reported wait for a recording, in seconds: storing ten short steps takes up
#: to 0.5 s on a busy machine (docs/overhead.md).
LONG_WAIT_S: Final = 2.0


def long_wait(waited_s: float) -> str | None:
    """Return a warning about a long wait for the end of a recording; None if short."""
    if waited_s < LONG_WAIT_S:
        return None
    return f"the program waited {waited_s:.1f} s while the recording was stored"


@dataclass(frozen=True, kw_only=True)
class Run:
    """Result of a recording.

    Attributes:
        path: Path of the file; None if it was not to be saved or could not be written.
        run: Name of the run: the last part of its directory.
        hosts: Hosts in the run's directory, with one file each.
        warnings: One sentence for each loss, ignored option or error.
        waited_s: Seconds that the program's main thread waited while the recording was
            ended and stored.
    """

    path: Path | None
    run: str
    hosts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    waited_s: float = 0.0
    #: Serialized recording if no file contains it; otherwise empty.
    unsaved: bytes = field(default=b"", repr=False)

    def xspace(self) -> bytes:
        """Return the recording as one serialized XSpace, whether it was saved or not.

        Raises:
            OSError: The file was removed after the recording.
        """
        return self.unsaved if self.path is None else self.path.read_bytes()
