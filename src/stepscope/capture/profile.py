"""Recording a stretch of a program: `start` and `stop`, or a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from stepscope.capture.ground.leaving import leaving
from stepscope.capture.recording.session import Session, current
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    import os
    from pathlib import Path
    from types import TracebackType

    from stepscope.capture.ground.options import ProfilerOptions
    from stepscope.capture.ground.run import Run


def start(
    logdir: str | os.PathLike[str], options: ProfilerOptions | None = None
) -> None:
    """Begin to record this process into a log directory.

    Args:
        logdir: Runs lie below `plugins/profile` in it, as TensorBoard looks for them.
        options: What to record; None means the defaults.

    Raises:
        AlreadyRecording: A recording is under way, which goes on.
        BadUsage: A collector that was named does not exist or cannot record here.
    """
    Session.start(logdir, options)


def stop(save: bool = True) -> Run:  # noqa: FBT001, FBT002 - TensorFlow's signature
    """End the recording that is under way.

    Args:
        save: Write the file; otherwise only `Run.xspace()` has what was recorded.

    Raises:
        BadUsage: Nothing is being recorded.
    """
    session = current()
    if session is None:
        raise BadUsage("nothing is being recorded; ss.start(logdir) begins.")
    return session.stop(save=save)


class Profile:
    """Record a block.

        with ss.Profile("logs") as run:
            train()
        print(run.path, run.warnings)

    What the block raises passes through, and what was recorded until then is kept.
    """

    def __init__(
        self, logdir: str | os.PathLike[str], options: ProfilerOptions | None = None
    ) -> None:
        """Record into a log directory; see `start`."""
        self._logdir = logdir
        self._options = options
        self._session: Session | None = None
        self._run: Run | None = None

    def __enter__(self) -> Self:
        self._run = None
        self._session = Session.start(self._logdir, self._options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            with leaving.undisturbed():
                self._run = self._session.stop()

    @property
    def run(self) -> Run:
        """What the block recorded.

        Raises:
            BadUsage: The block has not ended.
        """
        if self._run is None:
            raise BadUsage("the block is still being recorded; ask after its end.")
        return self._run

    @property
    def path(self) -> Path | None:
        """The file; None where it could not be written."""
        return self.run.path

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that the run's directory holds."""
        return self.run.hosts

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was lost, ignored or went wrong."""
        return self.run.warnings

    def xspace(self) -> bytes:
        """Return the recording as one serialized XSpace."""
        return self.run.xspace()
