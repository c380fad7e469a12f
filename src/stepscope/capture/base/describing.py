"""Description of a model: its variables, as the framework lists them.

Keras models, PyTorch modules and JAX pytrees can be described. Only names, shapes and
types are read, never a value, so reading does not wait for a device.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from stepscope.errors import BadUsage
from stepscope.xspace.vocabulary import MODEL_PLANE, ParameterStat
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepscope.xspace.writing.builders import Value

#: Functions that return an announced model or, if it was freed, None; oldest first.
_ANNOUNCED: Final[list[Callable[[], object]]] = []


class Parameter(NamedTuple):
    """One variable of a model; None means unknown.

    Attributes:
        name: Full name, unique within the model.
        scope: Path of the layer or module; empty at the top level.
        dtype: Element type, as the framework spells it.
    """

    name: str
    scope: str
    shape: tuple[int, ...] | None
    dtype: str | None
    trainable: bool | None


def announce(model: object) -> None:
    """Register a trained model that a search cannot find, such as a JAX pytree.

    A model is described when the recording stops. A pytree is described at once,
    because its arrays may be freed before the recording stops.

    Raises:
        BadUsage: Objects of this type cannot be described.
    """
    parameters = describe_model(model)
    try:
        _ANNOUNCED.append(weakref.ref(model))
    except TypeError:
        _ANNOUNCED.append(lambda: parameters)


def announced_parameters() -> tuple[Parameter, ...]:
    """Return the variables of all announced models that still exist."""
    parameters: dict[Parameter, None] = {}
    for get in _ANNOUNCED:
        model = get()
        if model is not None:
            parameters.update(dict.fromkeys(describe_model(model)))
    return tuple(parameters)


def describe_model(model: object) -> tuple[Parameter, ...]:
    """Return the variables of a model, in the model's order.

    Args:
        model: A Keras model, a PyTorch module or a pytree of arrays.

    Raises:
        BadUsage: The object is of another type, or its framework is not imported.
    """
    if isinstance(model, tuple) and model and isinstance(model[0], Parameter):
        return model
    keras, torch, jax = (sys.modules.get(name) for name in ("keras", "torch", "jax"))
    # A Keras model on PyTorch is also a module, but only Keras has variable names.
    if keras is not None and isinstance(model, keras.Model):
        return tuple(
            # Keras 2 has no paths; its names end in `:` and the number of an output.
            _make_parameter(
                getattr(weight, "path", None) or str(weight.name).partition(":")[0],
                weight,
                trainable=bool(weight.trainable),
            )
            for weight in model.weights
        )
    if torch is not None and isinstance(model, torch.nn.Module):
        return tuple(
            _make_parameter(
                name, parameter, separator=".", trainable=bool(parameter.requires_grad)
            )
            for name, parameter in model.named_parameters()
        )
    if jax is not None:
        leaves = jax.tree_util.tree_flatten_with_path(model)[0]
        if leaves and all(hasattr(leaf, "shape") for _, leaf in leaves):
            # JAX does not record whether an optimizer updates a leaf of a pytree.
            return tuple(
                _make_parameter(path, leaf, trainable=None) for path, leaf in leaves
            )
    raise BadUsage(
        f"a {type(model).__name__} cannot be described; give a Keras model, a PyTorch "
        "module or, with jax imported, a pytree of arrays."
    )


def described_space(hostname: str, parameters: Iterable[Parameter]) -> bytes:
    """Return a serialized XSpace that contains only the description."""
    builder = XSpaceBuilder(hostname, start_ns=None)
    plane = builder.plane(MODEL_PLANE)
    for number, parameter in enumerate(parameters, start=1):
        # The type id is a number, because variables of several models may share a name.
        stats: dict[str, Value] = {ParameterStat.SCOPE: parameter.scope}
        if parameter.shape is not None:
            stats[ParameterStat.SHAPE] = msgspec.json.encode(parameter.shape).decode()
        if parameter.dtype is not None:
            stats[ParameterStat.DTYPE] = parameter.dtype
        if parameter.trainable is not None:
            stats[ParameterStat.TRAINABLE] = int(parameter.trainable)
        plane.event_type(parameter.name, type_id=number, stats=stats)
    return builder.to_bytes()


def _make_parameter(
    name: str | Iterable[Any],
    variable: Any,
    *,
    separator: str = "/",
    trainable: bool | None,
) -> Parameter:
    if isinstance(name, str):
        scope = name.rpartition(separator)[0]
    else:
        keys = [_path_key(part) for part in name]
        name, scope = separator.join(keys), separator.join(keys[:-1])
    try:
        shape = tuple(int(size) for size in variable.shape)
    except (RuntimeError, TypeError, ValueError):
        # The variable is not built yet.
        shape = None
    dtype = getattr(variable, "dtype", None)
    if dtype is not None:
        dtype = str(getattr(dtype, "name", None) or dtype).removeprefix("torch.")
    return Parameter(name, scope, shape, dtype, trainable)


def _path_key(part: Any) -> str:
    for field in ("key", "idx", "name"):
        if hasattr(part, field):
            return str(getattr(part, field))
    return str(part)
