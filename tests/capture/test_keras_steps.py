"""Steps of Keras `fit` as its callbacks are called, with a Keras of a few lines."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from stepscope.capture.launching.step_sources import keras

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class CallbackList:
    """Calls what the program does, if anything."""

    def __init__(self, does: Callable[[], object] | None = None) -> None:
        self._does = does

    def on_train_batch_begin(self, batch: int) -> None: ...

    def on_train_batch_end(self, _: int) -> None:
        if self._does is not None:
            self._does()

    def on_epoch_end(self, epoch: int) -> None: ...

    def on_train_end(self) -> None: ...

    def on_test_begin(self) -> None: ...

    def on_test_end(self) -> None: ...

    def on_predict_begin(self) -> None: ...

    def on_predict_end(self) -> None: ...


class Optimizer:
    def apply(self) -> None: ...


class Heard:
    """Notes what a counter is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.window = SimpleNamespace(abandon=self._failed)

    def _failed(self, error: BaseException) -> None:
        raise AssertionError from error

    def begins(self, source: str, *, batches: int) -> None:
        del source, batches
        self.told.append("step begins")

    def ends(self, source: str) -> None:
        del source
        self.told.append("step ends")

    def mute(self) -> None:
        self.told.append("mute")

    def unmute(self) -> None:
        self.told.append("unmute")


def evaluate() -> None:
    validation = CallbackList()
    validation.on_test_begin()
    validation.on_test_end()


def heard(monkeypatch: pytest.MonkeyPatch, program: Callable[[], object]) -> list[str]:
    modules: dict[str, Any] = {
        "keras": ModuleType("keras"),
        "keras.callbacks": SimpleNamespace(CallbackList=CallbackList),
        "keras.optimizers": SimpleNamespace(Optimizer=Optimizer),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    counter = Heard()
    undo = keras.listen_to_steps(counter)  # type: ignore[arg-type]  # as much as is asked of it
    program()
    undo()
    return counter.told


def test_what_a_callback_of_a_batch_evaluates_is_a_part_of_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fit() -> None:
        callbacks = CallbackList(evaluate)
        callbacks.on_train_batch_begin(0)
        callbacks.on_train_batch_end(0)
        callbacks.on_train_batch_begin(1)

    assert heard(monkeypatch, fit) == [
        "step begins",
        *("mute", "unmute"),
        "step begins",
    ]


def test_a_validation_of_fit_ends_the_step_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fit() -> None:
        callbacks = CallbackList()
        callbacks.on_train_batch_begin(0)
        callbacks.on_train_batch_end(0)
        evaluate()

    assert heard(monkeypatch, fit) == ["step begins", "step ends", "mute", "unmute"]


def test_what_was_listened_to_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(vars(CallbackList))
    assert heard(monkeypatch, CallbackList) == []
    assert dict(vars(CallbackList)) == before
