"""Producers of batches, a buffer and the steps that use them, as a queue.

`predict_queue` simulates the queue with the recorded times of batches and steps, drawn
again at random. It assumes that

- a batch takes the same work wherever it is produced, and batches do not depend on
  each other;
- steps take batches in order; a producer begins no batch while `depth` batches per
  producer are begun and not yet taken;
- producers and steps share the cores equally when they want more than there are, and
  time off the cores (a disk, a network, other locks) stays as it is;
- producers that are threads also share the interpreter's lock, for the part of their
  time in which they hold it; processes do not;
- handing over a batch takes no time.

Definition: docs/predictions.md#input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.predictions.step_times import StepTime, student_quantile
from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Bools, Int64s

    Floats = NDArray[np.float64]

#: Simulated steps of a draw, of which the first fill the buffer.
_STEPS: Final = 49
_FILLING: Final = 12
_TIMED: Final = _STEPS - 1 - _FILLING
#: Draws of batches and steps for each number of producers.
_DRAWS: Final = 24
_SEED: Final = 1
#: Batches that a producer keeps ready, as PyTorch's loader does by default.
DEFAULT_DEPTH: Final = 2


class Work(Frozen, frozen=True):
    """What a piece of work needs while it runs alone.

    Attributes:
        cores: Mean number of cores that it uses.
        locked: Share of its time in which it holds the interpreter's lock that it would
            share with the other side; 0 in a separate process.
    """

    cores: float = 1.0
    locked: float = 0.0


class InputTimes(Frozen, frozen=True):
    """The recorded times of the two sides of an input pipeline.

    Attributes:
        production_ms: Time that one producer needs for the batch of a step, alone.
        step_ms: Time of each step without its wait for the batch.
        cores: Number of cores that the program can get; None if unknown.
        producing: What production needs.
        stepping: What the steps need.
    """

    production_ms: Sequence[float]
    step_ms: Sequence[float]
    cores: float | None = None
    producing: Work = Work()
    stepping: Work = Work()


def predict_queue(
    times: InputTimes, workers: Sequence[int], *, depth: int = DEFAULT_DEPTH
) -> dict[int, StepTime]:
    """Return the step time for each number of producers; 0 produces in the step.

    Args:
        times: At least three steps.
        workers: Numbers of producers, which run next to the steps.
        depth: Batches per producer that may be begun and not yet taken.

    Raises:
        ValueError: Fewer than three batches or steps are given.
    """
    fewest = min(len(times.production_ms), len(times.step_ms))
    quantile = student_quantile(fewest)
    generator = np.random.default_rng(_SEED)
    made, used = (
        _drawn_again(np.asarray(sides, np.float64), generator)
        for sides in (times.production_ms, times.step_ms)
    )
    predicted = {}
    ahead = [number for number in workers if number]
    means = _simulated_means(made, used, ahead, times, depth) if ahead else []
    by_number = dict(zip(ahead, means, strict=True))
    for number in workers:
        means = by_number.get(number, (made + used).mean(axis=1))
        mid, scatter = float(means.mean()), float(means.std(ddof=1))
        half = quantile * scatter
        predicted[number] = StepTime(low=max(mid - half, 0.0), mid=mid, high=mid + half)
    return predicted


def enough_workers(predicted: dict[int, StepTime]) -> int:
    """Return the smallest number of producers within 2 % of the shortest step."""
    shortest = min(predicted.values(), key=lambda time: time.mid or np.inf)
    return min(
        number for number, time in predicted.items() if time.is_as_short_as(shortest)
    )


def worker_numbers(most: int) -> tuple[int, ...]:
    """Return the numbers of producers to compare: 1, 2, 4 … up to `most`."""
    powers = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return (*powers, most)


def _drawn_again(values: Floats, generator: np.random.Generator) -> Floats:
    """Return times of `_DRAWS` × `_STEPS` steps, drawn from the recorded ones.

    Each draw takes its steps from a drawn sample as large as the recording, so that
    draws scatter as the mean of the recording does.
    """
    rows = generator.integers(len(values), size=(_DRAWS, len(values)))
    columns = generator.integers(len(values), size=(_DRAWS, _STEPS))
    drawn: Floats = values[np.take_along_axis(rows, columns, axis=1)]
    return drawn


def _simulated_means(
    made: Floats, used: Floats, workers: Sequence[int], times: InputTimes, depth: int
) -> list[Floats]:
    """Return, for each number of producers, the mean step of each draw."""
    counts = np.repeat(np.asarray(workers, np.int64), _DRAWS)
    made, used = (np.tile(side, (len(workers), 1)) for side in (made, used))
    queue = _Queue(made, used, counts, times, depth)
    while queue.advance_clocks():
        pass
    taken = queue.taken.reshape(len(workers), _DRAWS, _STEPS)
    means = []
    for row, number in enumerate(workers):
        # Producers that began together end together: whole rounds have no remainder.
        steps = _TIMED - _TIMED % min(number, _TIMED)
        begun, ended = taken[row, :, _FILLING], taken[row, :, _FILLING + steps]
        means.append((ended - begun) / steps)
    return means


class _Queue:
    """A simulation of many queues at once, each with a separate clock (a lane).

    Attributes:
        taken: Lane × step → when the step took its batch.
    """

    def __init__(
        self, made: Floats, used: Floats, workers: Int64s, times: InputTimes, depth: int
    ) -> None:
        self._made, self._used, self._times = made, used, times
        lanes, most = len(made), int(workers.max())
        self._lanes = np.arange(lanes)
        self._most_open = workers * depth
        self._clock = np.zeros(lanes)
        self.taken = np.zeros((lanes, _STEPS))
        #: Work left of each producer and of the step; infinite if idle.
        self._left = np.full((lanes, most + 1), np.inf)
        self._exists = np.arange(most) < workers[:, None]
        self._batch = np.zeros((lanes, most), np.int64)
        self._is_made = np.zeros((lanes, _STEPS + most * depth), np.bool_)
        self._begun = np.zeros(lanes, np.int64)
        self._used_up = np.zeros(lanes, np.int64)

    def advance_clocks(self) -> bool:
        """Go on to the next end of a batch or step; False if all steps have begun."""
        self._take_batches()
        self._begin_batches()
        if (self._used_up == _STEPS).all():
            return False
        speed = self._speeds(np.isfinite(self._left))
        rest = self._left / speed
        passed = rest.min(axis=1)
        passed[~np.isfinite(passed)] = 0.0
        self._clock += passed
        self._left -= passed[:, None] * speed
        ended = rest <= passed[:, None] * (1 + 1e-12)
        self._left[ended] = np.inf
        lane, worker = np.nonzero(ended[:, :-1])
        self._is_made[lane, self._batch[lane, worker]] = True
        return True

    def _take_batches(self) -> None:
        """Let steps that are ready for their batch, and have it, begin."""
        ready = np.isinf(self._left[:, -1]) & (self._used_up < _STEPS)
        lane = np.flatnonzero(ready & self._is_made[self._lanes, self._used_up])
        step = self._used_up[lane]
        self.taken[lane, step] = self._clock[lane]
        self._left[lane, -1] = self._used[lane, step]
        self._used_up[lane] += 1

    def _begin_batches(self) -> None:
        """Let idle producers begin batches, one after the other."""
        while True:
            idle = self._exists & np.isinf(self._left[:, :-1])
            room = self._begun - self._used_up < self._most_open
            lane = np.flatnonzero(idle.any(axis=1) & room)
            if not len(lane):
                return
            worker = idle[lane].argmax(axis=1)
            self._left[lane, worker] = self._made[lane, self._begun[lane] % _STEPS]
            self._batch[lane, worker] = self._begun[lane]
            self._begun[lane] += 1

    def _speeds(self, runs: Bools) -> Floats:
        """Return the speed of each producer and of the step, 1 if it runs alone."""
        times = self._times
        producing = runs[:, :-1].sum(axis=1)
        wanted, locked = (
            producing * getattr(times.producing, need)
            + runs[:, -1] * getattr(times.stepping, need)
            for need in ("cores", "locked")
        )
        cores = np.inf if times.cores is None else times.cores
        stretched = np.maximum(wanted / cores, 1.0)
        queued = np.maximum(locked, 1.0)
        speed = np.empty(runs.shape)
        for columns, work in (
            (slice(None, -1), times.producing),
            (slice(-1, None), times.stepping),
        ):
            on_core = min(work.cores, 1.0)
            held = min(work.locked, on_core)
            lasts = (1 - on_core) + (on_core - held) * stretched
            lasts += held * np.maximum(stretched, queued)
            speed[:, columns] = 1 / lasts[:, None]
        return speed
