"""The text of program files in directories that the user named.

A profile is untrusted and may name any file of this machine, so a name from a profile
is never opened as a path. Only Python files of the named directories are listed, and a
name from the profile can only select one of these files.

Definition: docs/serve.md#the-text-of-the-program.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from stepscope.errors import BadUsage
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SUFFIX: Final = ".py"
_MAX_FILE_BYTES: Final = 2 * 2**20
#: Maximum number of entries listed in all directories together.
_MAX_ENTRIES: Final = 200_000
#: Seconds for which a list of files stays valid.
_KEPT_S: Final = 5.0
#: Seconds by which a file's time may exceed the recording's; times may be rounded.
_SAME_S: Final = 1.0
#: Name of a folder that contains packages or Python's own modules.
_PACKAGES: Final = Pattern(r"(site-packages|dist-packages|python\d[.\d]*)\Z", re.DOTALL)
_ABSOLUTE: Final = Pattern(r"[/\\]|[A-Za-z]:")


class ProgramText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of one file, or the reason why it is not shown.

    `path` is the path of the file, relative to the parent of the named directory.
    """

    text: str | None = None
    path: str | None = None
    changed: bool = False
    reason: str | None = None


class _Candidate(NamedTuple):
    """A program file: its displayed path, its real path, and the parts of the path."""

    shown: str
    path: Path
    parts: tuple[str, ...]


class ProgramFiles:
    """The Python files of some directories.

    Args:
        directories: Paths that the user named.

    Raises:
        BadUsage: A path is not a directory.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        self._roots = [Path(folder).resolve() for folder in directories]
        for folder, root in zip(directories, self._roots, strict=True):
            if not root.is_dir():
                raise BadUsage(f"--source {folder}: is not a directory of this machine")
        self._listing = threading.Lock()
        self._listed: dict[str, list[_Candidate]] = {}
        self._listed_s = -_KEPT_S
        self._is_whole = True

    def find_text(self, name: str, *, recorded_unix_s: float) -> ProgramText:
        """Return the text of a file that a profile names.

        Args:
            name: Name of the file in the profile.
            recorded_unix_s: Time of the recording, in seconds since 1970.
        """
        with self._listing:
            self._refresh_listing()
            matching = _matching_files(name, self._listed)
        if len(matching) > 1:
            several = ", ".join(sorted(candidate.shown for candidate in matching)[:3])
            return ProgramText(
                reason=f"{len(matching)} files match this name equally well "
                f"({several}). Give only the directory of the right file with "
                "`--source`."
            )
        if not matching:
            among = "" if self._is_whole else " among the searched files"
            return ProgramText(
                reason="No Python file in the directories given with `--source` matches"
                f"{among}. Give the directory of the recorded program."
            )
        file = matching[0]
        try:
            content, changed_unix_s = self._read_listed_file(file.path)
            text = content.decode()
        except (OSError, ValueError) as error:
            problem = str(error) if type(error) is ValueError else "it cannot be read"
            if isinstance(error, UnicodeDecodeError):
                problem = "it is not UTF-8 text"
            return ProgramText(reason=f"{file.shown}: {problem}.")
        changed = changed_unix_s > recorded_unix_s + _SAME_S
        return ProgramText(text=text, path=file.shown, changed=changed)

    def _refresh_listing(self) -> None:
        now = time.monotonic()
        if now - self._listed_s < _KEPT_S:
            return
        listed: dict[str, dict[Path, _Candidate]] = {}
        left = _MAX_ENTRIES
        for root in self._roots:
            for entry in _python_entries(root):
                left -= 1
                if left < 0:
                    break
                if entry is not None and (file := self._candidate_file(root, entry)):
                    listed.setdefault(file.parts[-1], {})[file.path] = file
        self._is_whole = left >= 0
        self._listed = {name: list(some.values()) for name, some in listed.items()}
        self._listed_s = now

    def _candidate_file(self, root: Path, entry: os.DirEntry[str]) -> _Candidate | None:
        path = Path(entry.path)
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        is_inside = any(real.is_relative_to(root) for root in self._roots)
        if real.suffix != _SUFFIX or not is_inside:
            return None
        shown = Path(root.name, path.relative_to(root)).as_posix()
        # A name may contain bytes that are not UTF-8.
        printable = shown.encode("utf-8", "backslashreplace").decode()
        return _Candidate(printable, real, path.parts)

    def _read_listed_file(self, real: Path) -> tuple[bytes, float]:
        """Return a file's content, and its time of change in seconds since 1970."""
        flags = ("NOFOLLOW", "NONBLOCK", "BINARY")
        careful = sum(getattr(os, f"O_{flag}", 0) for flag in flags)
        descriptor = os.open(real, os.O_RDONLY | careful)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            # A folder of the path may have been replaced by a link since the listing.
            if (
                not stat.S_ISREG(about.st_mode)
                or real.resolve() != real
                or not os.path.samestat(about, real.stat())
            ):
                raise ValueError("it is not a regular file of these directories")
            content = file.read(_MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            raise ValueError("it is larger than 2 MB")
        return content, about.st_mtime


def _python_entries(root: Path) -> Iterator[os.DirEntry[str] | None]:
    """Yield the Python files below a directory, and None for each other entry.

    Links to directories are not followed, and hidden directories are skipped.
    """
    waiting = [str(root)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_folder and not entry.name.startswith("."):
                        waiting.append(entry.path)
                    is_file = entry.name.endswith(_SUFFIX) and not is_folder
                    yield entry if is_file else None
        except OSError:
            # The directory is not readable or no longer exists.
            continue


def _matching_files(name: str, listed: dict[str, list[_Candidate]]) -> list[_Candidate]:
    path = posixpath.normpath(name.replace("\\", "/"))
    parts = tuple(part for part in path.split("/") if part not in {"", ".."})
    if not parts or not parts[-1].endswith(_SUFFIX):
        return []
    files = listed.get(parts[-1], [])
    # Number of path components at the end that each file has in common with the name.
    ends = [
        len(posixpath.commonprefix([parts[::-1], file.parts[::-1]])) for file in files
    ]
    best = max((*ends, _count_needed_parts(name, parts)))
    return [file for file, end in zip(files, ends, strict=True) if end == best]


def _count_needed_parts(name: str, parts: Sequence[str]) -> int:
    """Return the number of parts of a path, from its end, that must match.

    The start of a path differs between machines. For a file of a package, all parts
    from the package on must match. For a relative path, all parts must match, since a
    program may have several files of one name.
    """
    if not _ABSOLUTE.match(name):
        return len(parts)
    inside = [k for k, part in enumerate(parts) if _PACKAGES.match(part)]
    # If the package is a single file, the folder around it must match too.
    return max(len(parts) - inside[-1] - 1, 2) if inside else 1
