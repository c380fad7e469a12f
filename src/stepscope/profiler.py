"""`Profiler`: the verbs of TensorFlow's older one, over recording and reading."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stepscope.analysis.model_views import ModelViewsResult
from stepscope.capture.ground.annotate import StepTrace
from stepscope.capture.recording.session import Session
from stepscope.derive.model.view_names import VIEWS
from stepscope.errors import BadUsage
from stepscope.report import to_table
from stepscope.report.text import model as text_model
from stepscope.session import open_profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from stepscope.capture.ground.options import ProfilerOptions
    from stepscope.capture.recording.session import Run
    from stepscope.derive.model.view_names import View
    from stepscope.derive.profile_data import ProfileData
    from stepscope.unavailable import Unavailable

__all__ = ["ModelView", "Profiler"]

_TOOL: Final = "model_views"
_NARROWEST: Final = 60


@dataclass(frozen=True)
class ModelView:
    """One view of the costs of a model.

    Attributes:
        text: It as a page of text, which `print` shows.
        result: All views as `model_views` gives them; or why there are none.
    """

    text: str
    result: ModelViewsResult | Unavailable

    def __str__(self) -> str:
        """The text."""
        return self.text


class Profiler:
    """Record steps of a program, then look at what its model costs.

        profiler = ss.Profiler("logs")
        for i in range(5):
            with profiler.add_step(i):
                train_step()
        print(profiler.profile_operations(preset="time_and_memory"))

    The first step begins the recording; asking for a view, or `save`, ends it. Steps
    that are added later are a recording of their own, and views are of the newest.

    Options of the views are those of `model_views`, whose names and meanings are the
    older API's: `max_depth`, `min_micros`, `order_by`, `start_name_regexes`, … and
    `preset` for what its builder made (`time_and_memory`, `float_operation`,
    `trainable_variables_parameter`).
    """

    def __init__(
        self, logdir: str | PathLike[str], options: ProfilerOptions | None = None
    ) -> None:
        """Say where the recording goes, and what is recorded.

        Args:
            logdir: Log directory; each recording is a run below it.
            options: What to record.
        """
        self._logdir = logdir
        self._options = options
        self._session: Session | None = None
        self._run: Run | None = None
        self._opened: ProfileData | None = None

    @contextlib.contextmanager
    def add_step(self, step: int) -> Iterator[None]:
        """Record what the block does as step `step`.

        Raises:
            AlreadyRecording: Someone else records in this process.
        """
        if self._session is None:
            self._session = Session.start(self._logdir, self._options)
        with StepTrace(step):
            yield

    def save(self) -> Run:
        """End the recording and write it; again without new steps, the same run.

        Raises:
            BadUsage: No step was added.
        """
        session, self._session = self._session, None
        if session is not None:
            self._run, self._opened = session.stop(), None
        if self._run is None:
            raise BadUsage(
                "there is nothing to save or to look at; add a step first: "
                "`with profiler.add_step(i): ...`."
            )
        return self._run

    def profile_name_scope(self, **options: object) -> ModelView:
        """Costs by name scope, or by module of the model.

        Args:
            options: Options of `model_views`.

        Raises:
            BadUsage: No step was added, or an option does not exist.
            BadInput: The recording could not be written.
        """
        return self._view("scope", options)

    def profile_graph(self, **options: object) -> ModelView:
        """Costs by op, each beneath the op that called it; as `profile_name_scope`."""
        return self._view("graph", options)

    def profile_operations(self, **options: object) -> ModelView:
        """Costs by op type; as `profile_name_scope`."""
        return self._view("op", options)

    def profile_python(self, **options: object) -> ModelView:
        """Costs by line of the program; as `profile_name_scope`."""
        return self._view("code", options)

    def _view(self, view: View, options: dict[str, Any]) -> ModelView:
        found = self._profile()
        result = found.tool(_TOOL, **{**options, "view": view})
        title = f"{view} view · {found.run} · {', '.join(found.hosts)}"
        width = max(_NARROWEST, shutil.get_terminal_size().columns)
        if isinstance(result, ModelViewsResult):
            text = text_model.render(
                result, view=view, title=title, others=VIEWS, width=width
            )
            return ModelView(text, result)
        text = to_table.render_unavailable(title, result, width=width)
        return ModelView(text, result)

    def _profile(self) -> ProfileData:
        """The newest recording, read once.

        Raises:
            BadUsage: It left no file; with the reasons that it gave.
        """
        run = self.save()
        if self._opened is None:
            if run.path is None:
                why = " ".join(run.warnings) or "Nothing was stored."
                raise BadUsage(f"the recording left no file to look at. {why}")
            self._opened = open_profile(run.path)
        return self._opened
