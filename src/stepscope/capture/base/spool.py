"""The spool: a file that survives a kill, to which whole fragments are appended.

Each fragment is a complete XSpace message, and so are several joined fragments. The
file can therefore be read at any moment (`formats`), except for a fragment cut off at
its end. A write error is not raised into the program: the fragment stays in memory.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

#: Number of bytes that one copy operation copies when old fragments are dropped.
_COPY_BYTES: Final = 2**20
_CREATING: Final = os.O_CREAT | os.O_EXCL | os.O_TRUNC


class OwnDescriptor:
    """A file descriptor of the profiler, in a program that may close all descriptors.

    The program may then open a file of its own, which gets the same number.

    Attributes:
        unchecked: Descriptor number at the last check, only for reads at given offsets.
    """

    def __init__(self, number: int) -> None:
        self.unchecked = number
        self._identity = _file_identity(number)

    def number(self) -> int:
        """Return the descriptor's number; raise OSError if the program closed it."""
        if _file_identity(self.unchecked) != self._identity:
            self.unchecked = -1
            raise _closed_error()
        return self.unchecked

    def is_on_device(self, device: int) -> bool:
        """Return whether the file was on a device: the program may have been faster."""
        return self._identity is not None and self._identity[0] == device

    def close(self) -> None:
        """Close the descriptor, unless the program closed it."""
        with suppress(OSError):
            os.close(self.number())
        self.unchecked = -1


class OwnFile(OwnDescriptor):
    """A file of the profiler, which is opened again if the program closed it."""

    def __init__(self, path: str | os.PathLike[str], flags: int) -> None:
        self._path = path
        self._flags = flags | os.O_CLOEXEC
        super().__init__(os.open(path, self._flags, 0o644))

    def number(self) -> int:
        """Return the descriptor's number; raise OSError if the path is another file."""
        with suppress(OSError):
            return super().number()
        number = os.open(self._path, self._flags & ~_CREATING)
        if _file_identity(number) != self._identity:
            os.close(number)
            raise _closed_error()
        self.unchecked = number
        return number

    def set_path(self, path: str | os.PathLike[str]) -> None:
        """Set the path after the file was renamed."""
        self._path = path


def _closed_error() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


def _file_identity(number: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Fragment(NamedTuple):
    """Events recorded since the previous fragment.

    Attributes:
        xspace: Serialized XSpace; empty if nothing was recorded.
        begin_ns: Start of the first event, in monotonic ns; None without events.
    """

    xspace: bytes
    events: int
    begin_ns: int | None = None


class _Stored(NamedTuple):
    size: int
    events: int
    begin_ns: int | None


class Spool:
    """Fragments of one recording, in a file until the disk refuses a fragment."""

    def __init__(self, path: Path | None, *, head: bytes, max_bytes: int) -> None:
        """Begin a spool.

        Args:
            path: The file, which must not exist; None keeps all fragments in memory.
            head: First fragment: has the recording's start time and is never dropped.
            max_bytes: Maximum bytes of all fragments together; the oldest are dropped.

        Raises:
            OSError: The file cannot be created.
        """
        self.path = path
        self.dropped_events = 0
        self.refused: OSError | None = None
        self._head = head
        self._max_bytes = max_bytes
        self._file: OwnFile | None = None
        #: Offset in the file of the oldest fragment that is not dropped.
        self._begin = len(head)
        self._stored: deque[_Stored] = deque()
        self._stored_bytes = 0
        self._kept: deque[Fragment] = deque()
        self._kept_bytes = 0
        if path is not None:
            self._file = OwnFile(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
            if not self._write_fragment(self._file, head, offset=0):
                self.leave_file()

    def append_fragment(self, fragment: Fragment) -> None:
        """Store a fragment in the file, or in memory if the disk refuses it."""
        body, events = fragment.xspace, fragment.events
        if not body:
            return
        offset = self._begin + self._stored_bytes
        if self._file is not None and self._write_fragment(
            self._file, body, offset=offset
        ):
            self._stored.append(_Stored(len(body), events, fragment.begin_ns))
            self._stored_bytes += len(body)
        else:
            self._kept.append(fragment)
            self._kept_bytes += len(body)
        if self._stored_bytes + self._kept_bytes > self._max_bytes:
            self._drop_oldest(newest=len(body))

    def read_content(self) -> bytes:
        """Return all fragments joined, beginning with the head."""
        parts = [self._head]
        if self._file is not None:
            parts.append(_read_bytes(self._file, self._begin, self._stored_bytes))
        parts += [fragment.xspace for fragment in self._kept]
        return b"".join(parts)

    def oldest_ns(self) -> int | None:
        """Return the start of the earliest event in the spool, in ns, or None."""
        begins = [fragment.begin_ns for fragment in self._stored]
        begins += [fragment.begin_ns for fragment in self._kept]
        return min((begin for begin in begins if begin is not None), default=None)

    def remove_file(self) -> None:
        """Remove the file, because its content is stored elsewhere."""
        self.leave_file()
        if self.path is not None:
            self._unlink_file(self.path)

    def leave_file(self) -> None:
        """Close the file and leave it on disk for readers."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _unlink_file(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            # The file remains on disk and can be read.
            self.refused = error

    def _write_fragment(self, file: OwnFile, body: bytes, *, offset: int) -> bool:
        try:
            _write_bytes(file, body, offset)
        except OSError as error:
            self.refused = error
        else:
            return True
        try:
            os.ftruncate(file.number(), offset)
        except OSError as error:
            # The incomplete fragment remains, but a reader stops there.
            self.refused = error
        return False

    def _drop_oldest(self, *, newest: int) -> None:
        """Drop the oldest fragments until half the budget is free, to drop rarely.

        The newest fragment is kept if it fits into the budget, however large it is.
        """
        limit_bytes = self._max_bytes // 2
        if limit_bytes < newest <= self._max_bytes:
            limit_bytes = newest
        while self._stored and self._stored_bytes + self._kept_bytes > limit_bytes:
            oldest = self._stored.popleft()
            self._stored_bytes -= oldest.size
            self._begin += oldest.size
            self.dropped_events += oldest.events
        while self._kept and self._stored_bytes + self._kept_bytes > limit_bytes:
            fragment = self._kept.popleft()
            self._kept_bytes -= len(fragment.xspace)
            self.dropped_events += fragment.events
        if self._file is not None and self._begin > len(self._head):
            self._shorten_file(self._file)

    def _shorten_file(self, old: OwnFile) -> None:
        """Replace the file by one with only the head and the fragments not dropped.

        The old file stays until the new one is complete: a kill in between loses
        nothing. On a full disk the old file stays, above its limit.
        """
        if self.path is None:
            return
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}.unfinished")
        new = None
        try:
            new = OwnFile(fresh, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
            _write_bytes(new, self._head, 0)
            for copied in range(0, self._stored_bytes, _COPY_BYTES):
                size = min(_COPY_BYTES, self._stored_bytes - copied)
                part = _read_bytes(old, self._begin + copied, size)
                _write_bytes(new, part, len(self._head) + copied)
            fresh.replace(self.path)
            new.set_path(self.path)
        except OSError as error:
            self.refused = error
            if new is not None:
                new.close()
            self._unlink_file(fresh)
            return
        self.leave_file()
        self._file, self._begin = new, len(self._head)


def _write_bytes(file: OwnFile, body: bytes, offset: int) -> None:
    written = 0
    view = memoryview(body)
    while written < len(body):
        written += os.pwrite(file.number(), view[written:], offset + written)


def _read_bytes(file: OwnFile, offset: int, size: int) -> bytes:
    parts = []
    while size > 0:
        part = os.pread(file.number(), size, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        size -= len(part)
    return b"".join(parts)
