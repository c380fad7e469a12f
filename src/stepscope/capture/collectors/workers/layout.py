"""Offsets of an interpreter's threads, frames and code objects in its memory.

CPython 3.13 publishes its offsets at the start of `_PyRuntime`. The offsets of 3.11 and
3.12 are listed here: they are fixed within a minor version, because extensions are
compiled against them. Before use, any offsets are tested on this process's own stack.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from typing import Final, NamedTuple

import numpy as np

from stepscope._core import remote_stacks
from stepscope.xspace.vocabulary import UNSAMPLED, Unsampled

#: Offset of an object's type, in bytes.
TYPE: Final = 8


class Layout(NamedTuple):
    """Offsets in bytes from the start of each structure.

    Attributes:
        stacks: Offsets listed in `remote_stacks.LAYOUT`.
        interpreter: In the runtime: newest interpreter.
        thread: In an interpreter: state of its newest thread.
        next_thread: In a thread state: state of the next older thread.
        code_bytes: Size of a code object before its first instruction.
        name: In a code object: qualified name, a text.
        text_length: In a text: number of characters.
        text_state: In a text: storage format of its characters.
        ascii: In an ASCII text: the characters.
        wide: In any other text: the characters.
    """

    stacks: dict[str, int]
    interpreter: int
    thread: int
    next_thread: int
    code_bytes: int
    file: int
    name: int
    first_line: int
    table: int
    text_length: int
    text_state: int
    ascii: int
    wide: int
    bytes_length: int = 16
    bytes_data: int = 32

    def offset_row(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the offsets in the order of `remote_stacks.LAYOUT`."""
        return np.array([self.stacks[name] for name in remote_stacks.LAYOUT], np.int64)


#: Minor versions of Python 3 whose offsets are listed here.
_KNOWN: Final = (11, 12)
#: Field of `Layout.stacks` → offset in each version of `_KNOWN`.
_STACKS: Final = {
    "state_bytes": (312, 248),
    "native_id": (160, 144),
    "frame": (56, 56),
    "frame_inside": (8, 0),
    "chunk": (296, 232),
    "code": (32, 0),
    "previous": (48, 8),
    "instruction": (56, 56),
    "owner": (69, 70),
    "frame_bytes": (72, 72),
    "first_native": (3, 3),
}
#: Other field of `Layout` → offset in each version of `_KNOWN`.
_OFFSETS: Final = {
    "interpreter": (40, 40),
    "thread": (16, 72),
    "next_thread": (8, 8),
    "code_bytes": (184, 192),
    "file": (112, 112),
    "name": (128, 128),
    "first_line": (72, 68),
    "table": (136, 136),
    "text_length": (16, 16),
    "text_state": (32, 32),
    "ascii": (48, 40),
    "wide": (72, 56),
}
_COOKIE: Final = b"xdebugpy"
#: Names of the numbers in Python 3.13's debug offsets, by structure and in order.
_FIELDS: Final = (
    ("runtime", ("size", "finalizing", "interpreters")),
    (
        "interpreter",
        (
            *("size", "id", "next", "threads", "gc", "modules", "sysdict"),
            *("builtins", "gil", "gil_state", "enabled", "locked", "holder"),
        ),
    ),
    (
        "thread",
        (
            *("size", "prev", "next", "interp", "frame", "ident", "native_id"),
            *("chunk", "status"),
        ),
    ),
    ("frame", ("size", "previous", "code", "instruction", "locals", "owner")),
    (
        "code",
        (
            *("size", "file", "bare_name", "name", "table", "first_line"),
            *("arguments", "local_names", "local_kinds", "instructions"),
        ),
    ),
    ("object", ("size", "type")),
    ("type", ("size", "name", "repr", "flags")),
    ("tuple", ("size", "items", "length")),
    ("list", ("size", "items", "length")),
    ("dict", ("size", "keys", "values")),
    ("float", ("size", "value")),
    ("int", ("size", "tag", "digits")),
    ("bytes", ("size", "length", "data")),
    ("text", ("size", "state", "length", "ascii_size")),
)
#: Bytes of the two numbers that only a non-ASCII text has before its characters.
_WIDE: Final = 16


def runtime_address() -> int:
    """Return the address of this process's `_PyRuntime`.

    Raises:
        ValueError: This Python does not export `_PyRuntime`.
    """
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))


def layout_here() -> Layout | Unsampled:
    """Return the layout of this interpreter, or the reason why it is unknown."""
    if sys.platform != "linux":
        return UNSAMPLED["system"]
    if sys.implementation.name != "cpython" or sys.byteorder != "little":
        return UNSAMPLED["python"]
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return UNSAMPLED["free_threaded"]
    minor = sys.version_info.minor
    if minor in _KNOWN:
        if hasattr(sys, "gettotalrefcount"):
            # Fields of debug builds shift all other offsets.
            return UNSAMPLED["python"]
        column = _KNOWN.index(minor)
        stacks = {name: offsets[column] for name, offsets in _STACKS.items()}
        fields = {name: offsets[column] for name, offsets in _OFFSETS.items()}
        return Layout(stacks, **fields)
    # Versions after 3.13 publish more numbers, in a different order.
    return _layout_from_runtime() if minor == 13 else UNSAMPLED["python"]


def _layout_from_runtime() -> Layout | Unsampled:
    numbers = sum(len(names) for _, names in _FIELDS)
    try:
        header = ctypes.string_at(runtime_address(), 24 + 8 * numbers)
    except ValueError:
        return UNSAMPLED["python"]
    version, free_threaded = struct.unpack_from("<QQ", header, 8)
    if header[:8] != _COOKIE or version >> 16 != sys.hexversion >> 16:
        return UNSAMPLED["python"]
    if free_threaded:
        return UNSAMPLED["free_threaded"]
    values = iter(struct.unpack_from(f"<{numbers}Q", header, 24))
    offsets = {
        structure: {name: next(values) for name in names}
        for structure, names in _FIELDS
    }
    thread, frame, code, text = (
        offsets[name] for name in ("thread", "frame", "code", "text")
    )
    return Layout(
        stacks={
            "state_bytes": max(thread["chunk"] + 16, thread["native_id"] + 8),
            "native_id": thread["native_id"],
            "frame": thread["frame"],
            "frame_inside": -1,
            "chunk": thread["chunk"],
            "code": frame["code"],
            "previous": frame["previous"],
            "instruction": frame["instruction"],
            "owner": frame["owner"],
            "frame_bytes": frame["locals"],
            "first_native": 3,
        },
        interpreter=offsets["runtime"]["interpreters"],
        thread=offsets["interpreter"]["threads"],
        next_thread=thread["next"],
        code_bytes=code["instructions"],
        file=code["file"],
        name=code["name"],
        first_line=code["first_line"],
        table=code["table"],
        text_length=text["length"],
        text_state=text["state"],
        ascii=text["ascii_size"],
        wide=text["ascii_size"] + _WIDE,
        bytes_length=offsets["bytes"]["length"],
        bytes_data=offsets["bytes"]["data"],
    )
