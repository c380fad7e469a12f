"""Every collector there is: one module each, in the order in which they are started.

Frameworks come first, so that threads of ours, which begin later, are out of sight of
their tracers, and what is recorded next to them lies within their recording. Who notes
Python calls comes last.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from stepscope.capture.collectors.contract import Collected, Collector

if TYPE_CHECKING:
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions

_HERE: Final = "stepscope.capture.collectors."
#: Name → (module here, class). A module is imported when it is to record.
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
    """Return a new collector of a name that `COLLECTORS` has."""
    module, kind = COLLECTORS[name]
    collector: Collector = getattr(importlib.import_module(_HERE + module), kind)()
    return collector


class BrokenCollector(Collector):
    """Takes the place of a collector that raised where it should have answered.

    Its start raises that error, so that the recording reports it as any failure.
    """

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self._error = error

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Fail as its collector did."""
        del options, clock
        raise self._error

    def hand_over(self) -> Collected:
        """Nothing was recorded."""
        return Collected(b"")
