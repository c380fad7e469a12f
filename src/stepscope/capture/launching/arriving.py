"""Callbacks for the moment at which the program has imported a module.

Stepscope's recording code is imported only when a recording begins, possibly while the
program is importing other modules.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from stepscope.capture.recording.session import Session


class Arrivals:
    """First entry of `sys.meta_path`; reports when chosen modules have been imported.

    The finder finds no module itself: it asks the finders after it and replaces
    `exec_module` of the loader of a chosen module. The replacement is removed before
    that module runs.
    """

    def __init__(self, waited: Mapping[str, Callable[[], None]]) -> None:
        """Map each module name to a callback, called once, which must not raise."""
        self._waited = dict(waited)

    def watch(self) -> None:
        """Start watching imports; at once report modules that are already imported."""
        sys.meta_path.insert(0, self)
        for name in [name for name in self._waited if name in sys.modules]:
            self._announce_module(name)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return a spec from another finder; None for modules not watched."""
        if name not in self._waited:
            return None
        # Finders before this one have not found the module. Asking them would recurse
        # if one of them is also an `Arrivals`, which asks this one.
        place = sys.meta_path.index(self) if self in sys.meta_path else -1
        for finder in sys.meta_path[place + 1 :]:
            find = getattr(finder, "find_spec", None)
            if find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                self._listen_to_loader(name, spec.loader)
                return spec
        return None

    def _listen_to_loader(self, name: str, loader: object) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def execute_and_announce(module: ModuleType) -> None:
            # Remove the replacement, because programs inspect the loader.
            vars(loader).pop("exec_module", None)
            with NO_FRAME:
                execute(module)
            self._announce_module(name)

        try:
            vars(loader)["exec_module"] = execute_and_announce
        except TypeError:
            # A loader without a `__dict__` is not patched: its import goes unreported.
            return

    def _announce_module(self, name: str) -> None:
        arrived = self._waited.pop(name, None)
        if not self._waited and self in sys.meta_path:
            sys.meta_path.remove(self)
        if arrived is not None:
            arrived()


_SESSION: Final = "stepscope.capture.recording.session"


def session_class() -> type[Session]:
    """Return `Session`; raise StepscopeError if a package it needs is missing."""
    try:
        from stepscope.capture.recording.session import Session  # noqa: PLC0415
    except ImportError as missing:
        from stepscope.errors import StepscopeError  # noqa: PLC0415 - keeps process startup fast

        raise StepscopeError(
            f"the program runs in {sys.executable}, which cannot record: {missing}. "
            f"Install stepscope there too, with {sys.executable} -m pip install"
        ) from missing
    return Session


def is_half_imported() -> bool:
    """Return whether the import of stepscope's recording code is in progress."""
    spec = getattr(sys.modules.get(_SESSION), "__spec__", None)
    return getattr(spec, "_initializing", False)
