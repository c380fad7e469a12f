"""The predicted step time after a change, and the doubt that a short recording leaves.

Definition: docs/predictions.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: Models by which predictions are computed.
#: An action with the model `inquiry` finds something out, and changes no step.
Model = Literal[
    "queue", "overlap", "rarer", "removed", "pause", "replay", "bound", "inquiry"
]
#: Quantile of the normal distribution at the ends of a 90 % interval.
_NORMAL_QUANTILE: Final = 1.6448536269514722
#: A step that is longer by at most this share counts as equally long.
_SIMILAR_SHARE: Final = 0.02
#: The scatter of fewer blocks of steps is too uncertain.
_MIN_BLOCKS: Final = 4
#: With fewer steps their scatter, and so an interval, is unknown.
MIN_STEPS: Final = 3


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """The mean step time after a change, in milliseconds.

    Attributes:
        low: Lower end of the 90 % interval; a lower bound if the other fields are null.
        mid: Most likely step time; null if only a lower bound is known.
        high: Upper end of the 90 % interval; null if only a lower bound is known.
    """

    low: float
    mid: float | None = None
    high: float | None = None

    def of_another_run(self, shorter: float, longer: float) -> StepTime:
        """Return the step time of another run, whose mean differs by some share.

        The shares and the interval are independent of each other.
        """
        if self.mid is None or self.high is None:
            return StepTime(low=self.low * (1 - shorter))
        below_ms, above_ms = shorter * self.mid, longer * self.mid
        return StepTime(
            low=max(self.mid - math.hypot(self.mid - self.low, below_ms), 0.0),
            mid=self.mid,
            high=self.mid + math.hypot(self.high - self.mid, above_ms),
        )

    def with_shorter_rest(self, factor: float) -> StepTime:
        """Return the step time with a lower end and a middle times `factor`."""
        mid = None if self.mid is None else self.mid * factor
        return StepTime(low=self.low * factor, mid=mid, high=self.high)

    def is_as_short_as(self, other: StepTime) -> bool:
        """Return whether the middle is at most 2 % longer than that of another."""
        if self.mid is None or other.mid is None:
            return False
        return self.mid <= other.mid * (1 + _SIMILAR_SHARE)

    def not_below(self, floor_ms: float, least_ms: float) -> StepTime:
        """Return the step time above a floor, with a middle of at least `least_ms`."""
        low = max(self.low, floor_ms)
        if self.mid is None or self.high is None:
            return StepTime(low=low)
        mid = max(self.mid, least_ms, floor_ms)
        return StepTime(low=low, mid=mid, high=max(self.high, mid))


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """The number that a prediction assumes, such as 2 `workers`."""

    name: str
    value: int


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What the step becomes if one action is carried out.

    Attributes:
        action: Identifier of the action in its finding.
        parameter: The assumed number; null if the action has none.
        step_ms: The mean step time after the action.
        model: Name of the model that computed it.
    """

    action: str
    parameter: Parameter | None = None
    step_ms: StepTime
    model: Model


def student_quantile(count: int) -> float:
    """Return the 95 % quantile of Student's t for the mean of `count` values.

    Peizer's and Pratt's expansion in 1/(n − 1) (Abramowitz and Stegun, 26.7.5): at most
    1.2 % too small for three values, less for more.

    Raises:
        ValueError: Fewer than three values are given.
    """
    if count < MIN_STEPS:
        raise ValueError(f"an interval needs {MIN_STEPS} steps, not {count}")
    z, free = _NORMAL_QUANTILE, count - 1
    return (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )


def half_width(times: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the half width of the 90 % interval of the mean of as many other steps.

    Both means scatter, that of the recorded steps and that of the steps to come. Steps
    in a row resemble each other if the machine is faster at some times than at others:
    the half width is the larger one of single steps and of blocks of steps.
    """
    values = np.asarray(times, np.float64)
    size = math.isqrt(len(values))
    blocks = values[: len(values) // size * size].reshape(-1, size).mean(axis=1)
    samples = [values, blocks] if len(blocks) >= _MIN_BLOCKS else [values]
    return max(
        student_quantile(len(sample))
        * float(sample.std(ddof=1))
        * math.sqrt(2 / len(sample))
        for sample in samples
    )


def mean_of_other_steps(times: Sequence[float] | NDArray[np.float64]) -> StepTime:
    """Return the 90 % interval of the mean of as many other steps."""
    mid, half = float(np.mean(times)), half_width(times)
    return StepTime(low=max(mid - half, 0.0), mid=mid, high=mid + half)


def span_of_cases(cases: Sequence[StepTime]) -> StepTime:
    """Return the interval of cases between which the recording does not decide."""
    low = min(case.low for case in cases)
    mids = [case.mid for case in cases if case.mid is not None]
    highs = [case.high for case in cases if case.high is not None]
    if not mids or not highs:
        return StepTime(low=low)
    return StepTime(low=low, mid=(min(mids) + max(mids)) / 2, high=max(highs))
