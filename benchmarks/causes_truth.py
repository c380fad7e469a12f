"""What is true of a recorded program: how its own clock divides the recorded steps."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

#: In the first and the last recorded step a recorder starts and stops: they are left
#: out if so many are recorded.
_MANY_STEPS = 5


@dataclass(frozen=True)
class Truth:
    """How the recorded steps of a program were spent.

    Attributes:
        steps: Number of steps that were timed.
        step_ms: Mean time for which causes held a step up, and the median of the rest.
        base_ms: The rest; with a cause that runs beside steps, that before it began.
        no_core: Share in which the loop could run and had no core.
        shares: By law: its share of the steps.
        places: By law: its function, file and line, and where it is called.
    """

    steps: int
    step_ms: float
    base_ms: float
    no_core: float
    shares: Mapping[str, float]
    places: Mapping[str, Mapping[str, Any]]


def read_truth(folder: Path) -> Truth | None:
    """Read what a program wrote beside its recording; None if it failed."""
    file = folder / "truth"
    if not file.exists():
        return None
    told = json.loads(file.read_text())
    first, last = recorded_steps(folder / "notes", len(told["begun_s"]) - 1)
    return divide_steps(told, first, last)


def recorded_steps(notes: Path, steps: int) -> tuple[int, int]:
    """Return the first recorded step, counted from 0, and the one after the last.

    Args:
        notes: Folder of the recorder's notes: which of the program's steps it recorded.
        steps: Number of steps that the program took.
    """
    read = [json.loads(file.read_text()) for file in sorted(notes.glob("*.json"))]
    found = [(note["first"] - 1, note["last"]) for note in read if note.get("first")]
    first, last = found[0] if found else (1, steps)
    if last - first >= _MANY_STEPS:
        first, last = first + 1, last - 1
    last = min(last, steps)
    return min(first, last - 1), last


def divide_steps(told: Mapping[str, Any], first: int, last: int) -> Truth:
    """Divide steps among causes.

    Args:
        told: What the program wrote.
        first: First step.
        last: The step after the last one.
    """
    held_s = {
        law: statistics.mean(times[first:last]) for law, times in told["held_s"].items()
    }
    # A recorder takes long to start and to stop, in one step each: the median leaves
    # them out, of all steps but the first one where few were recorded.
    is_beside = told["beside"] is not None
    many = (first, last) if last - first >= _MANY_STEPS else None
    whole = (told["starts"] + 1 if is_beside else 1, len(told["begun_s"]) - 1)
    base_s = rest_s = _rest_s(told, *(many or whole))
    if is_beside:
        base_s = _rest_s(told, 1, told["starts"])
        held_s[told["beside"]] = max(0.0, rest_s - base_s)
    step_s = sum(held_s.values()) + base_s
    return Truth(
        steps=last - first,
        step_ms=1000 * step_s,
        base_ms=1000 * base_s,
        no_core=told["no_core"],
        shares={law: seconds / step_s for law, seconds in held_s.items()},
        places=told["places"],
    )


def _rest_s(told: Mapping[str, Any], first: int, last: int) -> float:
    """Return the median time of steps without what causes take of each."""
    begun_s: Sequence[float] = told["begun_s"]
    steps_s = [end - begin for begin, end in pairwise(begun_s[first : last + 1])]
    held_s = [sum(times) for times in zip(*told["held_s"].values(), strict=True)]
    known_s = held_s[first:last] or [0.0] * len(steps_s)
    rest_s: list[float] = [
        step_s - held for step_s, held in zip(steps_s, known_s, strict=True)
    ]
    return statistics.median(rest_s)
