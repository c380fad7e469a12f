"""What the launcher and the processes of a turn tell each other.

The launcher passes a plan in an environment variable. Each process appends facts to its
file at once, because it may end at any time and in any way. A fact is a word and a
text: `step` (duration of a batch in ns), `drain` (ns that devices needed after the last
step), `end` (the window is over), `forget` (the steps so far were none), `set` (a knob
that took effect), `fault` (a knob, and why it was not set), `frameworks` (imported).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Environment variable that contains the plan.
VARIABLE: Final = "STEPSCOPE_TRY"
_SUFFIX: Final = ".turn"

#: Value to which a knob is set.
Value: TypeAlias = bool | int | str
#: Word → texts of one process, in order.
Facts: TypeAlias = dict[str, list[str]]


class Setting(NamedTuple):
    """One thing to set in a turn, as the columns of `knobs.toml` describe it."""

    knob: str
    how: str
    target: str
    name: str
    value: Value


class TurnPlan(NamedTuple):
    """What each process of the program sets and measures.

    Attributes:
        folder: Folder of the turn, in which each process writes its file.
        settings: What to set; later settings apply after earlier ones.
        warm_steps: Steps before the window; twice as many if they last below `warm_s`.
        steps: Steps of the window, unless it reaches `max_s` first.
        least_s: Seconds that the window lasts at least.
        max_s: Seconds after which the window ends with the step in progress.
    """

    folder: str
    settings: tuple[Setting, ...] = ()
    warm_steps: int = 5
    warm_s: float = 0.2
    steps: int = 30
    least_s: float = 2.0
    max_s: float = 10.0

    def to_text(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(self)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> TurnPlan | None:
        """Return the plan in the environment of this process; None without a plan."""
        if VARIABLE not in environment:
            return None
        folder, settings, *numbers = json.loads(environment[VARIABLE])
        return cls(folder, tuple(Setting(*each) for each in settings), *numbers)


def write_fact(folder: str, word: str, text: object = "") -> None:
    """Append a fact of this process; if the folder is gone, the turn is over."""
    line = f"{' '.join(f'{word} {text}'.split())}\n".encode("utf-8", "replace")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        file = os.open(f"{folder}/{os.getpid()}{_SUFFIX}", flags, 0o600)
    except OSError:
        return
    os.write(file, line)
    os.close(file)


def read_facts(folder: str) -> list[Facts]:
    """Return what each process has written so far."""
    with os.scandir(folder) as entries:
        paths = sorted(each.path for each in entries if each.name.endswith(_SUFFIX))
    return [_read_file(path) for path in paths]


def _read_file(path: str) -> Facts:
    facts: Facts = {}
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - avoids importing pathlib
        # A line without its line feed is being written.
        lines = [line[:-1] for line in file if line.endswith("\n")]
    for line in lines:
        word, _, text = line.partition(" ")
        if word == "forget":
            facts.pop("step", None)
        facts.setdefault(word, []).append(text)
    return facts
