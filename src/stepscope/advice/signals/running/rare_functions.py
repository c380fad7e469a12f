"""Functions of the program that only some steps call, such as a validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.finding import Part
from stepscope.advice.signals.signal import signal
from stepscope.derive.columns.arrays import ints
from stepscope.derive.host.function_frames import function_frames
from stepscope.derive.step_windows.windows import windows
from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: In the other steps the function has at most this part of what it has in some: of its
#: time, and of its share of a step.
_ELSEWHERE: Final = 0.2
#: It holds at least this part of what these steps take more than the others.
_MOST: Final = 0.5
#: What a program and its threads begin with holds all that they do.
_BEGINNINGS: Final = ("<module>", "_bootstrap")


class RareFunctions(Frozen, frozen=True):
    """When the program's own functions ran, on one host.

    It is no group of numbers: what a rule asks for is worked out then.

    Attributes:
        frames: The functions that ran.
        starts_ps: Begin of each judged step.
        ends_ps: End of each.
    """

    frames: FunctionFrames
    starts_ps: NDArray[np.int64]
    ends_ps: NDArray[np.int64]

    def of(self, chosen: NDArray[np.bool_], excess_ps: int) -> Part | None:
        """Return the program's function that makes some steps longer than the others.

        Of a function and what it calls the function counts. There is none where no
        function runs mostly in these steps and holds most of what they take more.

        Args:
            chosen: By judged step, whether it is one of them.
            excess_ps: What these steps take more, all together.
        """
        if len(chosen) != len(self.starts_ps) or chosen.all() or not chosen.any():
            return None
        best: tuple[int, int] | None = None
        lengths = np.maximum(self.ends_ps - self.starts_ps, 1)
        for kind, name in self.frames.names.items():
            if name.library is not False or name.function.endswith(_BEGINNINGS):
                continue
            times = self._times(kind)
            inside, other = times[chosen], times[~chosen]
            if other.mean() > _ELSEWHERE * inside.mean():
                continue
            # What fills every step is longer in a longer one.
            part = times / lengths
            if part[~chosen].mean() > _ELSEWHERE * part[chosen].mean():
                continue
            whole = int(inside.sum())
            if whole >= _MOST * excess_ps and (best is None or whole > best[0]):
                best = whole, kind
        if best is None or not best[0]:
            return None
        name = self.frames.names[best[1]]
        total = int((self.ends_ps - self.starts_ps).sum())
        return Part.of_function(name, 100 * best[0] / total)

    def _times(self, kind: int) -> NDArray[np.int64]:
        """Return what a function takes in each judged step, with all that it calls."""
        spans = self.frames.spans(self.frames.type == kind)
        return spans.within(self.starts_ps, self.ends_ps)


@signal(function_frames, windows)
def rare_functions(profile: ProfileData, _: Thresholds) -> dict[str, RareFunctions]:
    """Return the functions of the hosts of which any were recorded."""
    found: dict[str, RareFunctions] = {}
    for host in profile.hosts:
        frames = profile.derived(host, function_frames)
        placed = profile.derived(host, windows)
        if isinstance(frames, Unavailable) or isinstance(placed, Unavailable):
            continue
        measured = placed.measured
        found[host] = RareFunctions(
            frames, ints(measured, "start_ps"), ints(measured, "end_ps")
        )
    return found
