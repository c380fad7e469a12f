"""What a finding would change about a step, as data that a replay can carry out.

A rule says what changes; `edits` turns that into changes of a graph. Numbers in pairs
are for the least and the most that the change is expected to do.

Definition: docs/replay.md#what-if-edits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from stepscope.derive.intervals.spans import Spans


class Gone(Frozen, frozen=True):
    """The time of some owners goes.

    Attributes:
        owners: Names of owners of the account.
        place: "inside", "between" or "any".
    """

    owners: Collection[str]
    place: str


class Quiet(Frozen, frozen=True):
    """Some threads do nothing at some instants, in which a function runs.

    Attributes:
        spans: The instants, with all that the function calls.
        threads: Rows of tracks of these threads.
        effect_ms: The instants' time in a mean step.
    """

    spans: Spans
    threads: Collection[int]
    effect_ms: float


class Faster(Frozen, frozen=True):
    """Kernels take a part of their time.

    Attributes:
        classes: Rows of `activity_classes`.
        left: The part of their time that is left, at least and at most of the change.
    """

    classes: Collection[int]
    left: tuple[float, float]


class Joined(Frozen, frozen=True):
    """Kernels that follow each other on a stream become one.

    Attributes:
        classes: Rows of `activity_classes`; kernels of others end a run.
        shortest: Number of kernels of the shortest run.
        left: The part of their time that is left, at least and at most of the change.
    """

    classes: Collection[int]
    shortest: int
    left: tuple[float, float] = (1.0, 1.0)


class Levelled(Frozen, frozen=True):
    """A device works no longer than the median of all: exchanges stay as they are.

    Attributes:
        left: The part of its work's time that is left, at least and at most of the
            change.
    """

    left: tuple[float, float]


class Carried(Frozen, frozen=True):
    """Exchanges take what their bytes need.

    Attributes:
        needed_ps: Row of device_activity → its time then.
    """

    needed_ps: Mapping[int, int]


class Beside(Frozen, frozen=True):
    """Copies of some owners run beside kernels, from memory that no call stages.

    Attributes:
        owners: Owners whose time it is; "copy_in" and "copy_out" move.
        effect_ms: Their time in a mean step.
    """

    owners: Collection[str]
    effect_ms: float


class NotAwaited(Frozen, frozen=True):
    """Calls no longer wait for a device where a topic of idle time begins.

    Attributes:
        topic: Name of the topic.
    """

    topic: str


Change = Gone | Quiet | Faster | Joined | Levelled | Carried | Beside | NotAwaited
