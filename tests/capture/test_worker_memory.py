"""What the objects of a process say, read from its memory; and what nonsense says."""

from __future__ import annotations

import json
import os
import random
import sys
from typing import TYPE_CHECKING

import pytest

from stepscope.capture.collectors.workers import layout, memory, worker
from stepscope.capture.collectors.workers.layout import Layout, layout_here
from stepscope.capture.collectors.workers.memory import Memory, read_line_table
from stepscope.xspace.vocabulary import UNSAMPLED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import CodeType

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def here() -> Layout:
    found = layout_here()
    assert isinstance(found, Layout), found
    return found


@pytest.fixture
def own(here: Layout) -> Iterator[Memory]:
    opened = Memory("self", here)
    yield opened
    opened.close_file()


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, type(code)):
            yield from codes_of(one)


def test_this_python_is_understood_from_outside(here: Layout) -> None:
    assert worker.why_not_understood(here) is None


@pytest.mark.parametrize(
    "field", ["thread", "file", "name", "first_line", "table", "ascii"]
)
def test_an_offset_that_is_wrong_is_found(here: Layout, field: str) -> None:
    wrong = here._replace(**{field: getattr(here, field) - 8})
    assert worker.why_not_understood(wrong) == UNSAMPLED["layout"]


@pytest.mark.parametrize("offset", ["frame", "code", "previous", "instruction"])
def test_a_stack_that_is_read_wrongly_is_found(here: Layout, offset: str) -> None:
    stacks = here.stacks | {offset: here.stacks[offset] + 8}
    assert (
        worker.why_not_understood(here._replace(stacks=stacks)) == UNSAMPLED["layout"]
    )


def test_pythons_that_are_not_known_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {"Py_GIL_DISABLED": 1}
    monkeypatch.setattr(layout.sysconfig, "get_config_var", asked.get)
    assert layout_here() == UNSAMPLED["free_threaded"]
    monkeypatch.undo()
    monkeypatch.setattr(layout.sys, "platform", "darwin")
    assert layout_here() == UNSAMPLED["system"]
    monkeypatch.undo()
    monkeypatch.setattr(layout, "_KNOWN", {})
    known = sys.version_info[:2] == (3, 13)
    assert isinstance(layout_here(), Layout if known else type(UNSAMPLED["python"]))


def test_a_code_says_its_name_its_file_and_its_lines(own: Memory) -> None:
    every = [
        code
        for module in (json.decoder, random, os, memory)
        for value in vars(module).values()
        if hasattr(value, "__code__")
        for code in codes_of(value.__code__)
    ]
    assert len(every) > 50
    for code in every:
        found = own.read_code(id(code))
        assert found is not None
        assert (found.name, found.file) == (code.co_qualname, code.co_filename)
        assert found.first_line == code.co_firstlineno
        assert own.is_still(id(code), found)
        begins, lines = read_line_table(found.table, found.first_line)
        at = dict(zip(begins, lines, strict=True))
        assert {begin: line for begin, _, line in code.co_lines()}.items() <= at.items()


def test_what_is_no_code_and_no_text_says_nothing(own: Memory) -> None:
    for address in (0, 8, -8, 2**47, 2**63, id(3), id("text"), id(None), 2**40):
        assert own.read_code(address) is None
    for address in (0, -1, 2**63, id(3), id(b"text"), id("x" * 5_000)):
        assert own.read_text(address) is None


def test_a_function_whose_place_another_one_has_is_not_taken_for_it(
    own: Memory,
) -> None:
    first, other = random.shuffle.__code__, random.seed.__code__
    found = own.read_code(id(first))
    assert found is not None
    assert not own.is_still(id(other), found)


@pytest.mark.parametrize("seed", range(8))
def test_tables_of_lines_that_are_damaged_end(seed: int) -> None:
    seeded = random.Random(seed)  # noqa: S311 - no secret
    for _ in range(200):
        table = seeded.randbytes(seeded.randrange(60))
        begins, lines = read_line_table(table, 7)
        assert len(begins) == len(lines) <= len(table)
        assert begins == sorted(begins)


@pytest.mark.slow(seconds=1.0)
def test_memory_without_a_meaning_says_nothing_and_raises_nothing(
    here: Layout, tmp_path: Path
) -> None:
    """Types are right, lengths and addresses are not."""
    seeded = random.Random(3)  # noqa: S311 - no secret
    kinds = [id(type(json.loads.__code__)), id(str), id(bytes)]
    read = Memory("self", here)
    read.close_file()
    for _ in range(60):
        numbers = [
            seeded.choice(
                [
                    *(seeded.randrange(0x1000, 0x4000) // 8 * 8 for _ in range(3)),
                    *kinds,
                    seeded.getrandbits(64),
                    seeded.getrandbits(12),
                ]
            )
            for _ in range(0x4000 // 8)
        ]
        path = tmp_path / "memory"
        path.write_bytes(b"".join(it.to_bytes(8, "little") for it in numbers))
        read.file = os.open(path, os.O_RDONLY)
        for address in range(0x1000, 0x4000, 8):
            read.read_code(address)
            text = read.read_text(address)
            assert text is None or len(text) <= 4_096
            assert read.thread_state(address) is None
        read.close_file()


def test_a_stack_is_cut_at_the_begin_of_the_worker(own: Memory, here: Layout) -> None:
    """What a forked child has further out is of its parent."""
    from multiprocessing.process import BaseProcess  # noqa: PLC0415 - its code is meant

    entry = BaseProcess._bootstrap.__code__  # type: ignore[attr-defined]
    inner, outer = json.loads.__code__, random.seed.__code__
    looked = worker.Worker("it", 0, own, here, worker.Workers())

    def stack(*codes: CodeType) -> list[str] | None:
        addresses = [id(code) for code in codes]
        first = [it + here.code_bytes for it in addresses]
        found = looked.program_stack(addresses, first, 10)
        return None if found is None else [one.code.name for one in found]

    line = inner.co_firstlineno
    assert stack(inner, entry, outer) == [f"$__init__.py:{line} loads"]
    assert stack(inner, outer) is None, "a fork that has not begun is its parent"
    assert looked.program_stack([id(inner), id(3)], [0, 0], 10) is None
