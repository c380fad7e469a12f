"""Looks at a stack become frames: worked out by hand."""

from __future__ import annotations

import dis
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import stepscope
import stepscope as ss
from stepscope.capture.base.functions import CodeLine, LinesOfCode
from stepscope.capture.collectors.python_samples import PythonSamplesCollector, _Raw
from stepscope.capture.collectors.sampled_frames import Frame, Sample, SampledFrames

if TYPE_CHECKING:
    from types import CodeType


def code(name: str) -> CodeType:
    return (lambda: None).__code__.replace(co_name=name)


database: Any = None
MAIN, STEP, LOAD, TRAIN = map(code, ("main", "step", "load", "train"))


def frames(
    *looks: tuple[int, int, list[CodeType]], until: int = 0
) -> list[tuple[str, int, int]]:
    """Name, begin and end of the frames of looks: when due, when taken, what ran."""
    sampled: SampledFrames[CodeType] = SampledFrames()
    found: list[Frame[CodeType]] = []
    for due, at, stack in looks:
        found += sampled.add_sample(Sample(1, due, at, stack))
    found += sampled.end_frames(until)
    return [(it.code.co_name, it.begin_ns, it.end_ns) for it in found]


def test_what_looks_in_a_row_found_is_one_frame() -> None:
    assert frames(
        (0, 0, [MAIN, STEP, LOAD]),
        (10, 10, [MAIN, STEP, LOAD]),
        (20, 20, [MAIN, STEP, TRAIN]),
        (30, 30, [MAIN]),
        (40, 40, [MAIN]),
    ) == [("load", 0, 15), ("step", 0, 25), ("train", 15, 25), ("main", 0, 40)]


def test_what_the_last_look_found_lasts_until_looking_ends() -> None:
    looks = ((0, 0, [MAIN, LOAD]), (10, 10, [MAIN, STEP]))
    assert frames(*looks, until=14) == [
        *(("load", 0, 5), ("main", 0, 14), ("step", 5, 14)),
    ]
    # The last look may come as looking ends.
    assert frames(*looks, until=9)[1:] == [("main", 0, 10), ("step", 5, 10)]


def test_a_thread_that_was_gone_at_the_last_look_runs_no_longer() -> None:
    assert frames((0, 0, [MAIN]), (10, 10, []), until=15) == [("main", 0, 5)]


def test_a_frame_above_ends_those_below_it() -> None:
    assert frames((0, 0, [MAIN, STEP]), (10, 10, [LOAD, STEP])) == [
        ("main", 0, 5),
        ("step", 0, 5),
        ("load", 5, 10),
        ("step", 5, 10),
    ]


def test_a_late_look_says_what_kept_it_waiting() -> None:
    """Due at 10, taken at 90: the thread held the lock from 10 on."""
    assert frames((0, 0, [LOAD]), (10, 90, [TRAIN]), (100, 100, [LOAD])) == [
        ("load", 0, 5),
        ("train", 5, 95),
        ("load", 95, 100),
    ]


def test_a_look_that_was_due_before_the_last_was_taken_divides_nothing() -> None:
    assert frames((0, 30, [LOAD]), (10, 31, [TRAIN])) == [
        ("load", 30, 30),
        ("train", 30, 31),
    ]


def test_a_thread_that_runs_nothing_is_in_nothing() -> None:
    assert frames((0, 0, [LOAD]), (10, 10, []), (20, 20, [LOAD]), (30, 30, [])) == [
        ("load", 0, 5),
        ("load", 15, 25),
    ]


def test_threads_are_apart() -> None:
    sampled: SampledFrames[CodeType] = SampledFrames()
    assert sampled.add_sample(Sample(1, 0, 0, [LOAD])) == []
    assert sampled.add_sample(Sample(2, 0, 4, [TRAIN])) == []
    assert sampled.add_sample(Sample(1, 10, 10, [])) == [Frame(LOAD, 1, 0, 5)]
    assert sampled.end_frames() == [Frame(TRAIN, 2, 4, 4)]


def test_a_function_that_calls_itself_is_as_many_frames() -> None:
    assert frames((0, 0, [LOAD]), (10, 10, [LOAD, LOAD]), (20, 20, [LOAD])) == [
        ("load", 5, 15),
        ("load", 0, 20),
    ]


def test_a_line_further_out_ends_the_lines_of_what_was_called_in_it() -> None:
    """`main` calls `load` in line 3, then in line 4: two calls in one look each."""
    sampled: SampledFrames[CodeLine] = SampledFrames()
    three, four, inner = CodeLine(MAIN, 3), CodeLine(MAIN, 4), CodeLine(LOAD, 9)
    assert sampled.add_sample(Sample(1, 0, 0, [three, inner])) == []
    assert sampled.add_sample(Sample(1, 10, 10, [four, inner])) == [
        Frame(three, 1, 0, 5),
        Frame(inner, 1, 0, 5),
    ]
    assert sampled.end_frames() == [Frame(four, 1, 5, 10), Frame(inner, 1, 5, 10)]


def several(count: int) -> list[int]:
    found = []
    for number in range(count):
        if number % 2:
            found.append(
                number * len(found),
            )
    return [each for each in found if each]


def test_each_instruction_is_at_the_line_that_made_it() -> None:
    lines, code = LinesOfCode(), several.__code__
    shown = list(dis.get_instructions(several))
    for instruction in shown:
        assert instruction.positions is not None
        found = lines.code_line(code, instruction.offset)
        assert found[:2] == (code, instruction.positions.lineno)
        # Looks compare lines by identity.
        assert lines.code_line(code, instruction.offset) is found
    at = {lines.code_line(code, instruction.offset).line for instruction in shown}
    assert len(at) > 5
    # A function that has not begun.
    assert lines.code_line(code, -1) == lines.code_line(code, 0)


def test_code_without_a_table_of_lines_has_none() -> None:
    """As compilers make it, `torch.compile` for one."""
    lines, bare = LinesOfCode(), MAIN.replace(co_linetable=b"")
    assert lines.code_line(bare, 2) == CodeLine(bare, None)
    assert lines.code_line(bare, 2) is lines.code_line(bare, 2)


def flushing(rows: list[list[int]], file: Any, x: Any, names: list[str]) -> Any:
    os.fsync(
        file.fileno(),
    )
    for row in rows:
        row.sort(key=abs)
    database.execute("x").fetchall()
    return sorted(names) if x @ x else names


def test_a_line_says_what_it_calls_as_the_source_does() -> None:
    lines, code = LinesOfCode(), flushing.__code__
    called = {
        instruction.offset: lines.code_line(code, instruction.offset).called
        for instruction in dis.get_instructions(code)
    }
    assert list(dict.fromkeys(name for name in called.values() if name)) == [
        *("file.fileno", "os.fsync", "for", "row.sort", "database.execute"),
        *("database.execute.fetchall", "@", "sorted"),
    ]
    # Where an iteration ends, nothing is called: there Python itself is at work.
    back = [at for at in dis.get_instructions(code) if at.opname == "JUMP_BACKWARD"]
    assert [called[at.offset] for at in back] == [None]


def receiving(batches: Any, answers: Any, step: Any, weigh: Any) -> Any:
    first = batches.take()
    answers.drop()
    step(batches.give())
    first = [weigh(each, first) for each in first]
    return [answers.find(first) for _ in batches.all()]


def test_a_line_says_whether_it_uses_what_a_call_returns() -> None:
    lines, codes = LinesOfCode(), [receiving.__code__]
    # Before Python 3.12 the comprehension is a function of its own.
    codes += [it for it in receiving.__code__.co_consts if hasattr(it, "co_code")]
    unused = {
        line.called: line.is_unused
        for code in codes
        for at in dis.get_instructions(code)
        if (line := lines.code_line(code, at.offset)).called is not None
    }
    used = {name: unused[name] for name in unused if "." in (name or "")}
    assert used == {
        "batches.take": False,
        "answers.drop": True,
        "batches.give": False,
        "answers.find": False,
        "batches.all": False,
    }
    assert unused["step"]
    assert not unused["weigh"]
    assert not unused["for"]


def marking(number: int, lock: Any) -> None:
    with ss.StepTrace(number, name="train"):
        lock.release()
    with lock.held:
        number += 1


def test_the_end_of_a_block_calls_what_its_beginning_called() -> None:
    lines, code = LinesOfCode(), marking.__code__
    called = [
        (instruction.opname, lines.code_line(code, instruction.offset).called)
        for instruction in dis.get_instructions(code)
    ]
    calls = {"BEFORE_WITH", "CALL", "CALL_KW"}
    names = [name for opname, name in called if opname in calls]
    assert list(dict.fromkeys(names)) == [
        *("ss.StepTrace", "with ss.StepTrace", "lock.release", "with lock.held")
    ]
    # Its beginning, and its end with and without an exception.
    assert names.count("with ss.StepTrace") == 2


@pytest.mark.parametrize(
    ("folder", "after", "called"),
    [
        ("launching", [], "stepscope"),
        ("recording", [], "stepscope.recording"),
        # What a recording calls is left out, …
        ("recording", [LOAD], "stepscope.recording"),
        # … but a function of the program that an annotated one calls is not.
        ("launching", [LOAD], None),
    ],
)
def test_the_line_that_runs_the_recorder_says_so(
    folder: str, after: list[CodeType], called: str | None
) -> None:
    own = Path(stepscope.__file__).parent / "capture" / folder / "any.py"
    codes = [MAIN, MAIN.replace(co_filename=str(own)), *after]
    collector = PythonSamplesCollector()
    raw = _Raw(1, 0, 0, codes, [4] * len(codes))
    first, second = (collector._program_sample(raw) for _ in range(2))
    assert first.stack[0].called == called
    # Samples compare lines by identity.
    assert [id(line) for line in first.stack] == [id(line) for line in second.stack]
    assert len(first.stack) == (2 if called is None else 1)


@pytest.mark.parametrize(
    "of_library",
    ["/v/lib/python3.12/site-packages/numpy/lib/arrays.py", "<frozen runpy>"],
)
def test_lines_of_libraries_do_not_say_what_they_call(of_library: str) -> None:
    code = flushing.__code__.replace(co_filename=of_library)
    lines = LinesOfCode()
    offsets = [each.offset for each in dis.get_instructions(code)]
    assert {lines.code_line(code, offset).called for offset in offsets} == {None}
