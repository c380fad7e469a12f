"""A program with one fault, and with the change that advice names, as its plan says.

`gains.py` runs it with its plan, JSON, in the variable GAINS_PLAN:

    framework   "plain" or "torch"
    fault       a key of `FAULTS`
    kind        what the faulty work does: "python", "numpy" or "sleep"
    rounds      how much of that; rows: how large a step's own work is
    change      null, or [what is changed, a number]
    steps, skip, timed_s, starts    see `truth_clock.py`

The step times go where PROGRAM_TRUTH says.
"""

import gc
import json
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from truth_clock import TruthClock

PLAN: dict[str, Any] = json.loads(os.environ["GAINS_PLAN"])
RANDOM = np.random.default_rng(PLAN["seed"])
WEIGHTS = RANDOM.normal(size=(192, 192)).astype("float32")
TABLE = RANDOM.normal(size=(256, 64))
LETTERS = [chr(97 + number % 23) for number in range(64)]
#: Work that is done rarely is done in every tenth of the steps in which it was done.
RARE_EVERY = 10
CHECKPOINT_EVERY = 4
FOLDER = Path(tempfile.mkdtemp())
INDEX: list[Any] = []


def count_pairs(rounds: float) -> dict[str, int]:
    """Compute in Python, with the interpreter's lock."""
    pairs: dict[str, int] = {}
    for _ in range(int(rounds)):
        for left, right in pairwise(LETTERS):
            pairs[left + right] = pairs.get(left + right, 0) + 1
    return pairs


def sort_rows(rounds: float) -> Any:
    """Compute in NumPy."""
    rows = TABLE
    for _ in range(int(rounds)):
        rows = np.sort(TABLE, axis=1)
    return rows[0, 0]


def wait_for_answer(rounds: float) -> None:
    """Wait, off the cores: `rounds` are milliseconds."""
    time.sleep(rounds / 1000)


WORKS: dict[str, Callable[[float], Any]] = {
    "python": count_pairs,
    "numpy": sort_rows,
    "sleep": wait_for_answer,
}


def do_work() -> Any:
    """Do the faulty work once."""
    return WORKS[PLAN["kind"]](PLAN["rounds"])


def produce_batch(_: int = 0) -> Any:
    """Produce a batch."""
    do_work()
    return WEIGHTS[:64]


def save_checkpoint(weights: Any) -> None:
    """Write the weights to a file, as often as the rounds say."""
    with (FOLDER / "weights").open("wb") as file:
        for _ in range(int(PLAN["rounds"])):
            pickle.dump(weights, file)
        file.flush()
        os.fsync(file.fileno())


#: Fault of each step → its work.
WORK_OF_STEPS: dict[str, Callable[[], Any]] = {"step": do_work, "collect": gc.collect}


class Entry:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.mine = [self]


def change_is(what: str) -> int:
    """Return the number of a change; 0 if another change, or none, is made."""
    change = PLAN["change"]
    return int(change[1]) if change and change[0] == what else 0


def feed_batches() -> Iterator[Any]:
    """Produce batches on the loop's thread, or as the change says."""
    if change_is("cached"):
        batch = produce_batch()
        while True:
            yield batch
    if change_is("ahead"):
        with ProcessPoolExecutor(1) as pool:
            ahead = [pool.submit(produce_batch, number) for number in range(2)]
            while True:
                ahead.append(pool.submit(produce_batch, 0))
                yield ahead.pop(0).result()
    while True:
        yield produce_batch()


def load_batches(workers: int) -> Iterator[Any]:
    """Load batches with PyTorch's loader."""
    from torch.utils.data import (  # noqa: PLC0415 - plain programs have none
        DataLoader,
        Dataset,
    )

    cached = produce_batch() if change_is("cached") else None

    class Batches(Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, index: int) -> Any:
            return produce_batch() if cached is None else cached

    workers = change_is("workers") or workers
    yield from DataLoader(Batches(), batch_size=None, num_workers=workers)


def no_batches() -> Iterator[Any]:
    """Yield the same batch in every step."""
    while True:
        yield WEIGHTS[:64]


class Steps:
    """What each step does beside its own work."""

    def __init__(self) -> None:
        self.step = -1
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._pending: Any = None

    def run_fault(self) -> None:
        """Do, or skip, or hand over the faulty work of this step."""
        self.step += 1
        fault, step = PLAN["fault"], self.step
        rare = RARE_EVERY if change_is("rarer") else 1
        if fault == "checkpoint":
            if step % (CHECKPOINT_EVERY * rare) == CHECKPOINT_EVERY - 1:
                self._do_or_submit(save_checkpoint, WEIGHTS.copy())
        elif fault in WORK_OF_STEPS and not change_is("removed") and step % rare == 0:
            self._do_or_submit(WORK_OF_STEPS[fault])

    def _do_or_submit(self, work: Callable[..., Any], *arguments: Any) -> None:
        if not change_is("thread"):
            work(*arguments)
            return
        if self._pending is not None:
            self._pending.result()
        self._pending = self._pool.submit(work, *arguments)


def train_plain(rows: Any) -> Any:
    """Take one step in NumPy."""
    hidden = rows
    for _ in range(4):
        hidden = np.tanh(hidden @ WEIGHTS * 0.05)
    return (rows.T @ (hidden - rows))[0, 0]


def make_torch_step(rows: Any) -> Callable[[], Any]:
    """Return a function that takes one step of a PyTorch model."""
    import torch  # noqa: PLC0415 - plain programs have none

    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        *(
            layer
            for _ in range(4)
            for layer in (torch.nn.Linear(192, 192), torch.nn.Tanh())
        )
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    given = torch.from_numpy(rows)

    def train_step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(given), given)
        loss.backward()
        optimizer.step()
        return loss

    return train_step


def main() -> None:
    """Take the steps."""
    rows = np.resize(WEIGHTS, (int(PLAN["rows"]), 192))
    is_plain = PLAN["framework"] == "plain"
    if is_plain:
        import stepscope as ss  # noqa: PLC0415 - marks steps where no framework does

        mark = ss.StepTrace
    else:
        train_step = make_torch_step(rows)
    clock, steps = TruthClock(PLAN), Steps()
    fault = PLAN["fault"]
    if fault == "collect":
        INDEX.extend(Entry() for _ in range(int(PLAN["rounds"])))
    batches = (
        load_batches(int(fault[-1]))
        if fault.startswith("loader")
        else feed_batches()
        if fault == "batch"
        else no_batches()
    )
    while clock.begin_step():
        if is_plain:
            with mark(clock.step):
                next(batches)
                steps.run_fault()
                train_plain(rows)
        else:
            next(batches)
            steps.run_fault()
            train_step()
    clock.write_truth()
    os._exit(0)


if __name__ == "__main__":
    main()
