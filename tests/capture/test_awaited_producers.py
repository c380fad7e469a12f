"""What is said of real programs whose loop waits for other threads and processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.programs.recorded import judged_program

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.slow(seconds=5.0)]

#: Each step of the loop computes for a few ms, and waits for longer.
PROGRAM = """
import multiprocessing, queue, threading, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import stepscope as ss

ROWS = np.ones((64, 192), np.float32)
WEIGHTS = np.ones((192, 192))
NOISE = np.random.default_rng(0).normal(size=(64, 192))


def sort(rows):
    for number in range(120):
        made = np.sort(np.tan(rows + NOISE * number), axis=1)
    return made


def make(number):
    return sort(ROWS + number)


# Long enough that samples of a producer fall into it.
def step(number, rows=ROWS):
    ss.mark_step(number)
    for _ in range(30):
        rows = np.tanh(rows @ WEIGHTS * 0.01)
    return rows


def start(work, *arguments):
    threading.Thread(target=work, args=arguments, daemon=True).start()


def fill(batches):
    for number in range(130):
        batches.put(make(number))


def answer(asked, answers):
    while True:
        answers.put(sort(asked.get()).sum())


def main():
{loop}


if __name__ == "__main__":
    main()
"""
LOOPS = {
    "pool.imap": """
with multiprocessing.Pool(1) as pool:
    for number, rows in enumerate(pool.imap(make, range(130))):
        step(number, rows)
""",
    "executor.map": """
with ThreadPoolExecutor(1) as pool:
    for number, rows in enumerate(pool.map(make, range(130))):
        step(number, rows)
""",
    "queue.get": """
batches = queue.Queue(2)
start(fill, batches)
for number in range(130):
    rows = batches.get()
    step(number, rows)
""",
    "get of another process": """
batches = multiprocessing.Queue(2)
multiprocessing.Process(target=fill, args=(batches,), daemon=True).start()
for number in range(130):
    rows = batches.get()
    step(number, rows)
""",
    "a service": """
asked, answers = queue.Queue(), queue.Queue()
start(answer, asked, answers)
for number in range(130):
    asked.put(step(number))
    total = answers.get()
""",
    "parts of a step": """
with ThreadPoolExecutor(2) as pool:
    for number in range(130):
        for part in pool.map(sort, [step(number)] * 2):
            part.sum()
""",
    "an end": """
with ThreadPoolExecutor(1) as pool:
    saving = pool.submit(sort, ROWS)
    for number in range(130):
        rows = step(number)
        saving.result()
        saving = pool.submit(sort, rows)
""",
}


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        ("pool.imap", "input.bound"),
        ("executor.map", "input.bound"),
        ("queue.get", "input.bound"),
        ("get of another process", "input.bound"),
        ("a service", "host.wait"),
        ("parts of a step", "host.wait"),
        ("an end", "host.wait"),
    ],
)
def test_only_waits_for_what_is_made_ahead_are_for_input(
    tmp_path: Path, loop: str, said: str
) -> None:
    program, logdir = tmp_path / "program.py", tmp_path / "log"
    lines = LOOPS[loop].strip().replace("\n", "\n    ")
    program.write_text(PROGRAM.format(loop=f"    {lines}"), encoding="utf-8")
    judged = judged_program(program, logdir, "--steps", "100")
    lost_ms = {
        it.id: it.ms_per_step or 0.0
        for it in judged.findings
        if it.status == "fail" and it.id in {"input.bound", "host.wait"}
    }
    # A thread that produces batches also keeps the interpreter's lock from the step.
    assert max(lost_ms, key=lambda name: lost_ms[name], default=None) == said
    assert said == "input.bound" or "input.bound" not in lost_ms
