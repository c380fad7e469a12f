"""Which batches of a `fit` are recorded: `profile_batch`, as in TensorFlow's guide."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stepscope.capture.ground.options import LEAST_WINDOW_S
from stepscope.errors import BadUsage

_RANGE: Final = re.compile(r"\s*(\d+)\s*(?:,\s*(\d+)\s*)?")


class BatchWindow(NamedTuple):
    """Batches `first` to `last` of a `fit`, counted from 1, both included.

    Attributes:
        first: The first batch that is recorded.
        last: The last one.
        seconds: Recording ends after so long even if `last` was not reached; None
            means that it does not.
        least_s: Recording goes on after `last` until so long.
    """

    first: int
    last: int
    seconds: float | None = None
    least_s: float = 0.0


#: The first ten batches compile and warm up; a few steps say what many would, unless
#: all of them are over in an instant.
DEFAULT_WINDOW: Final = BatchWindow(
    first=11, last=20, seconds=10.0, least_s=LEAST_WINDOW_S
)


def parse_window(profile_batch: object) -> BatchWindow | None:
    """Read `profile_batch`: `"10,15"`, `(10, 15)`, `10` or `"10"`.

    None takes `DEFAULT_WINDOW`; 0 (of whichever form) records nothing.

    Raises:
        BadUsage: It is none of these, or the last batch comes before the first.
    """
    if profile_batch is None:
        return DEFAULT_WINDOW
    first, last = _numbers(profile_batch)
    if first == 0 and last == 0:
        return None
    if first < 1:
        raise BadUsage(
            f"profile_batch={profile_batch!r}: batches are counted from 1; 0 alone "
            "records nothing."
        )
    if last < first:
        raise BadUsage(
            f"profile_batch={profile_batch!r}: the last batch comes before the first."
        )
    return BatchWindow(first, last)


def _numbers(profile_batch: object) -> tuple[int, int]:
    if isinstance(profile_batch, str):
        found = _RANGE.fullmatch(profile_batch)
        if found is not None:
            first, last = found.groups()
            return int(first), int(first if last is None else last)
    elif _is_count(profile_batch):
        return profile_batch, profile_batch  # type: ignore[return-value]
    elif (
        isinstance(profile_batch, tuple | list)
        and len(profile_batch) == 2
        and all(map(_is_count, profile_batch))
    ):
        return profile_batch[0], profile_batch[1]
    raise BadUsage(
        f"profile_batch={profile_batch!r} is no range of batches; give for instance "
        '"10,15", (10, 15), or 10.'
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
