"""Traits of the recorded program by which rules choose their advice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import (
    ACTIVITY_CODES,
    codes,
    handles,
    ints,
    wanted_rows,
)
from stepscope.derive.columns.stat_values import (
    find_handle,
    owner_numbers,
    rows_with_key,
)
from stepscope.derive.names.event_kinds import EventFlag
from stepscope.derive.run_derivation import known_hosts, of_each_host, of_run
from stepscope.derive.step_windows.windows import windows_of_times
from stepscope.frozen import Frozen
from stepscope.patterns import COLLECTIONS
from stepscope.thresholds import THRESHOLDS
from stepscope.trace.reading.stat_keys import StatKey

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.device.correlation import Correlation
    from stepscope.derive.names.event_kinds import EventKinds
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_windows.windows import Windows
    from stepscope.trace.model import TraceData

#: Names of events that enclose code compiled by PyTorch's compiler.
_COMPILED: Final = r"^Torch-Compiled Region|^## Call CompiledFxGraph|^CompiledFunction"
#: Names of the events of nodes of PyTorch's autograd graph.
_BACKWARD: Final = r"^autograd::engine::evaluate_function|Backward\d*$"
#: Names of the functions that `fit` of Keras 3 compiles.
_KERAS_3: Final = r"__inference_(?:one|multi)_step_on_(?:data|iterator)"


class ProgramTraits(Frozen, frozen=True, eq=True):
    """Traits of the program, found in its events.

    Attributes:
        compiled: Whether PyTorch's compiler compiled parts of the program.
        updates: Whether the program updates weights; True if unknown.
        trains: Whether it updates weights or computes gradients; True if unknown.
        engine: Whether a serving engine runs the model.
        graphed: Whether graph calls take more time than eager ops.
        keras_3: Whether Keras 3 runs the steps; TensorFlow's Keras 2 marks them.
    """

    compiled: bool = False
    updates: bool = True
    trains: bool = True
    engine: bool = False
    graphed: bool = False
    keras_3: bool = False


@of_run
def program_traits(
    *,
    event_kinds: OfHosts[EventKinds],
    events: OfHosts[pl.DataFrame],
    event_types: OfHosts[pl.DataFrame],
) -> ProgramTraits:
    """Find the program's traits in the names of the events of all hosts."""
    ran_on, types = known_hosts(events), known_hosts(event_types)
    kinds = {
        host: host_kinds
        for host, host_kinds in known_hosts(event_kinds).items()
        if host in ran_on and host in types
    }

    def has_flag(flag: EventFlag) -> bool:
        return any(bool(host_kinds.has(flag).any()) for host_kinds in kinds.values())

    def any_event_ran(pattern: str) -> bool:
        for host in kinds:
            named = types[host]["name"].str.contains(pattern).fill_null(value=False)
            if len(wanted_rows(handles(ran_on[host], "type"), named.to_numpy())):
                return True
        return False

    def time_of_flag(flag: EventFlag) -> int:
        """Return the total duration of all events whose type has the flag."""
        return sum(
            int(ints(ran, "dur_ps")[host_kinds.has(flag)[handles(ran, "type")]].sum())
            for host, host_kinds in kinds.items()
            for ran in (ran_on[host],)
        )

    unknown = not any(host_kinds.is_op().any() for host_kinds in kinds.values())
    updates = has_flag(EventFlag.OPTIMIZER)
    return ProgramTraits(
        compiled=any_event_ran(_COMPILED),
        updates=updates or unknown,
        trains=updates or unknown or any_event_ran(_BACKWARD),
        engine=has_flag(EventFlag.ENGINE_ITERATION),
        graphed=time_of_flag(EventFlag.FUNCTION_CALL)
        > time_of_flag(EventFlag.EAGER_OP),
        keras_3=any_event_ran(_KERAS_3),
    )


#: Generation number of a garbage collection that examines all objects.
_FULL_GENERATION: Final = 2
#: Minimum number of garbage collections of all objects that show what triggers them.
_MIN_COLLECTIONS: Final = 3
#: If fewer garbage collections of young objects than this run per collection of all
#: objects, the program itself triggers the collections of all objects. Python itself
#: triggers one only after more than ten collections of the middle generation, each
#: after more than ten of the youngest.
_MIN_YOUNGER_PER_FULL: Final = 50


@of_each_host
def collected_by_hand(
    *,
    trace: TraceData,
    event_types: pl.DataFrame,
    events: pl.DataFrame,
    stats: pl.DataFrame,
) -> bool | None:
    """Return whether the program itself triggers garbage collections of all objects.

    None (the host is left out) if no garbage collection has a recorded generation.
    """
    wanted = event_types["name"].is_in(COLLECTIONS).fill_null(value=False).to_numpy()
    rows = wanted_rows(handles(events, "type"), wanted).astype(np.int32)
    key = find_handle(trace.strings, StatKey.GENERATION)
    generation, known = owner_numbers(rows_with_key(stats, "event", key), rows, key)
    counts = Counter(generation[known].tolist())
    of_all_objects = counts[_FULL_GENERATION]
    younger = counts.total() - of_all_objects
    if not counts:
        return None
    return (
        of_all_objects >= _MIN_COLLECTIONS
        and younger < _MIN_YOUNGER_PER_FULL * of_all_objects
    )


#: Op with which PyTorch checks a gradient for NaN; it has no other use.
_CHECK: Final = "aten::_is_any_true"


@of_each_host
def blocking_calls(*, correlation: Correlation) -> float | None:
    """Return the percentage of long kernels that end before their launch call returns.

    Launching is asynchronous, so a call that lasts longer than its kernel has waited
    for the kernel. Hosts with few long kernels are left out.
    """
    device_activity, launches = correlation.activity, correlation.launches
    dur_ps = ints(device_activity, "dur_ps")
    rows = np.flatnonzero(dur_ps >= THRESHOLDS.blocking_kernel.value)
    rows = rows[codes(device_activity, "kind")[rows] == ACTIVITY_CODES["kernel"]]
    rows = rows[correlation.launch_of_activity[rows] >= 0]
    call = correlation.launch_of_activity[rows]
    # One call launches all kernels of a graph.
    of_graphs = np.bincount(call).max(initial=0) > 1
    if len(rows) < THRESHOLDS.blocking_samples.value or of_graphs:
        return None
    returned = ints(launches, "start_ps")[call] + ints(launches, "dur_ps")[call]
    ended = ints(device_activity, "start_ps")[rows] + dur_ps[rows]
    return 100 * float((returned >= ended).mean())


@of_each_host
def anomaly_checks(
    *, events: pl.DataFrame, event_types: pl.DataFrame, windows: Windows
) -> float | None:
    """Return how many gradients per step are checked for NaN.

    PyTorch's anomaly detection checks each gradient of each op of the backward pass.
    Hosts without such checks are left out.
    """
    named = (event_types["name"] == _CHECK).to_numpy()
    starts = ints(events, "start_ps")[wanted_rows(handles(events, "type"), named)]
    inside = windows_of_times(windows.measured, starts) >= 0
    return int(inside.sum()) / len(windows.measured) if inside.any() else None
