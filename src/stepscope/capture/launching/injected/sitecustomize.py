"""Arms a Python process that `stepscope run` started, before its program begins.

Python imports the first module of this name on `sys.path` at its start. This module
removes its own folder from `sys.path` and then imports the `sitecustomize` that Python
would have imported otherwise. The program's interpreter may not have stepscope
installed: stepscope is found by the path of this file, and no other package from there
becomes importable. `pathlib` is not imported: the program may never need it.
"""

import importlib
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))
#: This folder is `<parent folder>/stepscope/capture/launching/injected`.
_LEVELS_UP = 4
_OLDEST = (3, 11)
#: Environment variable with a plan → module that arms a process by that plan.
_ARMED_BY = {
    "STEPSCOPE_TRY": "stepscope.trials.inside.armed",
    "STEPSCOPE_RUN": "stepscope.capture.launching.armed_process",
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
            raise RuntimeError("it needs Python " + needed + " or newer")  # noqa: TRY301 - one handler prints all errors
        sys.meta_path.insert(0, finder)
        for variable, module in _ARMED_BY.items():
            if variable in os.environ:
                importlib.import_module(module).arm()
    except Exception as error:  # noqa: BLE001 - a fault of stepscope must not stop the program
        sys.stderr.write(f"stepscope: this process is not recorded: {error}\n")
    finally:
        sys.meta_path[:] = [other for other in sys.meta_path if other is not finder]


def _import_next() -> None:
    own_module = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ImportError as error:
        if error.name != __name__:
            raise
    finally:
        # Python is still importing this module and needs its name in `sys.modules`.
        sys.modules.setdefault(__name__, own_module)


if __name__ == "sitecustomize":
    sys.path[:] = [
        entry for entry in sys.path if os.path.abspath(entry or ".") != _FOLDER
    ]
    _arm_process()
    _import_next()
