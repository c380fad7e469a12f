"""The store: it opens profiles, and computes and keeps answers.

One profile is open at a time, and one computation runs at a time. Answers are kept as
bytes, by the version of the run's files, up to a maximum size. A request for a kept
answer does not wait.

Answers for the timeline run in parallel with the computation, in separate lanes: they
wait until the run is open, but not for the results of tools.
"""

from __future__ import annotations

import gc
import hashlib
import threading
import time
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from stepscope.errors import BadInput, StepscopeError
from stepscope.rundir import Run
from stepscope.serve.errors import Refused
from stepscope.serve.runs.cache import Bounded, Work, Working
from stepscope.serve.runs.opened import Opened, RunSummary
from stepscope.session import open_found

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.serve.runs.source import Source, Stamp

#: Maximum size of all kept answers, in bytes.
ANSWERS_BYTES: Final = 128 * 2**20
#: Seconds without a change after which a file counts as complete.
_QUIET_S: Final = 2.0
#: Maximum time that a request waits for other requests' computations, in seconds.
_PATIENCE_S: Final = 120.0
#: Maximum share of the server's time that listing the log directory may use.
_LISTING_SHARE: Final = 0.1


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the log directory.

    Attributes:
        id: Opaque and stable id by which clients refer to the run.
        run: The run with its files.
        version: A text that changes whenever a file of the run changes.
        size_bytes: Size of all files together.
        state: "writing" while the files may still grow; "unreadable" if reading failed.
        reason: Why the run is unreadable; None otherwise.
        summary: What is known from reading this version.
    """

    id: str
    run: Run
    version: str
    size_bytes: int
    state: Literal["ready", "writing", "unreadable"]
    reason: str | None = None
    summary: RunSummary = RunSummary()


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The last listing of the log directory; `tag` changes with any other field."""

    entries: tuple[Entry, ...]
    refused: tuple[tuple[str, str], ...]
    problem: str | None
    tag: str


class Lane(Enum):
    """Queue of requests that are answered while the store computes other answers.

    A request waits only for other requests of its lane.

    Attributes:
        DRAWING: Answers that take milliseconds and are requested many at a time.
        SEARCHING: Answers that read all spans, or need the derivations of a tool.
    """

    DRAWING = "drawing"
    SEARCHING = "searching"


#: Lane → maximum number of parallel answers; they share the cores with computations.
_LANES: Final = {Lane.DRAWING: 4, Lane.SEARCHING: 2}


class Question(NamedTuple):
    """A question that is answered in advance, before a client asks it."""

    tool: str
    question: Hashable
    compute: Callable[[Opened], bytes]


class Store:
    """The runs of one source, and answers to questions about these runs."""

    def __init__(
        self,
        source: Source,
        *,
        kernels: str | None = None,
        answers_bytes: int = ANSWERS_BYTES,
        patience_s: float = _PATIENCE_S,
        quiet_s: float = _QUIET_S,
    ) -> None:
        self.source = source
        #: Table of Nsight Compute that is read with every run; None if none was given.
        self._kernels = kernels
        self._answers: Bounded[bytes] = Bounded(answers_bytes)
        self._patience_s = patience_s
        self._quiet_s = quiet_s
        self._computing = threading.Lock()
        #: Notifies waiting requests that a profile is open or a computation has ended.
        self._progress = threading.Condition()
        self._lanes = {
            lane: threading.BoundedSemaphore(width) for lane, width in _LANES.items()
        }
        self._opened: tuple[str, Opened] | None = None
        #: The previously open profile, kept for comparisons if both have few events.
        self._before: tuple[str, Opened] | None = None
        #: The open profile whose answers are prepared in advance.
        self._ahead_of: Opened | None = None
        self._starting_ahead = threading.Lock()
        #: Number of requests that wait for a computation or are being answered.
        self._requests = 0
        self._no_request = threading.Condition()
        #: Run → version that could not be read, and the error. Requests do not read
        #: that version again, and the page does not open on this run.
        self._unreadable: dict[str, tuple[str, BadInput]] = {}
        #: Run → version that was read, and what is known from that.
        self._summaries: dict[str, tuple[str, RunSummary]] = {}
        self._working = Working()
        self._looking = threading.Lock()
        self._listing: Listing | None = None
        self._look_after_s = 0.0
        #: Run → version, and the time at which the version was first seen.
        self._versions: dict[str, tuple[str, float]] = {}

    def current_listing(self, *, now: bool = False) -> Listing:
        """Return the runs; list them again if the last listing is old or `now` is set.

        While one request lists the runs, other requests get the last listing.
        """
        known = self._listing
        must_wait = known is None or now
        if not self._looking.acquire(blocking=must_wait) and known is not None:
            return known
        try:
            begun = time.monotonic()
            if self._listing is None or now or begun >= self._look_after_s:
                self._listing = self._list_runs()
                took = time.monotonic() - begun
                pause = max(self.source.interval_s, took / _LISTING_SHARE)
                self._look_after_s = time.monotonic() + pause
            return self._listing
        finally:
            self._looking.release()

    def find_entry(self, run_id: str | None) -> Entry:
        """Return the run with an id; without an id, the newest run that is ready.

        Raises:
            Refused: No run has this id, or no run is ready.
        """
        listing = self.current_listing()
        if run_id is None:
            return _newest_ready(listing)
        for entry in listing.entries:
            if entry.id == run_id:
                return entry
        raise Refused(
            404,
            "unknown_run",
            f"there is no run {run_id!r} in this log directory. data/runs lists its "
            "runs",
        )

    @property
    def work(self) -> Work | None:
        """Return the progress of the current computation; None without one."""
        return self._working.now

    @property
    def held_bytes(self) -> int:
        """Return the size of the kept answers, in bytes."""
        return self._answers.held_bytes

    def kept_answer(
        self,
        entry: Entry,
        question: Hashable,
        compute: Callable[[Opened], bytes],
        *,
        stages: int = 1,
    ) -> bytes:
        """Return the answer about this version of a run; compute it if it is not kept.

        Args:
            entry: The run.
            question: Everything else that the answer depends on.
            compute: Computes the answer if it is not kept.
            stages: Number of stages that `compute` announces.

        Raises:
            BadInput: The run cannot be read.
            Refused: The run is being written, or other computations take too long.
        """
        key = (entry.id, entry.version, question)
        answer = self._answers.get_value(key)
        if answer is not None:
            return answer
        if entry.state == "writing":
            raise _writing_refusal(entry)
        with self._counted_request(), self._computing_turn():
            answer = self._answers.get_value(key)
            if answer is not None:
                return answer
            with self._working.announce_work(entry.id, stages=stages + 1):
                opened = self._open_run(entry)
                computed = compute(opened)
            self._summaries[entry.id] = (entry.version, opened.summary)
            self._answers.put_value(key, computed, cost_bytes=len(computed))
            return computed

    def look_up(
        self, entry: Entry, compute: Callable[[Opened], bytes], *, lane: Lane
    ) -> bytes:
        """Answer in parallel with the store's computation, without keeping the answer.

        The request waits until the run is open, for other requests of its lane, and for
        derivations that the store's computation has started.

        Args:
            entry: The run.
            compute: Computes the answer from derivations, without results of tools.
            lane: Lane of the answer.

        Raises:
            BadInput: The run cannot be read.
            Refused: The run is being written, or other answers take too long.
        """
        if entry.state == "writing":
            raise _writing_refusal(entry)
        with self._counted_request():
            # Opening the run outside of the lanes does not block answers on open runs.
            opened = self._open_in_parallel(entry)
            if not self._lanes[lane].acquire(timeout=self._patience_s):
                raise _busy_refusal()
            try:
                return compute(opened)
            finally:
                self._lanes[lane].release()

    def _open_in_parallel(self, entry: Entry) -> Opened:
        """Return the open profile; open the run here if no computation is running."""
        until_s = time.monotonic() + self._patience_s
        with self._progress:
            while True:
                known = self._held_profile(entry)
                if known is not None:
                    return known
                if self._computing.acquire(blocking=False):
                    break
                if not self._progress.wait(until_s - time.monotonic()):
                    raise _busy_refusal()
        try:
            with self._working.announce_work(entry.id, stages=1):
                return self._open_run(entry)
        finally:
            self._end_turn()

    def read_newest(self, tool: str) -> None:
        """Open the newest run, if any, and prepare the tool of the first page."""
        if not self.source.written_in_place:
            return
        # A client that later requests the run gets the error.
        with suppress(StepscopeError):
            entry = self.find_entry(None)
            with (
                self._counted_request(),
                self._computing_turn(),
                self._working.announce_work(entry.id, stages=2),
            ):
                opened = self._open_run(entry)
            opened.prepare_tool(tool)

    def work_ahead(self, entry: Entry, questions: Sequence[Question]) -> None:
        """Answer questions about the open run in advance, in the background.

        Answers are prepared once after a run is opened, and only for a large run.
        Requests have priority: a new request waits for at most one of these answers.
        """
        with self._starting_ahead:
            key, opened = self._opened or ("", None)
            if opened is None or key != _opened_key(entry):
                return
            if opened.is_small or opened is self._ahead_of:
                return
            self._ahead_of = opened

        def work() -> None:
            for question in questions:
                # A client that asks this question gets the error.
                with suppress(Exception):
                    self._wait_for_requests()
                    opened.prepare_tool(question.tool)
                    key = (entry.id, entry.version, question.question)
                    self._wait_for_requests()
                    with self._computing_turn():
                        if (
                            self._ahead_of is opened
                            and self._answers.get_value(key) is None
                        ):
                            answer = question.compute(opened)
                            self._answers.put_value(key, answer, cost_bytes=len(answer))

        threading.Thread(target=work, name="stepscope-ahead", daemon=True).start()

    def _wait_for_requests(self) -> None:
        with self._no_request:
            self._no_request.wait_for(lambda: self._requests == 0)

    def forget_everything(self) -> None:
        """Drop all answers, and close the open profile."""
        self._answers.forget_values()
        with self._computing_turn():
            self._unreadable.clear()
            self._close_profiles()

    @contextmanager
    def _counted_request(self) -> Iterator[None]:
        with self._no_request:
            self._requests += 1
        try:
            yield
        finally:
            with self._no_request:
                self._requests -= 1
                self._no_request.notify_all()

    @contextmanager
    def _computing_turn(self) -> Iterator[None]:
        if not self._computing.acquire(timeout=self._patience_s):
            raise _busy_refusal()
        try:
            yield
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        self._computing.release()
        with self._progress:
            self._progress.notify_all()

    def _held_profile(self, entry: Entry) -> Opened | None:
        key = _opened_key(entry)
        for held in (self._opened, self._before):
            if held is not None and held[0] == key:
                return held[1]
        return None

    def _open_run(self, entry: Entry) -> Opened:
        known = self._held_profile(entry)
        if known is not None:
            return known
        version, error = self._unreadable.get(entry.id, ("", None))
        if error is not None and version == entry.version:
            raise error
        # Close a large profile first, so that memory never holds two large ones.
        before = self._opened
        self._close_profiles()
        if before is not None and before[1].is_light:
            self._before = before
        self._working.stage("Reading")
        try:
            opened = Opened(self._read_run(entry), self._working)
        except BadInput as failure:
            self._unreadable[entry.id] = (entry.version, failure)
            self._look_after_s = 0.0
            raise
        with self._progress:
            self._opened = (_opened_key(entry), opened)
            if not opened.is_light:
                self._before = None
            self._progress.notify_all()
        return opened

    def _read_run(self, entry: Entry) -> ProfileWithTools:
        try:
            unchanged = self._is_current(entry)
            profile = open_found(
                self.source.local_run(entry.run), kernels=self._kernels
            )
            unchanged = unchanged and self._is_current(entry)
        except OSError as error:
            # The run is not marked as unreadable: the missing file may come back.
            raise Refused(
                404,
                "unknown_run",
                f"{entry.run.name}: one of its files cannot be read "
                f"({error.strerror or error}). Reload the list of runs",
            ) from error
        if not unchanged:
            self._look_after_s = 0.0
            raise _writing_refusal(entry)
        return profile

    def _is_current(self, entry: Entry) -> bool:
        return _version_of_stamp(self.source.stamp_run(entry.run)) == entry.version

    def _close_profiles(self) -> None:
        self._ahead_of = None
        if self._opened is not None or self._before is not None:
            self._opened = self._before = None
            gc.collect()

    def _list_runs(self) -> Listing:
        try:
            listed = self.source.list_runs()
        except BadInput as error:
            text = str(error).encode("utf-8", "backslashreplace").decode()
            return _make_listing((), (), text)
        entries = []
        versions = {}
        for run in listed.runs:
            try:
                stamp = self.source.stamp_run(run)
            except OSError:
                # The file was removed after the listing.
                continue
            run_id = digest_text(run.name)[:12]
            version = _version_of_stamp(stamp)
            since = self._versions.get(run_id, ("", 0.0))
            if since[0] != version:
                since = (version, time.monotonic())
            versions[run_id] = since
            unread, failure = self._unreadable.get(run_id, ("", None))
            failed = failure is not None and unread == version
            read, summary = self._summaries.get(run_id, ("", RunSummary()))
            # The clock of a file server may be ahead. If it is, files count as complete
            # if nothing has changed since they were first seen.
            quiet = (
                not self.source.written_in_place
                or time.time() - stamp.changed_unix_s >= self._quiet_s
                or time.monotonic() - since[1] >= self._quiet_s
            )
            entries.append(
                Entry(
                    id=run_id,
                    run=run,
                    version=version,
                    size_bytes=stamp.size_bytes,
                    state="unreadable" if failed else "ready" if quiet else "writing",
                    reason=str(failure) if failed else None,
                    summary=summary if read == version else RunSummary(),
                )
            )
        self._versions = versions
        return _make_listing(tuple(entries), listed.refused, None)


def _opened_key(entry: Entry) -> str:
    return f"{entry.id} {entry.version}"


def _newest_ready(listing: Listing) -> Entry:
    if listing.problem is not None:
        raise BadInput(listing.problem)
    for entry in listing.entries:
        if entry.state == "ready":
            return entry
    for entry in listing.entries:
        if entry.state == "writing":
            raise _writing_refusal(entry)
    if listing.entries:
        raise BadInput(listing.entries[0].reason or "")
    raise Refused(
        404,
        "no_runs",
        "the log directory contains no profile. Record one; it then appears here",
    )


def _busy_refusal() -> Refused:
    return Refused(
        503,
        "busy",
        "other computations take longer than this request can wait. Try again",
        retry_after_s=5,
    )


def _writing_refusal(entry: Entry) -> Refused:
    return Refused(
        503,
        "writing",
        f"{entry.run.name}: is still being written. The run is shown as soon as its "
        "files are complete",
        retry_after_s=2,
    )


def _make_listing(
    entries: tuple[Entry, ...],
    refused: tuple[tuple[str, str], ...],
    problem: str | None,
) -> Listing:
    state = repr(
        (
            [
                (entry.id, entry.run.name, entry.version, entry.state, entry.summary)
                for entry in entries
            ],
            refused,
            problem,
        )
    )
    return Listing(
        entries=entries, refused=refused, problem=problem, tag=digest_text(state)[:16]
    )


def _version_of_stamp(stamp: Stamp) -> str:
    return digest_text(repr(stamp.files))[:16]


def digest_text(text: str) -> str:
    """Return a short digest that identifies a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
