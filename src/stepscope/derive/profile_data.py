"""`ProfileData`: the traces of a run, and everything that follows from them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stepscope.derive.derivations import DERIVATIONS
from stepscope.derive.engine.kept import Kept
from stepscope.derive.engine.schedule import compute_all, worth_threads
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import polars as pl

    from stepscope.trace.model import TraceData

__all__ = ["ProfileData", "Reader"]


_BY_NAME = {derivation.name: derivation for derivation in DERIVATIONS}
#: Tables in the order in which they are built side by side with derivations: for the
#: large ones, and what is read off them, nothing else should have to wait.
_LARGE = (
    "allocations",
    "device_activity",
    "launches",
    "devices",
    "geometries",
    "quality",
)
_TABLE_ORDER = (*(name for name in TABLES if name not in _LARGE), *_LARGE)
#: Inputs that are there as soon as a trace is.
_OF_TRACE = {"trace", "strings"}


class Reader(Frozen, frozen=True):
    """Something that reads derivations.

    Attributes:
        needs: Their names, of every host.
        run: Reads them.
    """

    needs: tuple[str, ...]
    run: Callable[[], None]


class ProfileData:
    """A run's name and the trace of each host.

    Derivations are computed on first use and kept; a value never depends on which
    were asked for before.

    Attributes:
        run: Shown name of the run.
        traces: Host → its tables.
    """

    def __init__(
        self,
        run: str,
        traces: Mapping[str, TraceData],
        *,
        analyse: Callable[[ProfileData, str, Mapping[str, Any]], Any] | None = None,
    ) -> None:
        self.run = run
        self.traces = dict(traces)
        self._analyse = analyse
        self._kept = Kept()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, in the order of their files."""
        return tuple(self.traces)

    def trace(self, host: str) -> TraceData:
        """The trace of one host."""
        if host not in self.traces:
            raise BadUsage.unknown_name("host", host, self.traces)
        return self.traces[host]

    def table(self, host: str, name: str) -> pl.DataFrame | Unavailable:
        """A declared table of one host, or why it has none."""
        return self.trace(host).table(name)

    # The value's type is declared by the derivation, which is known by name only.
    def derived(self, host: str, name: str) -> Any:
        """The value of a derivation for one host, or why there is none."""
        trace = self.trace(host)
        if name not in _BY_NAME:
            raise BadUsage.unknown_name("derivation", name, _BY_NAME)
        return self._kept.get((host, name), lambda: self._compute(trace, name))

    @property
    def is_worth_threads(self) -> bool:
        """Whether computing side by side gains anything."""
        return worth_threads(sum(map(_events, self.traces.values()))) > 1

    def prepare(
        self,
        names: Iterable[str],
        hosts: Iterable[str] | None = None,
        *,
        readers: Sequence[Reader] = (),
    ) -> None:
        """Compute some derivations side by side, for whoever asks for them next.

        Args:
            names: What is wanted; with it comes what it needs.
            hosts: For which hosts; by default for all.
            readers: Run too, each as soon as what it needs is there.
        """
        traces = [self.trace(host) for host in (self.hosts if hosts is None else hosts)]
        threads = worth_threads(sum(map(_events, traces)))
        if threads == 1:
            for reader in readers:
                reader.run()
            return
        needed = dict.fromkeys(it for reader in readers for it in reader.needs)
        inputs: dict[tuple[str, str] | Reader, set[tuple[str, str]]] = {}
        for trace in traces:
            missing = self._missing(trace.host, (*names, *needed))
            # The tables of a trace are built one after the other.
            tables = sorted(missing.keys() & TABLES.keys(), key=_TABLE_ORDER.index)
            for table, before in pairwise(tables[::-1]):
                missing[table] = [before]
            for name, wanted in missing.items():
                inputs[trace.host, name] = {(trace.host, one) for one in wanted}
        for reader in readers:
            every = {(trace.host, it) for trace in traces for it in reader.needs}
            inputs[reader] = every & inputs.keys()

        def compute(key: tuple[str, str] | Reader) -> None:
            if isinstance(key, Reader):
                key.run()
            else:
                host, name = key
                self._input(self.trace(host), name)

        compute_all(inputs, compute, threads=threads, one_by_one=readers)

    def tool(self, name: str, **options: Any) -> Any:
        """The frozen result of a tool, or `Unavailable`; it declares its options."""
        if self._analyse is None:
            message = "this ProfileData was made without tools; use stepscope.open"
            raise TypeError(message)
        return self._analyse(self, name, options)

    def select(self, hosts: Iterable[str]) -> ProfileData:
        """The same run seen through some of its hosts; what was derived is kept."""
        chosen = {host: self.trace(host) for host in hosts}
        selected = ProfileData(self.run, chosen, analyse=self._analyse)
        selected._kept = self._kept
        return selected

    def without(self, table: str, why: Unavailable) -> ProfileData:
        """The same run with one table absent on every host, for a stated reason."""
        traces = {
            host: trace.without(table, why) for host, trace in self.traces.items()
        }
        return ProfileData(self.run, traces, analyse=self._analyse)

    def _compute(self, trace: TraceData, name: str) -> object:
        derivation = _BY_NAME[name]
        arguments: list[object] = []
        for wanted in derivation.inputs:
            value = self._input(trace, wanted.removesuffix("?"))
            if isinstance(value, Unavailable) and not wanted.endswith("?"):
                return value
            arguments.append(value)
        return derivation.compute(*arguments)

    def _input(self, trace: TraceData, name: str) -> object:
        if name == "trace":
            return trace
        if name == "strings":
            return trace.strings
        if name in TABLES:
            return trace.table(name)
        return self.derived(trace.host, name)

    def _missing(self, host: str, names: Iterable[str]) -> dict[str, list[str]]:
        """What is still to be computed for some names, and what each waits for."""
        found: dict[str, list[str]] = {}

        def add(name: str) -> None:
            if name in found:
                return
            inputs = () if name in TABLES else _BY_NAME[name].inputs
            wanted = [one.removesuffix("?") for one in inputs]
            found[name] = [
                one
                for one in wanted
                if one not in _OF_TRACE and (host, one) not in self._kept
            ]
            for one in found[name]:
                add(one)

        for name in names:
            if (host, name) not in self._kept:
                add(name)
        return found


def _events(trace: TraceData) -> int:
    events = trace.table("events")
    return 0 if isinstance(events, Unavailable) else len(events)
