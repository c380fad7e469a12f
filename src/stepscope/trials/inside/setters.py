"""Functions that set a knob inside the program, and when they are called.

A setter takes the name of what it sets, the value, and a function that notes each
change, or that the program has the value already.
"""

from __future__ import annotations

import gc
import importlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trials.inside.plan import Value


class Note(Protocol):
    """Receiver of what a setter did."""

    def __call__(self, what: str, *, same: bool = False) -> None:
        """Note in words what was changed, or (`same`) what has the value already."""


#: Moments other than the end of a module's import.
AT_START: Final = "start"
AT_FIRST_STEP: Final = "first step"


class Setter(NamedTuple):
    """A function that sets a knob.

    Attributes:
        moment: Module after whose import the function is called, or one of the moments.
        module: Module of stepscope that has the function.
        function: Name of the function.
    """

    moment: str
    module: str
    function: str

    def load_function(self) -> Callable[[str, Value, Note], None]:
        """Import the function."""
        module = importlib.import_module(f"stepscope.trials.inside.{self.module}")
        function: Callable[[str, Value, Note], None] = getattr(module, self.function)
        return function


#: Name of a setter in `knobs.toml` → setter.
SETTERS: Final = {
    "environment": Setter(AT_START, "setters", "check_variable"),
    "affinity": Setter(AT_START, "setters", "use_fewer_cores"),
    "gc_freeze": Setter(AT_FIRST_STEP, "setters", "freeze_objects"),
    "gc_threshold": Setter(AT_FIRST_STEP, "setters", "collect_rarely"),
    "torch_threads": Setter(AT_FIRST_STEP, "torch_setters", "set_threads"),
    "torch_backend": Setter("torch", "torch_setters", "set_backend"),
    "torch_loader": Setter(
        "torch.utils.data.dataloader", "torch_setters", "set_loader_argument"
    ),
    "torch_optimizer": Setter("torch.optim", "torch_setters", "set_optimizer_argument"),
    "torch_zero_grad": Setter(
        "torch.optim.optimizer", "torch_setters", "set_grads_to_none"
    ),
    "torch_model": Setter(
        "torch.nn.modules.module", "torch_setters", "change_first_model"
    ),
    "dataset_transform": Setter(
        "tensorflow.python.data.ops.dataset_ops",
        "tensorflow_setters",
        "set_parallel_calls",
    ),
    "dataset_iterator": Setter(
        "tensorflow.python.data.ops.dataset_ops",
        "tensorflow_setters",
        "change_iterated_dataset",
    ),
    "keras_compile": Setter(
        "keras.src.trainers.trainer", "tensorflow_setters", "set_compile_argument"
    ),
    "keras_policy": Setter("keras", "tensorflow_setters", "set_policy"),
}


def check_variable(name: str, value: Value, note: Note) -> None:
    """Note that the environment variable, which the launcher has set, arrived."""
    if str(value) in os.environ.get(name, ""):
        note(f"{name}={os.environ[name]}")


def use_fewer_cores(name: str, value: Value, note: Note) -> None:
    """Let this process and its children use only the first N of its cores."""
    del name
    cores = sorted(os.sched_getaffinity(0))
    if int(value) < len(cores):
        os.sched_setaffinity(0, cores[: int(value)])
    note(f"{len(cores)} cores to {value}", same=int(value) >= len(cores))


def freeze_objects(name: str, value: Value, note: Note) -> None:
    """Collect once, and exempt what exists after the first step from collections."""
    del name, value
    gc.collect()
    gc.freeze()
    note("objects of the first step are not collected again")


def collect_rarely(name: str, value: Value, note: Note) -> None:
    """Start a collection after N more allocations than deallocations."""
    del name
    before, *older = gc.get_threshold()
    changes = 0 < before < int(value)
    if changes:
        gc.set_threshold(int(value), *older)
    note(f"threshold {before} to {value}", same=not changes)
