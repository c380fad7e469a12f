"""What one event of the timeline belongs to: its op, its kernel, its line of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from stepscope.analysis.timeline.activity import row_of_activity
from stepscope.derive.device.attribution import OpEvidence, activity_ops
from stepscope.derive.host.function_frames import function_frames
from stepscope.derive.host.op_events import host_op_events
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from typing import Any

    from stepscope.derive.profile_data import ProfileData


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Where other pages show what a span belongs to; null where they show nothing.

    Attributes:
        op: Name of an op: that of the activity, or of the op that ran on the host.
        kernel: Name of a kernel.
        step: Number of the step.
    """

    op: str | None
    kernel: str | None
    step: int | None


class Origin(NamedTuple):
    """What an event comes from.

    Attributes:
        op: Name of its op; None for none.
        source: File and line, or the file alone; None where not recorded.
    """

    op: str | None
    source: str | None


def origin_of(profile: ProfileData, host: str, event: int) -> Origin:
    """Return op and source of an event: of device work, a host op or a function."""
    row = row_of_activity(profile, host, event)
    if row is not None:
        return _of_activity(profile, host, row)
    ops = profile.derived(host, host_op_events)
    if not isinstance(ops, Unavailable):
        at = int(np.searchsorted(ops.event, event))
        if at < len(ops.event) and ops.event[at] == event:
            known = ops.ops.row(int(ops.op[at]), named=True)
            return Origin(known["name"], _source(known))
    return Origin(None, _of_function(profile, host, event))


def _of_activity(profile: ProfileData, host: str, row: int) -> Origin:
    ops = profile.derived(host, activity_ops)
    if isinstance(ops, Unavailable):
        return Origin(None, None)
    known = ops.ops.row(int(ops.op[row]), named=True)
    evidence = OpEvidence(known["evidence"])
    named = evidence not in (OpEvidence.COPY, OpEvidence.NONE)
    return Origin(known["name"] if named else None, _source(known))


def _of_function(profile: ProfileData, host: str, event: int) -> str | None:
    frames = profile.derived(host, function_frames)
    if isinstance(frames, Unavailable):
        return None
    at = np.flatnonzero(frames.event == event)
    if not len(at):
        return None
    name = frames.names[int(frames.type[at[0]])]
    return _place(name.file, name.line)


def _source(op: dict[str, Any]) -> str | None:
    return _place(op["source_file"], op["source_line"])


def _place(file: str | None, line: int | None) -> str | None:
    if file is None or line is None:
        return file
    return f"{file}:{line}"
