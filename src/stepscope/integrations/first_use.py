"""Lookup of `ss.integrations.<name>`, which imports the module of one library only."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

#: Modules that a program may use; each needs the library of its name.
LIBRARIES: Final = ("accelerate", "huggingface", "keras", "lightning", "ray")


def __getattr__(name: str) -> ModuleType:
    if name not in LIBRARIES:
        raise AttributeError(f"module 'stepscope.integrations' has no {name!r}")
    return importlib.import_module(f"stepscope.integrations.{name}")
