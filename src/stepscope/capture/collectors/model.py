"""Description of the model that is trained during a recording.

A program may announce its model; otherwise models are searched for when the recording
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

from stepscope.capture.base.describing import (
    announced_parameters,
    describe_model,
    described_space,
)
from stepscope.capture.collectors.contract import Collected
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepscope.capture.base.clock import ClockPair
    from stepscope.capture.base.options import ProfilerOptions

#: Maximum CPU seconds of the search through the program's objects, for which the
#: program waits, and number of objects examined between two readings of the clock.
_SEARCH_S: Final = 1.0
_OBJECTS_PER_CHECK: Final = 2**16


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
        """Describe the announced models; if there are none, search for models."""
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
    models = [obj for obj in objects if not issubclass(type(obj), optimizers)]
    if keras is not None:
        # Take the Keras models with an optimizer; if there are none, the only model.
        of_keras = [model for model in models if isinstance(model, keras)]
        compiled = [
            model for model in of_keras if getattr(model, "optimizer", None) is not None
        ]
        outer = _outermost_models(compiled or of_keras)
        if len(outer) == 1 or (compiled and outer):
            return outer
    # Take the modules that an optimizer trains; if there are none, the only module.
    updated = {
        id(parameter)
        for optimizer in objects
        if issubclass(type(optimizer), optimizers)
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    outer = _outermost_models(model for model in models if hasattr(model, "parameters"))
    trained = [
        model for model in outer if any(id(p) in updated for p in _weights_of(model))
    ]
    return trained or (outer if len(outer) == 1 else [])


def _find_objects(kinds: tuple[type, ...]) -> list[Any]:
    until_s = time.thread_time() + _SEARCH_S
    objects = gc.get_objects()
    # Examine only types, by `id`: an attribute of an object, or the hash of a type, may
    # run code of the program.
    wanted: dict[int, bool] = {}
    matches: list[Any] = []
    for first in range(0, len(objects), _OBJECTS_PER_CHECK):
        if time.thread_time() > until_s:
            raise _TooManyObjects(
                f"no model is described: in {_SEARCH_S:g} s only {first:,} of the "
                f"program's {len(objects):,} objects were searched. Name the model "
                "with stepscope.describe(model)"
            )
        some = objects[first : first + _OBJECTS_PER_CHECK]
        of_type = list(map(id, map(type, some)))
        for key, sample in dict(zip(of_type, some, strict=True)).items():
            if key not in wanted:
                wanted[key] = issubclass(type(sample), kinds)
        matches += itertools.compress(some, map(wanted.__getitem__, of_type))
    return matches


def _outermost_models(models: Iterable[Any]) -> list[Any]:
    """Return the models that have variables which no larger model has."""
    sized = [(model, {id(weight) for weight in _weights_of(model)}) for model in models]
    outer: list[Any] = []
    covered: set[int] = set()
    for model, weights in sorted(sized, key=lambda pair: -len(pair[1])):
        if weights - covered:
            outer.append(model)
            covered |= weights
    return outer


def _weights_of(model: Any) -> Iterable[Any]:
    keras = _keras_model()
    if keras is not None and isinstance(model, keras):
        weights: Iterable[Any] = model.weights
        return weights
    parameters: Iterable[Any] = model.parameters()
    return parameters


def _keras_model() -> Any:
    return getattr(sys.modules.get("keras"), "Model", None)
