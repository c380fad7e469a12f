"""stepscope: the profiler that sees inside every training step."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData
    from stepscope.report.tables import tables
    from stepscope.session import open_profile as open  # noqa: A004 - ss.open is the contract
    from stepscope.unavailable import Unavailable

__all__ = ["ProfileData", "Unavailable", "__version__", "open", "tables"]

__version__ = "0.1.0"

#: Public name → (module, name there). Resolved on first use, so that importing the
#: package stays light.
_PUBLIC = {
    "ProfileData": ("stepscope.derive.profile_data", "ProfileData"),
    "Unavailable": ("stepscope.unavailable", "Unavailable"),
    "open": ("stepscope.session", "open_profile"),
    "tables": ("stepscope.report.tables", "tables"),
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        message = f"module 'stepscope' has no attribute {name!r}"
        raise AttributeError(message)
    module, attribute = _PUBLIC[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
