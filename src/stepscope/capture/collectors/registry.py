"""All collectors: one module each, in the order in which a recording starts them.

Frameworks start first. Threads of the profiler begin later, so framework tracers do not
see them, and events of other collectors are within the framework's recording. The
collector of Python calls starts last.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from stepscope.capture.collectors.contract import Collected, Collector

if TYPE_CHECKING:
    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions

_HERE: Final = "stepscope.capture.collectors."
#: Name → (module in this package, class). Modules are imported only when used.
COLLECTORS: Final[dict[str, tuple[str, str]]] = {
    "tensorflow": ("tensorflow", "TensorFlowCollector"),
    "jax": ("jax", "JaxCollector"),
    "torch": ("torch.collector", "TorchCollector"),
    "model": ("model", "ModelCollector"),
    "host": ("host", "HostCollector"),
    "compilations": ("compilations", "CompilationsCollector"),
    "process": ("process", "ProcessCollector"),
    "kept": ("memory.kept", "KeptCollector"),
    "python_samples": ("python_samples", "PythonSamplesCollector"),
    "workers": ("workers.collector", "WorkersCollector"),
    "python_calls": ("python_calls", "PythonCallsCollector"),
}


def make_collector(name: str) -> Collector:
    """Return a new collector by its name in `COLLECTORS`."""
    module, kind = COLLECTORS[name]
    collector: Collector = getattr(importlib.import_module(_HERE + module), kind)()
    return collector


class BrokenCollector(Collector):
    """Replacement of a collector that raised an error before its start.

    `start_collecting` raises that error, so that the recording reports it as usual.
    """

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self._error = error

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Raise the error of the replaced collector."""
        del options, clock
        raise self._error

    def hand_over(self) -> Collected:
        """Return an empty result."""
        return Collected(b"")
