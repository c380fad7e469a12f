# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""What a thread of another Python process runs, read from that process's memory.

The memory is a file (`/proc/PID/mem`), which is only ever read. The process goes on
meanwhile, so nothing that was read has to be true: every address is a number that may
be wrong, a read that fails ends the look, a stack is followed for this many frames
only, and nothing is looked up by what was read. What comes of it are two numbers a
frame, the address of the function's code and that of its instruction, the innermost
frame first.

A look takes two or three reads for a stack of usual depth: the state of the thread, in
Python 3.11 and 3.12 what that points to, and the piece of memory that holds the frames.
Frames elsewhere, as those of generators are, are read one by one.
"""

from __future__ import annotations

import os
from typing import Any

from stepscope._core._shim import cython

if cython.compiled:
    from cython.cimports.posix.unistd import pread

#: Arrays of wrong sizes, or a layout that cannot be.
BAD_RANGE = -1
#: The state of the thread could not be read: the process has ended, say.
GONE = -2
#: What is read there is no thread, or another one.
OTHER = -3
#: The thread runs, and the begin of its stack could not be read.
UNREADABLE = -4

#: What a row of the layout is, in order. Offsets count from the begin of the structure.
LAYOUT = (
    "state_bytes",  # of the thread's state, as far as it is read
    "native_id",  # in it: the system's id of the thread
    "frame",  # in it: the innermost frame, or what points to that
    "frame_inside",  # in what that points to: the innermost frame; -1 for no such thing
    "chunk",  # in the state: the piece of memory with the frames; then its end in use
    "code",  # in a frame: the function's code
    "previous",  # in a frame: the one that called it
    "instruction",  # in a frame: its instruction
    "owner",  # in a frame: who keeps it, one byte
    "frame_bytes",  # of a frame, as far as it is read
    "first_native",  # owners from this one on are calls of the interpreter, no function
)
#: Room that a look needs to read into.
MEMORY_BYTES = 66_048

if cython.compiled:

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _read_memory(
        file: cython.int,
        memory: cython.uchar[::1],
        at: cython.longlong,
        size: cython.longlong,
        address: cython.longlong,
    ) -> cython.longlong:
        done: cython.longlong = pread(file, cython.address(memory[at]), size, address)
        return done

else:

    def _read_memory(file: int, memory: Any, at: int, size: int, address: int) -> int:
        try:
            return os.preadv(file, [memory[at : at + size]], address)
        except OSError:
            return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_number(memory: cython.uchar[::1], at: cython.longlong) -> cython.longlong:
    """Return eight bytes as a number, the lowest first; the caller minds the ends."""
    found: cython.ulonglong = 0
    byte: cython.int
    for byte in range(8):
        found |= cython.cast(cython.ulonglong, memory[at + byte]) << (8 * byte)
    return cython.cast(cython.longlong, found)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_address(value: cython.longlong) -> cython.bint:
    """Return whether a structure may begin there: in a program's half, and aligned."""
    end: cython.longlong = 0x7FFF_FFFF_FFFF
    return 4096 <= value < end and value & 7 == 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_stack(
    file: cython.int,
    state: cython.longlong,
    thread: cython.longlong,
    layout: cython.const[cython.longlong][::1],
    memory: cython.uchar[::1],
    out: cython.longlong[:, ::1],
) -> cython.longlong:
    # The state and single frames are read to the begin, frames in one piece behind it.
    behind: cython.longlong = 512
    room: cython.longlong = memory.shape[0] - behind
    most: cython.longlong = out.shape[1]
    if not _is_address(state):
        return -3
    if _read_memory(file, memory, 0, layout[0], state) != layout[0]:
        return -2
    if _read_number(memory, layout[1]) != thread:
        return -3
    frame: cython.longlong = _read_number(memory, layout[2])
    chunk: cython.longlong = _read_number(memory, layout[4])
    end: cython.longlong = _read_number(memory, layout[4] + 8)
    if not _is_address(chunk) or not _is_address(end):
        chunk = end = 0
    if layout[3] >= 0:
        if not _is_address(frame):
            return -4
        if _read_memory(file, memory, 0, 8, frame + layout[3]) != 8:
            return -4
        frame = _read_number(memory, 0)
    held: cython.longlong = 0
    if end > chunk:
        held = _read_memory(file, memory, behind, min(end - chunk, room), chunk)
        held = max(held, 0)
    count: cython.longlong = 0
    steps: cython.longlong = 0
    at: cython.longlong
    # Calls of the interpreter itself are no more than the functions.
    while frame != 0 and count < most and steps < 2 * most:
        steps += 1
        if not _is_address(frame):
            return count or -4
        at = frame - chunk
        if at >= 0 and at + layout[9] <= held:
            at += behind
        else:
            at = 0
            if _read_memory(file, memory, 0, layout[9], frame) != layout[9]:
                return count or -4
        if memory[at + layout[8]] < layout[10]:
            out[0, count] = _read_number(memory, at + layout[5])
            out[1, count] = _read_number(memory, at + layout[7])
            count += 1
        frame = _read_number(memory, at + layout[6])
    return count


def sample_stack(
    files: cython.const[cython.longlong][::1],
    states: cython.const[cython.longlong][::1],
    threads: cython.const[cython.longlong][::1],
    layout: cython.const[cython.longlong][::1],
    memory: cython.uchar[::1],
    out: cython.longlong[:, :, ::1],
    counts: cython.longlong[::1],
) -> cython.longlong:
    """Look at one thread of each of some processes; other threads of ours may run.

    Args:
        files: The memory of each process, open for reading.
        states: Address of the thread's state in it.
        threads: The system's id of the thread.
        layout: Where things are, as `LAYOUT` lists them.
        memory: Room of `MEMORY_BYTES`, overwritten.
        out: Room: process, then codes and instructions, then as many frames as are
            followed, the innermost first.
        counts: Room for a number by process: of frames; or `GONE`, `OTHER`,
            `UNREADABLE`.

    Returns:
        0, or `BAD_RANGE`.
    """
    processes: cython.longlong = files.shape[0]
    if (
        states.shape[0] != processes
        or threads.shape[0] != processes
        or counts.shape[0] != processes
        or out.shape[0] != processes
        or out.shape[1] != 2
        or layout.shape[0] != 11
        or memory.shape[0] < 66_048
    ):
        return BAD_RANGE
    if not 16 <= layout[0] <= 512 or not 16 <= layout[9] <= 256:
        return BAD_RANGE
    row: cython.longlong
    for row in (1, 2):
        if not 0 <= layout[row] <= layout[0] - 8:
            return BAD_RANGE
    if not 0 <= layout[4] <= layout[0] - 16 or not -1 <= layout[3] <= 4096:
        return BAD_RANGE
    for row in (5, 6, 7):
        if not 0 <= layout[row] <= layout[9] - 8:
            return BAD_RANGE
    if not 0 <= layout[8] < layout[9]:
        return BAD_RANGE
    if not cython.compiled:
        memory = memoryview(memory)
    with cython.nogil:
        for row in range(processes):
            counts[row] = _read_stack(
                cython.cast(cython.int, files[row]),
                states[row],
                threads[row],
                layout,
                memory,
                out[row],
            )
    return 0
