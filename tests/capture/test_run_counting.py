"""How `stepscope run` counts steps, hears of modules and hands on its plan."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.capture.launching.arriving import Arrivals
from stepscope.capture.launching.counting import RepeatedCalls, StepCounter
from stepscope.capture.launching.launcher import resolve_command
from stepscope.capture.launching.notes import Note, read_notes, write_note
from stepscope.capture.launching.outcome import describe_outcome, keep_the_best
from stepscope.capture.launching.plan import VARIABLE, RunPlan
from stepscope.capture.launching.step_sources import jax as jax_calls
from stepscope.capture.launching.step_sources import torch as torch_steps
from stepscope.capture.launching.window import Phase
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def numbers(calls: Sequence[str], *, carrying: str = "") -> list[tuple[str, int]]:
    """What is counted of calls, named by letters; some hand back what they returned."""
    counter, seen, found = RepeatedCalls(), set(), []
    for called in calls:
        carries = called in carrying and called in seen
        seen.add(called)
        number = counter.count_call(called, carries=carries)
        if number is not None:
            found.append((called, number))
    return found


def test_the_one_call_that_repeats_is_the_step() -> None:
    assert numbers("ttt") == [("t", 1), ("t", 2), ("t", 3)]


def test_what_initialises_once_does_not_shift_the_number_of_a_step() -> None:
    assert numbers("itttt")[1:] == [("t", 2), ("t", 3), ("t", 4)]


def test_what_goes_along_with_each_step_is_not_counted() -> None:
    assert numbers("tetete") == [("t", 1), ("t", 2), ("t", 3)]


def test_a_step_that_advances_a_state_wins_over_what_is_called_more_often() -> None:
    found = numbers("ppptppptpppt", carrying="t")
    assert found[-2:] == [("t", 2), ("t", 3)]


def test_an_evaluation_between_steps_does_not_take_over() -> None:
    assert numbers("tttteeeeeeet", carrying="t")[-1] == ("t", 5)


def test_the_leader_stays_while_its_steps_are_recorded() -> None:
    counter = RepeatedCalls()
    counter.count_call("a")
    counter.keep_leader()
    assert [counter.count_call("b") for _ in range(5)] == [None] * 5
    assert counter.count_call("a") == 2


def counted(calls: Sequence[tuple[str, bool]], *, settled: bool = True) -> list[str]:
    """What is counted of calls, each with whether it was given back its result."""
    counter, found = RepeatedCalls(), []
    for called, carries in calls:
        if counter.count_call(called, carries=carries) is not None:
            found.append(called)
        if settled:
            counter.keep_leader()
    return found


#: A loop that calls a cell for each of four elements, from an initial state.
_LOOP = [("cell", False), ("cell", True), ("cell", True), ("cell", True)]


@pytest.mark.parametrize("settled", [False, True])
def test_what_begins_anew_in_each_step_of_another_is_its_part(settled: bool) -> None:  # noqa: FBT001 - a parameter of the test
    calls = [
        *(*_LOOP, ("update", False)),
        *(*_LOOP, ("update", True)),
        *(*_LOOP, ("update", True)),
    ]
    found = counted(calls, settled=settled)
    assert found == ["cell"] * 8 + ["update", "update"]


def test_what_goes_on_after_another_has_advanced_a_state_is_no_part() -> None:
    """As a step does after averages of the weights were updated."""
    first = [("step", False), ("step", True), ("mean", False)]
    later = [("step", True), ("step", True), ("mean", True)]
    assert set(counted([*first, *later, *later, *later])) == {"step"}


def test_what_is_called_once_for_each_call_encloses_none() -> None:
    calls = [("step", False), ("other", False), ("step", True), ("other", True)]
    assert set(counted([*calls, ("step", False), ("other", True)])) == {"step"}


class Array:
    """What a jitted function takes and returns."""


def flattened(tree: object) -> list[object]:
    if not isinstance(tree, tuple):
        return [tree]
    return [leaf for part in tree for leaf in flattened(part)]


def test_a_state_is_followed_for_as_long_as_it_comes_back() -> None:
    carried = jax_calls._Carried(flattened)
    state, found = (Array(), Array()), []
    for number in range(12):
        # The sixth call begins anew; each returns a loss and a state.
        given = (Array(), Array()) if number == 6 else state
        result = (Array(), (Array(), given[1]))
        found.append(carried.comes_back("step", (given, Array()), result))
        state = result[1]
    assert found == [False, *[True] * 5, False, *[True] * 5]


@given(
    logdir=st.text(st.characters(exclude_characters="\0")),
    steps=st.integers(1, 10**9),
    wait_s=st.floats(0, 1e6),
    record_shapes=st.booleans(),
)
def test_a_plan_comes_through_the_environment_as_it_was(
    logdir: str, steps: int, wait_s: float, *, record_shapes: bool
) -> None:
    plan = RunPlan(
        logdir=logdir,
        run="r",
        notes="/n",
        steps=steps,
        wait_s=wait_s,
        record_shapes=record_shapes,
    )
    assert RunPlan.from_environment({VARIABLE: plan.to_text()}) == plan


def test_without_a_plan_there_is_none() -> None:
    assert RunPlan.from_environment({}) is None


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"steps": 0}, "--steps"),
        ({"skip_steps": -1}, "--skip-steps"),
        ({"wait_s": float("nan")}, "--wait-s"),
        ({"record_s": 0.0}, "--record-s"),
        ({"host_tracer_level": 4}, "host_tracer_level"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(
    choice: dict[str, float], named: str
) -> None:
    with pytest.raises(BadUsage, match=named):
        RunPlan(logdir="d", run="r", notes="n", **choice).checked()  # type: ignore[arg-type]


def test_scripts_modules_and_code_run_in_this_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    for command in ([str(script), "--lr", "1"], ["-m", "mod"], ["-c", "pass"]):
        assert resolve_command(command) == [sys.executable, *command]


def test_other_commands_are_looked_for_on_the_path() -> None:
    (shell, *rest) = resolve_command(["sh", "-c", "true"])
    assert shell.endswith("/sh")
    assert rest == ["-c", "true"]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ([], "nothing to run"),
        (["-m"], "-m"),
        (["no_such_script.py"], "no_such_script.py"),
        (["no-such-command"], "no-such-command"),
        (["./no/such/program"], "./no/such/program"),
    ],
)
def test_what_cannot_be_run_is_named(command: list[str], named: str) -> None:
    with pytest.raises(BadUsage, match=named):
        resolve_command(command)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that may be imported, and is forgotten afterwards."""
    name = "stepscope_arriving_probe"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("value = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return name


def test_a_module_is_announced_once_it_was_executed(package: str) -> None:
    values: list[int] = []
    Arrivals({package: lambda: values.append(sys.modules[package].value)}).watch()
    importlib.import_module(package)
    importlib.reload(sys.modules[package])
    assert values == [1]


def test_looking_for_a_module_is_no_import(package: str) -> None:
    announced: list[str] = []
    Arrivals({package: lambda: announced.append(package)}).watch()
    assert importlib.util.find_spec(package) is not None
    assert announced == []
    importlib.import_module(package)
    assert announced == [package]


def test_nothing_of_the_listening_is_left(package: str) -> None:
    before = list(sys.meta_path)
    Arrivals({package: lambda: None}).watch()
    module = importlib.import_module(package)
    assert sys.meta_path == before
    assert "exec_module" not in vars(module.__loader__)


def test_a_module_that_is_not_there_is_an_import_error_as_ever() -> None:
    before = list(sys.meta_path)
    arrivals = Arrivals({"no_such_module_at_all": lambda: None})
    arrivals.watch()
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_module_at_all")
    finally:
        sys.meta_path[:] = before


def test_what_raises_while_it_is_imported_is_not_announced(
    package: str, tmp_path: Path
) -> None:
    (tmp_path / package / "__init__.py").write_text("1 / 0\n", encoding="utf-8")
    announced: list[str] = []
    Arrivals({package: lambda: announced.append(package)}).watch()
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(package)
    assert announced == []


def note(path: Path, *, process: int, how: str, steps: int = 0) -> Note:
    path.touch()
    return Note(
        process=process,
        program=f"p{process}.py",
        how=how,
        counted=None,
        steps=steps,
        first=None,
        last=None,
        path=str(path),
        warnings=(),
    )


def test_processes_that_trained_are_kept_and_others_are_not(tmp_path: Path) -> None:
    agent = note(tmp_path / "agent", process=1, how="time")
    worker = note(tmp_path / "worker", process=2, how="steps", steps=20)
    loader = note(tmp_path / "loader", process=3, how="early")
    kept, left_out = keep_the_best([agent, worker, loader])
    assert (kept, left_out) == ((worker,), (agent, loader))
    assert [path.name for path in tmp_path.iterdir()] == ["worker"]
    plan = RunPlan(logdir="d", run="r", notes="n")
    sentences = list(describe_outcome(kept, left_out, plan, anything=True, status=0))
    assert any("p1.py, p3.py" in sentence for sentence in sentences)


def test_without_steps_what_was_recorded_for_its_time_is_kept(tmp_path: Path) -> None:
    server = note(tmp_path / "server", process=1, how="time")
    helper = note(tmp_path / "helper", process=2, how="early")
    assert keep_the_best([server, helper]) == ((server,), (helper,))


def test_what_only_waited_is_kept_where_nothing_else_was_recorded(
    tmp_path: Path,
) -> None:
    parent = note(tmp_path / "parent", process=1, how="waited")
    children = [
        note(tmp_path / "child", process=2 + at, how="none")._replace(path=None)
        for at in range(3)
    ]
    kept, left_out = keep_the_best([parent, *children])
    assert kept == (parent,)
    plan = RunPlan(logdir="d", run="r", notes="n")
    first, *rest = describe_outcome(kept, left_out, plan, anything=True, status=0)
    assert first.startswith("p1.py: the program mostly waited for its child processes")
    assert len(rest) == 1
    assert (tmp_path / "parent").exists()


@pytest.mark.parametrize(("seconds", "kept"), [(2.4, "parent"), (2.6, "worker")])
def test_a_launcher_is_left_out_and_a_program_of_short_tools_is_not(
    tmp_path: Path, seconds: float, kept: str
) -> None:
    parent = note(tmp_path / "parent", process=1, how="waited")._replace(seconds=10.0)
    worker = note(tmp_path / "worker", process=9, how="early")
    keep_the_best([parent, worker._replace(seconds=seconds)])
    assert [path.name for path in tmp_path.iterdir()] == [kept]


def test_the_longest_wait_of_the_run_is_said_once(tmp_path: Path) -> None:
    worker = note(tmp_path / "worker", process=1, how="steps", steps=20)
    plan = RunPlan(logdir="d", run="r", notes="n")

    def said(*waits_s: float) -> list[str]:
        notes = [worker._replace(stop_s=wait_s) for wait_s in waits_s]
        told = describe_outcome(notes, [], plan, anything=True, status=0)
        return [it for it in told if "waited" in it]

    assert said(0.5, 1.9) == []
    assert said(8.81, 2.5) == [
        "the program waited 8.8 s while the recording was stored"
    ]


def test_what_several_processes_have_in_common_is_said_once(tmp_path: Path) -> None:
    notes = [
        note(tmp_path / "child", process=at, how="none")._replace(
            program="tool.py", path=None
        )
        for at in range(40)
    ]
    plan = RunPlan(logdir="d", run="r", notes="n")
    told = list(describe_outcome(*keep_the_best(notes), plan, anything=False, status=0))
    assert told == ["tool.py: nothing was recorded", "nothing was recorded"]


def test_notes_come_back_and_torn_ones_do_not(tmp_path: Path) -> None:
    written = note(tmp_path / "file", process=7, how="steps", steps=3)
    write_note(str(tmp_path), written)
    (tmp_path / "8.json").write_text('{"process": 8', encoding="utf-8")
    assert read_notes(str(tmp_path)) == (written,)
    assert read_notes(str(tmp_path / "gone")) == ()


def test_arming_imports_nothing_heavy() -> None:
    program = (
        "import sys; before = set(sys.modules);"
        "import stepscope.capture.launching.armed_process as a;"
        "from stepscope.capture.launching.plan import RunPlan;"
        "a.Armed(RunPlan(logdir='', run='', notes='', wait_s=1e6)).begin_waiting();"
        "print(*sorted(name for name in set(sys.modules) - before "
        "if '.' not in name)); import os; sys.stdout.flush(); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    heavy = {"numpy", "msgspec", "polars", "json", "dataclasses", "inspect", "asyncio"}
    assert set(done.stdout.split()) & heavy == set()


#: As PyTorch goes through the hooks of an optimizer.
OPTIMIZER = """
from collections import OrderedDict
hooks = OrderedDict()
class Handle:
    def __init__(self, hook): hooks[id(self)] = hook
    def remove(self): hooks.pop(id(self), None)
register_optimizer_step_post_hook = Handle
def step(optimizer):
    for hook in hooks.values():
        hook(optimizer, (), {})
"""


def test_a_hook_that_ends_within_a_step_does_not_disturb_the_programs_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A window closes in our hook; the program's next one failed in PyTorch's loop."""
    module = types.ModuleType("torch.optim.optimizer")
    module.__file__ = "/torch/optim/optimizer.py"
    exec(compile(OPTIMIZER, module.__file__, "exec"), module.__dict__)  # noqa: S102 - a stand-in
    for name in ("torch", "torch.optim"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", module)
    undo: list[Callable[[], None]] = []
    counted: list[int] = []

    class Counter:
        window = types.SimpleNamespace(abandon=lambda _: None)

        def call_ended(self, _what: str, _optimizer: int, *, forwarded: bool) -> None:
            del forwarded
            counted.append(1)
            undo[0]()

    counter: Any = Counter()
    undo.append(torch_steps.listen_to_steps(counter))
    own: list[int] = []
    module.register_optimizer_step_post_hook(lambda *_: own.append(1))
    for _ in range(3):
        module.step(object())
    assert (len(counted), len(own)) == (1, 3)
    # Between steps nothing of ours is left.
    undo[0]()
    assert len(module.hooks) == 1


class Heard:
    """A window that opens with a step, and notes what it is told."""

    def __init__(self, opens_at: int) -> None:
        self.opens_at = opens_at
        self.phase = Phase.IDLE
        self.counted: str | None = None
        self.steps: list[tuple[str | None, int]] = []

    def forget_steps(self) -> None:
        self.steps.clear()

    def step_begins(self, first: int, **_: Any) -> None:
        self.steps.append((self.counted, first))
        if first >= self.opens_at:
            self.phase = Phase.STEPS


def told(passes: int, *, steps_every: int | None, opens_at: int = 11) -> Heard:
    """Run backward passes, some of which an optimizer's step follows."""
    heard: Any = Heard(opens_at)
    counter: StepCounter[Any] = StepCounter(heard)
    for number in range(1, passes + 1):
        counter.pass_ended("passes", "train.py:10")
        if steps_every is not None and number % steps_every == 0:
            counter.call_ended("optimizer", 7)
    found: Heard = heard
    return found


def test_passes_are_steps_once_no_optimizer_can_be_meant() -> None:
    """Gradients of up to 32 passes may be added up before an optimizer steps."""
    assert told(32, steps_every=None).steps == []
    heard = told(40, steps_every=None)
    # The step that follows the 33rd pass is the second.
    assert heard.steps == [("passes", number) for number in range(2, 10)]


def test_the_first_step_of_an_optimizer_takes_over_from_passes() -> None:
    assert told(40, steps_every=4).steps == [
        ("optimizer", number) for number in range(2, 12)
    ]
    heard = told(80, steps_every=40, opens_at=99)
    assert heard.steps == [("optimizer", 2), ("optimizer", 3)]


def test_a_window_of_passes_stays_one() -> None:
    """It opens after 42 passes; an optimizer that steps after the 50th is too late."""
    heard = told(60, steps_every=50)
    assert {what for what, _ in heard.steps} == {"passes"}
    assert heard.steps[-1] == ("passes", 60 - 32 + 1)
