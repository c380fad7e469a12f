"""The model that was trained while it was recorded: found, or announced, and described.

A program need not say what it trains: models are looked for when the recording stops.
Those that an optimizer trains count; where nothing is trained, the one model that there
is. Where there are several and none is trained, nothing is described.
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

#: Processor time that the search through the program's objects may take, for which the
#: program waits, and how many are looked at between two readings of the clock.
_SEARCH_S: Final = 1.0
_AT_ONCE: Final = 2**16


class _TooManyObjects(Exception):
    """The search for models would take too long; the message is one line."""


class ModelCollector:
    """Describes the model once, when the recording stops."""

    name = "model"

    def why_unavailable(self) -> Unavailable | None:
        """Return None where a framework with models is imported."""
        if {"keras", "torch", "jax"} & sys.modules.keys():
            return None
        return Unavailable(
            code="NOT_RECORDED",
            reason="The program has imported no framework whose models are known.",
            remedy="Import keras, torch or jax before the recording starts.",
        )

    def start_collecting(self, options: ProfilerOptions, clock: ClockPair) -> None:
        """Nothing happens while the program runs."""

    def drop_events(self) -> None:
        """Search for nothing."""

    def hand_over(self) -> Collected:
        """Describe what was announced, else what is found."""
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
        # Those with an optimizer, else the only one that there is.
        of_keras = [it for it in models if isinstance(it, keras)]
        compiled = [it for it in of_keras if getattr(it, "optimizer", None) is not None]
        whole = _whole_models(compiled or of_keras)
        if len(whole) == 1 or (compiled and whole):
            return whole
    # Modules that an optimizer trains, else the only one that there is.
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
    """Return the objects of the program that are of these types."""
    until_s = time.thread_time() + _SEARCH_S
    objects = gc.get_objects()
    # Types only are looked at: asking an object itself may run code of the program, and
    # so may asking a type for its hash.
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
    """Return the models without their parts: those that hold variables of their own."""
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
