"""The clock of a generated program: it times its own steps and planted causes.

`causes_drawn.py` writes programs that import this module. It imports nothing of
stepscope. What it measured goes into the file that PROGRAM_TRUTH names:

    begun_s   when each step began, and the last one ended
    held_s    by law: for how long it held up the loop, for each step
    places    by law: its function, file and line, and where it is called (slots of
              `frameworks.toml`)
    beside    the law that slows down the steps from a thread of its own, or null
    starts    the step before which it started
    no_core   share of the recorded steps in which the loop's thread could run, and had
              no core

A program goes on until its recording is in the folder that PROGRAM_NOTES names.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

now = time.perf_counter
#: A trial call is long enough for the clock if it lasts so many seconds.
_TRIAL_S = 0.02
_MAX_ROUNDS = 10_000_000
#: Seconds after which a program takes no further step, if it is recorded then, and
#: seconds after which it takes none at all.
_MAX_LOOP_S, _LATEST_S = 9.0, 30.0
_SCHEDULED = Path("/proc/self/schedstat")


class TruthClock:
    """Times of a program's steps and of its planted causes.

    Attributes:
        step: Number of the current step, from 0.
    """

    def __init__(self, plan: Mapping[str, Any]) -> None:
        """Begin without a step.

        Args:
            plan: `steps` to take at least; how many of them, `skip`, are not timed;
                `timed_s`, seconds that the others take at least; and before which step,
                `starts`, a cause starts that runs beside all later ones.
        """
        self.step = -1
        self._plan = plan
        self._begun: list[float] = []
        self._without_core_s = 0.0
        self._calls: dict[str, list[tuple[int, float]]] = {}
        self._places: dict[str, dict[str, Any]] = {}

    def begin_step(self) -> bool:
        """Note the begin of a step; False if the program takes no further step."""
        self._begun.append(now())
        self.step += 1
        skip, begun = self._plan["skip"], self._begun
        if self.step == skip:
            # Not in each step: reading a file gives the interpreter's lock away.
            self._without_core_s = _seconds_without_core()
        lasted_s = begun[-1] - begun[0]
        timed_s = begun[-1] - begun[min(skip, self.step)]
        is_enough = (
            self.step >= self._plan["steps"] and timed_s >= self._plan["timed_s"]
        )
        if is_enough or lasted_s > _MAX_LOOP_S:
            return not _is_recorded() and lasted_s < _LATEST_S
        return True

    def note_call(self, law: str, begun: float) -> None:
        """Note that a cause has held up the loop from a time until now."""
        call = (self.step, now() - begun)
        self._calls.setdefault(law, []).append(call)

    def note_place(self, law: str, function: Callable[..., object], slot: str) -> None:
        """Note which function a cause is, and where it is called."""
        code = function.__code__
        self._places[law] = {
            "function": function.__name__,
            "file": code.co_filename,
            "line": code.co_firstlineno,
            "slot": slot,
        }

    def rounds_for(self, function: Callable[[int], object], seconds: float) -> int:
        """Return for which number of rounds a function takes so many seconds."""
        function(1)
        rounds = 1
        while True:
            # The shorter of two: on a busy machine one of them may have waited.
            took = min(_seconds_of(function, rounds) for _ in range(2))
            trial_s = min(seconds, _TRIAL_S)
            if took >= trial_s / 2 or rounds >= _MAX_ROUNDS:
                return max(1, round(rounds * seconds / took))
            rounds = min(
                4 * rounds, max(rounds + 1, int(0.8 * rounds * trial_s / took))
            )

    def rows_for(self, forward: Callable[[int], object], seconds: float) -> int:
        """Return for how many rows a forward pass takes so many seconds."""
        return 8 * self.rounds_for(lambda count: forward(8 * count), seconds)

    def write_truth(self, *, beside: str | None = None) -> None:
        """Write what was measured.

        Args:
            beside: The law that slows the steps down from another thread or process.
        """
        truth = json.dumps(self.truth(beside=beside))
        Path(os.environ["PROGRAM_TRUTH"]).write_text(truth)

    def truth(self, *, beside: str | None = None) -> dict[str, Any]:
        """Return what `write_truth` writes."""
        held_s = {law: [0.0] * (len(self._begun) - 1) for law in self._calls}
        for law, calls in self._calls.items():
            for step, took_s in calls:
                held_s[law][step] += took_s
        waited_s = _seconds_without_core() - self._without_core_s
        recorded_s = self._begun[-1] - self._begun[self._plan["skip"]]
        return {
            "begun_s": self._begun,
            "held_s": held_s,
            "places": self._places,
            "beside": beside,
            "starts": self._plan["starts"],
            "no_core": waited_s / recorded_s,
        }


def _is_recorded() -> bool:
    """Whether the recording of this process has ended, as far as it can know."""
    notes = os.environ.get("PROGRAM_NOTES")
    return notes is None or Path(notes, f"{os.getpid()}.json").exists()


def _seconds_of(function: Callable[[int], object], rounds: int) -> float:
    """Return how long a call takes if it need not wait for a core."""
    begun, waited_s = now(), _seconds_without_core()
    function(rounds)
    waited_s = _seconds_without_core() - waited_s
    return max(now() - begun - waited_s, 1e-6)


def _seconds_without_core() -> float:
    """Return for how long the first thread could have run and had no core."""
    if not _SCHEDULED.exists():
        return 0.0
    return int(_SCHEDULED.read_text().split()[1]) / 1e9
