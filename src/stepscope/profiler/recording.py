"""`Profiler`: the API of TensorFlow's older profiler, applied to a recording."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope import rundir
from stepscope._core import recorder
from stepscope.capture.base.annotate import StepTrace
from stepscope.capture.base.options import ProfilerOptions
from stepscope.capture.base.program_log import log_line
from stepscope.capture.recording.session import Session
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from os import PathLike
    from types import ModuleType

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.capture.base.run import Run
    from stepscope.derive.model.view_names import View
    from stepscope.profiler.views import Advice, ModelView

#: Name of the steps in the recording.
_STEP: Final = "train"
#: Default options: shapes are recorded, because the older API can group ops by shape.
_OPTIONS: Final = ProfilerOptions(record_shapes=True)


class Profiler:
    """Records a program, and shows the costs of its model.

        profiler = ss.Profiler("logs")
        for i in range(5):
            train_step()
            profiler.add_step(i)
        options = ss.ProfileOptionBuilder.time_and_memory()
        profiler.profile_name_scope("train", 3, options=options)
        profiler.save()

    Recording starts when the object is created, and ends at the first view, `advise` or
    `save`. A step that is added later starts another recording. Views show the newest
    recording.

    Options of a view are a dictionary with the keys of the older API, which are those
    of `model_views`: `max_depth`, `min_micros`, `order_by`, `start_name_regexes`, …. An
    option can also be a keyword argument, which has precedence. If `output` is
    "stdout", as in `ProfileOptionBuilder`, a view prints itself.

    Attributes:
        profile_name: Name of the recording in views, and name of the run that `save`
            creates in another log directory; None for the name of the run.
    """

    def __init__(
        self, logdir: str | PathLike[str], options: ProfilerOptions | None = None
    ) -> None:
        """Start recording.

        Args:
            logdir: Log directory; each recording is a run below it.
            options: What to record; None for the defaults with shapes.

        Raises:
            AlreadyRecording: Another recording runs in this process.
        """
        self.profile_name: str | None = None
        self._logdir = logdir
        self._options = options or _OPTIONS
        self._run: Run | None = None
        self._opened: ProfileWithTools | None = None
        self._added: _AddedStep | None = None
        self._session: Session | None = None
        #: Start of the next step, on the clock of `recorder.now`.
        self._since = 0
        #: Number of the last added step.
        self._last: int | None = None
        #: Whether the recording in progress has no step yet.
        self._empty = False
        self._begin_recording()

    def add_step(
        self, step: int, run_meta: object = None
    ) -> AbstractContextManager[None]:
        """Add a step that has just ended; in a `with` statement, the block is the step.

        A step that has ended began at the end of the previous step or at the start of
        the recording. If a view has ended the recording, adding the same step again
        does nothing. Adding another step starts the next recording, without that step.

        Args:
            step: Number of the step.
            run_meta: TensorFlow's `RunMetadata`; ignored.

        Raises:
            AlreadyRecording: Another recording runs in this process.
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
        """Store the recording and return its run, or the last run if no step is new.

        Args:
            save_path: File for a copy; a path without a suffix is a log directory for
                the copy.

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
            scope: Name of annotated steps ("train" for added steps) to restrict the
                view to; otherwise the name of a name scope.
            steps: Number of last steps to restrict the view to.
            options: Dictionary of options; may also be the first argument.
            named: Options as keyword arguments.

        Raises:
            BadUsage: An option does not exist, the recording could not be written, or a
                package for reading recordings is not installed.
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
        """Show costs by op, each below the op that called it.

        Args:
            graph: The options; a TensorFlow graph, as in the older API, is ignored.
            options: As in `profile_name_scope`.
            named: Options as keyword arguments.
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
        """Show costs by op type; options as in `profile_name_scope`."""
        return self._show_view("op", options, named)

    def profile_python(
        self, options: Mapping[str, object] | None = None, **named: object
    ) -> ModelView:
        """Show costs by line of the program; options as in `profile_name_scope`."""
        return self._show_view("code", options, named)

    def profile(
        self,
        options: Mapping[str, object] | None = None,
        cmd: View = "scope",
        **named: object,
    ) -> ModelView:
        """Show the given view: "scope", "graph", "op" or "code"."""
        return self._show_view(cmd, options, named)

    def advise(self, options: Mapping[str, object] | None = None) -> Advice:
        """Report where the step time went, and what to change.

        Args:
            options: Names of the older API's checks; every rule is evaluated anyway.

        Raises:
            BadUsage: A check does not exist; other reasons as in `profile_name_scope`.
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
        """Record the last added step, unless it is a `with` block."""
        added, self._added = self._added, None
        if added is None:
            return
        if added.begin_ns is None:
            log_line(
                f"step {added.step} was not recorded, because a view or save had ended "
                "the recording; later steps are recorded again."
            )
            return
        self._empty = False
        recorder.keep_annotation(
            _STEP, added.begin_ns, added.end_ns, step_num=added.step, _r=1
        )

    def _end_recording(self) -> Run:
        """Stop and store the newest recording that has a step, and return its run."""
        self._settle_step()
        session, self._session = self._session, None
        if session is not None:
            if self._run is not None and self._empty:
                session.drop()
            else:
                self._run, self._opened = session.stop(), None
        if self._run is None:
            raise BadUsage("the recording could not begin; create another Profiler.")
        return self._run

    def _read_profile(self) -> ProfileWithTools:
        if self._opened is None:
            path = _recorded_file(self._end_recording())
            from stepscope.session import open_profile  # noqa: PLC0415 - imports the table readers

            self._opened = open_profile(path)
        return self._opened

    @contextmanager
    def _step_block(self, step: int) -> Iterator[None]:
        """Record a `with` block as the last added step."""
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
    """A step that has ended; `begin_ns` is None if the step was not recorded."""

    step: int
    begin_ns: int | None
    end_ns: int


def _warn_unread(argument: str) -> None:
    log_line(f"{argument} is ignored: the recording itself shows what ran.")


def _recorded_file(run: Run) -> Path:
    if run.path is None:
        why = " ".join(run.warnings) or "Nothing was stored."
        raise BadUsage(f"the recording has no file to read. {why}")
    return run.path


def _import_views(run: Run) -> ModuleType:
    """Return the module that reads recordings; recording does not need it."""
    try:
        from stepscope.profiler import views  # noqa: PLC0415 - imports the table readers
    except ModuleNotFoundError as error:
        raise BadUsage(
            f"reading a recording needs {error.name}, which is not installed here: "
            "install stepscope with its dependencies, or read the recording on a "
            f"machine that has them: `stepscope show model_views {run.path}`."
        ) from error
    return views
