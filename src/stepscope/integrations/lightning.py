"""A profiler for Lightning's `Trainer(profiler=…)`."""

from __future__ import annotations

import contextlib
import enum
import functools
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lightning.pytorch.profilers import Profiler

from stepscope._core.recorder import Trace, is_recording
from stepscope.integrations.training import LOGDIR, Training, TrainingOptions

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from os import PathLike
    from typing import Unpack


class Role(enum.Enum):
    """What an action of Lightning says about the training; the pattern of its name."""

    EPOCH = r"run_training_epoch"
    UPDATE = r"\[LightningModule\].*\.optimizer_step"
    BATCH_END = r"\[LightningModule\].*\.on_train_batch_end"
    EVALUATION = r"\[LightningModule\].*\.on_validation_model_eval"
    EVALUATION_STEP = r"\[Strategy\].*\.validation_step"
    EVALUATION_END = r"\[Strategy\].*\.on_validation_end"
    NONE = r""


class Action(NamedTuple):
    """Role of an action, and the name of its range."""

    role: Role
    label: str


@functools.cache
def classify_action(name: str) -> Action:
    """Return role and label of an action; the label omits settings of callbacks."""
    role = next((it for it in Role if re.fullmatch(it.value, name)), Role.NONE)
    return Action(role, re.sub(r"\{.*\}", "", name))


_NO_RANGE: Final = contextlib.nullcontext()


class StepscopeProfiler(Profiler):
    """Profiler that records some steps of `fit`, with Lightning's actions as ranges.

        Trainer(profiler=ss.integrations.lightning.StepscopeProfiler("logs"))

    A step is an optimizer step with all its batches, from the end of the previous step;
    with manual optimization, it is a batch. Its number is that of `global_step` before
    it. Evaluations are ranges that belong to no step.
    """

    def __init__(
        self, logdir: str | PathLike[str] = LOGDIR, **chosen: Unpack[TrainingOptions]
    ) -> None:
        super().__init__()
        #: Lightning sets it before `setup`.
        self._lightning_module: Any = None
        self._training = Training(logdir, chosen)
        self._open: dict[str, list[Trace]] = {}
        self._has_begun = False
        self._has_updated = False

    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Expect a new training."""
        super().setup(*args, **kwargs)
        self._has_begun = self._has_updated = False

    def profile(self, action_name: str) -> AbstractContextManager[Any]:
        """Return the range of an action; outside recordings, most actions have none."""
        if classify_action(action_name).role is Role.NONE and not is_recording():
            return _NO_RANGE
        range_of_action: AbstractContextManager[Any] = super().profile(action_name)
        return range_of_action

    def start(self, action_name: str) -> None:
        """Begin the range of an action, and the training or evaluation."""
        action = classify_action(action_name)
        if action.role is Role.EPOCH:
            if not self._has_begun:
                self._has_begun = True
                trainer = getattr(self._lightning_module, "trainer", None)
                self._training.begin_training(getattr(trainer, "global_step", 0))
            # A step may end in the next epoch, so the epoch is not a range.
            return
        if action.role is Role.EVALUATION:
            self._training.begin_part("evaluate")
        if is_recording():
            trace = Trace(action.label)
            trace.__enter__()
            self._open.setdefault(action_name, []).append(trace)

    def stop(self, action_name: str) -> None:
        """End the range of an action, and the step or evaluation that it ends."""
        traces = self._open.get(action_name)
        if traces:
            traces.pop().__exit__(None, None, None)
        role = classify_action(action_name).role
        if role is Role.UPDATE:
            self._has_updated = True
        elif role is Role.BATCH_END:
            module = self._lightning_module
            if self._has_updated or not getattr(module, "automatic_optimization", True):
                self._has_updated = False
                self._training.next_step()
        elif role is Role.EVALUATION_STEP:
            self._training.begin_part("evaluate")
        elif role is Role.EVALUATION_END:
            self._training.begin_step()

    def describe(self) -> None:
        """Store the recording in progress, and print the report's first lines."""
        self._training.end_training()
