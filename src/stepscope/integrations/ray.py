"""Recording of the workers of Ray Train."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from stepscope.errors import NO_FRAME
from stepscope.integrations.optimizer_steps import OptimizerSteps, make_training
from stepscope.integrations.training import LOGDIR, TrainingOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Unpack

_P = ParamSpec("_P")
_R = TypeVar("_R")


def record_workers(
    train_loop: Callable[_P, _R],
    logdir: str | PathLike[str] = LOGDIR,
    **chosen: Unpack[TrainingOptions],
) -> Callable[_P, _R]:
    """Return a PyTorch training loop that records some optimizer steps of each worker.

        TorchTrainer(ss.integrations.ray.record_workers(train_loop, "logs"), …)

    The workers record into one run, so all of them must reach the log directory.

    Raises:
        BadUsage: A number is negative, or nothing would be recorded.
    """
    # Workers have another working directory.
    directory = Path(logdir).absolute()
    make_training(directory, chosen)

    @functools.wraps(train_loop)
    def record_loop(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        steps = OptimizerSteps(directory, chosen)
        try:
            with NO_FRAME:
                return train_loop(*args, **kwargs)
        finally:
            steps.end_training()

    return record_loop
