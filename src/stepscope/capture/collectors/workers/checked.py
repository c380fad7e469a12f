"""Whether this interpreter is understood from outside: by a look at this process."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import numpy as np

from stepscope._core import remote_stacks
from stepscope.capture.collectors.workers.line_table import lines_of
from stepscope.capture.collectors.workers.memory import Memory
from stepscope.xspace.vocabulary import UNSEEN, Unseen

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from stepscope.capture.collectors.workers.layout import Layout

#: Texts of every width, which a path or a name may have.
_TEXTS = ("train.py", "für.py", "訓練.py", "🚂.py")
_FRAMES = 64


def why_not_understood(layout: Layout) -> Unseen | None:
    """Return why a layout is not to be used; None where all agrees.

    The calling thread's own stack is read as a worker's is, and held against what the
    interpreter says of it.
    """
    try:
        memory = Memory("self", layout)
    except OSError:
        return UNSEEN["permission"]
    try:
        agrees = _agrees(memory, layout)
    finally:
        memory.close()
    return None if agrees else UNSEEN["layout"]


def _agrees(memory: Memory, layout: Layout) -> bool:
    thread = threading.get_native_id()
    state = memory.thread_state(thread)
    if state is None or any(memory.text(id(text)) != text for text in _TEXTS):
        return False
    out = np.zeros((1, 2, _FRAMES), np.int64)
    counts = np.zeros(1, np.int64)
    remote_stacks.look(
        np.array([memory.file], np.int64),
        np.array([state], np.int64),
        np.array([thread], np.int64),
        layout.row(),
        np.zeros(remote_stacks.MEMORY_BYTES, np.uint8),
        out,
        counts,
    )
    seen = out[0, :, : int(counts[0])].T.tolist() if counts[0] > 0 else []
    # Kernels that were not compiled are on the stack themselves.
    own = id(_agrees.__code__)
    while seen and seen[0][0] != own:
        del seen[0]
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the way Python has for it
    while frame is not None and len(frames) < _FRAMES:
        frames.append(frame)
        frame = frame.f_back
    if len(seen) != len(frames) or len(seen) < 2:
        return False
    # The innermost one has gone on since.
    return all(
        code == id(frame.f_code)
        and (place == 0 or at - code - layout.code_bytes == frame.f_lasti)
        and _is_known(memory, code, frame.f_code)
        for place, ((code, at), frame) in enumerate(zip(seen, frames, strict=True))
    )


def _is_known(memory: Memory, address: int, code: CodeType) -> bool:
    found = memory.code(address)
    if found is None:
        return False
    told = (found.name, found.file, found.first_line)
    begins, lines = lines_of(found.table, found.first_line)
    known = {begin: line for begin, _, line in code.co_lines()}
    read = dict(zip(begins, lines, strict=True))
    # Python joins neighbours that are of one line.
    same = all(read.get(begin) == line for begin, line in known.items())
    return same and told == (code.co_qualname, code.co_filename, code.co_firstlineno)
