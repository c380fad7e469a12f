"""`Profiler`: the verbs of TensorFlow's older one, over a recording."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope import rundir
from stepscope._core import recorder
from stepscope.capture.ground.annotate import StepTrace
from stepscope.capture.ground.options import ProfilerOptions
from stepscope.capture.recording.session import Session
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from os import PathLike
    from types import ModuleType

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.capture.ground.run import Run
    from stepscope.derive.model.view_names import View
    from stepscope.profiler.views import Advice, ModelView

_log: Final = logging.getLogger("stepscope")
#: What steps are called.
_STEP: Final = "train"
#: The older API can group ops by their shapes, so shapes are recorded.
_OPTIONS: Final = ProfilerOptions(record_shapes=True)


class Profiler:
    """Record a program, then look at what its model costs.

        profiler = ss.Profiler("logs")
        for i in range(5):
            train_step()
            profiler.add_step(i)
        options = ss.ProfileOptionBuilder.time_and_memory()
        profiler.profile_name_scope("train", 3, options=options)
        profiler.save()

    Recording begins here and ends with the first view, with `advise` or `save`. A step
    that is added later begins another one, and views are of the newest.

    Options of the views are a dictionary with the keys of the older API, as those of
    `model_views` are: `max_depth`, `min_micros`, `order_by`,
    `start_name_regexes`, …; each can be given by name as well, which wins. With
    `output` "stdout", as `ProfileOptionBuilder` has it, a view prints itself.

    Attributes:
        profile_name: What the recording is called in views, and the run that `save`
            makes in another log directory; None for the name of the run.
    """

    def __init__(
        self, logdir: str | PathLike[str], options: ProfilerOptions | None = None
    ) -> None:
        """Begin to record.

        Args:
            logdir: Log directory; each recording is a run below it.
            options: What to record; None means the defaults, and shapes.

        Raises:
            AlreadyRecording: Someone else records in this process.
        """
        self.profile_name: str | None = None
        self._logdir = logdir
        self._options = options or _OPTIONS
        self._run: Run | None = None
        self._opened: ProfileWithTools | None = None
        self._added: _AddedStep | None = None
        self._session: Session | None = None
        #: Where the next step begins, on the clock of `recorder.now`.
        self._since = 0
        #: Number of the step that was added last.
        self._last: int | None = None
        #: Nothing but the step before it is known of the recording under way.
        self._empty = False
        self._begin_recording()

    def add_step(
        self, step: int, run_meta: object = None
    ) -> AbstractContextManager[None]:
        """Say that step `step` is over; in a `with`, that the block is the step.

        What is over began at the step before, or with the recording. Where a view has
        ended the recording, the step just added is known already; another one begins
        the next recording, which it is not part of itself.

        Args:
            step: Its number.
            run_meta: TensorFlow's `RunMetadata`; it is not read.

        Raises:
            AlreadyRecording: Someone else records in this process.
        """
        now = recorder.clock_ns()
        self._settle_step()
        if run_meta is not None:
            _warn_unread("run_meta")
        if self._session is not None:
            self._added = _AddedStep(step, self._since, now)
            self._since = now
        elif step != self._last:
            self._begin_recording()
            self._empty = True
            self._added = _AddedStep(step, None, now)
        self._last = step
        return self._step_block(step)

    def save(self, save_path: str | PathLike[str] | None = None) -> Run:
        """End the recording and write it; without new steps since, return the last run.

        Args:
            save_path: Write a copy: into this file, or, of a path without a suffix,
                into this log directory.

        Raises:
            BadUsage: The copy cannot be written.
        """
        run = self._end_recording()
        if save_path is None:
            return run
        path = _recorded_file(run)
        target = Path(save_path)
        if not target.suffix or target.is_dir():
            name = self.profile_name or run.run
            target = rundir.run_directory(target, name) / path.name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(run.xspace())
        except OSError as error:
            raise BadUsage(
                f"{target}: cannot be written ({error.strerror}); the recording is in "
                f"{path}."
            ) from error
        return dataclasses.replace(run, path=target)

    def profile_name_scope(
        self,
        scope: str | Mapping[str, object] | None = None,
        steps: int | None = None,
        *,
        options: Mapping[str, object] | None = None,
        **named: object,
    ) -> ModelView:
        """Show costs by name scope, or by module of the model.

        Args:
            scope: Only steps that are marked with this name ("train" of those that were
                added), else only the name scope that is called so.
            steps: Only the last this many steps.
            options: A dictionary of options; it may come first, too.
            named: Options by name.

        Raises:
            BadUsage: An option does not exist, the recording could not be written, or
                what reads recordings is not installed.
        """
        if isinstance(scope, Mapping):
            options = {**scope, **(options or {})}
            scope = None
        if steps is not None:
            named = {"last_steps": steps, **named}
        return self._show_view("scope", options, named, scope=scope)

    def profile_graph(
        self,
        graph: object = None,
        *,
        options: Mapping[str, object] | None = None,
        **named: object,
    ) -> ModelView:
        """Show costs by op, each beneath the op that called it.

        Args:
            graph: A graph of TensorFlow, which is not read, or the options.
            options: As of `profile_name_scope`.
            named: Options by name.
        """
        if isinstance(graph, Mapping):
            options = {**graph, **(options or {})}
            graph = None
        if graph is not None:
            _warn_unread("graph")
        return self._show_view("graph", options, named)

    def profile_operations(
        self, options: Mapping[str, object] | None = None, **named: object
    ) -> ModelView:
        """Show costs by op type; options as of `profile_name_scope`."""
        return self._show_view("op", options, named)

    def profile_python(
        self, options: Mapping[str, object] | None = None, **named: object
    ) -> ModelView:
        """Show costs by line of the program; options as of `profile_name_scope`."""
        return self._show_view("code", options, named)

    def profile(
        self,
        options: Mapping[str, object] | None = None,
        cmd: View = "scope",
        **named: object,
    ) -> ModelView:
        """Show the view that is named: "scope", "graph", "op" or "code"."""
        return self._show_view(cmd, options, named)

    def advise(self, options: Mapping[str, object] | None = None) -> Advice:
        """Say where the step time went, and what to change.

        Args:
            options: The older API's checks by name; every rule is run whatever they
                are.

        Raises:
            BadUsage: There is no such check; or as of `profile_name_scope`.
        """
        views = _import_views(self._end_recording())
        advice: Advice = views.advise_on(self._read_profile(), options)
        return advice

    def _show_view(
        self,
        view: View,
        options: Mapping[str, object] | None,
        named: Mapping[str, object],
        *,
        scope: str | None = None,
    ) -> ModelView:
        run = self._end_recording()
        shown: ModelView = _import_views(run).show_view(
            self._read_profile(),
            view,
            {**(options or {}), **named},
            name=self.profile_name or run.run,
            scope=scope,
        )
        return shown

    def _begin_recording(self) -> None:
        self._session = Session.start(self._logdir, self._options)
        self._since = recorder.clock_ns()
        self._empty = False

    def _settle_step(self) -> None:
        """End the step that was added last, since no block entered it."""
        added, self._added = self._added, None
        if added is None:
            return
        if added.begin_ns is None:
            _log.warning(
                "stepscope: step %s ran while nothing was recorded, because a view or "
                "save had ended the recording; what comes after it is recorded again.",
                added.step,
            )
            return
        self._empty = False
        recorder.keep_annotation(
            _STEP, added.begin_ns, added.end_ns, step_num=added.step, _r=1
        )

    def _end_recording(self) -> Run:
        """Return the newest recording that holds anything, ended and written."""
        self._settle_step()
        session, self._session = self._session, None
        if session is not None:
            if self._run is not None and self._empty:
                session.drop()
            else:
                self._run, self._opened = session.stop(), None
        if self._run is None:
            raise BadUsage("the recording could not begin; make another Profiler.")
        return self._run

    def _read_profile(self) -> ProfileWithTools:
        if self._opened is None:
            path = _recorded_file(self._end_recording())
            from stepscope.session import open_profile  # noqa: PLC0415 - reads tables

            self._opened = open_profile(path)
        return self._opened

    @contextmanager
    def _step_block(self, step: int) -> Iterator[None]:
        """Make a block the step that was added last."""
        if self._session is None:
            self._begin_recording()
        self._added = None
        self._empty = False
        try:
            with StepTrace(step, _STEP):
                yield
        finally:
            self._since = recorder.clock_ns()


class _AddedStep(NamedTuple):
    """A step that is over, unless someone enters it; None: it was not recorded."""

    step: int
    begin_ns: int | None
    end_ns: int


def _warn_unread(argument: str) -> None:
    _log.warning(
        "stepscope: %s is not read: the recording itself shows what ran.", argument
    )


def _recorded_file(run: Run) -> Path:
    """Return the file of a run."""
    if run.path is None:
        why = " ".join(run.warnings) or "Nothing was stored."
        raise BadUsage(f"the recording left no file to look at. {why}")
    return run.path


def _import_views(run: Run) -> ModuleType:
    """Return what reads recordings; recording itself does without."""
    try:
        from stepscope.profiler import views  # noqa: PLC0415 - reads tables
    except ModuleNotFoundError as error:
        raise BadUsage(
            f"looking at a recording takes {error.name}, which is not installed here: "
            "install stepscope with all that it depends on, or look where it is: "
            f"`stepscope show model_views {run.path}`."
        ) from error
    return views
