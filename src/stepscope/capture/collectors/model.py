"""The model that is trained during the recording: found or announced, and described.

A program does not have to name its model: models are searched for when the recording
stops. Models that an optimizer trains are described. If none is trained, the program's
only model is described; several untrained models are not described.
"""

from __future__ import annotations

import gc
import itertools
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from stepscope.capture.collectors.contract import Collected
from stepscope.capture.ground.describing import (
    announced_parameters,
    describe_model,
    described_space,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.capture.ground.clock import ClockPair
    from stepscope.capture.ground.options import ProfilerOptions

#: Maximum CPU seconds of the search through the program's objects, for which the
#: program waits, and number of objects examined between two readings of the clock.
_SEARCH_S: Final = 1.0
_AT_ONCE: Final = 2**16


class _TooManyObjects(Exception):
    """The search for models would take too long; the message is one line."""


class ModelCollector:
    """Collector that describes the model once, when the recording stops."""

    name = "model"

    def why_unavailable(self) -> Unavailable | None:
        """Return None if a framework with models is imported."""
        if {"keras", "torch", "jax"} & sys.modules.keys():
            return None
        return Unavailable(
            code="NOT_RECORDED",
            reason="The program has imported no framework whose models are known.",
            remedy="Import keras, torch or jax before the recording starts.",
        )

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Do nothing: the model is only searched for at the end."""

    def drop_events(self) -> None:
        """Do nothing: the model was not searched for yet."""

    def hand_over(self) -> Collected:
        """Describe the announced models, or else the models found."""
        try:
            parameters = announced_parameters() or tuple(
                dict.fromkeys(
                    parameter
                    for model in _trained_models()
                    for parameter in describe_model(model)
                )
            )
        except _TooManyObjects as error:
            return Collected(b"", (str(error),))
        if not parameters:
            return Collected(b"")
        return Collected(described_space(socket.gethostname(), parameters))


def _trained_models() -> list[Any]:
    torch: Any = sys.modules.get("torch")
    keras = _keras_model()
    module = getattr(getattr(torch, "nn", None), "Module", None)
    kinds = [kind for kind in (keras, module) if kind is not None]
    if not kinds:
        return []
    optimizer = getattr(getattr(torch, "optim", None), "Optimizer", None)
    optimizers = () if optimizer is None else (optimizer,)
    objects = _find_objects((*kinds, *optimizers))
    models = [it for it in objects if not issubclass(type(it), optimizers)]
    if keras is not None:
        # Take the Keras models with an optimizer, or else the only Keras model.
        of_keras = [it for it in models if isinstance(it, keras)]
        compiled = [it for it in of_keras if getattr(it, "optimizer", None) is not None]
        whole = _whole_models(compiled or of_keras)
        if len(whole) == 1 or (compiled and whole):
            return whole
    # Take the modules that an optimizer trains, or else the only module.
    updated = {
        id(parameter)
        for it in objects
        if issubclass(type(it), optimizers)
        for group in it.param_groups
        for parameter in group["params"]
    }
    whole = _whole_models(it for it in models if hasattr(it, "parameters"))
    trained = [it for it in whole if any(id(p) in updated for p in _model_weights(it))]
    return trained or (whole if len(whole) == 1 else [])


def _find_objects(kinds: tuple[type, ...]) -> list[Any]:
    """Return all objects of the process that have one of these types."""
    until_s = time.thread_time() + _SEARCH_S
    objects = gc.get_objects()
    # Examine only types, by `id`: an attribute of an object, or the hash of a type, may
    # run code of the program.
    wanted: dict[int, bool] = {}
    found: list[Any] = []
    for first in range(0, len(objects), _AT_ONCE):
        if time.thread_time() > until_s:
            raise _TooManyObjects(
                f"no model is described: in {_SEARCH_S:g} s only {first:,} of the "
                f"program's {len(objects):,} objects were searched for it. Name it "
                "with stepscope.describe(model)"
            )
        some = objects[first : first + _AT_ONCE]
        of_type = list(map(id, map(type, some)))
        for key, it in dict(zip(of_type, some, strict=True)).items():
            if key not in wanted:
                wanted[key] = issubclass(type(it), kinds)
        found += itertools.compress(some, map(wanted.__getitem__, of_type))
    return found


def _whole_models(models: Iterable[Any]) -> list[Any]:
    """Return models that are not parts of others: those with additional variables."""
    sized = [(it, {id(weight) for weight in _model_weights(it)}) for it in models]
    kept: list[Any] = []
    seen: set[int] = set()
    for model, weights in sorted(sized, key=lambda it: -len(it[1])):
        if weights - seen:
            kept.append(model)
            seen |= weights
    return kept


def _model_weights(model: Any) -> Iterable[Any]:
    keras = _keras_model()
    if keras is not None and isinstance(model, keras):
        weights: Iterable[Any] = model.weights
        return weights
    parameters: Iterable[Any] = model.parameters()
    return parameters


def _keras_model() -> Any:
    return getattr(sys.modules.get("keras"), "Model", None)
