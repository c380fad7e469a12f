"""Bytes of a profile file: memory-mapped, or decompressed from gzip within a limit."""

from __future__ import annotations

import codecs
import mmap
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.errors import BadInput
from stepscope.rundir import LIMIT_BYTES
from stepscope.xspace.reading.columns import Damage
from stepscope.xspace.reading.input_file import open_input

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.array_types import UInt8s

_GZIP: Final = b"\x1f\x8b"
_CHUNK_BYTES: Final = 2**20
#: Maximum ratio of decompressed to compressed size, for results above `_SMALL` bytes.
#: Recordings decompress to 10 to 30 times their size; a thousand times means a
#: compression bomb.
_MAX_EXPANSION: Final = 200
_SMALL: Final = 2**26
#: UTF-8 replacement character, which a conversion to text writes for bytes above 7F.
_REPLACEMENT: Final = b"\xef\xbf\xbd"
#: If a file has on average more than one replacement character per this many bytes, it
#: was converted to text: lengths and numbers above 127 are frequent in profiles.
_REPLACED_PER_BYTES: Final = 1000


def open_bytes(
    path: Path, *, limit_bytes: int = LIMIT_BYTES, mapped: bool = True
) -> tuple[UInt8s, tuple[Damage, ...]]:
    """Map a file, or decompress it if its first bytes are those of gzip.

    The mapping exists as long as the array. The returned damage is that of the
    compressed file. If another process truncates a mapped file, reading the lost part
    kills this process. To rule this out, copy the file into memory with `mapped=False`.

    Args:
        limit_bytes: Maximum size of a compressed file's content, in bytes.
        mapped: Whether to map the file instead of copying it.

    Raises:
        BadInput: The file is empty, unreadable, or decompresses beyond the limit.
    """
    try:
        with open_input(path) as file:
            head = file.read(2)
            if not head:
                raise BadInput.at(
                    path,
                    "the file is empty: its writer reached the 2 GiB limit of one "
                    "message, or the disk was full",
                    "Record fewer steps, or free space, and capture again.",
                )
            if not mapped:
                file.seek(0)
                content = file.read()
                if content[:2] == _GZIP:
                    return decompress_gzip(content, path, limit_bytes=limit_bytes)
                return np.frombuffer(content, np.uint8), ()
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        # Mapping a file that was emptied meanwhile raises ValueError.
        reason = error.strerror if isinstance(error, OSError) else None
        raise BadInput.at(
            path,
            f"cannot be read ({reason or error})",
            "Check the path and its permissions.",
        ) from error
    if head == _GZIP:
        with mapping:
            return decompress_gzip(mapping, path, limit_bytes=limit_bytes)
    if hasattr(mmap, "MADV_WILLNEED"):
        mapping.madvise(mmap.MADV_WILLNEED)
    return np.frombuffer(mapping, np.uint8), ()


def forget_pages(data: UInt8s) -> None:
    """Release the memory pages of a mapped file; they are loaded again on access."""
    # NumPy wraps the buffer that it was given in a memoryview.
    mapping = getattr(data.base, "obj", None)
    if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def decompress_gzip(
    packed: bytes | memoryview | mmap.mmap,
    name: object,
    *,
    limit_bytes: int = LIMIT_BYTES,
) -> tuple[UInt8s, tuple[Damage, ...]]:
    """Unpack all gzip members; a truncated one gives the data before the cut.

    The memory in use never exceeds the limit by much.
    """
    out = bytearray()
    damage: tuple[Damage, ...] = ()
    offset = 0
    # Zeros may fill the space after the last gzip member.
    while not damage and offset < len(packed) and packed[offset] != 0:
        stream = zlib.decompressobj(wbits=31)
        try:
            while not stream.eof and offset < len(packed):
                piece = bytes(packed[offset : offset + _CHUNK_BYTES])
                offset += len(piece)
                while piece:
                    before = stream.copy()
                    out += stream.decompress(piece, _CHUNK_BYTES)
                    _check_size(len(out), offset, name, limit_bytes)
                    piece = stream.unconsumed_tail
        except zlib.error:
            out += _decompress_before_error(before, piece)
            damage = _decompression_damage(out)
        else:
            damage = () if stream.eof else _decompression_damage(out)
        offset -= len(stream.unused_data)
    if not out:
        raise BadInput.at(
            name,
            "the gzip stream is empty or cut before its first bytes",
            "Copy the file again.",
        )
    decompressed = np.frombuffer(out, np.uint8)
    decompressed.flags.writeable = False
    return decompressed, damage


def _decompress_before_error(stream: zlib._Decompress, piece: bytes) -> bytes:
    """Return the data before an error; zlib itself drops the failing call's data."""
    out = b""
    step = _CHUNK_BYTES
    while step and piece:
        trial = stream.copy()
        try:
            out += trial.decompress(piece, step)
        except zlib.error:
            step //= 2
        else:
            stream, piece = trial, trial.unconsumed_tail
    return out


def _decompression_damage(out: bytearray) -> tuple[Damage, ...]:
    return (Damage(len(out), "the gzip stream is cut or damaged", 0),)


def _check_size(decompressed: int, packed: int, name: object, limit_bytes: int) -> None:
    if decompressed > limit_bytes:
        limit = f"{limit_bytes:,} bytes"
    elif decompressed > _SMALL + _MAX_EXPANSION * packed:
        limit = f"{_MAX_EXPANSION} times its size, more than any recording"
    else:
        return
    raise BadInput.at(
        name,
        f"decompresses to more than {limit}",
        "Unpack it yourself if you trust it, and open the result.",
    )


def is_text_damaged(data: UInt8s) -> bool:
    """Return whether an editor or a text-mode copy replaced the invalid UTF-8."""
    sample = bytes(data[: 64 * _CHUNK_BYTES])
    if sample.count(_REPLACEMENT) <= len(sample) // _REPLACED_PER_BYTES:
        return False
    try:
        # Almost every message is invalid UTF-8, because of its numbers above 127. If it
        # is valid UTF-8, it was converted to text.
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return True
