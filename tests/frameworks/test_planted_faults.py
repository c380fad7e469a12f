"""Faults planted in really recorded programs: each is what the report says first.

A fault takes more than half of a step, or is the only thing of its kind, so that a busy
machine does not hide it; what is asserted are owners and the program's own functions. A
recording that others on the machine disturbed, as the program's own clock tells, is
made once more.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from tests.support.programs.frameworks import interpreter

from stepscope.advice.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.framework

PROGRAMS: Final = Path(__file__).parent / "programs"
#: Owners and findings that a headline may be about. Which rule is first depends on
#: where a step ends, and that on what marks it; the function that is named does not.
BETWEEN: Final = ("host_compute", "gap.callbacks", "step.periodic")
WRITING: Final = ("output", "gap.output")
COLLECTING: Final = ("host_compute", "gap.gc")
COMPILING: Final = ("compile", "xla.recompile")
INPUT: Final = ("input",)
WORK: Final = ("host_compute",)


def inlined(framework: str, *, is_step: bool = False) -> str:
    """How the line that no function holds is told; `is_step`: of the loop."""
    file = f"{framework}_program.py"
    texts = (PROGRAMS / file).read_text().splitlines()
    (number,) = (at for at, text in enumerate(texts, 1) if text.endswith("# inlined"))
    (begin,) = (at for at, text in enumerate(texts, 1) if text.startswith("def main"))
    if is_step:
        return f"`main` ({file}:{begin}), most of it in line {number}"
    return f"`main` ({file}, line {number}"


#: (Framework, fault) → owners or findings of the headline, and what it says.
FAULTS: Final = {
    ("plain", "python_loop"): (WORK, "`count_words` (plain_program.py:"),
    ("plain", "lock"): (WORK, "`read_shared` (plain_program.py:"),
    ("plain", "logging"): (WORK, "`write_logs` (plain_program.py:"),
    ("plain", "collect"): (COLLECTING, "garbage"),
    ("plain", "slow_loader"): (INPUT, "`normalize_slowly` (plain_program.py:"),
    # Without a device the program's own work between steps is host compute too.
    ("plain", "slow_shard"): (INPUT, "`read_shard` (plain_program.py:"),
    ("plain", "callback"): (BETWEEN, "`Logs.on_batch_end` (plain_program.py:"),
    ("plain", "bursts"): (BETWEEN, "`validate` (plain_program.py:"),
    ("plain", "checkpoint"): (WRITING, "`save_checkpoint` (plain_program.py:"),
    ("plain", "inlined"): (WORK, inlined("plain", is_step=True)),
    ("torch", "inlined"): (WORK, inlined("torch")),
    ("jax", "inlined"): (WORK, inlined("jax")),
    ("torch", "slow_transform"): (
        WORK,
        "`normalize_by_hand` (torch_program.py:",
    ),
    ("torch", "tokenise"): (WORK, "`tokenise` (torch_program.py:"),
    ("torch", "slow_collate"): (INPUT, "`slow_collate` (torch_program.py:"),
    ("torch", "read_back"): (WORK, "`read_losses` (torch_program.py:"),
    ("torch", "callback"): (BETWEEN, "`log_metrics` (torch_program.py:"),
    ("torch", "checkpoint"): (WRITING, "`save_checkpoint` (torch_program.py:"),
    ("torch", "collect"): (COLLECTING, "garbage"),
    ("torch", "tiny_ops"): (("launch.small",), "tiny ops a step"),
    ("torch", "straggler"): (("allreduce.arrival",), "The other workers wait for "),
    ("torch", "leak"): (("mem.leak",), "`LOSSES` (torch_program.py)"),
    ("tensorflow", "sequential_map"): (INPUT, "Input-bound"),
    ("tensorflow", "numpy_function"): (
        INPUT,
        "`parse_by_hand` (tensorflow_program.py:",
    ),
    ("tensorflow", "eager"): (("launch.eager",), "Ops run one by one outside a graph"),
    ("tensorflow", "retrace"): (COMPILING, "take_step"),
    ("tensorflow", "callback"): (
        BETWEEN,
        "`log_metrics` (tensorflow_program.py:",
    ),
    ("tensorflow", "checkpoint"): (
        WRITING,
        "`save_checkpoint` (tensorflow_program.py:",
    ),
    ("tensorflow", "no_prefetch"): (INPUT, "Input-bound"),
    ("tensorflow", "print"): (("debug.print",), "Prints and checks inside the steps"),
    ("jax", "slow_transform"): (WORK, "`transform` (jax_program.py:"),
    ("jax", "read_back"): (WORK, "`read_norms` (jax_program.py:"),
    # A long collection or pause lies between no two ops: then the function is blamed.
    ("jax", "eager"): (("launch.eager", "host_compute"), "(jax_program.py:"),
    ("jax", "callback"): (BETWEEN, "`log_metrics` (jax_program.py:"),
    ("jax", "recompile"): (COMPILING, "called from `take_step` (jax_program.py:"),
    ("jax", "checkpoint"): (WRITING, "`save_checkpoint` (jax_program.py:"),
    ("jax", "outside"): (BETWEEN, "`transform` (jax_program.py:"),
    ("jax", "debug"): (("debug.print",), "Prints and checks inside the steps"),
}
#: Some of different kinds that `make test` plants. More are planted by
#: `make test-integrations`, all by `make test-thorough`, and each in two sizes by
#: `make experiments`.
OF_EVERY_RUN: Final = {
    *(("plain", "callback"), ("torch", "slow_collate"), ("jax", "recompile"))
}
OF_INTEGRATIONS: Final = {
    ("tensorflow", "sequential_map"),
    *(("plain", "slow_loader"), ("torch", "slow_transform"), ("torch", "inlined")),
    *(("tensorflow", "eager"), ("jax", "slow_transform")),
}
#: Planted fault → the rules that are declared to have been seen to fail on it.
SEEN: Final = {
    fault: {
        rule.item.id
        for rule in RULES
        if rule.item.seen_on == " ".join(("experiment", *fault))
    }
    for fault in FAULTS
}
#: What others on the machine do to a program, and no fault of its own.
NOISE: Final = {"step.outlier", "gap.contention"}
#: A recording that nobody disturbs is made once.
MOST_RECORDINGS: Final = 4
#: One thread for each program: the tests may share the machine.
_SURROUNDINGS: Final = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


class Recorded(NamedTuple):
    """What the report says of a recording, and what the program saw itself.

    Attributes:
        said: The report.
        disturbed: Whether it had to wait for a processor, or its steps differ much.
    """

    said: Any
    disturbed: bool

    @property
    def headline(self) -> dict[str, Any]:
        found: dict[str, Any] = self.said["headline"]
        return found


def was_disturbed(folder: Path) -> bool:
    """Whether the program's clock tells of others; yes where there is no such clock."""
    clock, waits = folder / "clock", folder / "waits"
    if not (clock.exists() and waits.exists() and waits.stat().st_size):
        return True
    begun = [float(line) for line in clock.read_text().splitlines()]
    waited = [float(line) for line in waits.read_text().splitlines()]
    # The first steps compile, and wait for nobody.
    took = [end - begin for begin, end in itertools.pairwise(begun[2:])]
    share = (waited[-1] - waited[2]) / (begun[-1] - begun[2])
    return share > 0.01 or max(took) > 1.2 * statistics.median(took)


def stepscope(folder: Path, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={
            **os.environ,
            **_SURROUNDINGS,
            "PROGRAM_CLOCK": str(folder / "clock"),
            "PROGRAM_WAITS": str(folder / "waits"),
        },
    )
    return done.stdout


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, str], Recorded]:
    """Record a program at default options, and what the report says of it."""

    def record(framework: str, fault: str) -> Recorded:
        folder = tmp_path_factory.mktemp(f"{framework}-{fault}")
        python = sys.executable if framework == "plain" else interpreter(framework)
        program = PROGRAMS / f"{framework}_program.py"
        asked = ("--no-report", "--logdir", "log", "--", python, program, fault)
        stepscope(folder, "run", *asked)
        said = json.loads(stepscope(folder, "report", "--format", "json", "log"))
        return Recorded(said, was_disturbed(folder))

    return record


def recordings(
    once: Callable[[], Recorded], *, until: Callable[[Recorded], bool]
) -> list[Recorded]:
    """Recordings until one is as it should be, or is not and nobody disturbed it."""
    made = [once()]
    while not until(made[-1]) and made[-1].disturbed and len(made) < MOST_RECORDINGS:
        made.append(once())
    return made


def when_planted(fault: tuple[str, str]) -> Sequence[pytest.MarkDecorator]:
    """The marks of a fault: it is planted always, or with the others."""
    if fault in OF_EVERY_RUN:
        return ()
    return [
        pytest.mark.integration if fault in OF_INTEGRATIONS else pytest.mark.thorough
    ]


@pytest.mark.parametrize(
    ("framework", "fault"),
    [pytest.param(*fault, marks=when_planted(fault)) for fault in FAULTS],
)
def test_the_fault_is_said_first(
    framework: str, fault: str, recorded: Callable[[str, str], Recorded]
) -> None:
    about, said = FAULTS[framework, fault]

    def is_named(made: Recorded) -> bool:
        subjects = {made.headline["owner"], made.headline["finding"]}
        return bool(subjects.intersection(about)) and said in made.headline["text"]

    made = recordings(lambda: recorded(framework, fault), until=is_named)
    assert is_named(made[-1]), [(it.headline, it.disturbed) for it in made]
    failing = {it["id"] for it in made[-1].said["findings"] if it["status"] == "fail"}
    assert failing >= SEEN[framework, fault]


@pytest.mark.parametrize(
    "framework",
    [
        "plain",
        "torch",
        pytest.param("tensorflow", marks=pytest.mark.integration),
        pytest.param("jax", marks=pytest.mark.integration),
    ],
)
def test_its_healthy_twin_has_none(
    framework: str, recorded: Callable[[str, str], Recorded]
) -> None:
    def alarms(made: Recorded) -> list[str]:
        return [
            one["id"]
            for one in made.said["findings"]
            if one["status"] == "fail" and one["severity"] != "info"
        ]

    def blames_none(made: Recorded) -> bool:
        """The first sentence names no program's function for a fault."""
        about = made.headline["finding"]
        named = [it for it in functions if it in made.headline["text"]]
        is_work = about is None and made.headline["owner"] == "host_compute"
        return not named and (is_work or about in NOISE)

    def has_none(made: Recorded) -> bool:
        return set(alarms(made)) <= NOISE and blames_none(made)

    functions = [said for _, said in FAULTS.values() if said.startswith("`")]
    made = recordings(lambda: recorded(framework, "healthy"), until=has_none)
    last = made[-1]
    # Where others took the processor every time, checks may fail for that.
    assert blames_none(last) if last.disturbed else has_none(last), [
        (alarms(it), it.headline, it.disturbed) for it in made
    ]
