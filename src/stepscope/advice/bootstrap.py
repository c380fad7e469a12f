"""Block bootstrap: what means of step times may be by chance.

Steps are drawn in runs of ⌈∛n⌉ consecutive ones, round the end, so that waits that come
in bursts stay together. The stream of draws is fixed: equal input, equal interval.

Definition: docs/definitions/judging.md#status.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.units import PS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "difference_interval",
    "mean_interval_ms",
    "ratio_interval",
    "rest_ms",
]

_DRAWS: Final = 1000
_INTERVAL: Final = (2.5, 97.5)
#: How far the rest of the steps moves an end of a gain, as part of the effect: then the
#: low end, half of the high one, is as far from the mean effect as the high end.
_REST: Final = 1 / 3
#: Fewer steps have no interval.
_FEW: Final = 3


def ratio_interval(
    effect_ps: Sequence[int], window_ps: Sequence[int]
) -> tuple[float, float]:
    """Return the 95 % interval of Σ effect ÷ Σ window, in percent."""
    effects, windows = _sums((effect_ps, window_ps), stream=0)
    low, high = np.percentile(100 * effects / np.maximum(windows, 1), _INTERVAL)
    return float(low), float(high)


def mean_interval_ms(effect_ps: Sequence[int]) -> tuple[float, float]:
    """Return what the mean effect of other such steps may be, in ms.

    That is the 95 % interval of the mean. Equal effects, and fewer than three, have
    none: both ends are their mean.
    """
    count = max(len(effect_ps), 1)
    mean = sum(effect_ps) / count / PS_PER_MS
    if len(effect_ps) < _FEW or len(set(effect_ps)) == 1:
        return mean, mean
    sums, counts = _sums((effect_ps, [1] * count), stream=0)
    low, high = np.percentile(sums / counts / PS_PER_MS, _INTERVAL)
    return min(float(low), mean), max(float(high), mean)


def rest_ms(effect_ps: Sequence[int], window_ps: Sequence[int]) -> float:
    """Return how far the rest of the steps may move what is measured of an effect.

    A person measures the mean of such steps less the mean of others without the effect.
    Its 95 % interval is wider than that of the mean effect, for the rest of a step,
    too, takes longer in some steps than in others. As that is no gain, it counts up to
    `_REST` of the effect.
    """
    if len(effect_ps) < _FEW:
        return 0.0
    pairs = zip(effect_ps, window_ps, strict=True)
    rest = [window - effect for effect, window in pairs]
    least, most = (it / PS_PER_MS for it in difference_interval(rest, window_ps))
    low, high = mean_interval_ms(effect_ps)
    limit = _REST * sum(effect_ps) / len(effect_ps) / PS_PER_MS
    return max(min(max(most - high, low - least), limit), 0.0)


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
    length = math.ceil(count ** (1 / 3))
    blocks = math.ceil(count / length)
    starts = np.random.default_rng(stream).integers(0, count, size=(_DRAWS, blocks))
    sums = []
    for values in columns:
        around = np.concatenate((values, values[: length - 1])).astype(np.float64)
        summed = np.concatenate(([0.0], np.cumsum(around)))
        sums.append((summed[starts + length] - summed[starts]).sum(axis=1))
    return sums
