"""Every collector there is: one module each, in the order in which they are started.

Frameworks come first, so that threads of ours, which begin later, are out of sight of
their tracers, and what is recorded beside them lies within their recording. Who notes
Python calls comes last.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from stepscope.capture.collectors.contract import Collected

if TYPE_CHECKING:
    from stepscope.capture.collectors.contract import Collector
    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions
    from stepscope.unavailable import Unavailable

#: Name → (module, class). A module is imported when it is to record.
COLLECTORS: Final[dict[str, tuple[str, str]]] = {
    "tensorflow": (
        "stepscope.capture.collectors.tensorflow",
        "TensorFlowCollector",
    ),
    "jax": ("stepscope.capture.collectors.jax", "JaxCollector"),
    "torch": ("stepscope.capture.collectors.torch.collector", "TorchCollector"),
    "model": ("stepscope.capture.collectors.model", "ModelCollector"),
    "host": ("stepscope.capture.collectors.host", "HostCollector"),
    "compilations": (
        "stepscope.capture.collectors.compilations",
        "CompilationsCollector",
    ),
    "process": ("stepscope.capture.collectors.process", "ProcessCollector"),
    "kept": ("stepscope.capture.collectors.memory.kept", "KeptCollector"),
    "python_samples": (
        "stepscope.capture.collectors.python_samples",
        "PythonSamplesCollector",
    ),
    "workers": (
        "stepscope.capture.collectors.workers.collector",
        "WorkersCollector",
    ),
    "python_calls": (
        "stepscope.capture.collectors.python_calls",
        "PythonCallsCollector",
    ),
}


def make_collector(name: str) -> Collector:
    """Return a new collector of a name that `COLLECTORS` has."""
    module, kind = COLLECTORS[name]
    collector: Collector = getattr(importlib.import_module(module), kind)()
    return collector


class BrokenCollector:
    """Takes the place of a collector that raised where it should have answered.

    Its `start` raises that error, so that the recording reports it as any failure.
    """

    def __init__(self, name: str, error: Exception) -> None:
        self.name = name
        self._error = error

    def available(self) -> Unavailable | None:
        """Return None: it always takes part, because it has an error to report."""
        return None

    def start(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Fail as its collector did.

        Raises:
            Exception: What the collector raised.
        """
        del options, clock
        raise self._error

    def stop(self) -> Collected:
        """Nothing was recorded."""
        return Collected(b"")
