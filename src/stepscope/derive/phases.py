"""`phases` and `host_phases`: forward, loss, backward and optimizer time of each step.

Three kinds of evidence show the phase of a host event, the strongest first: the range
of a backward pass or of an optimizer around the event; the innermost named op or range
around the event; a link to a backward op, which only forward ops have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope._core.nesting import inherit_from_parents
from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    accepted_answer,
    codes,
    handles,
    ints,
)
from stepscope.derive.columns.dense_codes import number_values
from stepscope.derive.host.values import int_values
from stepscope.derive.intervals.nesting import flatten_tracks
from stepscope.derive.intervals.spans import Spans, charge_first
from stepscope.derive.names.op_names import UNANNOTATED
from stepscope.derive.step_time.host_time import STICKY, HostCode
from stepscope.frozen import Frozen
from stepscope.patterns import ascii_only
from stepscope.trace.reading.by_row import values_by_row
from stepscope.trace.reading.nullable import is_true
from stepscope.trace.reading.stat_keys import StatKey
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepscope.array_types import Int32s, Int64s, UInt8s
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.columns.stat_values import StatRows
    from stepscope.derive.device.attribution import ActivityOps
    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.host.op_events import HostOpEvents
    from stepscope.derive.intervals.nesting import Nesting
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

#: The phases. The index of a phase is its code in `op_phases`. Time of several phases
#: is charged to the first of them; the unknown phase is last.
PHASES: Final = ("forward", "loss", "backward", "optimizer", "unknown")
UNKNOWN_PHASE: Final = len(PHASES) - 1

#: Pattern of op types that change the weights, whatever the op's scope is.
_OPTIMIZER_TYPE: Final = r"^(?:Resource)?(?:Sparse)?Apply[A-Z]|^ResourceSparseApply"
_OPTIMIZER_NAME: Final = ascii_only(
    r"(?i)(?:^|/)(?:adam|adamw|adamax|nadam|sgd|rmsprop|adagrad|adadelta|adafactor"
    r"|ftrl|lion|lamb|lars|muon|adamweightdecay|optimizer|apply_gradients)(?:_\d+)?/"
    r"|^Optimizer\.step|_fused_(?:adam|sgd|adagrad)"
)
_BACKWARD: Final = ascii_only(
    r"(?:^|/)(?:gradient_tape|gradients)(?:_\d+)?/|transpose\(|Backward|Backprop"
    r"|::\w+_backward\w*$"
)
#: Gradient kernels that an eager program runs without a name scope.
_BACKWARD_TYPE: Final = ascii_only(
    r"Backprop|Grad$|Grad(?:V\d|WithArgmax)?$|GradientArgs$"
)
_LOSS: Final = (
    r"(?i)(?:^|/)[^/]*(?:loss|cross_?entropy|mean_squared_error|mean_absolute_error)"
)
#: Scope of forward ops in a differentiated program, whose other ops are not forward.
_DIFFERENTIATED: Final = r"jvp\("
_TRANSPOSED: Final = r"transpose\("
_PROGRAM: Final = r"^(?:jit|pjit|pmap)\("
#: Pattern of ops that move tensors and do not belong to a phase.
_TRANSFER_TYPE: Final = r"^_?(?:Host)?(?:Send|Recv)$|^Memcpy|^Memset|^Iterator|^_?Arg$"

#: Phases whose ranges give their phase to all events inside: for example, forward
#: computations that a backward pass repeats are part of the backward pass.
FIRM: Final = ("backward", "optimizer")
#: Patterns of names of ranges (of the program, of its framework or of a tracer of
#: calls) and their phases. The first pattern that matches decides.
_RANGES: Final = {
    "backward": r"^autograd::engine::evaluate_function: |^torch::autograd::"
    r"|^[A-Za-z]\w*Backward\d*$"
    r"|torch/(?:_tensor|autograd/__init__)\.py\(\d+\): backward$"
    r"|(?i)^[#\s]*(?:loss[._ ])?backward(?:[_ ]pass)?(?:\(\))?[#\s]*$",
    "optimizer": r"^Optimizer\.(?:step|zero_grad)#"
    r"|torch/optim/\w+\.py\(\d+\): (?:step|zero_grad)$"
    r"|(?i)^[#\s]*(?:optim(?:i[sz]er)?(?:[._ ](?:step|zero_grad))?|zero_grad)"
    r"(?:\(\))?[#\s]*$",
    "loss": r"^nn\.Module: \w*Loss\w*$"
    r"|(?i)^[#\s]*(?:compute[_ ])?loss(?:[_ ](?:fn|function))?(?:\(\))?[#\s]*$",
    "forward": r"^nn\.Module: |^DistributedDataParallel\.forward$"
    r"|(?i)^[#\s]*forward(?:[_ ]pass)?(?:\(\))?[#\s]*$",
}


class HostPhases(Frozen, frozen=True):
    """The phase of each row of events: uint8 indices into `PHASES`.

    Attributes:
        firm: The phase of the backward or optimizer range around the event.
        loose: The phase of the innermost op or range around the event that has a phase.
        ops: The phase by row of `ops` of `host_op_events`, from the names alone.
    """

    firm: UInt8s
    loose: UInt8s
    ops: UInt8s

    def phases_of_ops(self, host_ops: HostOpEvents) -> UInt8s:
        """Return the phase of each execution of an op."""
        return self.refine_phases(host_ops.event, self.ops[host_ops.op])

    def refine_phases(self, event: NDArray[np.integer], named: UInt8s) -> UInt8s:
        """Return phases of work, by the events in which it ran and by its own names.

        Args:
            event: The events in which the work was done or launched; -1 for none.
            named: The phases according to the names of the work.
        """
        firm = values_by_row(self.firm, event, none=UNKNOWN_PHASE)
        loose = values_by_row(self.loose, event, none=UNKNOWN_PHASE)
        weak = np.where(named != UNKNOWN_PHASE, named, loose)
        return np.where(firm != UNKNOWN_PHASE, firm, weak)


class Phases(Frozen, frozen=True):
    """Time of each phase in every (device, window).

    Attributes:
        rows: `window`, `device` (null for times of the host's ops) and `<phase>_ps`.
            The times of a device add up to its compute time; the times of a host add up
            to the host compute in the time account.
        seen: The phases of the profile's ops and ranges. If another phase has a time of
            0, its ops may not have been recognised.
        side: `device` or `host`, where the ops ran.
    """

    rows: pl.DataFrame
    seen: frozenset[str]
    side: str


def phases(
    *,
    windows: Windows,
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    device_activity: pl.DataFrame | Unavailable,
    activity_ops: ActivityOps | Unavailable,
    host_classes: HostClasses,
    account: Account,
    host_op_events: HostOpEvents,
    host_phases: HostPhases,
    correlation: Correlation | Unavailable,
) -> Phases | Unavailable:
    """Find the phases by ranges, scopes and op types.

    Device work belongs to the phase in which the host launched it, unless the name of
    its op is stronger evidence.

    Definition: docs/definitions/phases.md#what-ranges-say.

    Args:
        device_activity: The table; if Unavailable, the ops of the host are used.
        account: The devices to include, and the host compute of a host without devices.
    """
    if not isinstance(device_activity, Unavailable) and device_activity.height:
        if isinstance(activity_ops, Unavailable):
            return activity_ops
        named = op_phases(activity_ops.ops["name"], activity_ops.ops["type"])
        phase = values_by_row(named, activity_ops.op)
        if not isinstance(correlation, Unavailable):
            phase = host_phases.refine_phases(correlation.launch_events, phase)
        shown = {device.device for device in account.devices}
        return _device_phases(windows, device_activity, phase, shown)
    if (
        isinstance(device_activity, Unavailable)
        and device_activity.code != "NO_DEVICE_PLANE"
    ):
        return device_activity
    if isinstance(host_classes.host_compute, Unavailable):
        return host_classes.host_compute
    phase = host_phases.phases_of_ops(host_op_events)
    sets = _host_sets(
        tracks, events, host_classes, host_op_events, phase, within=host_phases.firm
    )
    (host,) = account.devices
    work = host.idle["host_compute"]
    sets = {name: spans & work for name, spans in sets.items()} | {"unknown": work}
    starts, ends = ints(windows.rows, "start_ps"), ints(windows.rows, "end_ps")
    rows = _phase_times(sets, starts, ends)
    # The range of a phase is evidence of the phase, just as an op is.
    spent = {name for name in PHASES if int(rows[f"{name}_ps"].sum())}
    return Phases(
        rows.with_columns(device=pl.lit(None, pl.Int32)),
        _present_phases(phase) | spent,
        "host",
    )


def _present_phases(phase: UInt8s) -> frozenset[str]:
    counts = np.bincount(phase, minlength=len(PHASES))[: len(PHASES)]
    return frozenset(PHASES[code] for code in np.flatnonzero(counts).tolist())


def _device_phases(
    windows: Windows, activity: pl.DataFrame, phase: UInt8s, shown: set[int | None]
) -> Phases:
    none = len(PHASES)
    is_kernel = codes(activity, "kind") == ACTIVITY_CODES["kernel"]
    of_activity = np.where(is_kernel, phase, np.uint8(none))
    start_ps, dur_ps = ints(activity, "start_ps"), ints(activity, "dur_ps")
    device = handles(activity, "device")
    starts, ends = ints(windows.rows, "start_ps"), ints(windows.rows, "end_ps")
    frames = []
    numbers = sorted(device[number_values(device).first].tolist())
    for number in [number for number in numbers if number in shown] or numbers:
        here = np.where(device == number, of_activity, np.uint8(none))
        sets = {}
        for code, name in enumerate(PHASES):
            chosen = np.flatnonzero(here == code)
            sets[name] = Spans.from_events(start_ps[chosen], dur_ps[chosen])
        charged = _phase_times(sets, starts, ends)
        frames.append(charged.with_columns(device=pl.lit(number, pl.Int32)))
    rows = pl.concat(frames).sort("window", "device")
    return Phases(rows, _present_phases(of_activity), "device")


def _host_sets(
    tracks: pl.DataFrame,
    events: pl.DataFrame,
    host: HostClasses,
    host_ops: HostOpEvents,
    phase: UInt8s,
    *,
    within: UInt8s,
) -> dict[str, Spans]:
    """Return when step threads run ops of each phase; the innermost op counts.

    Host compute outside of named ops has the phase of the range around it; outside of
    all ranges, its phase is unknown.
    """
    # Codes 1 to 5 are phases; a sticky code of an event is that of all events inside.
    other_code = len(PHASES) + 1
    of_code = np.zeros(256, np.uint8)
    without_phase = [HostCode.HOST_COMPUTE, HostCode.SYNC, HostCode.BLOCKED]
    without_phase += [HostCode.SYSTEM_WAIT, HostCode.FILE_READ, HostCode.SYSTEM_CALL]
    of_code[without_phase] = UNKNOWN_PHASE + 1
    of_code[list(STICKY)] = other_code
    code = of_code[host.code]
    ranges = (host.code == HostCode.NOTHING) & (within != UNKNOWN_PHASE)
    code[ranges] = within[ranges] + 1
    works = host.code[host_ops.event] == HostCode.HOST_COMPUTE
    code[host_ops.event[works]] = phase[works] + 1
    sets = flatten_tracks(tracks, events, code, sticky=[other_code])
    return {
        name: Spans.union_of(
            sets[track][number + 1] & host.threads.driven_spans(track)
            for track in host.threads.driving_tracks()
            if number + 1 in sets.get(track, {})
        )
        for number, name in enumerate(PHASES)
    }


def _phase_times(sets: dict[str, Spans], starts: Int64s, ends: Int64s) -> pl.DataFrame:
    """Charge time of several phases to the first of them; the unknown phase is last."""
    in_order = {f"{name}_ps": sets[name] for name in PHASES}
    window = np.arange(len(starts), dtype=np.int32)
    return pl.DataFrame({"window": window, **charge_first(in_order, starts, ends)})


def host_phases(
    *,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    event_nesting: Nesting,
    host_op_events: HostOpEvents,
    host_values: Mapping[str, StatRows] | Unavailable,
) -> HostPhases:
    """Find the phase of every event by ranges, names of ops and gradients."""
    named = op_phases(host_op_events.ops["name"], host_op_events.ops["type"])
    of_type = range_phases(event_types["name"]).astype(np.int32)
    types = handles(events, "type")
    own = values_by_row(_phase_labels(of_type), types)
    is_firm = np.isin(of_type, [PHASES.index(phase) for phase in FIRM])
    # Most recordings have no ranges of phases, so no label per event is written.
    firm: Int32s = np.broadcast_to(np.int32(-1), types.shape)
    if is_firm.any():
        firm = values_by_row(np.where(is_firm, of_type, np.int32(-1)), types)
        _hand_down(event_nesting, firm)
    # Function calls contain ops of all phases.
    calls = is_true(host_op_events.ops["call"])
    of_op = np.where(calls, UNKNOWN_PHASE, named).astype(np.int32)
    op_label = values_by_row(_phase_labels(of_op), host_op_events.op)
    rows = host_op_events.event
    own[rows] = np.where(op_label >= 0, op_label, values_by_row(own, rows))
    _hand_down(event_nesting, own)
    # Most recordings have no links between forward and backward ops.
    if not isinstance(host_values, Unavailable) and len(
        host_values[StatKey.FORWARD_BACKWARD].owner
    ):
        # Label the forward event of each link to an event of a backward pass.
        event, link = int_values(host_values[StatKey.FORWARD_BACKWARD])
        linked = np.full(len(own), -1, np.int32)
        backward = firm[event] == PHASES.index("backward")
        forward = ~backward & np.isin(link, link[backward])
        linked[event[forward]] = PHASES.index("forward")
        _hand_down(event_nesting, linked)
        own = np.where(own >= 0, own, linked)
    return HostPhases(_phase_codes(firm), _phase_codes(own), named)


def _phase_labels(phase: Int32s) -> Int32s:
    return np.where(phase == UNKNOWN_PHASE, np.int32(-1), phase)


def _phase_codes(label: Int32s) -> UInt8s:
    code = label.astype(np.uint8)
    np.copyto(code, UNKNOWN_PHASE, where=label < 0)
    return code


def _hand_down(nesting: Nesting, label: Int32s) -> None:
    accepted_answer(inherit_from_parents(nesting.parent, label, 0, len(label)))


def range_phases(names: pl.Series) -> UInt8s:
    """Return the phase of each range by its name, as an index into `PHASES`."""
    return _first_phase(
        names.alias("name").to_frame(),
        [
            (pl.col("name").str.contains(ascii_only(text)), phase)
            for phase, text in _RANGES.items()
        ],
    )


def op_phases(names: pl.Series, types: pl.Series) -> UInt8s:
    """Return the phase of each op by its name and type, as an index into `PHASES`."""
    frame = pl.DataFrame({"name": names, "type": types.fill_null("")}).with_columns(
        pl.col("name").fill_null("")
    )
    name, kind = pl.col("name"), pl.col("type")
    differentiated = bool(frame["name"].str.contains(_TRANSPOSED).any())
    forward = name.str.contains("/") & ~kind.str.contains(_TRANSFER_TYPE)
    if differentiated:
        forward &= ~name.str.contains(_PROGRAM) | name.str.contains(_DIFFERENTIATED)
    rules = (
        (name == UNANNOTATED, "unknown"),
        (kind.str.contains(_OPTIMIZER_TYPE), "optimizer"),
        (name.str.contains(_BACKWARD), "backward"),
        (name.str.contains(_OPTIMIZER_NAME), "optimizer"),
        (kind.str.contains(_BACKWARD_TYPE), "backward"),
        (name.str.contains(_LOSS), "loss"),
        (forward, "forward"),
    )
    return _first_phase(frame, rules)


def _first_phase(frame: pl.DataFrame, rules: Sequence[tuple[pl.Expr, str]]) -> UInt8s:
    code = pl.coalesce(
        *(
            pl.when(condition).then(pl.lit(PHASES.index(phase), pl.UInt8))
            for condition, phase in rules
        ),
        pl.lit(UNKNOWN_PHASE, pl.UInt8),
    )
    return frame.select(code).to_series().to_numpy()
