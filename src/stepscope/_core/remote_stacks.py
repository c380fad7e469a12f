# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Stack of a thread of another Python process, read from that process's memory.

The memory is the file `/proc/PID/mem`, which is never written. The process keeps
running meanwhile, so no value that was read can be trusted: any address may be wrong, a
failed read ends the sample, the number of followed frames is limited, and no value is
used as an index unchecked. The result is two numbers per frame, innermost frame first:
the address of the code object and the address of the current instruction.

Sampling a usual stack takes two or three reads: the thread state, the structure that it
points to (in Python 3.11 and 3.12), and the chunk of memory with the frames. Frames
outside this chunk, such as those of generators, are read one by one.
"""

from __future__ import annotations

import os
from typing import Any

from stepscope._core._shim import cython

if cython.compiled:
    from cython.cimports.posix.unistd import pread

#: An array has the wrong size, or the layout is impossible.
BAD_RANGE = -1
#: The thread state could not be read, for example because the process has ended.
GONE = -2
#: The address does not hold the state of the expected thread.
OTHER = -3
#: The thread runs, but its innermost frame could not be read.
UNREADABLE = -4

#: Meaning of each row of the layout. Offsets are from the start of the structure.
LAYOUT = (
    "state_bytes",  # size of the part of the thread state that is read
    "native_id",  # in the state: OS id of the thread
    "frame",  # in the state: pointer to the innermost frame or to a holder of it
    "frame_inside",  # in the holder: pointer to the innermost frame; -1 without holder
    "chunk",  # in the state: pointers to the chunk with frames and to its used end
    "code",  # in a frame: pointer to the code object
    "previous",  # in a frame: pointer to the caller's frame
    "instruction",  # in a frame: pointer to the current instruction
    "owner",  # in a frame: kind of owner, one byte
    "frame_bytes",  # size of the part of a frame that is read
    "first_native",  # lowest kind of owner for frames of the interpreter itself
)
#: Size of a sample's scratch memory, in bytes.
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
    """Return eight little-endian bytes as a number; the caller checks the bounds."""
    found: cython.ulonglong = 0
    byte: cython.int
    for byte in range(8):
        found |= cython.cast(cython.ulonglong, memory[at + byte]) << (8 * byte)
    return cython.cast(cython.longlong, found)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_address(value: cython.longlong) -> cython.bint:
    """Return whether a value can be a pointer: in user space and aligned to 8 bytes."""
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
    # In `memory`, the state or a single frame is at offset 0, the chunk at 512.
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
    # Frames of the interpreter itself are at most as many as those of functions.
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
    """Sample one thread of each of several processes, without the GIL.

    Args:
        files: File descriptor of each process's memory, open for reading.
        states: Address of the thread state in each process.
        threads: OS id of each thread.
        layout: Offsets and sizes, as `LAYOUT` lists them.
        memory: Scratch memory of `MEMORY_BYTES`.
        out: Receives code and instruction addresses: (processes, 2, maximum number of
            frames), innermost frame first.
        counts: Receives the number of frames of each process; or `GONE`, `OTHER`,
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
