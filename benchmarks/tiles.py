"""Measure drawing a window of the timeline against a scan with numpy.

    python benchmarks/tiles.py [--events 5000000 20000000] [--runs 9]

The events are generated: 15 tracks of 4 rows, durations with a long tail, gaps of
random lengths. A window is folded for all rows at once into at most 1,750 buckets, the
pixels of a wide screen, whose width is a power of two as in tiles. numpy looks at every
event of columns that are sorted by row beforehand; its time does not include that
sorting. Both work in turn, on one thread, and must give equal slices. Compare ratios,
not seconds: a busy machine slows both.
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
from stepscope._core import tiles as kernels
from stepscope.derive.trace_rows.lanes import LaneIndex, index_lanes

Array = NDArray[np.int64]

SEED = 20
TRACKS = 15
ROWS = 4
LANES = TRACKS * ROWS
PIXELS = 1750
SHORTEST_PS = 3_000_000
GAP_PS = 6_000_000
TAIL = 1.5
# Share of the whole that a window shows.
SHARES = (1.0, 0.1, 0.01, 0.0001)


@dataclass(frozen=True)
class Events:
    """Columns of events by track and start, and the lane of each."""

    start: Array
    dur: Array
    lane: NDArray[np.int32]


@dataclass(frozen=True)
class Contest:
    """One task, done by the kernels and by numpy."""

    name: str
    events: int
    ours: Callable[[], Array]
    theirs: Callable[[], Array]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the tasks, and put it into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--events", type=int, nargs="+", default=[5_000_000, 20_000_000]
    )
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args(arguments)
    compiled = not str(kernels.__file__).endswith(".py")
    lines = [
        machine(),
        "",
        f"Medians, with {'compiled' if compiled else 'uncompiled'} kernels.",
        "",
        "| task | events | slices | kernels, ms | numpy, ms | ratio |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for events in options.events:
        for contest in contests(events):
            slices, ours, theirs = measured(contest, runs=options.runs)
            lines.append(
                f"| {contest.name} | {contest.events:,} | {slices:,} "
                f"| {1e3 * ours:.2f} | {1e3 * theirs:.2f} | {theirs / ours:.1f} |"
            )
    print("\n".join(lines))
    if options.write:
        replace_section(options.write, "tiles", "\n".join(lines))
    return 0


def contests(count: int) -> Iterator[Contest]:
    """The tasks of one number of events."""
    made = made_up(count)
    # numpy gets its columns in the order in which it wants them.
    order = np.lexsort((made.start, made.lane))
    by_lane = Events(made.start[order], made.dur[order], made.lane[order])
    del order
    size = len(made.start)
    yield Contest(
        "index",
        size,
        lambda: indexed(made).timing_ps[:, 0][None],
        lambda: indexed_by_numpy(made)[None],
    )
    index = indexed(made)
    whole = int((made.start + made.dur).max())
    for share in SHARES:
        width = round(whole * share)
        # As in tiles: buckets are powers of two, and count from time 0.
        bucket = 1 << (width // PIXELS).bit_length()
        begin = (whole - width) // 2 // bucket * bucket
        window = (begin, begin + -(-width // bucket) * bucket, bucket)
        yield Contest(
            f"{share:.2%} of the time, {LANES} rows",
            size,
            partial(folded, index, made, window),
            partial(folded_by_numpy, by_lane, window),
        )


def measured(contest: Contest, *, runs: int) -> tuple[int, float, float]:
    """Slices, and median seconds of both, taken in turn after the same answer."""
    answer = contest.ours()
    np.testing.assert_array_equal(answer, contest.theirs(), contest.name)
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        for seconds, work in zip(taken, (contest.ours, contest.theirs), strict=True):
            begun = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begun)
    return answer.shape[1], statistics.median(taken[0]), statistics.median(taken[1])


def made_up(count: int) -> Events:
    """Lanes of events that do not overlap, merged into tracks by start."""
    random = np.random.default_rng(SEED)
    each = count // LANES
    tracks = []
    for track in range(TRACKS):
        lanes = np.repeat(np.arange(ROWS, dtype=np.int32), each) + ROWS * track
        shape = (ROWS, each)
        dur = ((random.pareto(TAIL, shape) + 1) * SHORTEST_PS).astype(np.int64)
        gap = random.exponential(GAP_PS, shape).astype(np.int64)
        start = (np.cumsum(dur + gap, axis=1) - dur).ravel()
        order = np.argsort(start, kind="stable")
        tracks.append(Events(start[order], dur.ravel()[order], lanes[order]))
    return Events(
        np.concatenate([track.start for track in tracks]),
        np.concatenate([track.dur for track in tracks]),
        np.concatenate([track.lane for track in tracks]),
    )


def indexed(events: Events) -> LaneIndex:
    """The index that windows are drawn from."""
    return index_lanes(events.start, events.dur, events.lane, lanes=LANES)


def indexed_by_numpy(events: Events) -> Array:
    """Sorting by lane and summing up in each, sixteen events at a time."""
    order = np.argsort(events.lane, kind="stable")
    lane, dur = events.lane[order], events.dur[order]
    first = np.flatnonzero(np.diff(lane, prepend=-1))
    place = np.arange(len(lane)) - np.repeat(first, np.diff(first, append=len(lane)))
    return np.add.reduceat(dur, np.flatnonzero(place % kernels.BLOCK == 0))


def folded(index: LaneIndex, events: Events, window: tuple[int, int, int]) -> Array:
    """Lane, spans, start, end, busy time and longest duration of each slice."""
    begin, end, bucket = window
    found = index.slices(range(LANES), begin_ps=begin, end_ps=end, bucket_ps=bucket)
    return np.stack(
        (
            *(found.lane, found.spans, found.start_ps, found.end_ps, found.busy_ps),
            events.dur[found.item],
        )
    )


def folded_by_numpy(events: Events, window: tuple[int, int, int]) -> Array:
    """Compute the slices by looking at every event."""
    begin, end, bucket = window
    seen = (events.start < end) & (
        (events.start >= begin) | (events.start + events.dur > begin)
    )
    start, dur, lane = events.start[seen], events.dur[seen], events.lane[seen]
    whole = (dur >= bucket) | (start < begin)
    place = (start - begin) // bucket
    apart = (lane[1:] != lane[:-1]) | (place[1:] != place[:-1])
    apart |= whole[1:] | whole[:-1]
    first = np.flatnonzero(np.append(True, apart))
    last = np.append(first[1:], len(start)) - 1
    return np.stack(
        (
            lane[first].astype(np.int64),
            last - first + 1,
            start[first],
            start[last] + dur[last],
            np.add.reduceat(dur, first),
            np.maximum.reduceat(dur, first),
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
