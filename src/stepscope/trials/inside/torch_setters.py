"""Setters of PyTorch's knobs; each is called after the program imported the module."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.base.functions import replace_function
from stepscope.errors import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.trials.inside.plan import Value
    from stepscope.trials.inside.setters import Note

#: Parameters of a `DataLoader` that are valid only with worker processes.
_OF_WORKERS: Final = frozenset({"prefetch_factor", "persistent_workers"})


def set_loader_argument(name: str, value: Value, note: Note) -> None:
    """Set a parameter of each `DataLoader`.

    A loader of an `IterableDataset` keeps its number of workers: each worker would
    yield all samples unless the dataset divides them.
    """
    data: Any = sys.modules["torch.utils.data.dataloader"]

    def fits(arguments: dict[str, Any]) -> bool:
        if name in _OF_WORKERS:
            return bool(arguments.get("num_workers"))
        streams = isinstance(arguments.get("dataset"), data.IterableDataset)
        return name != "num_workers" or not streams

    replace_argument(
        data.DataLoader,
        "__init__",
        name,
        value,
        note=note,
        says="DataLoader",
        fits=fits,
    )


def set_optimizer_argument(name: str, value: Value, note: Note) -> None:
    """Set a parameter of each optimizer that has it, unless the program chose one."""
    chosen = ("fused", "foreach", "differentiable")

    def fits(arguments: dict[str, Any]) -> bool:
        return not any(arguments.get(other) for other in chosen)

    optimizers: Any = sys.modules["torch.optim"]
    base = optimizers.Optimizer
    for optimizer in vars(optimizers).values():
        is_optimizer = isinstance(optimizer, type) and issubclass(optimizer, base)
        if is_optimizer and name in inspect.signature(optimizer).parameters:
            says = optimizer.__name__
            # A subclass that only inherits `__init__` would be changed twice.
            if "__init__" in vars(optimizer):
                replace_argument(
                    optimizer, "__init__", name, value, note=note, says=says, fits=fits
                )


def set_grads_to_none(name: str, value: Value, note: Note) -> None:
    """Let `zero_grad` drop gradients instead of filling them with zeros."""
    optimizer: Any = sys.modules["torch.optim.optimizer"].Optimizer
    replace_argument(optimizer, "zero_grad", name, value, note=note, says="zero_grad")


def replace_argument(
    owner: Any,
    method: str,
    name: str,
    value: Value,
    *,
    note: Note,
    says: str,
    fits: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> None:
    """Patch a method so that one of its arguments always has a value.

    Args:
        owner: Class of the method.
        says: Name of the function for the user.
        fits: Whether a call with these arguments may be changed.
    """
    original = getattr(owner, method)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call_with_value(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            # The original function raises the error that the program expects.
            bound = None
        if bound is not None:
            before = bound.arguments.get(name, signature.parameters[name].default)
            if fits(bound.arguments):
                bound.arguments[name] = value
                args, kwargs = bound.args, bound.kwargs
                note(f"{says}: {name} {before} to {value}", same=before == value)
        with NO_FRAME:
            return original(*args, **kwargs)

    replace_function(owner, method, call_with_value)


def set_threads(name: str, value: Value, note: Note) -> None:
    """Set the number of threads of one op on the CPU, in the thread that trains."""
    del name
    torch: Any = sys.modules.get("torch")
    before = torch and torch.get_num_threads()
    if torch:
        torch.set_num_threads(value)
        note(f"{before} threads to {value}", same=before == value)


def set_backend(name: str, value: Value, note: Note) -> None:
    """Set a switch of PyTorch's libraries: `tf32` or `cudnn.benchmark`."""
    torch: Any = sys.modules["torch"]
    if name == "tf32":
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        note(f"float32 matmul precision {before} to high", same=before == "high")
    else:
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = value
        note(f"cudnn.benchmark {before} to {value}", same=before == value)


def change_first_model(name: str, value: Value, note: Note) -> None:
    """Change the first module with parameters that the program calls.

    With `autocast`, its `forward` runs under autocast to the type `value`; with
    `compile`, it is compiled.
    """
    module_class: Any = sys.modules["torch.nn.modules.module"].Module
    call = module_class.__call__

    @functools.wraps(call)
    def change_and_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if next(iter(self.parameters()), None) is not None:
            # Only the outermost call of the first model comes here.
            restore()
            change = _compile_model if name == "compile" else _cast_model
            change(self, value)
            note(f"{type(self).__name__}: {name} {value}")
        with NO_FRAME:
            return call(self, *args, **kwargs)

    restore = replace_function(module_class, "__call__", change_and_call)


def _compile_model(model: Any, value: Value) -> None:
    del value
    model.compile()


def _cast_model(model: Any, value: Value) -> None:
    torch: Any = sys.modules["torch"]
    device = next(iter(model.parameters())).device.type
    autocast = torch.autocast(device, dtype=getattr(torch, str(value)))
    model.forward = autocast(model.forward)
