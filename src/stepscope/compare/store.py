"""Predicted savings stored from run to run, in a JSON file next to the log directory.

Definition: docs/compare.md#the-file-of-promises.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from stepscope.compare.changes import step_time_change
from stepscope.compare.comparison import comparable_times
from stepscope.compare.parity import check_parity
from stepscope.compare.promises import (
    Outcome,
    Promise,
    judge_promises,
    promises_of_findings,
)
from stepscope.compare.timing import RunTimes
from stepscope.compare.work import Counts, Work
from stepscope.errors import BadInput
from stepscope.unavailable import Unavailable
from stepscope.xspace.reading.input_file import open_input

if TYPE_CHECKING:
    from stepscope.compare.measured import MeasuredSteps
    from stepscope.thresholds import Thresholds

_SCHEMA: Final = 1
_SUFFIX: Final = ".promises.json"
#: Maximum size of a file of predicted savings, in bytes.
_LIMIT_BYTES: Final = 256 * 2**20
_WAY_OUT: Final = "Move the file away; the next --store creates a new one."


class StoredRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data of a run that later runs need to judge its predicted savings.

    Attributes:
        start_unix_ns: Start of the recording, in ns since 1970; null if unknown.
        work: Work of one step; names are digests.
        window_ps: Length of each measured step, or of each batch.
        hosts: Number of hosts whose steps are in `window_ps`.
        promises: Savings that the run's findings predicted.
        answers: Later run → outcomes of the predicted savings in that run.
    """

    start_unix_ns: int | None
    work: Work
    window_ps: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1)
    ]
    hosts: Annotated[int, msgspec.Meta(ge=1)]
    promises: tuple[Promise, ...]
    answers: dict[str, tuple[Outcome, ...]] = {}


class PromiseFile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """The content of a file of predicted savings.

    Attributes:
        schema: Version of the file's fields.
        runs: Name of a run → its predicted savings, in the order of their addition.
    """

    schema: Literal[1] = _SCHEMA
    runs: dict[str, StoredRun] = {}


class RunOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of an earlier run's predicted savings, judged by a later run.

    Attributes:
        run: Name of the earlier run.
        outcomes: Outcomes of its predictions; empty if the runs are not comparable.
        unavailable: Why the runs are not comparable; null if they are.
    """

    run: str
    outcomes: tuple[Outcome, ...]
    unavailable: Unavailable | None


def promise_file(path: str | os.PathLike[str]) -> Path:
    """Return the file of predicted savings of the log directory that contains a path.

    For `logs`, `logs/plugins/profile/<run>` and a file in it, the result is
    `logs.promises.json`. For a file outside such a directory, the file's own directory
    is the log directory.

    Raises:
        BadInput: The path is an address in an object store.
    """
    if "://" in os.fspath(path):
        raise BadInput.at(
            path,
            "promises can be stored only next to a local log directory",
            "Omit --store, or copy the run to a local directory first.",
        )
    target = Path(path).resolve()
    folder = target if target.is_dir() else target.parent
    for above in (folder, *folder.parents):
        if above.name == "profile" and above.parent.name == "plugins":
            folder = above.parent.parent
            break
    return folder.parent / f"{folder.name or 'logs'}{_SUFFIX}"


def read_promises(path: Path) -> PromiseFile:
    """Read a file of predicted savings; a file that does not exist contains none.

    Raises:
        BadInput: The file is damaged, or has another version; the message names the
            file, the problem, and the way out.
    """
    try:
        with open_input(path, way_out=_WAY_OUT) as file:
            data = file.read(_LIMIT_BYTES + 1)
    except FileNotFoundError:
        return PromiseFile()
    except OSError as error:
        what = f"the promises cannot be read ({error.strerror or error})"
        raise BadInput.at(path, what, _WAY_OUT) from error
    if len(data) > _LIMIT_BYTES:
        raise BadInput.at(path, "is too large for a file of promises", _WAY_OUT)
    try:
        version = msgspec.json.decode(data, type=_Version).schema
        if version != _SCHEMA:
            what = (
                f"contains promises of version {version}, but this stepscope reads "
                f"version {_SCHEMA}"
            )
            raise BadInput.at(path, what, f"Update stepscope, or: {_WAY_OUT}")
        return msgspec.json.decode(data, type=PromiseFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        what = f"is not a file of promises, or is damaged ({error})"
        raise BadInput.at(path, what, _WAY_OUT) from error


class _Version(msgspec.Struct):
    schema: int


def write_promises(path: Path, kept: PromiseFile) -> None:
    """Write the whole file, and replace the old file in one step."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(kept), indent=1))
            file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def answer_promises(
    kept: PromiseFile,
    run: MeasuredSteps,
    *,
    thresholds: Thresholds,
    same_work: bool = False,
) -> tuple[PromiseFile, tuple[RunOutcomes, ...]]:
    """Judge the predicted savings of earlier runs by a new run, and add the new run's.

    If the recording times are known, only later runs judge a run's predictions. Runs
    without predicted savings are skipped.
    """
    name, start = run.run, run.start_unix_ns
    batches = run.work.batches or 1.0
    times = run.times
    if not isinstance(times, Unavailable):
        times = times.times_per_batch(batches)
    work = _digest_work(run.work)
    answers: list[RunOutcomes] = []
    runs = dict(kept.runs)
    for earlier, stored in kept.runs.items():
        recorded = stored.start_unix_ns
        later = start is not None and recorded is not None and recorded > start
        if earlier == name or not stored.promises or later:
            continue
        compared = comparable_times(
            RunTimes(window_ps=stored.window_ps, hosts=stored.hosts),
            times,
            check_parity(stored.work, work, thresholds=thresholds, same_work=same_work),
        )
        if isinstance(compared, Unavailable):
            answers.append(RunOutcomes(run=earlier, outcomes=(), unavailable=compared))
            continue
        outcomes = judge_promises(
            stored.promises,
            run.findings,
            step_time_change(*compared),
            thresholds=thresholds,
            batches=batches,
        )
        answers.append(RunOutcomes(run=earlier, outcomes=outcomes, unavailable=None))
        if outcomes:
            runs[earlier] = msgspec.structs.replace(
                stored, answers={**stored.answers, name: outcomes}
            )
    if not isinstance(times, Unavailable):
        runs[name] = StoredRun(
            start_unix_ns=start,
            work=work,
            window_ps=times.window_ps,
            hosts=times.hosts,
            promises=promises_of_findings(run.findings, batches),
            answers=kept.runs[name].answers if name in kept.runs else {},
        )
    return PromiseFile(runs=runs), tuple(answers)


def _digest_work(work: Work) -> Work:
    """Return the work with digests for names, because names can be long and private."""
    changed: dict[str, object] = {}
    for field in ("kernels", "ops"):
        counts: Counts | None = getattr(work, field)
        changed[field] = None if counts is None else _digest_names(counts)
    for field in ("launches", "shapes", "program_inputs"):
        nested: dict[str, Counts] | None = getattr(work, field)
        changed[field] = nested and {
            _name_digest(name): _digest_names(inner) for name, inner in nested.items()
        }
    return msgspec.structs.replace(work, **changed)


def _digest_names(counts: Counts) -> Counts:
    digested: Counts = {}
    for name, count in counts.items():
        digest = _name_digest(name)
        digested[digest] = digested.get(digest, 0.0) + count
    return digested


def _name_digest(name: str) -> str:
    data = name.encode("utf-8", "surrogatepass")
    return hashlib.blake2s(data, digest_size=8).hexdigest()
