"""stepscope: a profiler of training steps in TensorFlow, JAX and PyTorch."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepscope import integrations
    from stepscope._core.recorder import Trace
    from stepscope.analysis.tools import ProfileWithTools as ProfileData
    from stepscope.capture.base.annotate import StepTrace, mark_step, trace_function
    from stepscope.capture.base.describing import announce as describe
    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.flight.recorder import flight_recorder
    from stepscope.capture.profile import Profile, schedule, start, stop
    from stepscope.integrations import keras
    from stepscope.integrations.notebook import load_ipython_extension
    from stepscope.profiler.builder import ProfileOptionBuilder
    from stepscope.profiler.recording import Profiler
    from stepscope.remote import client, server
    from stepscope.reporting.from_python import report
    from stepscope.reporting.tables import tables
    from stepscope.session import open_profile as open  # noqa: A004 - ss.open is the contract
    from stepscope.tracking.log_to import log_to
    from stepscope.unavailable import Unavailable

__all__ = [
    "Profile",
    "ProfileData",
    "ProfileOptionBuilder",
    "Profiler",
    "ProfilerOptions",
    "StepTrace",
    "Trace",
    "Unavailable",
    "__version__",
    "client",
    "describe",
    "flight_recorder",
    "integrations",
    "keras",
    "load_ipython_extension",
    "log_to",
    "mark_step",
    "open",
    "report",
    "schedule",
    "server",
    "start",
    "stop",
    "tables",
    "trace_function",
]

__version__ = "0.2.0"

#: Public name → (module, name in the module; None for the module itself). Names are
#: resolved on first use, so that importing the package is fast.
_PUBLIC = {
    "Profile": ("stepscope.capture.profile", "Profile"),
    "ProfileData": ("stepscope.analysis.tools", "ProfileWithTools"),
    "ProfileOptionBuilder": ("stepscope.profiler.builder", "ProfileOptionBuilder"),
    "Profiler": ("stepscope.profiler.recording", "Profiler"),
    "ProfilerOptions": ("stepscope.capture.base.options", "ProfilerOptions"),
    "StepTrace": ("stepscope.capture.base.annotate", "StepTrace"),
    "Trace": ("stepscope.capture.base.annotate", "Trace"),
    "Unavailable": ("stepscope.unavailable", "Unavailable"),
    "client": ("stepscope.remote.client", None),
    "describe": ("stepscope.capture.base.describing", "announce"),
    "flight_recorder": ("stepscope.capture.flight.recorder", "flight_recorder"),
    "integrations": ("stepscope.integrations", None),
    "keras": ("stepscope.integrations.keras", None),
    "load_ipython_extension": (
        "stepscope.integrations.notebook",
        "load_ipython_extension",
    ),
    "log_to": ("stepscope.tracking.log_to", "log_to"),
    "mark_step": ("stepscope.capture.base.annotate", "mark_step"),
    "open": ("stepscope.session", "open_profile"),
    "report": ("stepscope.reporting.from_python", "report"),
    "schedule": ("stepscope.capture.profile", "schedule"),
    "server": ("stepscope.remote.server", None),
    "start": ("stepscope.capture.profile", "start"),
    "stop": ("stepscope.capture.profile", "stop"),
    "tables": ("stepscope.reporting.tables", "tables"),
    "trace_function": ("stepscope.capture.base.annotate", "trace_function"),
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        message = f"module 'stepscope' has no attribute {name!r}"
        raise AttributeError(message)
    import importlib  # noqa: PLC0415 - importing the package imports no module

    path, attribute = _PUBLIC[name]
    module = importlib.import_module(path)
    value: object = module if attribute is None else getattr(module, attribute)
    # Store the value; otherwise Python calls this function (1.7 µs) on each access.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
