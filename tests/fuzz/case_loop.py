"""The loop that throws damaged files at a reader, whatever its format.

What comes of each file must be tables that keep their declarations, and now and then a
whole report of them, or one line that says what is wrong: soon, and without a warning.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS.parent) not in sys.path:
    sys.path.insert(0, str(TESTS.parent))

from tests.support.traces.kineto import check_all, check_declared  # noqa: E402

from stepscope.errors import BadInput  # noqa: E402
from stepscope.formats.opening import read  # noqa: E402
from stepscope.reporting.compose import compose_report  # noqa: E402
from stepscope.reporting.outline import as_text  # noqa: E402
from stepscope.reporting.outline.report import report_outline  # noqa: E402
from stepscope.reporting.page import plain_text  # noqa: E402
from stepscope.session import open_profile  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Outcome", "damage_loop", "run_loops"]

Random = np.random.Generator

#: Seconds of processor time that a case may take; most take hundredths.
LONGEST_S: Final = 20.0
#: Of so many cases one is reported on as a whole.
CASES_PER_REPORT: Final = 20


class Outcome(NamedTuple):
    """What a loop saw.

    Attributes:
        cases: How many ran.
        readable: How many of them gave tables.
        slowest_s: Seconds of the slowest.
    """

    cases: int
    readable: int
    slowest_s: float


class _Silent:
    """Takes the stages of a report."""

    def stage(self, title: str) -> None:
        """Say nothing of a stage."""


def refusal_of(path: Path, *, whole: bool) -> str:
    """Return what is said of a file that is refused; "" of one that can be read.

    Args:
        path: The file.
        whole: Report on it, too.
    """
    try:
        trace = read(path)
        timed = isinstance(trace.table("events"), pl.DataFrame)
        (check_all if timed else check_declared)(trace)
        if whole:
            document = compose_report(open_profile(path), _Silent())
            shown = plain_text(as_text.render(report_outline(document), width=100))
            # Names of a file must not command the terminal.
            assert all(it.isprintable() for it in shown.splitlines()), shown
    except BadInput as error:
        return str(error)
    return ""


def damage_loop(
    case: Callable[[Random], bytes],
    *,
    cases: int,
    seconds: float,
    seed: int,
    note: Path,
) -> Outcome:
    """Run until either bound is met.

    Args:
        case: Makes a damaged file; of equal dice always the same.
        cases: The most cases.
        seconds: The most seconds.
        seed: Of the dice.
        note: The file that holds the case under test.
    """
    begun = time.monotonic()
    done = readable = 0
    slowest = 0.0
    while done < cases and time.monotonic() - begun < seconds:
        data = case(np.random.default_rng([seed, done]))
        note.write_bytes(data)
        started = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                refusal = refusal_of(note, whole=done % CASES_PER_REPORT == 0)
        except BaseException:
            print(f"case {done} of seed {seed}: {data[:2000]!r}", file=sys.stderr)  # noqa: T201
            raise
        took = time.process_time() - started
        assert took < LONGEST_S, f"case {done} of seed {seed} took {took:.1f} s"
        assert not refusal or refusal.isprintable(), (
            f"case {done} of seed {seed}: {refusal!r}"
        )
        slowest = max(slowest, took)
        readable += not refusal
        done += 1
    return Outcome(done, readable, slowest)


def run_loops(
    described: str,
    loops: dict[str, tuple[str, Callable[[Random], bytes]]],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run the loops that a command line names, all by default; say what they saw.

    Args:
        described: What the program does.
        loops: Name → name of its file, and what makes its cases.
        arguments: The command line; that of the process where None.
    """
    parser = argparse.ArgumentParser(description=described.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="FORMAT", help=", ".join(loops))
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for name in options.names or loops:
        file_name, case = loops[name]
        with tempfile.TemporaryDirectory() as folder:
            note = Path(folder) / file_name
            print(f"{name}: the case under test is {note}", flush=True)  # noqa: T201
            # A call that never ends is seen where it is.
            faulthandler.dump_traceback_later(
                min(options.seconds, 7200.0) + LONGEST_S, exit=True
            )
            outcome = damage_loop(
                case,
                cases=options.cases,
                seconds=options.seconds,
                seed=options.seed,
                note=note,
            )
            faulthandler.cancel_dump_traceback_later()
        print(  # noqa: T201
            f"{name}: {outcome.cases:,} cases, {outcome.readable:,} of them readable, "
            f"the slowest took {outcome.slowest_s:.2f} s",
            flush=True,
        )
    return 0
