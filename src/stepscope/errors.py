"""Every error stepscope raises for a reason the user can act on.

StepscopeError            base; str() is one line: what was wrong, where, the way out
├── BadInput              a file or directory that cannot be read as a profile
│   ├── Malformed         the bytes break the format at a known place
│   └── UnknownFormat     readable bytes of no format that has a reader
├── BadUsage              a name or option that does not exist
└── AlreadyRecording      a recording is under way in this process
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AlreadyRecording",
    "BadInput",
    "BadUsage",
    "Malformed",
    "StepscopeError",
    "UnknownFormat",
    "one_line",
]


def one_line(text: str) -> str:
    """Return a text for a terminal: in one line, without control characters.

    What came over the wire or stands in a file may hold sequences that move the cursor
    or colour what follows.
    """
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(
        it if it.isprintable() else it.encode("unicode_escape").decode("ascii")
        for it in line
    )


class StepscopeError(Exception):
    """Base of all errors that are shown to a person as one line."""

    def __str__(self) -> str:
        """Return the line."""
        return one_line(super().__str__())


class BadInput(StepscopeError):
    """A path that cannot be read as a profile."""

    @classmethod
    def at(cls, path: object, what: str, way_out: str) -> BadInput:
        """Name the file, what was wrong with it, and what to do."""
        return cls(f"{path}: {what}. {way_out}")


class Malformed(BadInput):
    """Bytes that break their format at a known offset."""

    @classmethod
    def at_offset(cls, path: object, offset: int, what: str, way_out: str) -> Malformed:
        """Name the file, the byte, what was wrong there, and what to do."""
        return cls(f"{path}: {what} at byte {offset:,}. {way_out}")


class UnknownFormat(BadInput):
    """Bytes of a format without a reader."""


class BadUsage(StepscopeError):
    """A name or option that does not exist."""

    @classmethod
    def unknown_name(
        cls, kind: str, name: str, known: Iterable[str], *, hint: str = ""
    ) -> BadUsage:
        """Name what was asked for and everything that could have been asked for."""
        listed = ", ".join(known)
        return cls(f"there is no {kind} {name!r}; known: {listed}. {hint}".rstrip())


class AlreadyRecording(StepscopeError):
    """A recording cannot start because another one of this process is under way."""

    @classmethod
    def of(cls, owner: object, since: str, logdir: object) -> AlreadyRecording:
        """Name who records, since when and into which directory, and how to end it."""
        return cls(
            f"already recording since {since} into {logdir}, started by {owner}. "
            "Stop that one first (ss.stop()), or leave its block."
        )
