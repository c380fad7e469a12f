"""Noticing that the program imports a module, at the moment when it is there.

What records is imported only when there is something to record, maybe while the program
imports other modules.
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
    """Comes first among the finders of modules, and finds none itself.

    It asks the others, and has the loader of a module that is waited for say when the
    module was executed. The loader is as it was before the module's own code runs.
    """

    def __init__(self, waited: Mapping[str, Callable[[], None]]) -> None:
        """Wait for modules; each is announced once, and must not raise."""
        self._waited = dict(waited)

    def watch(self) -> None:
        """Begin to notice; a module that is there already is announced now."""
        sys.meta_path.insert(0, self)
        for name in [name for name in self._waited if name in sys.modules]:
            self._announce_module(name)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return what the other finders find; None leaves them to find it."""
        if name not in self._waited:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                self._hear_loader(name, spec.loader)
                return spec
        return None

    def _hear_loader(self, name: str, loader: object) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def execute_and_announce(module: ModuleType) -> None:
            # Nothing of ours is left on the loader: programs look at it.
            vars(loader).pop("exec_module", None)
            with NO_FRAME:
                execute(module)
            self._announce_module(name)

        try:
            vars(loader)["exec_module"] = execute_and_announce
        except TypeError:
            # A loader without attributes of its own stays unheard.
            return

    def _announce_module(self, name: str) -> None:
        arrived = self._waited.pop(name, None)
        if not self._waited and self in sys.meta_path:
            sys.meta_path.remove(self)
        if arrived is not None:
            arrived()


_SESSION: Final = "stepscope.capture.recording.session"


def session_class() -> type[Session]:
    """Return `Session`; StepscopeError where a package that it needs is missing."""
    try:
        from stepscope.capture.recording.session import Session  # noqa: PLC0415
    except ImportError as missing:
        from stepscope.errors import StepscopeError  # noqa: PLC0415 - arming stays light

        raise StepscopeError(
            f"the program runs in {sys.executable}, which cannot record: {missing}. "
            f"Install stepscope there too: {sys.executable} -m pip install stepscope"
        ) from missing
    return Session


def is_half_imported() -> bool:
    """Return whether the program is importing what records at this moment."""
    spec = getattr(sys.modules.get(_SESSION), "__spec__", None)
    return getattr(spec, "_initializing", False)
