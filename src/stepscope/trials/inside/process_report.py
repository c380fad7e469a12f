"""Report of one process of a turn: a file to which each fact is appended at once.

A program may end at any time and in any way, so nothing waits for its end. A line is a
word and its text: `step` (duration of a batch in ns), `drain` (ns that devices needed
after the last step), `end` (the window is over), `forget` (earlier steps were none),
`set` (a knob, and what was changed), `same` (a knob, and what has its value already),
`fault` (a knob, and why it was not set),
`frameworks` (imported ones, and `gpu`), `counted` (what the steps are), `loss` (of a
backward pass).
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

_SUFFIX: Final = ".turn"


class ProcessReport:
    """Writer of this process's report; a forked child writes its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: int | None = None
        self._written: set[tuple[str, str]] = set()

    def write(self, word: str, text: object = "") -> None:
        """Append a line; a folder that is gone is no error: the turn is over."""
        line = " ".join(f"{word} {text}".split()) + "\n"
        try:
            if self._file is None:
                path = f"{self._folder}/{os.getpid()}{_SUFFIX}"
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(path, flags, 0o600)
            os.write(self._file, line.encode("utf-8", "replace"))
        except OSError:
            return

    def write_once(self, word: str, text: str) -> None:
        """Append a line unless this process has already written it."""
        if (word, text) not in self._written:
            self._written.add((word, text))
            self.write(word, text)

    def begin_child(self) -> None:
        """Write another file from now on: this process was forked."""
        file, self._file = self._file, None
        self._written.clear()
        if file is not None:
            os.close(file)


class ProcessTimes(NamedTuple):
    """What one process reported.

    Attributes:
        steps_ns: Durations of the window's batches, without lines before `forget`.
        drain_ns: Time that devices needed after the last step.
        is_over: Whether the window reached its end.
        changed: Knob → what was changed.
        same: Knob → what has its value already.
        faults: Knob → why it was not set.
        frameworks: Frameworks that the process has imported, and "gpu" if it uses one.
        counted: What was counted as steps; empty without steps.
        losses: Losses of backward passes, in order.
    """

    steps_ns: tuple[int, ...]
    drain_ns: int
    is_over: bool
    changed: dict[str, str]
    same: dict[str, str]
    faults: dict[str, str]
    frameworks: frozenset[str]
    counted: str
    losses: tuple[float, ...]


def read_reports(folder: str) -> tuple[ProcessTimes, ...]:
    """Return what the processes have reported so far, in order of process id."""
    try:
        with os.scandir(folder) as entries:
            paths = sorted(each.path for each in entries if each.name.endswith(_SUFFIX))
    except OSError:
        return ()
    return tuple(_read_report(path) for path in paths)


def _read_report(path: str) -> ProcessTimes:
    steps: list[int] = []
    losses: list[float] = []
    last: dict[str, str] = {}
    by_knob: dict[str, dict[str, str]] = {"set": {}, "same": {}, "fault": {}}
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - avoids importing pathlib
        # A line without its line feed is being written.
        lines = [line for line in file if line.endswith("\n")]
    for line in lines:
        word, _, text = line.rstrip("\n").partition(" ")
        if word == "step":
            steps.append(int(text))
        elif word == "loss":
            losses.append(float(text))
        elif word == "forget":
            steps.clear()
        elif word in by_knob:
            knob, _, what = text.partition(" ")
            by_knob[word][knob] = what
        else:
            last[word] = text
    return ProcessTimes(
        steps_ns=tuple(steps),
        drain_ns=int(last.get("drain", 0)),
        is_over="end" in last,
        changed=by_knob["set"],
        same=by_knob["same"],
        faults=by_knob["fault"],
        frameworks=frozenset(last.get("frameworks", "").split()),
        counted=last.get("counted", ""),
        losses=tuple(losses),
    )
