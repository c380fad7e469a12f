"""The model that was trained while it was recorded: found, or announced, and described.

A program need not say what it trains: models are looked for when the recording stops.
Those that an optimizer trains count; where nothing is trained, the one model that there
is. Where that does not tell which, nothing is described rather than too much.
"""

from __future__ import annotations

import gc
import socket
import sys
from typing import TYPE_CHECKING, Any

from stepscope.capture.collectors.contract import Collected
from stepscope.capture.ground.describing import (
    Parameter,
    announced,
    describe,
    described_space,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions

__all__ = ["ModelCollector"]


class ModelCollector:
    """Describes the model once, when the recording stops."""

    name = "model"

    def available(self) -> Unavailable | None:
        """None where a framework with models is imported."""
        if {"keras", "torch", "jax"} & sys.modules.keys():
            return None
        return Unavailable(
            code="NOT_RECORDED",
            reason="The program has imported no framework whose models are known.",
            remedy="Import keras, torch or jax before the recording starts.",
        )

    def start(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Nothing happens while the program runs."""

    def stop(self) -> Collected:
        """Describe what was announced, else what is found."""
        parameters = announced() or _found()
        if not parameters:
            return Collected(b"")
        return Collected(described_space(socket.gethostname(), parameters))


def _found() -> tuple[Parameter, ...]:
    """The variables of the models that are trained in this process."""
    kinds = [kind for kind in (_keras_model(), _torch_module()) if kind is not None]
    if not kinds:
        return ()
    optimizer = _torch_optimizer()
    models, optimizers = [], []
    # Types only are looked at: asking an object itself may run code of the program.
    for it in gc.get_objects():
        kind = type(it)
        if any(issubclass(kind, model) for model in kinds):
            models.append(it)
        elif optimizer is not None and issubclass(kind, optimizer):
            optimizers.append(it)
    keras = _keras_model()
    if keras is not None:
        chosen = _compiled([it for it in models if isinstance(it, keras)])
        if chosen:
            return _described(chosen)
    return _described(_trained(models, optimizers))


def _compiled(models: list[Any]) -> list[Any]:
    """Keras models with an optimizer, else the only one that there is."""
    compiled = [it for it in models if getattr(it, "optimizer", None) is not None]
    return _whole(compiled) if compiled else _only(_whole(models))


def _trained(models: list[Any], optimizers: list[Any]) -> list[Any]:
    """Modules that an optimizer trains, else the only one that there is."""
    modules = [it for it in models if hasattr(it, "parameters")]
    updated = {
        id(parameter)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    whole = _whole(modules)
    trained = [it for it in whole if any(id(p) in updated for p in _weights(it))]
    return trained or _only(whole)


def _only(models: list[Any]) -> list[Any]:
    return models if len(models) == 1 else []


def _whole(models: Iterable[Any]) -> list[Any]:
    """The models without their parts: those that hold variables of their own."""
    sized = [(it, {id(weight) for weight in _weights(it)}) for it in models]
    kept: list[Any] = []
    seen: set[int] = set()
    for model, weights in sorted(sized, key=lambda it: -len(it[1])):
        if weights - seen:
            kept.append(model)
            seen |= weights
    return kept


def _described(models: Iterable[Any]) -> tuple[Parameter, ...]:
    found: dict[Parameter, None] = {}
    for model in models:
        found.update(dict.fromkeys(describe(model)))
    return tuple(found)


def _weights(model: Any) -> Iterable[Any]:
    keras = _keras_model()
    if keras is not None and isinstance(model, keras):
        weights: Iterable[Any] = model.weights
        return weights
    parameters: Iterable[Any] = model.parameters()
    return parameters


def _keras_model() -> Any:
    return getattr(sys.modules.get("keras"), "Model", None)


def _torch_module() -> Any:
    return getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)


def _torch_optimizer() -> Any:
    return getattr(getattr(sys.modules.get("torch"), "optim", None), "Optimizer", None)
