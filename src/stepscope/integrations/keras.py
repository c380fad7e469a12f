"""A callback that records some batches of a Keras `fit` and marks every step.

The callback works with the TensorFlow, JAX and PyTorch back ends. Keras is imported by
the program, never by this module.
"""

from __future__ import annotations

import functools
import math
import re
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope._core.recorder import Trace
from stepscope.capture.base.options import MIN_WINDOW_S
from stepscope.capture.base.process_end import process_end
from stepscope.capture.recording.session import Session
from stepscope.errors import NO_FRAME, BadUsage, is_from_handler
from stepscope.integrations.shared_run import is_first_rank, print_last_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Self

    from stepscope.capture.base.options import ProfilerOptions
    from stepscope.capture.base.run import Run

__all__ = ["ProfilerCallback"]

#: Attribute that marks a `fit` method which ends recordings when it raises.
_ENDS_RECORDINGS: Final = "_stepscope_ends_recordings"


class ProfilerCallback:
    """Callback that records batches of `fit` and marks each model execution as a step.

        model.fit(data, callbacks=[ss.keras.ProfilerCallback("logs", "10,15")])

    Batches are counted from 1 over all epochs of one `fit`, and the range includes its
    last batch. If the model runs several batches per execution (`steps_per_execution`),
    an execution that contains a batch of the range is recorded as a whole, and its step
    marker contains the number of its batches.

    Steps are also marked if another recording runs, such as one around `fit`.

    Attributes:
        run: Recording of the last `fit`; None if there is no recording (yet).
    """

    # Only hooks that the main thread calls at a start are overridden: a hook at the end
    # of a batch would switch off Keras's asynchronous dispatch. No hook reads `logs` or
    # `self.model`, because both wait for the device (`self.model` on JAX).

    params: dict[str, Any] | None
    #: Number of batches in finished epochs, next batch number, batches per execution.
    _batches_before: int
    _next_batch: int
    _execution: int
    _tests: int
    _started: bool
    #: Current recording, and the latest time at which it ends.
    _session: Session | None
    _ends_at: float
    _began_at: float

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """Return a callback of the Keras that the program imported.

        Raises:
            BadUsage: The program has not imported Keras.
        """
        kind: Any = cls
        made: Self = super().__new__(_as_callback(kind))
        return made

    def __init__(
        self,
        logdir: str | PathLike[str],
        profile_batch: str | int | tuple[int, int] | None = None,
        options: ProfilerOptions | None = None,
        *,
        report: bool = True,
    ) -> None:
        """Set the batches to record and the log directory.

        Args:
            logdir: Log directory; the run is stored below it.
            profile_batch: Batches to record: `"10,15"`, `(10, 15)`, or one number. With
                0, steps are marked, and nothing is recorded. By default, the first ten
                batches are skipped and the next ten recorded: more if the ten take less
                than 0.4 s, fewer if they take more than ten seconds.
            options: Options of the recording; None means the defaults.
            report: Whether to print the first lines of the report after `fit`.

        Raises:
            BadUsage: `profile_batch` is not a valid range.
        """
        self._window = parse_window(profile_batch)
        super().__init__()
        self._logdir = logdir
        self._options = options
        self._prints_report = report
        self._trained_model: Any = None
        self._step: Trace | None = None
        self._forget_counts()
        self.run: Run | None = None
        _end_recordings_with_fit()

    def set_model(self, model: object) -> None:
        """Store the model without reading its state."""
        super().set_model(model)  # type: ignore[misc]
        self._trained_model = model

    def on_train_begin(self, logs: object = None) -> None:
        """Reset all counts for a new `fit`."""
        self._end_fit()
        self._forget_counts()
        self.run = None
        _fitting.append(self)

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """End the previous step and begin the next one."""
        self._end_step()
        first = self._batches_before + batch + 1
        count = getattr(self._trained_model, "steps_per_execution", None)
        count = count if isinstance(count, int) and count > 0 else 1
        self._execution = count
        in_epoch = (self.params or {}).get("steps")
        if isinstance(in_epoch, int) and in_epoch > batch:
            count = min(count, in_epoch - batch)
        self._follow_window(first, first + count - 1)
        self._next_batch = first + count
        self._begin_step("train", first, n_steps=count)

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        """End the last step of the epoch."""
        self._end_step()
        if (self.params or {}).get("steps") is None:
            # If Keras does not know the number of batches, its TensorFlow and JAX loops
            # start one more execution at the end, which gets no batch.
            fetches_inside = _imported_keras().config.backend() in {"tensorflow", "jax"}
            stopped = getattr(self._trained_model, "stop_training", False)
            if fetches_inside and not stopped:
                self._next_batch -= self._execution
        self._batches_before = self._next_batch - 1
        self._stop_after_window()

    def on_test_begin(self, logs: object = None) -> None:
        """End the last training step before validation begins."""
        self._end_step()
        self._stop_after_window()

    def on_test_batch_begin(self, batch: int, logs: object = None) -> None:
        """Mark the start of a validation step."""
        self._end_step()
        self._tests += 1
        self._begin_step("test", self._tests)

    def on_test_end(self, logs: object = None) -> None:
        """End the last validation step."""
        self._end_step()

    def on_train_end(self, logs: object = None) -> None:
        """End the recording if `fit` ends inside the range."""
        self._end_fit()
        window = self._window
        if window is not None and not self._started:
            warnings.warn(
                f"stepscope recorded nothing: fit ended after "
                f"{self._next_batch - 1} batches, before batch {window.first}. Give a "
                "smaller profile_batch.",
                stacklevel=2,
            )
        if self.run is not None and self._prints_report and is_first_rank():
            print_last_lines(self.run)

    def _forget_counts(self) -> None:
        self._batches_before = 0
        self._next_batch = 1
        self._execution = 1
        self._tests = 0
        self._started = False
        self._session = None
        self._ends_at = self._began_at = 0.0

    def _begin_step(self, name: str, number: int, **stats: int) -> None:
        self._step = Trace(name, step_num=number, _r=1, **stats)
        self._step.__enter__()

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def _follow_window(self, first: int, last: int) -> None:
        window = self._window
        if window is None:
            return
        if self._session is not None:
            if time.monotonic() >= self._ends_at or self._is_enough(window, first):
                self._stop_recording()
        elif not self._started and last >= window.first and first <= window.last:
            self._started = True
            try:
                self._session = Session.start(self._logdir, self._options)
            except Exception as error:
                if is_from_handler(error):
                    raise
                # An error of the profiler must not end the training.
                warnings.warn(f"stepscope records nothing: {error}", stacklevel=2)
                return
            limit_s = math.inf if window.seconds is None else window.seconds
            self._began_at = time.monotonic()
            self._ends_at = self._began_at + limit_s

    def _stop_after_window(self) -> None:
        if self._window is not None and self._is_enough(self._window, self._next_batch):
            self._stop_recording()

    def _is_enough(self, window: BatchWindow, next_batch: int) -> bool:
        if next_batch <= window.last:
            return False
        return time.monotonic() >= self._began_at + window.least_s

    def _stop_recording(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            with process_end.undisturbed():
                self.run = session.stop()
        except Exception as error:
            if is_from_handler(error):
                raise
            warnings.warn(f"stepscope stored no recording: {error}", stacklevel=2)

    def _end_fit(self) -> None:
        self._end_step()
        self._stop_recording()
        if self in _fitting:
            _fitting.remove(self)


#: Callbacks whose `fit` is running.
_fitting: list[ProfilerCallback] = []


def _imported_keras() -> Any:
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            return sys.modules[name]
    raise BadUsage(
        "ss.keras.ProfilerCallback is a callback for models of Keras, and this program "
        "has not imported it; write `import keras` first."
    )


@functools.cache
def _as_callback(cls: Any) -> Any:
    base = _imported_keras().callbacks.Callback
    if issubclass(cls, base):
        return cls
    return type(cls.__name__, (cls, base), {"__module__": cls.__module__})


def _end_recordings_with_fit() -> None:
    """Replace `fit` so that an exception in it ends its callbacks' recordings.

    Keras calls no hook when `fit` raises.
    """
    model = _imported_keras().Model
    fit: Callable[..., object] = model.fit
    if hasattr(fit, _ENDS_RECORDINGS):
        return

    @functools.wraps(fit)
    def fit_and_end(self: object, *args: object, **kwargs: object) -> object:
        with NO_FRAME:
            try:
                return fit(self, *args, **kwargs)
            except BaseException:
                for callback in tuple(_fitting):
                    if callback._trained_model is self:  # noqa: SLF001 - same module
                        callback._end_fit()  # noqa: SLF001 - same module
                raise

    setattr(fit_and_end, _ENDS_RECORDINGS, True)
    model.fit = fit_and_end


_RANGE: Final = re.compile(r"\s*(\d+)\s*(?:,\s*(\d+)\s*)?")


class BatchWindow(NamedTuple):
    """Batches `first` to `last` of a `fit`, counted from 1, both included.

    Attributes:
        seconds: Maximum duration, even if `last` was not reached; None means no limit.
        least_s: Minimum duration of the recording in seconds, even after `last`.
    """

    first: int
    last: int
    seconds: float | None = None
    least_s: float = 0.0


#: Ten batches after the first ten, which compile and warm up. Recording continues if
#: ten steps take less than `MIN_WINDOW_S`.
DEFAULT_WINDOW: Final = BatchWindow(
    first=11, last=20, seconds=10.0, least_s=MIN_WINDOW_S
)


def parse_window(profile_batch: object) -> BatchWindow | None:
    """Parse `profile_batch`: `"10,15"`, `(10, 15)`, `10` or `"10"`.

    None returns `DEFAULT_WINDOW`. 0 in any form returns None, which records nothing.

    Raises:
        BadUsage: The value has another form, or the last batch is before the first.
    """
    if profile_batch is None:
        return DEFAULT_WINDOW
    first, last = _read_range(profile_batch)
    if first == 0 and last == 0:
        return None
    if first < 1:
        raise BadUsage(
            f"profile_batch={profile_batch!r}: batches are counted from 1; 0 alone "
            "records nothing."
        )
    if last < first:
        raise BadUsage(
            f"profile_batch={profile_batch!r}: the last batch comes before the first."
        )
    return BatchWindow(first, last)


def _read_range(profile_batch: object) -> tuple[int, int]:
    if isinstance(profile_batch, str):
        found = _RANGE.fullmatch(profile_batch)
        if found is not None:
            first, last = found.groups()
            return int(first), int(first if last is None else last)
    elif _is_count(profile_batch):
        return profile_batch, profile_batch  # type: ignore[return-value]
    elif (
        isinstance(profile_batch, tuple | list)
        and len(profile_batch) == 2
        and all(map(_is_count, profile_batch))
    ):
        return profile_batch[0], profile_batch[1]
    raise BadUsage(
        f"profile_batch={profile_batch!r} is not a range of batches; give for instance "
        '"10,15", (10, 15), or 10.'
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
