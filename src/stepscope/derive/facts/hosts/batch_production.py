"""Producers of batches: Python functions, loaders, other processes or threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.derive.columns.arrays import handles, wanted_rows
from stepscope.derive.facts.evidence import Part
from stepscope.derive.intervals.spans import Spans
from stepscope.derive.run_derivation import (
    known_hosts,
    of_each_device,
    of_each_host,
    of_run,
)
from stepscope.derive.step_windows.windows import window_bounds, windows_of_times
from stepscope.frozen import Frozen
from stepscope.patterns import Pattern
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    import polars as pl

    from stepscope.derive.account.host_states import HostStates
    from stepscope.derive.account.naming import Naming
    from stepscope.derive.account.time_by_cause import Account
    from stepscope.derive.account.topics import IdleTopics
    from stepscope.derive.facts.processors import Processors
    from stepscope.derive.host.core_time import CoreTime
    from stepscope.derive.host.function_frames import FunctionFrames
    from stepscope.derive.host.function_names import FunctionKey
    from stepscope.derive.host.function_purposes import FunctionPurposes, KnownWork
    from stepscope.derive.run_derivation import OfHosts
    from stepscope.derive.step_time.host_classes import HostClasses
    from stepscope.derive.step_windows.windows import Windows

#: TensorFlow's ops that call Python functions (`tf.py_function`, `tf.numpy_function`).
_OPS: Final = r"(?:^|[:/])(?:Eager)?PyFunc(?:Stateless)?$"
#: Purposes of library functions that call an op's Python code or request a Keras batch.
_CALLERS: Final = ("calls_back_from_graph", "asks_keras_dataset")


class PythonElements(Frozen, frozen=True):
    """Ops that call Python functions while a step waits for its batch.

    Attributes:
        percent: Share of the steps' batch waits in which an op calls Python.
        function: The program's function with most samples in these ops; None without
            samples. The function's share is 0, because brief calls are rarely sampled.
        of_keras: Whether a `PyDataset` of Keras calls the function; such datasets have
            their own option for workers.
        waiting: Share of the ops' time, in percent, in which the function waits: no
            thread of the program wants a core. None if unknown.
    """

    percent: float
    function: Part | None
    of_keras: bool = False
    waiting: float | None = None


@of_each_host
def python_elements(
    *,
    events: pl.DataFrame,
    event_types: pl.DataFrame,
    host_classes: HostClasses,
    function_frames: FunctionFrames | Unavailable,
    function_purposes: FunctionPurposes | Unavailable,
    core_time: CoreTime | Unavailable,
    processor_signals: Processors | Unavailable,
) -> PythonElements | None:
    """Return the Python calls of input ops on each host that waits for batches.

    If all cores are in use, a thread that is on none may be ready for one, and it is
    unknown whether it waits.
    """
    waits = host_classes.input_wait
    calls = event_types["name"].str.contains(_OPS).fill_null(value=False)
    rows = wanted_rows(handles(events, "type"), calls.to_numpy())
    if not len(waits) or not len(rows):
        return None
    ran = Spans.from_rows(events, rows)
    called = ran & waits
    function, keras = None, None
    if not isinstance(function_frames, Unavailable) and not isinstance(
        function_purposes, Unavailable
    ):
        function, keras = (
            function_frames.longest_called(function_purposes.types_with_work(work))
            for work in _CALLERS
        )
    computing = computing_share(called, core_time, processor_signals)
    waiting = None if computing is None else 100 * (1 - computing)
    return PythonElements(
        100 * called.length_ps / waits.length_ps,
        None if function is None else Part.from_function(function, 0.0),
        of_keras=function is not None and keras == function,
        waiting=waiting,
    )


def computing_share(
    spans: Spans, core_time: CoreTime | Unavailable, cores: Processors | Unavailable
) -> float | None:
    """Return in which part of some time a thread of the program wants a core.

    None if the clocks of threads were read in less than half of the time, or if all
    cores are in use: a thread that is on none may then be ready for one.
    """
    are_full = not isinstance(cores, Unavailable) and cores.are_full(THRESHOLDS)
    if isinstance(core_time, Unavailable) or are_full:
        return None
    clocks = [*core_time.threads.values(), *core_time.rest.values()]
    known = spans & Spans.union_of(time.seen for time in clocks)
    if not len(known) or 2 * known.length_ps < spans.length_ps:
        return None
    awake = Spans.union_of(time.awake for time in clocks)
    return (known & awake).length_ps / known.length_ps


class BatchTimes(Frozen, frozen=True, eq=True):
    """The time that the judged steps of a host take to fetch batches.

    Attributes:
        fetch_ps: Time of each judged step, also if a device works meanwhile.
        computing: Part of that time in which the program computes; None if unknown.
    """

    fetch_ps: tuple[int, ...]
    computing: float | None


@of_each_host
def batch_times(
    *,
    host_classes: HostClasses,
    windows: Windows,
    core_time: CoreTime | Unavailable,
    processor_signals: Processors | Unavailable,
) -> BatchTimes:
    """Return the fetches of batches of each host."""
    starts, ends = window_bounds(windows.measured)
    waits = host_classes.input_wait
    computing = computing_share(waits & windows.judged, core_time, processor_signals)
    return BatchTimes(tuple(waits.within(starts, ends).tolist()), computing)


#: A loader mostly calls a function if this percentage of its time is in such calls.
_MIN_MAIN_PERCENT: Final = 50.0


class LoaderCalls(Frozen, frozen=True):
    """The share of each function's time during which a loader of batches calls it.

    Attributes:
        percent: (name, file, line) of a function → share of its time in loaders' calls.
    """

    percent: dict[FunctionKey, float]

    def mostly_calls(self, function: Part) -> bool:
        """Return whether at least half of a function's time is in calls by a loader."""
        key = (function.name, function.file, function.line)
        return self.percent.get(key, 0.0) >= _MIN_MAIN_PERCENT


@of_each_host
def loader_calls(
    *, function_frames: FunctionFrames, function_purposes: FunctionPurposes
) -> LoaderCalls | None:
    """Return the functions that loaders call, for hosts where a loader was sampled."""
    frames = function_frames
    fetches = function_purposes.types_with_work("fetches_from_loader")
    is_fetch = np.isin(frames.type, fetches)
    if not is_fetch.any():
        return None
    length = frames.end_ps - frames.start_ps
    kinds, index = np.unique(frames.type, return_inverse=True)
    totals = np.bincount(index, weights=length)
    called = np.bincount(index, weights=length * frames.rows_called_from(is_fetch))
    return LoaderCalls(
        {
            frames.names[kind].key: 100 * part / max(total, 1)
            for kind, part, total in zip(kinds.tolist(), called, totals, strict=True)
        }
    )


#: Work in the program's own process for which a loader's workers are no remedy.
_LOADER_WORK: Final = ("draws_indices", "starts_workers", "asks_keras_dataset")


@of_each_host
def loader_work(
    *,
    account: Account,
    function_frames: FunctionFrames,
    function_purposes: FunctionPurposes,
    windows: Windows,
) -> dict[KnownWork, float]:
    """Return in what percentage of the waits for batches the loader itself works.

    A start of workers during the steps is a repeated one. The whole wait in which it is
    counts, and later waits of the same step, because the first batch is late too.
    """
    waits = Spans.union_of(device.idle["input"] for device in account.devices)
    waits, percents = waits & windows.judged, {}
    for work in _LOADER_WORK:
        kinds = function_purposes.types_with_work(work)
        spans = function_frames.spans(np.isin(function_frames.type, kinds))
        ran = waits & spans
        if work == "starts_workers":
            begun_ps = spans.start_ps
            rows = windows_of_times(windows.measured, begun_ps)
            ends_ps = np.append(window_bounds(windows.measured)[1], 0)[rows]
            after = Spans.from_bounds(begun_ps, np.maximum(begun_ps, ends_ps))
            ran = waits.meeting(spans) | waits & after
        percents[work] = 100 * ran.length_ps / max(waits.length_ps, 1)
    return percents


#: System calls that wait for data from another process or from a network.
_SENT: Final = Pattern(
    r"^(?:__)?(?:p?poll|p?select|epoll_p?wait2?|recv(?:from|msg|mmsg)?|accept4?"
    r"|msgrcv|mq_(?:timed)?receive|wait(?:[34]|pid|id)?)(?:_\w+)?$"
)
#: Calls that wait for another thread. `pthread_cond_timedwait` is not included, because
#: Python uses it to wait for its own lock.
_THREADS: Final = Pattern(
    r"^(?:__)?(?:sem_(?:timed|clock)?wait|futex\w*|pthread_cond_wait"
    r"|pthread_(?:timed|clock)?join\w*|pthread_barrier_wait)$"
)


class ProductionWaits(Frozen, frozen=True, eq=True):
    """Waits of the program's thread while a step waits for its batch.

    Attributes:
        sent_percent: Share of the batch wait that is for another process or a network.
        threads_percent: Share of the batch wait that is for another thread.
    """

    sent_percent: float
    threads_percent: float


@of_each_device
def made_elsewhere(
    *,
    account: Account,
    idle_topics: IdleTopics | Unavailable,
    host_states: HostStates,
    naming: Naming,
    windows: Windows,
) -> dict[int | None, dict[str, ProductionWaits]]:
    """Return, by device or host and by cause, how the program's thread waits.

    The cause is "fetch" (a batch fetch) or "unfed" (a wait before a batch is copied,
    which may be a fetch). Hosts without recorded calls are left out.
    """
    if naming.program is None or not naming.system.any():
        return {}
    rows = host_states.classes.rows.track_rows(naming.program)
    calls = []
    for pattern in (_SENT, _THREADS):
        kinds = [
            kind
            for kind in np.flatnonzero(naming.system).tolist()
            if pattern.search(naming.names[kind] or "")
        ]
        waiting = np.isin(naming.types[rows], kinds)
        calls.append(host_states.classes.rows.covered_spans(rows, waiting))
    about = () if isinstance(idle_topics, Unavailable) else idle_topics.devices
    waits_by_device: dict[int | None, dict[str, ProductionWaits]] = {}
    for number, device in enumerate(account.devices):
        unfed = about[number].spans.get("unfed") if about else None
        waits_by_device[device.device] = {
            cause: ProductionWaits(
                *(100 * (waits & call).length_ps / waits.length_ps for call in calls)
            )
            for cause, spans in (("fetch", device.idle["input"]), ("unfed", unfed))
            if spans is not None and len(waits := spans & windows.judged)
        }
    return waits_by_device


#: Names of the events and kernels of NVIDIA DALI.
_NAMES: Final = r"^\[DALI\]|\bdali::"


def has_own_threads(*, event_types: pl.DataFrame) -> bool:
    """Return whether NVIDIA DALI produces batches on a host."""
    return bool(event_types["name"].str.contains(_NAMES).any())


@of_run
def made_in_own_threads(*, has_own_threads: OfHosts[bool]) -> frozenset[str]:
    """Return the hosts where NVIDIA DALI produces batches."""
    return frozenset(host for host, has in known_hosts(has_own_threads).items() if has)
