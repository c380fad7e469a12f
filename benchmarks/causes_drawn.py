"""Draw programs with none, one or two causes from the declared laws, and write them."""

import random
import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from stepscope.capture.base.options import MIN_WINDOW_S

DECLARED = Path(__file__).resolve().parent / "causes"
#: Set of laws → its file.
LAWS = {
    name: DECLARED / f"{name}_laws.toml"
    for name in ("first", "second", "third", "fourth")
}
#: Lengths of a step in ms, from a tiny one to one of seconds.
SCALES_MS = (2, 8, 30, 120, 500, 2500)
#: A step is so much shorter or longer than its scale.
JITTER = (0.8, 1.2)
#: Shares of the step that causes take: of a single one, and of two.
SINGLE_SHARES = ((0.3,), (0.5,), (0.75,))
PAIRED_SHARES = ((0.45, 0.2), (0.55, 0.3))
#: One in so many programs is healthy; every third of the others has two causes.
HEALTHY_EVERY, PAIR_EVERY = 5, 3
#: Slots in which a cause decides how batches reach the loop.
FEEDING = frozenset({"batch", "feeder", "worker"})
#: Of those, the slots in which batches are made while the loop works.
AHEAD = frozenset({"feeder", "worker"})
#: Seconds that a program's steps may take.
_LOOP_S = 7.5
#: Seconds that its timed steps take at least, so that a recording ends before them.
_TIMED_S = 2 * MIN_WINDOW_S
_PLACEHOLDER = re.compile(r"^( *)<<(\w+)>>$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Law:
    """A cause, how it is planted, and what a report must say of it.

    The keys are those of `causes/first_laws.toml`, which explains them.
    """

    name: str
    cause: str
    position: str
    slots: tuple[str, ...]
    frameworks: tuple[str, ...]
    amount: str
    waits: bool | None = None
    call: str
    functions: frozenset[str]
    owners: frozenset[str]
    rules: frozenset[str]
    advice: frozenset[str]
    no_advice: frozenset[str]
    enough: frozenset[str] = frozenset()
    partly: frozenset[str] = frozenset()
    code: str = ""
    code_of: Mapping[str, str]
    imports: str = ""
    start: str = ""
    every: int = 1
    least_ms: float = 0.0
    most_ms: float = 1e9

    def code_in(self, framework: str) -> str:
        """Return the definition of the cause in a framework's program."""
        return self.code_of.get(framework, self.code).strip()


@dataclass(frozen=True)
class Planted:
    """A law in a program: where it is called, and for which share of the step."""

    law: Law
    slot: str
    share: float


@dataclass(frozen=True)
class Program:
    """A drawn program.

    Attributes:
        name: Its name in tables and its folder.
        framework: A key of `causes/frameworks.toml`.
        step_ms: How long a step shall take.
        planted: Its causes, the one with the largest share first.
        seed: Seed of its data.
    """

    name: str
    framework: str
    step_ms: float
    planted: tuple[Planted, ...]
    seed: int

    @property
    def skip(self) -> int:
        """Number of steps before those that are recorded."""
        return 10 if self.step_ms < 200 else 2 if self.step_ms < 1000 else 1

    @property
    def recorded(self) -> int:
        """Number of steps to record."""
        fitting = int(1000 * _LOOP_S / self.step_ms) - self.skip
        return max(3, min(10, fitting))

    @property
    def steps(self) -> int:
        """Number of steps that it takes at least: one more than are recorded."""
        return self.skip + self.recorded + 1


@cache
def read_laws(file: Path) -> dict[str, Law]:
    """Read the laws of a file by name."""
    return {
        name: _law(name, table)
        for name, table in tomllib.loads(file.read_text()).items()
    }


def _law(name: str, table: Mapping[str, Any]) -> Law:
    sets = ("functions", "enough", "owners", "partly", "rules", "advice", "no_advice")
    lists = ("slots", "frameworks")
    values = {
        **table,
        **{key: frozenset(table.get(key, ())) for key in sets},
        **{key: tuple(table[key]) for key in lists},
        "code_of": table.get("code_of", {}),
    }
    return Law(name=name, **values)


@cache
def read_frameworks() -> dict[str, dict[str, Any]]:
    """Read the healthy programs by framework."""
    frameworks = tomllib.loads((DECLARED / "frameworks.toml").read_text())
    for framework in frameworks.values():
        if isinstance(framework["feeds"], str):
            framework["feeds"] = frameworks[framework["feeds"]]["feeds"]
    return frameworks


def draw_programs(
    laws: Sequence[Law], count: int, seed: int, only: str = ""
) -> list[Program]:
    """Draw programs; each law comes before any law comes again.

    Args:
        laws: What may be planted.
        count: Number of programs.
        seed: The same seed draws the same programs.
        only: Text that the name of each program contains; others are left out.
    """
    dice = random.Random(seed)  # noqa: S311 - a draw that can be repeated
    draw = _Draw(
        dice,
        laws,
        _Turns(laws, dice),
        _Turns(read_frameworks(), dice),
        _Turns(SCALES_MS, dice),
    )
    programs = [_draw_program(number, draw) for number in range(count)]
    return [program for program in programs if only in program.name]


T = TypeVar("T")


class _Turns(Generic[T]):
    """Whose turn it is: one of several after the other, in shuffled rounds."""

    def __init__(self, choices: Iterable[T], dice: random.Random) -> None:
        self._dice = dice
        self._choices = tuple(choices)
        self._left: list[T] = []

    def take(self) -> T:
        if not self._left:
            self._left = self._dice.sample(self._choices, len(self._choices))
        return self._left.pop()


@dataclass(frozen=True)
class _Draw:
    """What programs are drawn from, in turn."""

    dice: random.Random
    laws: Sequence[Law]
    law: _Turns[Law]
    healthy: _Turns[str]
    scale_ms: _Turns[float]


def _second_laws(first: Law, framework: str, laws: Iterable[Law]) -> list[Law]:
    """Return the laws that a framework's program can have next to another one."""
    return [
        law
        for law in laws
        if law != first
        and framework in law.frameworks
        and not (FEEDING & {*first.slots} and FEEDING & {*law.slots})
        and "beside" not in (*first.slots, *law.slots)
        and law.every == 1
    ]


def _draw_program(number: int, draw: _Draw) -> Program:
    dice = draw.dice
    if number % HEALTHY_EVERY == HEALTHY_EVERY - 1:
        framework, laws = draw.healthy.take(), []
    else:
        laws = [draw.law.take()]
        framework = dice.choice(laws[0].frameworks)
        seconds = _second_laws(laws[0], framework, draw.laws)
        if number % PAIR_EVERY == PAIR_EVERY - 1 and seconds:
            laws.append(dice.choice(seconds))
    shares = dice.choice(PAIRED_SHARES if len(laws) == 2 else SINGLE_SHARES)
    slots = read_frameworks()[framework]["slots"]
    planted = tuple(
        Planted(law, dice.choice([slot for slot in law.slots if slot in slots]), share)
        for law, share in zip(laws, shares, strict=False)
    )
    least_ms = max(
        [read_frameworks()[framework]["least_ms"], *(law.least_ms for law in laws)]
    )
    most_ms = min([law.most_ms for law in laws], default=SCALES_MS[-1])
    scale_ms = max(least_ms, min(most_ms, draw.scale_ms.take()))
    names = "+".join(law.name for law in laws) or "healthy"
    return Program(
        name=f"{number:02}-{framework}-{names}-{scale_ms:g}ms",
        framework=framework,
        step_ms=scale_ms * dice.uniform(*JITTER),
        planted=planted,
        seed=dice.randrange(1000),
    )


def write_program(program: Program) -> str:
    """Return the source of a program."""
    framework = read_frameworks()[program.framework]
    blocks = _blocks(program, framework)
    text = _PLACEHOLDER.sub(lambda found: _block(found, blocks), framework["program"])
    # Blocks may hold placeholders: how batches are fed, and what is called there.
    text = _PLACEHOLDER.sub(lambda found: _block(found, blocks), text)
    text = _PLACEHOLDER.sub(lambda found: _block(found, blocks), text)
    causes = ", and ".join(one.law.cause for one in program.planted) or "nothing wrong"
    lines = [line.rstrip() for line in text.strip().splitlines()]
    body = "\n".join(lines)
    return f'"""A generated program: {causes}."""\n\n{body}\n'


def _block(found: re.Match[str], blocks: Mapping[str, str]) -> str:
    block = blocks[found[2]].strip("\n")
    return textwrap.indent(block, found[1])


def _blocks(program: Program, framework: Mapping[str, Any]) -> dict[str, str]:
    """Return the code that replaces each placeholder."""
    by_slot = {one.slot: one for one in program.planted}
    fed = next((one for one in program.planted if one.slot in FEEDING), None)
    beside, model = by_slot.get("beside"), by_slot.get("model")
    feeds = framework["feeds"]
    feed = feeds[fed.slot] if fed else feeds.get("healthy", feeds["batch"])
    plan = {
        "steps": program.steps,
        "skip": program.skip,
        "timed_s": _TIMED_S,
        "starts": program.skip - 2,
        "seed": program.seed,
    }
    constants = [
        f"PLAN = {plan!r}",
        f"PASS_S = {_base_s(program) / framework['cost']:.6f}",
        f"FED = {fed.law.name if fed else 'fetch'!r}",
    ]
    laws = [one.law for one in program.planted]
    called = {
        slot: "\n".join(_timed_call(one) for one in program.planted if one.slot == slot)
        for slot in ("step", "after")
    }
    model_code = framework.get("model_healthy", "")
    if model is not None:
        named = framework["model"].replace("<<law>>", repr(model.law.name))
        model_code = named.replace("<<call>>", _call(model))
    return {
        "imports": "\n".join(dict.fromkeys(law.imports for law in laws if law.imports)),
        "constants": "\n".join(constants),
        "definitions": "\n\n\n".join(law.code_in(program.framework) for law in laws),
        "feeds": feed,
        "produce": _call(fed) if fed else "pass",
        "amounts": "\n".join(_amount(one, program) for one in program.planted)
        or "pass",
        "start": "" if beside else "\n".join(law.start.strip() for law in laws),
        # Steps before the start show what a step takes without it.
        "late_start": _late_start(beside) if beside else "",
        "step": called["step"],
        "after": called["after"] or "pass",
        "model": model_code,
        "register": framework.get("register", "") if model else "",
        "end": f"clock.write_truth(beside={beside.law.name!r})"
        if beside
        else "clock.write_truth()",
    }


def _base_s(program: Program) -> float:
    """Return how long the step's own work shall take."""
    shares = sum(one.share for one in program.planted)
    return program.step_ms * (1 - shares) / 1000


def _late_start(planted: Planted) -> str:
    start = textwrap.indent(planted.law.start.strip(), "    ")
    return f'if clock.step == PLAN["starts"]:\n{start}'


def _call(planted: Planted) -> str:
    law = planted.law
    return f"{law.call}(AMOUNTS[{law.name!r}])"


def _timed_call(planted: Planted) -> str:
    law = planted.law
    lines = ["begun = now()", _call(planted), f"clock.note_call({law.name!r}, begun)"]
    if law.every == 1:
        return "\n".join(lines)
    rest = textwrap.indent("\n".join(lines), "    ")
    return f"if clock.step % {law.every} == {law.every - 1}:\n{rest}"


def _amount(planted: Planted, program: Program) -> str:
    """Return the line that decides how much of a cause each call is."""
    law, share = planted.law, planted.share
    if planted.slot in AHEAD:
        # Made while the loop works, so it must last as long as the whole step.
        share = 1.0
    seconds = law.every * share * program.step_ms / 1000
    place = f"clock.note_place({law.name!r}, {law.call}, {planted.slot!r})"
    if planted.slot == "beside":
        return place
    if law.amount == "seconds":
        return f"{place}\nAMOUNTS[{law.name!r}] = {seconds:.6f}"
    amount = f"clock.rounds_for({law.call}, {seconds:.6f})"
    return f"{place}\nAMOUNTS[{law.name!r}] = {amount}"
