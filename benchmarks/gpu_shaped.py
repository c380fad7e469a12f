"""Write a profile in the shape of a real GPU training run, of any size.

    python benchmarks/gpu_shaped.py OUTPUT.xplane.pb [--events 5300000] [--seed 20]

Threads, streams, names and stats are those that TensorFlow with CUPTI writes: a Python
thread with `train` markers, executor threads whose ops enclose the launch calls,
tf.data workers, allocator events, thread-pool bookkeeping, and one GPU with a compute,
a copy-in, a copy-out and a collective stream. The same arguments give the same bytes.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpu_device import add_streams
from gpu_host import add_threads
from gpu_timeline import simulate
from stepscope.xspace.writing.write import XSpaceBuilder

DEFAULT_EVENTS = 5_300_000
DEFAULT_SEED = 20
EPOCH_NS = 1_760_000_000_000_000_000
LAG_NS = 50_000


@dataclass(frozen=True)
class Size:
    """Numbers of steps, events and stats in a profile."""

    steps: int
    events: int
    stats: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file and print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--events", type=int, default=DEFAULT_EVENTS)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    options = parser.parse_args(arguments)
    _, one = build(1, seed=options.seed)
    steps = max(round(options.events / one.events), 1)
    profile, size = build(steps, seed=options.seed)
    profile.write(options.output)
    print(
        f"{options.output}: {size.steps:,} steps, {size.events:,} events, "
        f"{size.stats:,} stats, {options.output.stat().st_size / 1e6:.0f} MB"
    )
    return 0


def build(steps: int, *, seed: int) -> tuple[XSpaceBuilder, Size]:
    """Build a run of this many steps: host, GPU, and when it was recorded."""
    run = simulate(steps, np.random.default_rng(seed))
    end = int(run.step_start[-1] + run.step_dur[-1]) + LAG_NS
    profile = XSpaceBuilder("localhost", start_ns=EPOCH_NS, stop_ns=EPOCH_NS + end)
    lines = [
        *add_threads(profile.plane("/host:CPU"), run),
        *add_streams(profile.plane("/device:GPU:0"), run),
    ]
    events = sum(line.events for line in lines)
    return profile, Size(steps, events, sum(line.stats for line in lines))


if __name__ == "__main__":
    sys.exit(main())
