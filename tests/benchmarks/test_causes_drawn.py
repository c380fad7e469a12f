"""Programs that are drawn from laws: which, what they hold, what their clock says."""

from __future__ import annotations

import ast
import importlib
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SETS = ("first", "second", "third", "fourth")
POSITIONS = {
    *("loop", "library", "worker process", "thread", "callback", "operating system"),
}


@pytest.fixture(autouse=True)
def on_path(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(repository / "benchmarks" / "causes"))
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))


@pytest.fixture
def drawn() -> Any:
    return importlib.import_module("causes_drawn")


def laws_of(drawn: Any, laws: str = "first") -> list[Any]:
    return list(drawn.read_laws(drawn.LAWS[laws]).values())


@pytest.mark.parametrize("laws", SETS)
def test_laws_name_what_exists(drawn: Any, laws: str) -> None:
    rules = importlib.import_module("stepscope.advice.registry").RULES
    owners = importlib.import_module("stepscope.derive.step_time.owners").OWNERS
    known = {rule.item.id for rule in rules}
    # Issue 33 adds the owner of waits.
    owned = {owner.name for owner in owners} | {"wait"}
    frameworks = drawn.read_frameworks()
    for law in laws_of(drawn, laws):
        assert law.position in POSITIONS
        assert law.amount in {"seconds", "rounds"}
        assert law.rules | law.advice | law.no_advice <= known, law.name
        assert law.owners | law.partly <= owned, law.name
        assert law.enough <= law.rules | law.owners, law.name
        assert law.functions, law.name
        assert not law.advice & law.no_advice, law.name
        assert not law.owners & law.partly, law.name
        for framework in law.frameworks:
            assert set(law.slots) & set(frameworks[framework]["slots"]), law.name
            assert f"def {law.call}(" in law.code_in(framework)


def test_each_set_of_laws_has_other_causes(drawn: Any) -> None:
    sets = [laws_of(drawn, laws) for laws in SETS]
    everything = [law for laws in sets for law in laws]
    assert {len(laws) for laws in sets} == {14}
    assert len({law.name for law in everything}) == len(everything)
    assert len({law.call for law in everything}) == len(everything)
    for laws in sets:
        assert {law.position for law in laws} == POSITIONS


@pytest.mark.parametrize("framework", ["plain", "jax", "torch", "tensorflow", "keras"])
@pytest.mark.parametrize("laws", SETS)
def test_every_law_is_a_program_in_every_framework_and_slot(
    drawn: Any, laws: str, framework: str
) -> None:
    slots = drawn.read_frameworks()[framework]["slots"]
    for law in laws_of(drawn, laws):
        for slot in sorted(set(law.slots) & set(slots)):
            if framework not in law.frameworks:
                continue
            planted = (drawn.Planted(law, slot, 0.5),)
            program = drawn.Program("one", framework, 120.0, planted, 0)
            source = drawn.write_program(program)
            ast.parse(source)
            assert "<<" not in source
            call = f"{law.call}(AMOUNTS[{law.name!r}])"
            # What runs beside the loop is started, not called.
            assert source.count(call) == (slot != "beside"), (law.name, slot)


def test_healthy_programs_call_no_law(drawn: Any) -> None:
    for framework in drawn.read_frameworks():
        source = drawn.write_program(drawn.Program("one", framework, 60.0, (), 0))
        ast.parse(source)
        assert "AMOUNTS[" not in source


def test_a_seed_draws_the_same_programs(drawn: Any) -> None:
    laws = laws_of(drawn)
    first, again, other = (drawn.draw_programs(laws, 40, seed) for seed in (1, 1, 2))
    assert first == again != other
    only = drawn.draw_programs(laws, 40, 1, "torch")
    assert only == [one for one in first if "torch" in one.name]


def test_a_draw_has_healthy_programs_pairs_and_every_law(drawn: Any) -> None:
    laws = laws_of(drawn)
    programs = drawn.draw_programs(laws, 40, 3)
    assert sum(not one.planted for one in programs) == 8
    pairs = [one for one in programs if len(one.planted) == 2]
    assert len(pairs) >= 8
    for one in pairs:
        larger, smaller = one.planted
        assert larger.share > smaller.share
        assert larger.law != smaller.law
    assert {one.planted[0].law.name for one in programs if one.planted} == {
        law.name for law in laws
    }
    assert {one.framework for one in programs} == set(drawn.read_frameworks())


@pytest.mark.parametrize(
    ("step_ms", "skip", "recorded", "steps"),
    [(2, 10, 10, 21), (40, 10, 10, 21), (500, 2, 10, 13), (2500, 1, 3, 5)],
)
def test_long_steps_are_few(
    drawn: Any, step_ms: float, skip: int, recorded: int, steps: int
) -> None:
    program = drawn.Program("one", "plain", step_ms, (), 0)
    assert (program.skip, program.recorded, program.steps) == (skip, recorded, steps)
    assert steps * step_ms <= 12_600


def test_a_batch_made_ahead_lasts_as_long_as_the_whole_step(drawn: Any) -> None:
    law = drawn.read_laws(drawn.LAWS["first"])["slow_decoding"]
    program = drawn.Program(
        "one", "plain", 100.0, (drawn.Planted(law, "worker", 0.3),), 0
    )
    source = drawn.write_program(program)
    assert "rounds_for(decode_example, 0.100000)" in source
    # A step of NumPy takes twice as long as the pass by which its rows are counted.
    assert "PASS_S = 0.035000" in source
    assert "FED = 'slow_decoding'" in source


def test_a_cause_of_every_fourth_step_is_four_times_as_long(drawn: Any) -> None:
    law = drawn.read_laws(drawn.LAWS["first"])["checkpoint"]
    program = drawn.Program(
        "one", "plain", 100.0, (drawn.Planted(law, "after", 0.5),), 0
    )
    source = drawn.write_program(program)
    assert "rounds_for(save_checkpoint, 0.200000)" in source
    assert "if clock.step % 4 == 3:" in source


@pytest.fixture
def clocked(monkeypatch: pytest.MonkeyPatch) -> Any:
    clock = importlib.import_module("truth_clock")
    monkeypatch.setattr(clock, "_SCHEDULED", clock.Path("/nowhere"))
    return clock


def clock_of(clocked: Any, **plan: float) -> Any:
    usual = {"steps": 4, "skip": 1, "timed_s": 0.0, "starts": 0}
    return clocked.TruthClock(usual | plan)


def test_the_clock_notes_what_held_each_step(
    clocked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr(clocked, "now", lambda: seconds)
    clock = clock_of(clocked, steps=3)
    clock.note_place("nap", clock_of, "step")
    while clock.begin_step():
        for _ in range(clock.step):
            begun = seconds
            seconds += 0.25
            clock.note_call("nap", begun)
        seconds += 0.5
    told = clock.truth(beside="hog")
    assert told["begun_s"] == [0, 0.5, 1.25, 2.25]
    assert told["held_s"] == {"nap": [0, 0.25, 0.5]}
    assert told["places"]["nap"]["function"] == "clock_of"
    assert told["places"]["nap"]["slot"] == "step"
    assert (told["beside"], told["starts"]) == ("hog", 0)


def test_a_program_takes_no_step_after_its_time(
    clocked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr(clocked, "now", lambda: seconds)
    clock = clock_of(clocked, steps=100)
    while clock.begin_step():
        seconds += 2.0
    # The step that begins at 10 s is not taken: it ends the fifth.
    assert clock.step == 5


def test_a_program_goes_on_until_it_is_recorded(
    clocked: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seconds = 0.0
    monkeypatch.setattr(clocked, "now", lambda: seconds)
    monkeypatch.setenv("PROGRAM_NOTES", str(tmp_path))
    clock = clock_of(clocked)
    while clock.begin_step():
        seconds += 1.0
    # It never is, so it ends after half a minute.
    assert clock.step == 30
    clock = clock_of(clocked)
    while clock.begin_step():
        seconds += 1.0
        if clock.step == 10:
            (tmp_path / f"{os.getpid()}.json").write_text("{}")
    assert clock.step == 11


def test_short_steps_go_on_until_a_recording_has_ended(
    clocked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr(clocked, "now", lambda: seconds)
    clock = clock_of(clocked, skip=2, timed_s=0.75)
    while clock.begin_step():
        seconds += 0.125
    assert clock.step == 2 + 6


def test_rounds_are_those_that_last(
    clocked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr(clocked, "now", lambda: seconds)

    def work(rounds: int) -> None:
        nonlocal seconds
        seconds += 0.0005 * rounds

    clock = clock_of(clocked)
    assert clock.rounds_for(work, 0.25) == 500
    assert clock.rounds_for(work, 0.0001) == 1
