"""Arms a Python process that `stepscope run` started, before its program begins.

Python imports a module of this name at its start. The one that would have been imported
without us is imported here afterwards, and `sys.path` is left without this folder. The
program may run in an interpreter where stepscope is not installed: the package is found
here by its place, and nothing else of its surroundings comes along. `pathlib` is not
imported: the program may never need it.
"""

import importlib
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: This folder is `<where stepscope is>/stepscope/capture/launching/injected`.
_LEVELS_UP = 4
_OLDEST = (3, 11)
#: Variable of the environment → module that arms a process by the plan in it.
_ARMED_BY = {
    "STEPSCOPE_RUN": "stepscope.capture.launching.autostart",
    "STEPSCOPE_SERVE": "stepscope.remote.autoserve",
}


class _OnlyStepscope:
    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> object:
        del path, target
        if name != "stepscope":
            return None
        place = _FOLDER
        for _ in range(_LEVELS_UP):
            place = os.path.dirname(place)
        return PathFinder.find_spec(name, [place])


def _arm_process() -> None:
    finder: Any = _OnlyStepscope()
    try:
        if sys.version_info < _OLDEST:
            needed = ".".join(str(part) for part in _OLDEST)
            raise RuntimeError("it needs Python " + needed + " or newer")  # noqa: TRY301 - one place says it
        sys.meta_path.insert(0, finder)
        for variable, module in _ARMED_BY.items():
            if variable in os.environ:
                importlib.import_module(module).arm()
    except Exception as error:  # noqa: BLE001 - the program must run whatever is wrong with us
        sys.stderr.write(f"stepscope: this process is not recorded: {error}\n")
    finally:
        sys.meta_path[:] = [it for it in sys.meta_path if it is not finder]


def _import_next() -> None:
    """Import the `sitecustomize` that follows this one on the path, if any."""
    ours = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        # The import under way wants to find a module of this name.
        sys.modules.setdefault(__name__, ours)


if __name__ == "sitecustomize":
    sys.path[:] = [
        entry for entry in sys.path if os.path.abspath(entry or ".") != _FOLDER
    ]
    _arm_process()
    _import_next()
