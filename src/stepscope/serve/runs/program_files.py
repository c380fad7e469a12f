"""The text of the program's files, from directories that the user named.

A profile is untrusted: it may name any file of this machine. So a name is never opened
as a path. The Python files of the directories are listed, and the name of a file in the
profile chooses among these, or none.

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
_MOST_BYTES: Final = 2 * 2**20
#: Files and directories that are looked at below all directories together.
_MOST_ENTRIES: Final = 200_000
#: Seconds for which a list of files stays valid.
_KEPT_S: Final = 5.0
#: A recording's time may be known to the second.
_SAME_S: Final = 1.0
#: The folder that packages, or Python's own modules, lie in.
_PACKAGES: Final = Pattern(r"(site-packages|dist-packages|python\d[.\d]*)\Z", re.DOTALL)
_ABSOLUTE: Final = Pattern(r"[/\\]|[A-Za-z]:")


class ProgramText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of one file, or the reason why it is not shown.

    `path` is where it was found, from the directory that was named on.
    """

    text: str | None = None
    path: str | None = None
    changed: bool = False
    reason: str | None = None


class _Candidate(NamedTuple):
    """A file: how it is shown, where it really is, and the parts of its path."""

    shown: str
    path: Path
    parts: tuple[str, ...]


class ProgramFiles:
    """The Python files of some directories.

    Args:
        directories: As the user named them.

    Raises:
        BadUsage: One of them is no directory.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        self._roots = [Path(one).resolve() for one in directories]
        for given, root in zip(directories, self._roots, strict=True):
            if not root.is_dir():
                raise BadUsage(f"--source {given}: is not a directory of this machine")
        self._listing = threading.Lock()
        self._listed: dict[str, list[_Candidate]] = {}
        self._listed_s = -_KEPT_S
        self._is_whole = True

    def find_text(self, name: str, *, recorded_unix_s: float) -> ProgramText:
        """Return the text of the file that a profile names.

        Args:
            name: The file as the profile has it.
            recorded_unix_s: When the profile was recorded, in seconds since 1970.
        """
        with self._listing:
            self._refresh_listing()
            matching = _matching_files(name, self._listed)
        if len(matching) > 1:
            several = ", ".join(sorted(one.shown for one in matching)[:3])
            return ProgramText(
                reason=f"{len(matching)} files fit this name as well as each other "
                f"({several}). Name the directory of the right one alone with "
                "`--source`."
            )
        if not matching:
            more = "" if self._is_whole else " among those that were searched"
            return ProgramText(
                reason="No Python file of the directories given with `--source` fits"
                f"{more}. Name the directory of the program that was recorded."
            )
        found = matching[0]
        try:
            content, changed_unix_s = self._read_listed_file(found.path)
            text = content.decode()
        except (OSError, ValueError) as error:
            why = str(error) if type(error) is ValueError else "it cannot be read"
            if isinstance(error, UnicodeDecodeError):
                why = "it is not UTF-8 text"
            return ProgramText(reason=f"{found.shown}: {why}.")
        changed = changed_unix_s > recorded_unix_s + _SAME_S
        return ProgramText(text=text, path=found.shown, changed=changed)

    def _refresh_listing(self) -> None:
        now = time.monotonic()
        if now - self._listed_s < _KEPT_S:
            return
        listed: dict[str, dict[Path, _Candidate]] = {}
        left = _MOST_ENTRIES
        for root in self._roots:
            for entry in _python_entries(root):
                left -= 1
                if left < 0:
                    break
                if entry is not None and (found := self._candidate_file(root, entry)):
                    listed.setdefault(found.parts[-1], {})[found.path] = found
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
        # A name may hold bytes that are not text.
        told = shown.encode("utf-8", "backslashreplace").decode()
        return _Candidate(told, real, path.parts)

    def _read_listed_file(self, real: Path) -> tuple[bytes, float]:
        """Return a file's bytes, and when it was changed, in seconds since 1970."""
        careful = sum(getattr(os, f"O_{one}", 0) for one in ("NOFOLLOW", "NONBLOCK"))
        descriptor = os.open(real, os.O_RDONLY | careful)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            # A part of the path may have become a link since it was listed.
            if (
                not stat.S_ISREG(about.st_mode)
                or real.resolve() != real
                or not os.path.samestat(about, real.stat())
            ):
                raise ValueError("it is not a regular file of these directories")
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError("it is larger than 2 MB")
        return content, about.st_mtime


def _python_entries(root: Path) -> Iterator[os.DirEntry[str] | None]:
    """List Python files below a directory; None for anything else on the way.

    Links to directories are not followed, and what is hidden is left out.
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
            # It may not be read, or is gone.
            continue


def _matching_files(name: str, listed: dict[str, list[_Candidate]]) -> list[_Candidate]:
    path = posixpath.normpath(name.replace("\\", "/"))
    parts = tuple(part for part in path.split("/") if part not in {"", ".."})
    if not parts or not parts[-1].endswith(_SUFFIX):
        return []
    candidates = listed.get(parts[-1], [])
    # The number of parts that the ends of two paths have in common.
    ends = [
        len(posixpath.commonprefix([parts[::-1], one.parts[::-1]]))
        for one in candidates
    ]
    most = max((*ends, _count_needed_parts(name, parts)))
    return [one for one, end in zip(candidates, ends, strict=True) if end == most]


def _count_needed_parts(name: str, parts: Sequence[str]) -> int:
    """Return how many parts of a path have to fit.

    The beginning of a path is that of the machine where it was recorded. Of a file of
    a package all is needed from the package on, and of a path without its beginning
    all of it: a program may have a file of the same name.
    """
    if not _ABSOLUTE.match(name):
        return len(parts)
    inside = [k for k, part in enumerate(parts) if _PACKAGES.match(part)]
    # A module that is one file needs the folder too.
    return max(len(parts) - inside[-1] - 1, 2) if inside else 1
