"""Measure the nesting and interval kernels against numpy.

    python benchmarks/derive.py [--events 6000000] [--runs 5]

Both work in turn, on one thread and on the same generated events, and must give equal
answers. The events are properly nested, since the numpy version supports no others;
what the kernels do beyond that (overhangs, sticky classes) is not measured. Compare
ratios, not seconds: a busy machine slows both.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pages import machine, replace_section
from stepscope._core import nesting as kernels
from stepscope.derive.intervals.spans import Spans

Array = NDArray[np.int64]
Codes = NDArray[np.uint8]

SEED = 20
# A group of ten: one event, three inside it, two inside each of those.
GROUP = np.array(
    [(0, 950)]
    + [(300 * child, 250) for child in range(3)]
    + [(300 * child + 100 * leaf + 10, 80) for child in range(3) for leaf in range(2)]
)
GROUP_PS = 1000
STACK = 64


@dataclass(frozen=True)
class Contest:
    """One task, done by the kernels and by numpy; `size` is its number of elements."""

    name: str
    size: int
    ours: Callable[[], object]
    theirs: Callable[[], object]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the tasks, and put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=6_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    compiled = not str(kernels.__file__).endswith(".py")
    lines = [
        machine(),
        "",
        f"Medians, with {'compiled' if compiled else 'uncompiled'} kernels.",
        "",
        "| task | size | kernels, ns each | numpy, ns each | ratio |",
        "|---|--:|--:|--:|--:|",
    ]
    for contest in contests(options.events):
        ours, theirs = measured(contest, runs=options.runs)
        each = 1e9 / contest.size
        lines.append(
            f"| {contest.name} | {contest.size:,} | {ours * each:.1f} "
            f"| {theirs * each:.1f} | {theirs / ours:.1f} |"
        )
    print("\n".join(lines))
    if options.write:
        replace_section(options.write, "derive", "\n".join(lines))
    return 0


def contests(events: int) -> Iterator[Contest]:
    """Yield the tasks; each is made when its turn comes, to save memory."""
    start, dur = nested_events(events // len(GROUP))
    count = len(start)
    yield Contest(
        "self time",
        count,
        lambda: nested(start, dur),
        lambda: nested_by_numpy(start, dur),
    )
    code = np.random.default_rng(SEED).integers(0, 4, count).astype(np.uint8)
    yield Contest(
        "flatten to classes",
        count,
        lambda: flattened(start, dur, code),
        lambda: flattened_by_numpy(start, dur, code),
    )
    yield Contest(
        "union of events",
        count,
        lambda: bounds(Spans.from_events(start, dur)),
        lambda: union_by_numpy(start, start + dur),
    )
    a, b = random_set(events // 6, seed=SEED), random_set(events // 6, seed=SEED + 1)
    both = len(a) + len(b)
    for name, kernel, wanted in (
        ("union of two sets", Spans.__or__, (1, 2, 3)),
        ("intersection", Spans.__and__, (3,)),
        ("difference", Spans.__sub__, (1,)),
    ):
        yield Contest(
            name,
            both,
            partial(bounds_of, kernel, a, b),
            partial(swept_by_numpy, a, b, wanted),
        )
    times = np.sort(b.start_ps)
    yield Contest(
        "covered before ascending times",
        len(times),
        lambda: Spans(a.start_ps, a.end_ps).covered_before(times),
        lambda: covered_by_numpy(a, times),
    )


def measured(contest: Contest, *, runs: int) -> tuple[float, float]:
    """Return median seconds of both, run in turn once their answers were compared."""
    np.testing.assert_equal(contest.ours(), contest.theirs(), contest.name)
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for seconds, work in zip(taken, (contest.ours, contest.theirs), strict=True):
            begun = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begun)
    return statistics.median(taken[0]), statistics.median(taken[1])


def nested_events(groups: int) -> tuple[Array, Array]:
    """Make starts and durations of many groups in a row, in the order of a track."""
    start = (np.arange(groups)[:, None] * GROUP_PS + GROUP[:, 0]).ravel()
    dur = np.tile(GROUP[:, 1], groups)
    order = np.lexsort((-dur, start))
    return start[order], dur[order]


def random_set(count: int, *, seed: int) -> Spans:
    """Make intervals and gaps of random lengths."""
    steps = np.random.default_rng(seed).integers(1, 100, 2 * count)
    edges = np.cumsum(steps)
    return Spans(edges[::2].copy(), edges[1::2].copy())


def bounds(spans: Spans) -> tuple[Array, Array]:
    """Return starts and ends, which is the form of numpy's answers."""
    return spans.start_ps, spans.end_ps


def bounds_of(
    operator: Callable[[Spans, Spans], Spans], a: Spans, b: Spans
) -> tuple[Array, Array]:
    """Return the answer of an operator on two sets."""
    return bounds(operator(a, b))


def nested(start: Array, dur: Array) -> tuple[NDArray[np.int32], Array]:
    """Compute parents and self times with the kernel."""
    count = len(start)
    parent, depth = np.empty(count, np.int32), np.empty(count, np.int32)
    self_ps, stack = np.empty(count, np.int64), np.empty((2, STACK), np.int64)
    kernels.nest_track_rows(start, dur, 0, count, parent, depth, self_ps, stack)
    return parent, self_ps


def levels_by_numpy(start: Array, dur: Array) -> NDArray[np.intp]:
    """Compute depths: how many events are open at each start."""
    count = len(start)
    times = np.concatenate((start, start + dur))
    opening = np.repeat(np.array([1, 0]), count)
    order = np.lexsort((opening, times))
    open_now = np.cumsum(np.where(order < count, 1, -1))
    depth = np.empty(count, np.intp)
    starts = order < count
    depth[order[starts]] = open_now[starts] - 1
    return depth


def parents_by_numpy(depth: NDArray[np.intp]) -> NDArray[np.int32]:
    """Find parents level by level: the last earlier event of the level above."""
    parent = np.full(len(depth), -1, np.int32)
    above = np.flatnonzero(depth == 0)
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        parent[rows] = above[np.searchsorted(above, rows) - 1]
        above = rows
    return parent


def nested_by_numpy(start: Array, dur: Array) -> tuple[NDArray[np.int32], Array]:
    """Compute parents, and durations less those of the children."""
    parent = parents_by_numpy(levels_by_numpy(start, dur))
    inner = np.flatnonzero(parent >= 0)
    children = np.bincount(parent[inner], weights=dur[inner], minlength=len(start))
    return parent, dur - children.astype(np.int64)


def flattened(start: Array, dur: Array, code: Codes) -> Array:
    """Compute starts, ends and codes of segments with the kernel."""
    running = np.empty((4, STACK), np.int64)
    out = np.empty((3, 2 * len(start)), np.int64)
    sticky = np.zeros(256, np.uint8)
    count = kernels.flatten_track_rows(
        start, dur, code, sticky, 0, len(start), running, out
    )
    return out[:, :count]


def flattened_by_numpy(start: Array, dur: Array, code: Codes) -> Array:
    """Compute segments: a start sets its event's code, an end the parent's again."""
    depth = levels_by_numpy(start, dur)
    parent = parents_by_numpy(depth)
    inherited = np.append(code, 0).astype(np.int64)
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero((depth == level) & (code == 0))
        inherited[rows] = inherited[parent[rows]]
    times = np.concatenate((start, start + dur))
    codes = np.concatenate((inherited[:-1], inherited[parent]))
    # At one time the ends come first, the inner ones before the outer ones.
    order = np.lexsort((np.concatenate((depth, -depth - 1)), times))
    times, codes = times[order], codes[order]
    last = np.append(times[1:] != times[:-1], True)
    times, codes = times[last], codes[last]
    turns = np.flatnonzero(np.diff(codes, prepend=0))
    coded = np.flatnonzero(codes[turns])
    begins, ends = turns[coded], turns[coded + 1]
    return np.stack((times[begins], times[ends], codes[begins]))


def union_by_numpy(start: Array, end: Array) -> tuple[Array, Array]:
    """Unite intervals: a new one begins where a start lies beyond all earlier ends."""
    reached = np.maximum.accumulate(end)
    first = np.flatnonzero(start[1:] > reached[:-1]) + 1
    return (
        start[np.concatenate(([0], first))],
        reached[np.concatenate((first - 1, [len(end) - 1]))],
    )


def swept_by_numpy(a: Spans, b: Spans, wanted: tuple[int, ...]) -> tuple[Array, Array]:
    """Find where the sum of 1 for the first set and 2 for the second is in `wanted`."""
    times = np.concatenate((a.start_ps, a.end_ps, b.start_ps, b.end_ps))
    steps = np.repeat([1, -1, 2, -2], [len(a), len(a), len(b), len(b)])
    order = np.argsort(times, kind="stable")
    times, sums = times[order], np.cumsum(steps[order])
    last = np.append(times[1:] != times[:-1], True)
    inside = np.isin(sums[last], wanted)
    turns = np.diff(inside.astype(np.int8), prepend=0)
    return times[last][turns == 1], times[last][turns == -1]


def covered_by_numpy(spans: Spans, times: Array) -> Array:
    """Search for each time in the intervals, and add up their lengths."""
    lengths = spans.end_ps - spans.start_ps
    before = np.concatenate(([0], np.cumsum(lengths)))
    row = np.searchsorted(spans.start_ps, times, "right") - 1
    inside = np.minimum(times - spans.start_ps[row], lengths[row])
    return np.where(row < 0, 0, before[row] + inside)


if __name__ == "__main__":
    raise SystemExit(main())
