"""How a knob is set inside the program, by the columns of its row in `knobs.toml`.

A target is `MODULE:PATH`; the module is one that the program has imported. What has the
value already is left alone.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.functions import replace_function
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trials.inside.turn_files import Setting

#: Moments at which settings are applied, other than the end of a module's import.
AT_START: Final = "start"
AT_FIRST_STEP: Final = "first step"
_MOMENTS: Final = {
    "environment": AT_START,
    "affinity": AT_START,
    "call": AT_FIRST_STEP,
    "attribute": AT_FIRST_STEP,
}
#: Parameters that are valid only with another one.
_NEEDS: Final = {"prefetch_factor": "num_workers", "persistent_workers": "num_workers"}


def setting_moment(setting: Setting) -> str:
    """Return the moment, or the module after whose import a setting is applied."""
    return _MOMENTS.get(setting.how) or setting.target.partition(":")[0]


def apply_setting(setting: Setting, note: Callable[[], None]) -> None:
    """Apply a setting; `note` is called each time it takes effect.

    Raises:
        AttributeError, KeyError: This version of the framework lacks the target.
    """
    value = setting.value
    module_name, _, path = setting.target.partition(":")
    if setting.how == "environment":
        takes_effect = str(value) in os.environ.get(setting.name, "")
    elif setting.how == "affinity":
        cores = sorted(os.sched_getaffinity(0))
        takes_effect = len(cores) > int(value)
        os.sched_setaffinity(0, cores[: int(value)])
    else:
        owner: Any = gc if module_name == "gc" else sys.modules[module_name]
        *parents, attribute = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        if (patch := _PATCHES.get(setting.how)) is not None:
            patch(owner, attribute, setting, note)
            return
        takes_effect = _set_value(owner, attribute, setting)
    if takes_effect:
        note()


def _set_value(owner: Any, attribute: str, setting: Setting) -> bool:
    """Set an attribute or call a function; return False if it has the value already."""
    value = setting.value
    if setting.how == "attribute":
        before = getattr(owner, attribute)
        setattr(owner, attribute, value)
        return bool(before != value)
    if setting.name and getattr(owner, setting.name)() == value:
        return False
    getattr(owner, attribute)(*([] if value == "" else [value]))
    return True


def _set_argument(
    owner: Any, method: str, setting: Setting, note: Callable[[], None]
) -> None:
    """Patch a method so that one of its arguments always has the value."""
    original = getattr(owner, method)
    signature = inspect.signature(original)
    name = setting.name

    @functools.wraps(original)
    def call_with_value(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind_partial(*args, **kwargs)
        except TypeError:
            # The original function raises the error that the program expects.
            bound = None
        if bound is not None:
            given = bound.arguments
            before = given.get(name, signature.parameters[name].default)
            lacks = name in _NEEDS and not given.get(_NEEDS[name])
            # Each worker would yield all samples of an `IterableDataset`.
            base = getattr(sys.modules[owner.__module__], "IterableDataset", ())
            streams = name == "num_workers" and isinstance(given.get("dataset"), base)
            if before != setting.value and not (lacks or streams):
                given[name] = setting.value
                args, kwargs = bound.args, bound.kwargs
                note()
        with NO_FRAME:
            return original(*args, **kwargs)

    replace_function(owner, method, call_with_value)


def _change_first_model(
    module_class: Any, method: str, setting: Setting, note: Callable[[], None]
) -> None:
    """Compile the first PyTorch module with parameters that is called, or cast it."""
    call = getattr(module_class, method)

    @functools.wraps(call)
    def change_and_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if next(iter(self.parameters()), None) is not None:
            # This is the outermost call: modules inside are called after the restoring.
            restore()
            if setting.name == "compile":
                self.compile()
            else:
                torch: Any = sys.modules["torch"]
                device = next(iter(self.parameters())).device.type
                dtype = getattr(torch, str(setting.value))
                self.forward = torch.autocast(device, dtype=dtype)(self.forward)
            note()
        with NO_FRAME:
            return call(self, *args, **kwargs)

    restore = replace_function(module_class, method, change_and_call)


def _change_datasets(
    dataset_class: Any, method: str, setting: Setting, note: Callable[[], None]
) -> None:
    """Change each tf.data dataset over which the program or Keras iterates."""
    iterate = getattr(dataset_class, method)

    @functools.wraps(iterate)
    def change_and_iterate(self: Any) -> Any:
        changed = self
        if setting.name == "prefetch":
            if type(self).__name__ != "_PrefetchDataset":
                changed = self.prefetch(setting.value)
        elif attrgetter(setting.name)(self.options()) != setting.value:
            options: Any = sys.modules["tensorflow"].data.Options()
            part, _, name = setting.name.rpartition(".")
            setattr(getattr(options, part) if part else options, name, setting.value)
            changed = self.with_options(options)
        if changed is not self:
            note()
        with NO_FRAME:
            return iterate(changed)

    replace_function(dataset_class, method, change_and_iterate)


_PATCHES: Final = {
    "argument": _set_argument,
    "model": _change_first_model,
    "dataset": _change_datasets,
}
