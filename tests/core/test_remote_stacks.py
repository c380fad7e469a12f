"""Looks at a made-up memory: a literal stack, and bytes that make no sense."""

from __future__ import annotations

import os
import random
import struct
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from stepscope.capture.collectors.workers.layout import Layout, layout_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

    from numpy.typing import NDArray

#: As of a Python that keeps all of it in order.
OFFSETS: Final = {
    "state_bytes": 64,
    "native_id": 8,
    "frame": 16,
    "frame_inside": -1,
    "chunk": 24,
    "code": 0,
    "previous": 8,
    "instruction": 16,
    "owner": 24,
    "frame_bytes": 32,
    "first_native": 3,
}
STATE, CHUNK, ELSEWHERE, THREAD = 0x1000, 0x2000, 0x4000, 77
MOST = 8
SIZE = 0x8000


@pytest.fixture
def forms(
    kernel_forms: Callable[[str], dict[str, ModuleType]],
) -> list[ModuleType]:
    return list(kernel_forms("remote_stacks").values())


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path / "memory")
    yield made
    made.close()


class Memory:
    """A file that stands for the memory of a process."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(SIZE))
        self.file = os.open(path, os.O_RDWR)

    def close(self) -> None:
        os.close(self.file)

    def put(self, address: int, *numbers: int) -> None:
        held = struct.pack(f"<{len(numbers)}Q", *(it % 2**64 for it in numbers))
        os.pwrite(self.file, held, address)

    def thread(self, frame: int, *, used: int = 0x200, native_id: int = THREAD) -> None:
        self.put(STATE, 0, native_id, frame, CHUNK, CHUNK + used)

    def frame(self, at: int, code: int, previous: int, *, owner: int = 0) -> None:
        self.put(at, code, previous, code + 100, owner)

    def look(
        self, form: ModuleType, *, state: int = STATE, offsets: dict[str, int] = OFFSETS
    ) -> int | list[tuple[int, int]]:
        out, counts = np.zeros((1, 2, MOST), np.int64), np.full(1, 99, np.int64)
        answer = form.sample_stack(
            *(np.array([it], np.int64) for it in (self.file, state, THREAD)),
            np.array([offsets[name] for name in form.LAYOUT], np.int64),
            np.zeros(form.MEMORY_BYTES, np.uint8),
            out,
            counts,
        )
        assert answer in {0, form.BAD_RANGE}
        if answer:
            return int(answer)
        depth = int(counts[0])
        assert depth <= MOST
        return (
            depth if depth < 0 else list(zip(*out[0, :, :depth].tolist(), strict=True))
        )


def test_the_innermost_function_comes_first(
    forms: list[ModuleType], memory: Memory
) -> None:
    """The second frame is a generator's, elsewhere; the third is no function's."""
    memory.thread(CHUNK + 64)
    memory.frame(CHUNK + 64, 0x7001, ELSEWHERE)
    memory.frame(ELSEWHERE, 0x7002, CHUNK + 32)
    memory.frame(CHUNK + 32, 0x7003, CHUNK, owner=3)
    memory.frame(CHUNK, 0x7004, 0)
    for form in forms:
        found = memory.look(form)
        assert found == [(it, it + 100) for it in (0x7001, 0x7002, 0x7004)]


def test_an_older_python_points_to_what_holds_the_frame(
    forms: list[ModuleType], memory: Memory
) -> None:
    memory.thread(ELSEWHERE)
    memory.put(ELSEWHERE, 0, CHUNK)
    memory.frame(CHUNK, 0x7001, 0)
    for form in forms:
        found = memory.look(form, offsets=OFFSETS | {"frame_inside": 8})
        assert found == [(0x7001, 0x7001 + 100)]


def test_what_cannot_be_read_or_is_another_thread_is_told_apart(
    forms: list[ModuleType], memory: Memory
) -> None:
    for form in forms:
        memory.thread(0)
        assert memory.look(form) == []
        assert memory.look(form, state=2**40) == form.GONE
        assert memory.look(form, state=STATE + 1) == form.OTHER
        assert memory.look(form, state=-8) == form.OTHER
        memory.thread(0, native_id=THREAD + 1)
        assert memory.look(form) == form.OTHER
        memory.thread(2**40)
        assert memory.look(form) == form.UNREADABLE
        memory.thread(CHUNK + 1)
        assert memory.look(form) == form.UNREADABLE


@pytest.mark.parametrize("owner", [0, 3])
def test_a_stack_that_runs_in_a_circle_ends(
    forms: list[ModuleType], memory: Memory, owner: int
) -> None:
    memory.thread(CHUNK)
    memory.frame(CHUNK, 0x7001, CHUNK, owner=owner)
    for form in forms:
        found = memory.look(form)
        assert found == ([(0x7001, 0x7001 + 100)] * MOST if owner == 0 else [])


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        *[("state_bytes", it) for it in (0, 513)],
        *[("native_id", it) for it in (-1, 57)],
        *[("frame", it) for it in (-8, 64)],
        *[("frame_inside", it) for it in (-2, 5_000)],
        *[("chunk", it) for it in (-1, 49)],
        *[("code", it) for it in (-1, 25)],
        *[("previous", it) for it in (-1, 25)],
        *[("instruction", it) for it in (-1, 25)],
        *[("owner", it) for it in (-1, 32)],
        *[("frame_bytes", it) for it in (8, 257)],
    ],
)
def test_a_layout_that_reaches_beyond_is_refused(
    forms: list[ModuleType], memory: Memory, name: str, offset: int
) -> None:
    memory.thread(0)
    for form in forms:
        assert memory.look(form, offsets=OFFSETS | {name: offset}) == form.BAD_RANGE


def test_arrays_of_wrong_sizes_are_refused(forms: list[ModuleType]) -> None:
    def arrays(form: ModuleType) -> list[NDArray[np.generic]]:
        return [
            *(np.zeros(2, np.int64) for _ in range(3)),
            np.array([OFFSETS[name] for name in form.LAYOUT], np.int64),
            np.zeros(form.MEMORY_BYTES, np.uint8),
            np.zeros((2, 2, MOST), np.int64),
            np.zeros(2, np.int64),
        ]

    for form in forms:
        for place in range(1, 7):
            given = arrays(form)
            given[place] = given[place][:-1].copy()
            assert form.sample_stack(*given) == form.BAD_RANGE, place


@pytest.mark.slow(seconds=0.7)
def test_bytes_without_a_meaning_do_no_harm(
    forms: list[ModuleType], memory: Memory
) -> None:
    """Half of the numbers are addresses that can be read; none makes it raise."""
    seeded = random.Random(5)  # noqa: S311 - no secret
    layout = layout_here()
    assert isinstance(layout, Layout), layout
    here = {**layout.stacks}
    answers = set()
    for _ in range(400):
        numbers = [
            seeded.randrange(0x1000, SIZE) // 8 * 8
            if seeded.random() < 0.7
            else seeded.getrandbits(64)
            for _ in range(SIZE // 8)
        ]
        memory.put(0, *numbers)
        for offsets in (OFFSETS, here):
            if seeded.random() < 0.8:
                memory.put(STATE + offsets["native_id"], THREAD)
            found = [memory.look(form, offsets=offsets) for form in forms]
            assert found.count(found[0]) == len(forms)
            answers.add(found[0] if isinstance(found[0], int) else "stack")
    assert answers >= {"stack", forms[0].OTHER, forms[0].UNREADABLE}


def test_a_look_lets_other_threads_run(
    forms: list[ModuleType],
    memory: Memory,
    runs_beside: Callable[[Callable[[], object]], bool],
) -> None:
    memory.thread(CHUNK)
    memory.frame(CHUNK, 0x7001, CHUNK)
    compiled = [form for form in forms if not str(form.__file__).endswith(".py")]
    for form in compiled:
        count = 20_000
        arrays = (
            *(np.full(count, it, np.int64) for it in (memory.file, STATE, THREAD)),
            np.array([OFFSETS[name] for name in form.LAYOUT], np.int64),
            np.zeros(form.MEMORY_BYTES, np.uint8),
            np.zeros((count, 2, MOST), np.int64),
            np.zeros(count, np.int64),
        )
        looks = partial(form.sample_stack, *arrays)
        assert any(runs_beside(looks) for _ in range(20))
