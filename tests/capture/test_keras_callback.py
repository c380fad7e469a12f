"""The callback against a Keras that calls its hooks in Keras's order.

The loops of this stand-in are those of Keras 3's trainers: hooks get the first batch of
an execution, counted from 0 in its epoch; nothing is called when `fit` raises.
"""

from __future__ import annotations

import sys
import types
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest

from stepscope._core import recorder
from stepscope.errors import AlreadyRecording, BadUsage
from stepscope.integrations import keras as callbacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Callback:
    """What Keras gives a callback; no hook does anything."""

    params: dict[str, Any] | None = None

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def set_model(self, model: Model) -> None:
        self.kept_model = model

    @property
    def model(self) -> Model:
        raise AssertionError("self.model waits for the device")

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *_args, **_kwargs: None


class Logs:
    """Reading a value of it would wait for the device."""

    def __getitem__(self, key: str) -> float:
        raise AssertionError("logs were read")


class Model:
    """A model whose `fit` only calls hooks."""

    def __init__(self, steps_per_execution: int = 1) -> None:
        self.steps_per_execution = steps_per_execution
        self.stop_training = False

    def fit(
        self,
        batches: int,
        callback: Any,
        *,
        epochs: int = 1,
        tests: int = 0,
        known: bool = True,
        on_batch: Callable[[int], None] = lambda _batch: None,
    ) -> None:
        callback.set_model(self)
        callback.set_params({"steps": batches if known else None, "epochs": epochs})
        callback.on_train_begin(Logs())
        # Where the number is unknown, one more fetch finds that there is nothing left.
        end = batches if known else batches + 1
        for epoch in range(epochs):
            callback.on_epoch_begin(epoch, Logs())
            for first in range(0, end, self.steps_per_execution):
                callback.on_train_batch_begin(first, logs=Logs())
                on_batch(first)
            if tests:
                callback.on_test_begin(Logs())
                for first in range(tests):
                    callback.on_test_batch_begin(first, logs=Logs())
                callback.on_test_end(Logs())
            callback.on_epoch_end(epoch, Logs())
        callback.on_train_end(Logs())


class Step(NamedTuple):
    """One annotation that ended."""

    name: str
    begin_ns: int
    end_ns: int
    stats: dict[str, Any]


class Recorded(NamedTuple):
    """What the annotations of one recording hold."""

    rows: list[Step]

    def steps(self, name: str = "train") -> list[int]:
        return [row.stats["step_num"] for row in self.rows if row.name == name]

    def batches(self) -> list[int]:
        return [row.stats["n_steps"] for row in self.rows if row.name == "train"]


@pytest.fixture
def backend() -> str:
    return "jax"


@pytest.fixture
def keras(monkeypatch: pytest.MonkeyPatch, backend: str) -> types.ModuleType:
    """A Keras whose `fit` nobody has touched."""
    module = types.ModuleType("keras")
    model = type("Model", (Model,), {"fit": Model.fit})
    module.callbacks = types.SimpleNamespace(Callback=Callback)  # type: ignore[attr-defined]
    module.config = types.SimpleNamespace(backend=lambda: backend)  # type: ignore[attr-defined]
    module.Model = model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keras", module)
    callbacks._as_callback.cache_clear()
    return module


class Session:
    """Recordings that hold annotations alone."""

    found: ClassVar[list[Recorded]] = []

    @classmethod
    def start(cls, *_: object) -> Session:
        assert not recorder.is_recording()
        recorder.start_recording(1000)
        return cls()

    def stop(self) -> str:
        recorder.stop_recording()
        kept = recorder.drain_annotations()
        columns = (kept.names, kept.begin_ns, kept.end_ns, kept.stats)
        self.found.append(Recorded([Step(*row) for row in zip(*columns, strict=True)]))
        return f"run {len(self.found)}"


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Recorded]]:
    monkeypatch.setattr(callbacks, "Session", Session)
    Session.found.clear()
    yield Session.found
    recorder.stop_recording()
    recorder.drain_annotations()


def test_ten_to_fifteen_are_six_steps(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    callback = callbacks.ProfilerCallback("logs", "10,15")
    keras.Model().fit(40, callback)
    (found,) = recordings
    assert found.steps() == [10, 11, 12, 13, 14, 15]
    assert found.batches() == [1] * 6
    assert callback.run == "run 1"


def test_every_step_is_a_root_that_ends_where_the_next_begins(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    keras.Model().fit(40, callbacks.ProfilerCallback("logs", "10,15"))
    rows = recordings[0].rows
    assert {row.stats["_r"] for row in rows} == {1}
    assert all(row.begin_ns <= row.end_ns for row in rows)
    assert all(row.end_ns <= after.begin_ns for row, after in pairwise(rows))


@pytest.mark.parametrize(
    ("window", "steps"),
    [
        ("10,15", [6, 11]),  # it begins in the second execution and ends in the third
        ("12,13", [11]),  # it lies inside one
        ("1,1", [1]),
        ("5,6", [1, 6]),
        ("38,90", [36]),  # fit ends before it does
    ],
)
def test_an_execution_of_five_batches_is_taken_whole(
    keras: types.ModuleType, recordings: list[Recorded], window: str, steps: list[int]
) -> None:
    keras.Model(5).fit(40, callbacks.ProfilerCallback("logs", window))
    (found,) = recordings
    assert found.steps() == steps
    assert found.batches() == [5] * len(steps)


def test_batches_are_counted_over_epochs(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    """Epochs of 13 batches end with an execution of three."""
    keras.Model(5).fit(13, callbacks.ProfilerCallback("logs", "11,20"), epochs=3)
    (found,) = recordings
    assert found.steps() == [11, 14, 19]
    assert found.batches() == [3, 5, 5]


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_a_fetch_that_finds_nothing_counts_no_batch(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    keras.Model().fit(
        4, callbacks.ProfilerCallback("logs", "1,12"), epochs=3, known=False
    )
    (found,) = recordings
    assert found.steps() == [1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 9, 10, 11, 12]


def test_validation_is_marked_as_test(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    keras.Model().fit(4, callbacks.ProfilerCallback("logs", "3,6"), epochs=2, tests=2)
    (found,) = recordings
    assert [(row.name, row.stats["step_num"]) for row in found.rows] == [
        *(("train", 3), ("train", 4), ("test", 1), ("test", 2)),
        *(("train", 5), ("train", 6)),
    ]


def test_a_validation_after_the_range_is_not_recorded(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    keras.Model().fit(4, callbacks.ProfilerCallback("logs", "3,4"), epochs=2, tests=2)
    (found,) = recordings
    assert (found.steps(), found.steps("test")) == ([3, 4], [])


def test_a_fit_that_raises_ends_the_recording_and_raises_as_before(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    def fail(batch: int) -> None:
        if batch == 11:
            raise KeyboardInterrupt("stop")

    callback = callbacks.ProfilerCallback("logs", "10,15")
    with pytest.raises(KeyboardInterrupt, match="stop"):
        keras.Model().fit(40, callback, on_batch=fail)
    assert not recorder.is_recording()
    (found,) = recordings
    assert found.steps() == [10, 11, 12]
    assert callback.run == "run 1"


def test_another_fit_that_raises_leaves_the_recording_alone(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    """A model that is fitted inside a step of another one."""
    inner = callbacks.ProfilerCallback("logs", 0)

    def fail(_batch: int) -> None:
        raise ValueError("inner")

    def fit_inner(batch: int) -> None:
        if batch == 11:
            with pytest.raises(ValueError, match="inner"):
                keras.Model().fit(1, inner, on_batch=fail)

    keras.Model().fit(
        40, callbacks.ProfilerCallback("logs", "10,15"), on_batch=fit_inner
    )
    assert set(range(10, 16)) <= set(recordings[0].steps())


def test_fit_is_wrapped_once_however_many_callbacks_there_are(
    keras: types.ModuleType,
) -> None:
    callbacks.ProfilerCallback("logs", 1)
    wrapped = keras.Model.fit
    callbacks.ProfilerCallback("logs", 2)
    assert keras.Model.fit is wrapped
    assert wrapped.__name__ == "fit"


def test_each_fit_counts_anew(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    callback = callbacks.ProfilerCallback("logs", "2,3")
    model = keras.Model()
    model.fit(4, callback)
    model.fit(4, callback)
    assert [found.steps() for found in recordings] == [[2, 3], [2, 3]]
    assert callback.run == "run 2"


def test_zero_records_nothing_but_marks_steps_for_whoever_records(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    around = Session.start()
    callback = callbacks.ProfilerCallback("logs", 0)
    keras.Model().fit(3, callback)
    around.stop()
    assert recordings[0].steps() == [1, 2, 3]
    assert callback.run is None


def test_who_records_already_goes_on_and_training_too(
    keras: types.ModuleType,
    recordings: list[Recorded],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    around = Session.start()

    def start(*_: object) -> None:
        raise AlreadyRecording.of("the test", "now", "elsewhere")

    monkeypatch.setattr(Session, "start", start)
    with pytest.warns(UserWarning, match="the test"):
        keras.Model().fit(30, callbacks.ProfilerCallback("logs", "10,15"))
    assert recorder.is_recording()
    around.stop()
    assert recordings[0].steps() == list(range(1, 31))


@pytest.mark.usefixtures("recordings")
def test_a_recording_that_cannot_be_stored_does_not_end_the_training(
    keras: types.ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(_: Session) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Session, "stop", stop)
    callback = callbacks.ProfilerCallback("logs", "2,3")
    with pytest.warns(UserWarning, match="disk full"):
        keras.Model().fit(10, callback)
    assert callback.run is None


def test_a_range_that_fit_does_not_reach_is_said(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    with pytest.warns(UserWarning, match="9 batches, before batch 10"):
        keras.Model().fit(9, callbacks.ProfilerCallback("logs", "10,15"))
    assert recordings == []


def test_the_default_ends_after_ten_seconds(
    keras: types.ModuleType,
    recordings: list[Recorded],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches of three seconds: the recording covers four of them."""
    clock = [0.0]
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock[0])

    def train(_batch: int) -> None:
        clock[0] += 3.0

    keras.Model().fit(40, callbacks.ProfilerCallback("logs"), on_batch=train)
    (found,) = recordings
    assert found.steps() == [11, 12, 13, 14]


def test_the_default_lasts_two_fifths_of_a_second_at_least(
    keras: types.ModuleType,
    recordings: list[Recorded],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches of 1/32 s: thirteen of them are the first that take as long."""
    clock = [0.0]
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: clock[0])

    def train(_batch: int) -> None:
        clock[0] += 2**-5

    keras.Model().fit(40, callbacks.ProfilerCallback("logs"), on_batch=train)
    (found,) = recordings
    assert found.steps() == list(range(11, 24))


@pytest.mark.parametrize("window", ["15,10", "ten", -1])
@pytest.mark.usefixtures("keras")
def test_a_range_that_is_none_fails_before_any_training(window: Any) -> None:
    with pytest.raises(BadUsage):
        callbacks.ProfilerCallback("logs", window)


def test_without_keras_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    callbacks._as_callback.cache_clear()
    with pytest.raises(BadUsage, match="import keras"):
        callbacks.ProfilerCallback("logs")


@pytest.mark.usefixtures("keras")
def test_it_is_a_callback_of_keras_without_hooks_at_the_end_of_a_batch() -> None:
    """One would switch off Keras's asynchronous dispatch."""
    callback = callbacks.ProfilerCallback("logs", 1)
    assert isinstance(callback, Callback)
    assert isinstance(callback, callbacks.ProfilerCallback)
    own = set(vars(callbacks.ProfilerCallback))
    assert {name for name in own if name.startswith("on_")} == {
        *("on_train_begin", "on_train_batch_begin", "on_train_end", "on_epoch_end"),
        *("on_test_begin", "on_test_batch_begin", "on_test_end"),
    }


def test_a_class_derived_from_it_is_a_callback_of_keras_too(
    keras: types.ModuleType, recordings: list[Recorded]
) -> None:
    class Mine(callbacks.ProfilerCallback):
        pass

    callback = Mine("logs", "2,3")
    assert isinstance(callback, Mine)
    assert isinstance(callback, Callback)
    keras.Model().fit(4, callback)
    assert recordings[0].steps() == [2, 3]
