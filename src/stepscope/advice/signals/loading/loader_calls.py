"""Functions that a loader of batches calls in the process of the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.advice.signals.signal import signal
from stepscope.derive.host.called_below import called_by
from stepscope.derive.host.function_frames import function_frames
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.advice.finding import Part
    from stepscope.derive.profile_data import ProfileData
    from stepscope.thresholds import Thresholds

#: A function has most of its time, in percent, from this share on.
_MOSTLY: Final = 50.0
#: How PyTorch's loader is asked for its next batch.
_FETCH: Final = Pattern(r"DataLoaderIter\.__next__$")


class LoaderCalls(Frozen, frozen=True):
    """Functions, by name, file and line, and how much of their time a loader calls.

    Attributes:
        percent: Function → the share of its time in which a loader has called it.
    """

    percent: dict[tuple[str, str | None, int | None], float]

    def makes(self, function: Part) -> bool:
        """Return whether a loader calls a function for half of its time or more."""
        key = (function.name, function.file, function.line)
        return self.percent.get(key, 0.0) >= _MOSTLY


@signal(function_frames)
def loader_calls(profile: ProfileData, _: Thresholds) -> dict[str, LoaderCalls]:
    """Return what loaders call, of the hosts on which a loader was seen at work."""
    found = {}
    for host in profile.hosts:
        frames = profile.derived(host, function_frames)
        if isinstance(frames, Unavailable):
            continue
        names = frames.names.items()
        fetches = [kind for kind, name in names if _FETCH.search(name.function)]
        asked = np.isin(frames.type, fetches)
        if not asked.any():
            continue
        below = called_by(asked, frames.parent)
        length = frames.end_ps - frames.start_ps
        kinds, at = np.unique(frames.type, return_inverse=True)
        every = np.bincount(at, weights=length)
        called = np.bincount(at, weights=length * below)
        found[host] = LoaderCalls(
            {
                (name.function, name.file, name.line): 100 * part / max(whole, 1)
                for kind, part, whole in zip(kinds.tolist(), called, every, strict=True)
                for name in (frames.names[kind],)
            }
        )
    return found
