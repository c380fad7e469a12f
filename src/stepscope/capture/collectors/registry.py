"""Every collector there is: one module each, in the order in which they are started.

Frameworks come first, so that threads of ours, which begin later, are out of sight of
their tracers, and what is recorded beside them lies within their recording. Who notes
Python calls comes last.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepscope.capture.collectors.contract import Collector

#: Name → (module, class). A module is imported when it is to record.
COLLECTORS: Final[dict[str, tuple[str, str]]] = {
    "tensorflow": (
        "stepscope.capture.collectors.tensorflow.collector",
        "TensorFlowCollector",
    ),
    "jax": ("stepscope.capture.collectors.jax.collector", "JaxCollector"),
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
