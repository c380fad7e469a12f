"""Measure our numbering and totals of groups against polars' group-by.

    python benchmarks/group_by.py [--events 5000000] [--runs 5]

Both must give equal numbers; the ratio is how many times longer polars takes. The
columns are shaped like those of events: names and tracks with few values, and
durations.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stepscope.derive.columns.dense_codes import extremes_by_code, number_rows

#: Distinct names and tracks of the profile that the other benchmarks are shaped like.
NAMES = 4_000
TRACKS = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of both and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args(arguments)
    draw = np.random.default_rng(1)
    name = draw.integers(0, NAMES, chosen.events, np.int32)
    track = draw.integers(0, TRACKS, chosen.events, np.int32)
    duration = draw.integers(0, 10**9, chosen.events, np.int64)
    print("| work | ours ms | polars ms | ratio |\n|---|---|---|---|")
    for what, ours, theirs in (
        (
            "number distinct pairs",
            lambda: _ours_pairs(name, track),
            lambda: _polars_pairs(name, track),
        ),
        (
            "count, sum, min, max by group",
            lambda: _ours_totals(name, duration),
            lambda: _polars_totals(name, duration),
        ),
    ):
        if not np.array_equal(ours(), theirs()):
            print(f"{what}: the two differ", file=sys.stderr)
            return 1
        mine, other = _median_ms(ours, theirs, runs=chosen.runs)
        print(f"| {what} | {mine:.0f} | {other:.0f} | {other / mine:.1f} |")
    return 0


def _ours_pairs(
    name: NDArray[np.int32], track: NDArray[np.int32]
) -> NDArray[np.signedinteger]:
    return number_rows([name, track]).code


def _polars_pairs(
    name: NDArray[np.int32], track: NDArray[np.int32]
) -> NDArray[np.signedinteger]:
    frame = pl.DataFrame({"name": name, "track": track})
    pairs = frame.unique(maintain_order=True).with_row_index("code")
    joined = frame.join(pairs, on=["name", "track"], how="left", maintain_order="left")
    return joined["code"].to_numpy()


def _ours_totals(
    name: NDArray[np.int32], duration: NDArray[np.int64]
) -> NDArray[np.int64]:
    found = extremes_by_code(name, duration, count=NAMES)
    return np.stack([found.count, found.total, found.least, found.greatest])


def _polars_totals(
    name: NDArray[np.int32], duration: NDArray[np.int64]
) -> NDArray[np.int64]:
    value = pl.col("duration")
    found = (
        pl.DataFrame({"name": name, "duration": duration})
        .group_by("name")
        .agg(pl.len(), value.sum().alias("sum"), value.min().alias("min"), value.max())
    )
    every = pl.DataFrame({"name": np.arange(NAMES, dtype=np.int32)})
    dense = every.join(found, on="name", how="left", maintain_order="left").fill_null(0)
    return np.stack(
        [dense[one].to_numpy() for one in ("len", "sum", "min", "duration")]
    ).astype(np.int64)


def _median_ms(*programs: Callable[[], object], runs: int) -> tuple[float, ...]:
    """Return the median wall time of each, run in turn."""
    taken: list[list[float]] = [[] for _ in programs]
    for _ in range(runs):
        for program, times in zip(programs, taken, strict=True):
            begin = time.perf_counter()
            program()
            times.append((time.perf_counter() - begin) * 1e3)
    return tuple(map(statistics.median, taken))


if __name__ == "__main__":
    sys.exit(main())
