"""An input pipeline that takes its time, on the thread that asks."""

from __future__ import annotations

import time

import numpy as np

__all__ = ["INPUT_MS", "make_rows"]

INPUT_MS = 15.0


def make_rows(count: int, features: int) -> np.ndarray:
    """Rows that are made, and made again until the time is up."""
    until = time.perf_counter() + INPUT_MS / 1000
    random = np.random.default_rng(20)
    rows = random.normal(size=(count, features)).astype("float32")
    while time.perf_counter() < until:
        np.sort(rows, axis=1)
    return rows
