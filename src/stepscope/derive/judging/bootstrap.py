"""Block bootstrap: what means of step times may be by chance.

Steps are drawn in runs of ⌈∛n⌉ consecutive ones, round the end, so that waits that come
in bursts stay together. The stream of draws is fixed: equal input, equal interval.

Definition: docs/definitions/judging.md#status.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DRAWS: Final = 1000
_INTERVAL: Final = (2.5, 97.5)
#: Fewer steps have no interval.
_FEW: Final = 3
_PAIR: Final = 2


def ratio_interval(
    effect_ps: Sequence[int], window_ps: Sequence[int]
) -> tuple[float, float]:
    """Return the 95 % interval of Σ effect ÷ Σ window, in percent."""
    effects, windows = _sums((effect_ps, window_ps), stream=0)
    low, high = np.percentile(100 * effects / np.maximum(windows, 1), _INTERVAL)
    return float(low), float(high)


def mean_interval_ms(effect_ps: Sequence[int]) -> tuple[float, float]:
    """Return what the mean effect may be if it comes as often as here, in ms.

    That is the 95 % interval of the mean. Steps that are hit are drawn from these, and
    others from the others: what a change gains is counted against the recorded steps,
    and how many of them were hit is known. Equal effects, and fewer than three, have no
    interval: both ends are their mean.
    """
    count = max(len(effect_ps), 1)
    mean = sum(effect_ps) / count
    if len(effect_ps) < _FEW:
        return mean / PS_PER_MS, mean / PS_PER_MS
    drawn = np.zeros(_DRAWS)
    for stream, hit in enumerate((True, False)):
        group = [one for one in effect_ps if is_hit(one, mean) is hit]
        if len(set(group)) > 1:
            sums, counts = _sums((group, [1] * len(group)), stream=stream)
            drawn += len(group) * sums / counts
        else:
            drawn += sum(group)
    low, high = np.percentile(drawn / count, _INTERVAL)
    return min(float(low), mean) / PS_PER_MS, max(float(high), mean) / PS_PER_MS


def is_hit(effect_ps: float, mean_ps: float) -> bool:
    """Return whether a step is hit: it has half of the mean effect of a step."""
    return effect_ps > 0 and 2 * effect_ps >= mean_ps


def difference_interval(
    base: Sequence[float], new: Sequence[float]
) -> tuple[float, float]:
    """Return the 95 % interval of the mean of `new` less the mean of `base`.

    Args:
        base: At least one value, in the order of the steps.
        new: The values of the other run, at least one; the runs are drawn apart.
    """
    means = []
    for stream, values in enumerate((base, new)):
        sums, counts = _sums((values, [1] * len(values)), stream=stream)
        means.append(sums / counts)
    low, high = np.percentile(means[1] - means[0], _INTERVAL)
    return float(low), float(high)


def _sums(
    columns: Sequence[Sequence[float]], *, stream: int
) -> list[NDArray[np.float64]]:
    """Return for each column the sums over the steps of every draw."""
    count = len(columns[0])
    # A block of two of two steps would be all there is.
    length = math.ceil(count ** (1 / 3)) if count > _PAIR else 1
    blocks = math.ceil(count / length)
    # Python's generator has been imported long since; numpy's takes 8 ms more.
    made = random.Random(stream).randbytes(4 * _DRAWS * blocks)  # noqa: S311 - no secret
    # Of 2³² numbers each step has as many as the others, but for one in millions.
    starts = (np.frombuffer(made, np.uint32) % count).reshape(_DRAWS, blocks)
    sums = []
    for values in columns:
        around = np.concatenate((values, values[: length - 1])).astype(np.float64)
        summed = np.concatenate(([0.0], np.cumsum(around)))
        of_block = summed[length:] - summed[:-length]
        sums.append(of_block[starts].sum(axis=1))
    return sums
