"""`host.work` and `host.wait` advise what fits the function that a line calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.training import WATCHED, findings, on_host
from tests.support.traces.waiting import core_time

from stepscope.reporting.words.checks import most_valuable_findings

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding

LOOKS, LINES = "samples of main, 1000 a second", "source lines of main, 1000 a second"
STEPS = [10_000.0 * number for number in range(20)]
WORK = "$/app/train.py:41 prepare"


def calls(*called: tuple[str | None, float], begins: list[float] = STEPS) -> list[Any]:
    """Line 43 of `prepare` calls each of these functions for so many µs of a step."""
    lines: list[Any] = []
    for begin in begins:
        at = begin + 50.0
        lines.append((LOOKS, WORK, at, sum(length for _, length in called)))
        for name, length in called:
            stats = {"source_line": 43} | ({} if name is None else {"called": name})
            lines.append((LINES, WORK, at, length, stats))
            at += length
    return lines


def in_steps(
    *called: tuple[str | None, float],
    asleep: bool = False,
    rule: str = "host.work",
) -> Finding:
    """The work, or the waits, of steps of 10 ms, whose ops run in the last four."""
    lines = [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    if asleep:
        awake = [(at + 6_000.0, at + 10_000.0) for at in STEPS]
        lines += core_time("main", awake, system=True)
    return findings(lines + calls(*called), devices=None)[rule]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("np.histogram", "Compute these statistics every n steps"),
        ("numpy.append", "Append rows to a list"),
        ("np.linalg.svd", "Factorise a matrix that does not change once"),
        ("@", "Multiply in 32 bits"),
        ("values.sort", "Sort data that does not change once"),
        ("random.random", "Draw all random numbers"),
        # What is not known is a function of a library, …
        ("cv2.resize", "Call the library functions"),
        ("np.linalg.norm", "Call the library functions"),
        # … but these work on one object, as the bytecode around them does.
        ("math.sqrt", "Vectorise the named function: the program's own lines"),
        ("row.append", "Vectorise the named function: the program's own lines"),
        (None, "Vectorise the named function: the program's own lines"),
    ],
)
def test_what_a_line_calls_decides(name: str | None, advice: str) -> None:
    found = in_steps((name, 4_000.0), (None, 1_900.0))
    assert (found.status, found.parts[0].function) == ("fail", "prepare")
    assert found.actions[0].text.startswith(advice)
    assert found.parts[0].detail == name


def test_a_library_that_runs_the_program_is_not_called_by_it() -> None:
    """`stepscope run` starts the program from Python's `runpy`."""
    lines = [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    run = "$/usr/lib/python3.12/runpy.py:88 _run_code"
    around = [(line, run, 0.0, 200_000.0) for line in (LOOKS, LINES)]
    lines += [*around, *calls(("cv2.resize", 4_000.0), (None, 1_900.0))]
    found = findings(lines, devices=None)["host.work"]
    assert found.actions[0].text.startswith("Call the library functions")


def test_a_loop_over_elements_calls_nothing() -> None:
    found = in_steps(("for", 4_000.0), (None, 1_900.0))
    assert found.actions[0].text.startswith("Vectorise the named function: the program")
    assert found.parts[0].detail is None


def test_a_call_of_less_than_half_of_the_time_decides_nothing() -> None:
    found = in_steps(("np.histogram", 2_000.0), (None, 3_900.0))
    assert found.actions[0].text.startswith("Vectorise the named function: the program")
    assert found.parts[0].detail is None


def test_a_wait_for_the_disk_is_advised_as_such() -> None:
    found = in_steps(("os.fsync", 5_900.0), asleep=True, rule="host.wait")
    assert (found.status, found.parts[0].detail) == ("fail", "os.fsync")
    assert found.share_percent == pytest.approx(100 * 20 * 5.9 / 199.99, abs=0.01)
    assert found.actions[0].text.startswith("Write to the disk every n steps")


@pytest.mark.parametrize("called", [None, "pairs.get", "time.monotonic", "np.exp"])
@pytest.mark.parametrize(("in_system", "status"), [(True, "fail"), (False, "pass")])
def test_a_line_that_computes_waits_only_in_the_system(
    called: str | None, status: str, *, in_system: bool
) -> None:
    """It reads a mapped file, or the clock of its thread was read late."""
    lines = [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    awake = [(at + 6_000.0, at + 10_000.0) for at in STEPS]
    lines += core_time("main", awake, system=in_system)
    lines += core_time("other threads", [])
    lines += calls((called, 5_800.0), ("numpy.zeros", 100.0))
    assert findings(lines, devices=None)["host.wait"].status == status


def test_without_calls_any_line_may_wait() -> None:
    """The flight recorder records lines without what they call."""
    found = in_steps((None, 5_900.0), asleep=True, rule="host.wait")
    assert found.status == "fail"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("os.fsync", "Write to the disk every n steps"),
        ("self.database.commit", "Write to the disk every n steps"),
        ("requests.get", "Request what the next steps need on another thread"),
        ("self.near.recv", "Request what the next steps need on another thread"),
        ("with SHARED", "Hold the lock for a shorter time"),
        ("lock.acquire", "Hold the lock for a shorter time"),
        ("fcntl.flock", "Hold the lock for a shorter time"),
    ],
)
def test_what_the_system_computes_for_a_wait_is_part_of_it(
    name: str, advice: str
) -> None:
    found = in_steps((name, 5_900.0), rule="host.wait")
    assert (found.status, found.parts[0].detail) == ("fail", name)
    assert found.share_percent == pytest.approx(100 * 20 * 5.9 / 199.99, abs=0.01)
    assert found.actions[0].text.startswith(advice)


def test_a_library_s_function_of_such_a_name_works_or_waits_as_any_other() -> None:
    """`commit` of a library is written in Python, and computes."""
    inner = "$/v/site-packages/store/session.py:3 Session.commit"
    lines = [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    lines += calls(("session.commit", 5_900.0))
    for begin in STEPS:
        call = (inner, begin + 50.0, 5_900.0)
        lines += [(LOOKS, *call), (LINES, *call, {"source_line": 5})]
    found = findings(lines, devices=None)
    assert found["host.wait"].status == "pass"
    assert found["host.work"].parts[0].function == "prepare"


def test_functions_of_the_program_are_not_compiled() -> None:
    """`self.solve` is a method of the program, in which Python loops over elements."""
    inner = "$/app/solver.py:3 solve"
    lines = [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    lines += calls(("self.sort", 5_900.0))
    for begin in STEPS:
        call = (inner, begin + 50.0, 5_900.0)
        lines += [(LOOKS, *call), (LINES, *call, {"source_line": 5})]
    found = findings(lines, devices=None)["host.work"]
    assert found.actions[0].text.startswith("Vectorise the named function: the program")


def test_what_a_library_calls_back_is_not_compiled() -> None:
    """`main` calls `model.fit`, which calls a function of the program in each step."""
    main, fit = "$/app/train.py:60 main", "$/v/site-packages/keras/trainer.py:9 fit"
    stats = [{"source_line": 63, "called": "model.fit"}, {"source_line": 11}]
    lines: list[Any] = [(LOOKS, name, 0.0, 200_000.0) for name in (main, fit)]
    lines += [
        (LINES, name, 0.0, 200_000.0, each)
        for name, each in zip((main, fit), stats, strict=True)
    ]
    lines += [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    found = findings(lines + calls((None, 5_900.0)), devices=None)["host.work"]
    assert found.parts[0].detail is None
    assert found.actions[0].text.startswith("Vectorise the named function: the program")


def test_a_plain_program_is_told_how_its_function_could_be_faster() -> None:
    """No fault, and so a note; but a headline about no other finding is about it."""
    lines = [*calls(("np.linalg.svd", 9_900.0)), *WATCHED]
    every = findings(lines, devices=None)
    found = every["host.work"]
    assert (found.status, found.severity, found.note) == ("fail", "info", "functions")
    assert found.saving_ms is None
    assert found.actions[0].text.startswith("Factorise a matrix")
    tip, *_ = most_valuable_findings(
        [*every.values()], first=None, frameworks=("Python",)
    )
    assert (tip.label, tip.code.partition(" =")[0]) == ("Do first", "u, s, v")


def test_a_loop_of_a_plain_program_is_one_to_vectorise() -> None:
    lines = [*calls((None, 9_900.0)), *WATCHED]
    found = findings(lines, devices=None)["host.work"]
    assert found.actions[0].text.startswith("Vectorise the named function: the program")
    assert any("processes" in action.text for action in found.actions)
