"""Reader of pickles of plain containers, numbers and text, without Python's unpickler.

A pickle is a program for a small stack machine, and some instructions import and call
functions that the file names. This reader implements only the instructions for
dictionaries, lists, tuples, numbers and text, and refuses the file at any other
instruction. Every size is checked before memory for it is allocated.

Opcodes: those of CPython's `pickletools` that a pickler of protocol 2 to 5 writes for
plain data. Definition: docs/formats/memory_snapshot.md#how-a-pickle-is-read.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

#: Maximum depth of nested, unfinished containers; real files have a depth of 7.
_MAX_DEPTH: Final = 64
#: Maximum number of values on the stack; a pickler adds items in batches of 1,000.
_MAX_STACK_VALUES: Final = 2**18
#: Maximum size of one integer, in bytes; real addresses and sizes have at most 9.
_WIDEST_INTEGER: Final = 16
_KEY_END: Final = 2**63
_NEWEST_PROTOCOL: Final = 5

#: Opcodes that import or call code, or request an object from outside of the pickle.
_CALLS: Final = {
    0x63: "GLOBAL",
    0x93: "STACK_GLOBAL",
    0x52: "REDUCE",
    0x62: "BUILD",
    0x69: "INST",
    0x6F: "OBJ",
    0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX",
    0x50: "PERSID",
    0x51: "BINPERSID",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x97: "NEXT_BUFFER",
}


class RefusedPickle(Exception):
    """The data are not a pickle of plain values.

    Attributes:
        what: The problem, as a part of a sentence.
        offset: Byte offset of the problem in the data.
    """

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.what = problem
        self.offset = offset


class _Sized(NamedTuple):
    """A value stored after its length: layout of the length, and the decoder."""

    length: struct.Struct
    value: Callable[[Any], Any]


#: Opcode → layout of the number after the opcode.
_NUMBERS: Final = {
    0x4A: struct.Struct("<i"),  # BININT
    0x4B: struct.Struct("<B"),  # BININT1
    0x4D: struct.Struct("<H"),  # BININT2
    0x47: struct.Struct(">d"),  # BINFLOAT
}


def _decode_text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


#: Opcode → layout of the length before the value, and decoder of the value's bytes.
_SIZED: Final = {
    0x8C: _Sized(struct.Struct("<B"), _decode_text),  # SHORT_BINUNICODE
    0x58: _Sized(struct.Struct("<I"), _decode_text),  # BINUNICODE
    0x8D: _Sized(struct.Struct("<Q"), _decode_text),  # BINUNICODE8
    0x43: _Sized(struct.Struct("<B"), bytes),  # SHORT_BINBYTES
    0x42: _Sized(struct.Struct("<I"), bytes),  # BINBYTES
    0x8A: _Sized(
        struct.Struct("<B"), partial(int.from_bytes, byteorder="little", signed=True)
    ),  # LONG1
}
_LONG1: Final = 0x8A
#: Opcode → the constant that the opcode puts on the stack.
_CONSTANTS: Final[dict[int, object]] = {0x4E: None, 0x88: True, 0x89: False, 0x29: ()}
#: Opcode → type of the empty container that the opcode puts on the stack.
_EMPTY: Final[dict[int, Callable[[], object]]] = {0x7D: dict, 0x5D: list}
#: Opcodes that read or write an entry of the memo, the table of repeated values.
_BINGET: Final = 0x68
_LONG_BINGET: Final = 0x6A
_PLACE: Final = struct.Struct("<I")
_PUTS: Final = {0x71: struct.Struct("<B"), 0x72: _PLACE}
_MEMOIZE: Final = 0x94
#: Opcode → number of items of the tuple; None if it has all items since the mark.
_TUPLES: Final[dict[int, int | None]] = {0x85: 1, 0x86: 2, 0x87: 3, 0x74: None}
#: Opcode → True if it adds all items since the mark, False if it adds one item.
_LIST_ITEMS: Final = {0x65: True, 0x61: False}
_DICT_ITEMS: Final = {0x75: True, 0x73: False}
_MARK: Final = 0x28
_PROTO: Final = 0x80
_FRAME: Final = 0x95
_STOP: Final = 0x2E


def plain_pickle(data: bytes) -> object:
    """Return the value of a pickle of plain containers, numbers and text.

    Raises:
        RefusedPickle: The data are cut, have other instructions, or exceed a maximum.
    """
    machine = _Machine(data)
    try:
        return machine.run()
    except (IndexError, struct.error):
        message = "the pickle is cut or damaged"
        raise RefusedPickle(message, machine.at) from None
    except KeyError:
        message = "the pickle refers to a value that it does not hold"
        raise RefusedPickle(message, machine.at) from None


class _Machine:
    """The stack machine: a stack, marks on the stack, and a memo of repeated values."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self.at = 0

    def run(self) -> object:
        """Run instructions until the STOP instruction, and return the value."""
        data, stack, memo = self._data, self._stack, self._memo
        offset = 0
        while True:
            self.at = offset
            code = data[offset]
            offset += 1
            # The most frequent opcodes are tested first.
            if code == _BINGET:
                stack.append(memo[data[offset]])
                offset += 1
            elif code == _LONG_BINGET:
                stack.append(memo[_PLACE.unpack_from(data, offset)[0]])
                offset += 4
            elif code == _MEMOIZE:
                memo[len(memo)] = stack[-1]
            elif code in _SIZED:
                offset = self._push_sized_value(code, offset)
            elif code == _STOP:
                if len(self._stack) != 1 or self._marks:
                    raise self._bad_pickle("the pickle ends within a container")
                return self._stack[0]
            else:
                offset = self._run_rare_instruction(code, offset)
            if len(stack) > _MAX_STACK_VALUES:
                raise self._bad_pickle(
                    "the pickle has too many values outside of containers"
                )

    def _run_rare_instruction(self, code: int, offset: int) -> int:
        """Run an instruction, and return the offset of the next instruction."""
        data = self._data
        if code in _NUMBERS:
            layout = _NUMBERS[code]
            self._stack.append(layout.unpack_from(data, offset)[0])
            return offset + layout.size
        if code in _PUTS:
            layout = _PUTS[code]
            self._memo[layout.unpack_from(data, offset)[0]] = self._stack[-1]
            return offset + layout.size
        if code == _PROTO:
            if data[offset] > _NEWEST_PROTOCOL:
                raise self._bad_pickle(
                    f"the pickle has the unknown protocol {data[offset]}"
                )
            return offset + 1
        if code == _FRAME:
            return offset + 8
        self._run_container_instruction(code)
        return offset

    def _run_container_instruction(self, code: int) -> None:
        """Run an instruction without an argument, such as a constant or a container."""
        stack = self._stack
        if code == _MARK:
            if len(self._marks) == _MAX_DEPTH:
                raise self._bad_pickle(f"the pickle nests over {_MAX_DEPTH} containers")
            self._marks.append(len(stack))
        elif code in _EMPTY:
            stack.append(_EMPTY[code]())
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code in _TUPLES:
            stack.append(self._make_tuple(_TUPLES[code]))
        elif code in _LIST_ITEMS:
            items = self._take_values(None if _LIST_ITEMS[code] else 1)
            self._open_container(list).extend(items)
        elif code in _DICT_ITEMS:
            items = self._take_values(None if _DICT_ITEMS[code] else 2)
            keys = items[::2]
            if len(items) % 2 or not all(
                # Many wider integers can share one hash, which makes a dictionary slow.
                isinstance(key, str) or (isinstance(key, int) and abs(key) < _KEY_END)
                for key in keys
            ):
                raise self._bad_pickle(
                    "a key of a dictionary is neither text nor a number"
                )
            self._open_container(dict).update(dict(zip(keys, items[1::2], strict=True)))
        elif code in _CALLS:
            raise self._bad_pickle(
                f"the pickle asks to run code ({_CALLS[code]}), and is not loaded"
            )
        else:
            raise self._bad_pickle(
                f"the pickle has an instruction ({code:#04x}) not for plain data"
            )

    def _push_sized_value(self, code: int, offset: int) -> int:
        length, value = _SIZED[code]
        size: int = length.unpack_from(self._data, offset)[0]
        offset += length.size
        if size > len(self._data) - offset:
            raise IndexError
        if code == _LONG1 and size > _WIDEST_INTEGER:
            raise self._bad_pickle(f"the pickle has an integer of {size} bytes")
        self._stack.append(value(self._data[offset : offset + size]))
        return offset + size

    def _make_tuple(self, count: int | None) -> tuple[object, ...]:
        items = tuple(self._take_values(count))
        # Without nested containers, hashing or comparing a tuple never recurses deeply.
        if any(isinstance(item, tuple | list | dict) for item in items):
            raise self._bad_pickle("the pickle nests containers in tuples")
        return items

    def _take_values(self, count: int | None) -> list[Any]:
        """Pop the last `count` values off the stack, or (None) all since the mark."""
        stack = self._stack
        begin = self._marks.pop() if count is None else len(stack) - count
        floor = self._marks[-1] if self._marks else 0
        if not floor <= begin <= len(stack):
            raise IndexError
        items = stack[begin:]
        del stack[begin:]
        return items

    def _open_container(self, kind: type[Any]) -> Any:
        if not isinstance(self._stack[-1], kind):
            raise self._bad_pickle("it adds items to a value that is not a container")
        return self._stack[-1]

    def _bad_pickle(self, problem: str) -> RefusedPickle:
        return RefusedPickle(problem, self.at)
