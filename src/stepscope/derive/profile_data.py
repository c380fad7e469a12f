"""`ProfileData`: the traces of a run, and everything that follows from them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from stepscope.derive import DERIVATIONS
from stepscope.errors import BadUsage
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import polars as pl

    from stepscope.trace.model import TraceData

__all__ = ["ProfileData"]

_BY_NAME = {derivation.name: derivation for derivation in DERIVATIONS}


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
        self._derived: dict[tuple[str, str], object] = {}
        self._lock = threading.RLock()

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
        with self._lock:
            key = (host, name)
            if key not in self._derived:
                self._derived[key] = self._compute(trace, name)
            return self._derived[key]

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
        selected._derived = self._derived
        selected._lock = self._lock
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
