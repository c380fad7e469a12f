"""One worker process: the state of its first thread, and its functions.

Before use, the decoding of an interpreter's memory is tested on this process.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stepscope._core import remote_stacks
from stepscope.capture.base.functions import function_name
from stepscope.capture.collectors.workers.memory import (
    Memory,
    place_of_runtime,
    read_line_table,
)
from stepscope.xspace.vocabulary import UNSAMPLED, Unsampled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType

    from numpy.typing import NDArray

    from stepscope.array_types import Int64s
    from stepscope.capture.collectors.workers.layout import Layout
    from stepscope.capture.collectors.workers.memory import Code, Place

#: Nanoseconds after which a cached function is compared with the memory again: another
#: function may have its address.
_CHECK_PERIOD_NS: Final = 1_000_000_000
#: Maximum number of cached functions; a worker may create functions as it runs.
_MAX_CACHED: Final = 16_384
#: Maximum number of frames per sample, the innermost first.
MAX_FRAMES: Final = 256
#: First function of a worker; frames outside it belong to the parent of a forked child.
_ENTRY: Final = ("BaseProcess._bootstrap", "/multiprocessing/process.py")


class RemoteFunction(NamedTuple):
    """A function of another process.

    Attributes:
        name: Event name, as in frameworks; empty for functions of stepscope.
    """

    name: str
    file: str


class RemoteLine(NamedTuple):
    """A line of a function of another process.

    Attributes:
        line: Line number in the file; None if the instruction belongs to no line.
    """

    code: RemoteFunction
    line: int | None


class Workers:
    """Functions and lines shared by all workers, one object per function or line."""

    def __init__(self) -> None:
        self._functions: dict[RemoteFunction, RemoteFunction] = {}
        self._lines: dict[RemoteLine, RemoteLine] = {}

    def share_function(self, code: Code) -> RemoteFunction:
        """Return the shared function of a code object."""
        name = function_name(code.file, code.first_line, code.name)
        function = RemoteFunction(name, code.file)
        return self._functions.setdefault(function, function)

    def share_line(self, function: RemoteFunction, line: int | None) -> RemoteLine:
        """Return the shared object for a line of a function."""
        shared_line = RemoteLine(function, line)
        return self._lines.setdefault(shared_line, shared_line)


class _Known:
    def __init__(self, code: Code, function: RemoteFunction, read_ns: int) -> None:
        self.code = code
        self.function = function
        self.read_ns = read_ns
        self.is_entry = (code.name, code.file[-len(_ENTRY[1]) :]) == _ENTRY
        self.lines: dict[int, RemoteLine] = {}
        self._table: tuple[list[int], list[int | None]] | None = None

    def line_number(self, offset: int) -> int | None:
        if self._table is None:
            self._table = read_line_table(self.code.table, self.code.first_line)
        begins, lines = self._table
        row = bisect_right(begins, offset) - 1
        # The offset of a function that has not begun is before the first instruction.
        return lines[max(row, 0)] if lines else None


class Worker:
    """A process whose first thread is sampled."""

    def __init__(
        self, name: str, state: int, memory: Memory, layout: Layout, shared: Workers
    ) -> None:
        self.name = name
        self.state = state
        self.memory = memory
        self._begin = layout.code_bytes
        self._shared = shared
        self._known: dict[int, _Known] = {}

    def program_stack(
        self, codes: Sequence[int], instructions: Sequence[int], at_ns: int
    ) -> list[RemoteLine] | None:
        """Return the running lines, the outermost first, from the worker's entry on.

        The result is None if an address on the stack is not a function, because the
        stack changed meanwhile, or if a forked worker has not reached its entry.

        Args:
            codes: Addresses of the code objects, the innermost first.
        """
        stack: list[RemoteLine] = []
        # A stack with the maximum number of frames may lack the entry function.
        begun = len(codes) >= MAX_FRAMES
        for code, instruction in zip(codes, instructions, strict=True):
            known = self._known_function(code, at_ns)
            if known is None:
                return None
            if known.is_entry:
                begun = True
                break
            if known.function.name:
                offset = instruction - code - self._begin
                line = known.lines.get(offset)
                if line is None:
                    number = known.line_number(offset)
                    line = self._shared.share_line(known.function, number)
                    known.lines[offset] = line
                stack.append(line)
        stack.reverse()
        return stack if begun else None

    def close_memory(self) -> None:
        """Close the memory file."""
        self.memory.close_file()

    def _known_function(self, address: int, at_ns: int) -> _Known | None:
        known = self._known.get(address)
        if known is not None:
            if at_ns - known.read_ns < _CHECK_PERIOD_NS:
                return known
            if self.memory.is_still(address, known.code):
                known.read_ns = at_ns
                return known
            del self._known[address]
        code = self.memory.read_code(address)
        if code is None:
            return None
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        known = _Known(code, self._shared.share_function(code), at_ns)
        self._known[address] = known
        return known


class StackBuffers(NamedTuple):
    """Buffers for sampling one list of processes, reused until the list changes.

    Attributes:
        out: Addresses of codes and instructions, by process.
        counts: Number of stack frames, by process.
        arrays: Arguments of `remote_stacks.sample_stack`.
    """

    processes: list[int]
    out: Int64s
    counts: Int64s
    arrays: tuple[NDArray[Any], ...]

    @classmethod
    def make_buffers(
        cls,
        processes: list[int],
        files: list[int],
        states: list[int],
        layout: Layout,
        *,
        max_frames: int = MAX_FRAMES,
    ) -> StackBuffers:
        """Return new buffers for processes, their memory files and thread states."""
        out = np.zeros((len(processes), 2, max_frames), np.int64)
        counts = np.zeros(len(processes), np.int64)
        arrays = (
            np.array(files, np.int64),
            np.array(states, np.int64),
            np.array(processes, np.int64),
            layout.offset_row(),
            np.zeros(remote_stacks.MEMORY_BYTES, np.uint8),
            *(out, counts),
        )
        return cls(processes, out, counts, arrays)


def attach_worker(
    process: int, name: str, *, layout: Layout, own: Place, shared: Workers
) -> Worker | Unsampled | None:
    """Return a worker, or why it cannot be sampled, or None if it is not ready."""
    try:
        place = place_of_runtime(process, own.file)
        if place is None:
            # A spawned process may not have loaded its interpreter yet.
            same = _executable_path(process) == _executable_path("self")
            return None if same else UNSAMPLED["other_python"]
        memory = Memory(process, layout, shift=place.begin - own.begin)
    except PermissionError:
        return UNSAMPLED["permission"]
    except OSError:
        return None
    state = memory.thread_state(process)
    if state is None:
        memory.close_file()
        return None
    return Worker(name, state, memory, layout, shared)


def _executable_path(process: int | str) -> Path:
    return Path(f"/proc/{process}/exe").readlink()


#: Test texts with every character width that a path or name may have.
_TEXTS = ("train.py", "für.py", "訓練.py", "🚂.py")
_FRAMES = 64


def why_not_understood(layout: Layout) -> Unsampled | None:
    """Return why a layout is not usable; None if it passes the test.

    The calling thread's own stack is read like a worker's and compared with the stack
    that the interpreter reports.
    """
    try:
        memory = Memory("self", layout)
    except OSError:
        return UNSAMPLED["permission"]
    try:
        agrees = _layout_agrees(memory, layout)
    finally:
        memory.close_file()
    return None if agrees else UNSAMPLED["layout"]


def _layout_agrees(memory: Memory, layout: Layout) -> bool:
    thread = threading.get_native_id()
    state = memory.thread_state(thread)
    if state is None or any(memory.read_text(id(text)) != text for text in _TEXTS):
        return False
    buffers = StackBuffers.make_buffers(
        [thread], [memory.file], [state], layout, max_frames=_FRAMES
    )
    remote_stacks.sample_stack(*buffers.arrays)
    depth = max(int(buffers.counts[0]), 0)
    sampled = buffers.out[0, :, :depth].T.tolist()
    # If `_core` is not compiled, frames of its functions are on the stack.
    own = id(_layout_agrees.__code__)
    while sampled and sampled[0][0] != own:
        del sampled[0]
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - no public function
    while frame is not None and len(frames) < _FRAMES:
        frames.append(frame)
        frame = frame.f_back
    if len(sampled) != len(frames) or len(sampled) < 2:
        return False
    # The innermost frame has executed further since the sample.
    return all(
        code == id(frame.f_code)
        and (depth == 0 or ip - code - layout.code_bytes == frame.f_lasti)
        and _is_known(memory, code, frame.f_code)
        for depth, ((code, ip), frame) in enumerate(zip(sampled, frames, strict=True))
    )


def _is_known(memory: Memory, address: int, code: CodeType) -> bool:
    read_code = memory.read_code(address)
    if read_code is None:
        return False
    remote = (read_code.name, read_code.file, read_code.first_line)
    begins, lines = read_line_table(read_code.table, read_code.first_line)
    known = {begin: line for begin, _, line in code.co_lines()}
    read_lines = dict(zip(begins, lines, strict=True))
    # Python merges adjacent ranges that belong to the same line.
    same = all(read_lines.get(begin) == line for begin, line in known.items())
    return same and remote == (code.co_qualname, code.co_filename, code.co_firstlineno)
