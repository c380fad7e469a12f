"""`ProfileData`: the traces of a run, and all values derived from them."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, TypeVarTuple, cast

from stepscope.derive.derivations import (
    DERIVATIONS,
    FACTS,
    host_derivation,
    is_derivation,
    read_signature,
    run_derivation,
)
from stepscope.derive.run_derivation import RunDerivation
from stepscope.derive.schedule import Kept, compute_side_by_side, worth_threads
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Self

    import polars as pl

    from stepscope.derive.derivations import Derivation
    from stepscope.trace.model import TraceData

_Value = TypeVar("_Value")
_Of = TypeVarTuple("_Of")

#: A value: a derivation (by its function), a derivation of the run, or a table's name.
Wanted: TypeAlias = "Callable[..., object] | RunDerivation[Any] | str"
#: A parallel task: a (host, value name), a derivation of the run, or a reader.
_Task: TypeAlias = "tuple[str, str] | RunDerivation[Any] | Reader"

#: Inputs that need no computation once the trace is loaded.
_OF_TRACE: Final = frozenset({"trace", "strings"})
#: Parameter of a derivation of the run that receives the `ProfileData`.
_RUN: Final = "profile"
#: Order in which tables are built in parallel with derivations. Large tables, and
#: tables built from them, are last, so that other computations need not wait for them.
_LARGE = (
    "allocations",
    "device_activity",
    "launches",
    "devices",
    "geometries",
    "quality",
)
_TABLE_ORDER = (*(name for name in TABLES if name not in _LARGE), *_LARGE)


class Reader(Frozen, frozen=True):
    """A function that reads derivations.

    Attributes:
        needs: The derivations and tables that the function reads on every host.
    """

    needs: tuple[Wanted, ...]
    run: Callable[[], None]


class ProfileData:
    """A run: its name, and the trace of each host.

    Derivations are computed on first use and cached. A value never depends on which
    values were computed before.
    """

    def __init__(
        self, run: str, traces: Mapping[str, TraceData], kept: Kept | None = None
    ) -> None:
        self.run = run
        self.traces = dict(traces)
        self._kept = kept or Kept()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, in the order of their files."""
        return tuple(self.traces)

    def trace(self, host: str) -> TraceData:
        """Return the trace of one host."""
        if host not in self.traces:
            raise BadUsage.unknown_name("host", host, self.traces)
        return self.traces[host]

    def table(self, host: str, name: str) -> pl.DataFrame | Unavailable:
        """Return a declared table of one host, or the reason why it is missing."""
        return self.trace(host).table(name)

    def derived(self, host: str, wanted: Callable[..., _Value]) -> _Value | Unavailable:
        """Return the value of a derivation for one host, or why it is missing.

        Args:
            wanted: A function of `DERIVATIONS`.
        """
        value = self._derived_value(self.trace(host), _value_name(wanted))
        # The cached value was returned by `wanted`, so it has this type.
        return cast("_Value | Unavailable", value)

    def of_run(self, wanted: RunDerivation[_Value]) -> _Value:
        """Return the value of a derivation of the whole run."""
        key = wanted, self.hosts
        return cast("_Value", self._kept.get(key, lambda: self._gathered_value(wanted)))

    def kept(self, compute: Callable[[Self, *_Of], _Value], *of: *_Of) -> _Value:
        """Return the result of a computation that several tools share, computed once.

        Args:
            of: Further arguments of `compute`; they must be hashable.
        """
        # Runs restricted to some hosts share one cache, so the key names the hosts.
        key = compute, self.hosts, *of
        return cast("_Value", self._kept.get(key, lambda: compute(self, *of)))

    @property
    def is_worth_threads(self) -> bool:
        """Whether computing in parallel saves time."""
        return worth_threads(self.event_count) > 1

    @property
    def event_count(self) -> int:
        """Number of events of all hosts."""
        return sum(map(_event_count, self.traces.values()))

    def prepare(
        self,
        wanted: Iterable[Wanted],
        hosts: Iterable[str] | None = None,
        *,
        readers: Sequence[Reader] = (),
    ) -> None:
        """Compute derivations in parallel, so that later calls find them in the cache.

        Args:
            wanted: Derivations and tables; their inputs are computed too.
            hosts: Hosts to compute them for; None for all.
            readers: Functions to run as soon as the values that they need are computed.
        """
        wanted = tuple(wanted)
        names = [
            _value_name(derivation)
            for derivation in wanted
            if not isinstance(derivation, RunDerivation)
        ]
        traces = [self.trace(host) for host in (self.hosts if hosts is None else hosts)]
        threads = worth_threads(sum(map(_event_count, traces)))
        if threads == 1:
            for reader in readers:
                reader.run()
            return
        waiting = _waiting_tasks(wanted, readers)
        names += [name for of_hosts, _ in waiting.values() for name in of_hosts]
        tasks: dict[_Task, set[_Task]] = {}
        for trace in traces:
            missing = self._missing_values(trace.host, names)
            # Tables of the same trace are not built in parallel.
            tables = sorted(missing.keys() & TABLES.keys(), key=_TABLE_ORDER.index)
            for table, sooner in pairwise(tables[::-1]):
                missing[table] = [sooner]
            for name, before in missing.items():
                tasks[trace.host, name] = {(trace.host, needed) for needed in before}
        for task, (of_hosts, of_run) in waiting.items():
            host_values = {(trace.host, name) for trace in traces for name in of_hosts}
            tasks[task] = {*(host_values & tasks.keys()), *of_run}

        def compute(task: _Task) -> None:
            if isinstance(task, Reader):
                task.run()
            elif isinstance(task, RunDerivation):
                self.of_run(task)
            else:
                host, name = task
                self._input_value(self.trace(host), name)

        holding_lock = [
            task for task in tasks if not isinstance(task, tuple) or task[1] in FACTS
        ]
        compute_side_by_side(tasks, compute, threads=threads, one_by_one=holding_lock)

    def select(self, hosts: Iterable[str]) -> Self:
        """Return the run restricted to some hosts; both runs share cached values."""
        selected = copy(self)
        selected.traces = {host: self.trace(host) for host in hosts}
        return selected

    def without(self, table: str, why: Unavailable) -> Self:
        """Return the run with one table absent on every host, for a stated reason."""
        traces = {host: each.without(table, why) for host, each in self.traces.items()}
        return type(self)(self.run, traces)

    def replace_value(self, name: str, value: object) -> Self:
        """Return the run with another value of one derivation of hosts."""
        kept = Kept()
        for host in self.hosts:
            kept.get((host, name), lambda: value)
        return type(self)(self.run, self.traces, kept)

    def _derived_value(self, trace: TraceData, name: str) -> object:
        derivation = host_derivation(name)
        return self._kept.get(
            (trace.host, name), lambda: self._compute_value(trace, derivation)
        )

    def _gathered_value(self, wanted: RunDerivation[Any]) -> object:
        derivation = read_signature(wanted.function)
        hosts = self.traces.items()
        if wanted.gather is not None:
            values = {
                host: self._derived_value(trace, wanted.name)
                if wanted.name in FACTS
                else self._compute_value(trace, derivation)
                for host, trace in hosts
            }
            return wanted.gather(values)
        arguments: dict[str, object] = {}
        for name, may_be_absent in derivation.inputs.items():
            value: object
            if name == _RUN:
                value = self
            elif (of_run := run_derivation(name)) is not None:
                value = self.of_run(of_run)
            else:
                value = {host: self._input_value(trace, name) for host, trace in hosts}
            if isinstance(value, Unavailable) and not may_be_absent:
                return value
            arguments[name] = value
        return wanted.function(**arguments)

    def _compute_value(self, trace: TraceData, derivation: Derivation) -> object:
        arguments: dict[str, object] = {}
        for wanted, may_be_absent in derivation.inputs.items():
            value = self._input_value(trace, wanted)
            if isinstance(value, Unavailable) and not may_be_absent:
                return value
            arguments[wanted] = value
        return derivation.compute(**arguments)

    def _input_value(self, trace: TraceData, name: str) -> object:
        if name == "trace":
            return trace
        if name == "strings":
            return trace.strings
        if name in TABLES:
            return trace.table(name)
        return self._derived_value(trace, name)

    def _missing_values(self, host: str, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the names that are not computed yet, and the inputs of each."""
        missing: dict[str, list[str]] = {}

        def add(name: str) -> None:
            if name in missing:
                return
            inputs = {} if name in TABLES else host_derivation(name).inputs
            missing[name] = [
                needed
                for needed in inputs
                if needed not in _OF_TRACE and (host, needed) not in self._kept
            ]
            for needed in missing[name]:
                add(needed)

        for name in names:
            if (host, name) not in self._kept:
                add(name)
        return missing


def _waiting_tasks(
    wanted: Iterable[Wanted], readers: Iterable[Reader]
) -> dict[_Task, tuple[list[str], list[RunDerivation[Any]]]]:
    """Return the values of hosts and of the run that each task and reader needs."""
    needs: dict[_Task, tuple[list[str], list[RunDerivation[Any]]]] = {}
    ahead = [need for need in wanted if isinstance(need, RunDerivation)]
    for reader in readers:
        of_run = [need for need in reader.needs if isinstance(need, RunDerivation)]
        plain = [
            _value_name(need)
            for need in reader.needs
            if not isinstance(need, RunDerivation)
        ]
        needs[reader] = plain, of_run
        ahead += of_run
    while ahead:
        derivation = ahead.pop()
        if derivation not in needs:
            if derivation.gather is not None and derivation.name in FACTS:
                needs[derivation] = [derivation.name], []
            else:
                inputs = read_signature(derivation.function).inputs.keys()
                names = [name for name in inputs if name not in {_RUN, *_OF_TRACE}]
                by_name = {name: run_derivation(name) for name in names}
                needs[derivation] = (
                    [name for name, run in by_name.items() if run is None],
                    [run for run in by_name.values() if run is not None],
                )
            ahead += needs[derivation][1]
    return needs


def _value_name(wanted: Callable[..., object] | str) -> str:
    """Return the name under which a value is cached.

    Raises:
        BadUsage: The function is not a derivation, or the name is not a table.
    """
    if isinstance(wanted, str):
        if wanted not in TABLES:
            raise BadUsage.unknown_name("table", wanted, TABLES)
        return wanted
    if not is_derivation(wanted):
        raise BadUsage.unknown_name("derivation", wanted.__name__, DERIVATIONS)
    return wanted.__name__


def _event_count(trace: TraceData) -> int:
    events = trace.table("events")
    return 0 if isinstance(events, Unavailable) else len(events)
