"""Runs of workers that wrote their traces into directories of the program's choice.

Such a directory is a run, and each of its files is a host; see `rundir`. Where one
worker wrote several files, as PyTorch's schedule does every few steps, they are
recordings one after the other: the newest of each worker are the run, and those before
them are older runs.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.patterns import Pattern
from stepscope.rundir import HostFiles, Run, is_worker_trace, newest_first, shown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

_SUFFIX: Final = ".pt.trace.json"
#: Milliseconds or, since late 2023, nanoseconds since 1970: years 2001 to 2286.
_TIME: Final = Pattern(r"\.(?:(?P<ms>\d{13})|(?P<ns>\d{19}))\.pt\.trace\.json")
#: PyTorch names a worker by its host and its process, unless the program names it, and
#: writes behind it when the file was written.
_OF_WORKER: Final = Pattern(r"(?P<worker>.+)\.(?:\d{13}|\d{19})\.pt\.trace\.json")
_MS_PER_S: Final = 1e3
_NS_PER_S: Final = 1e9


def with_worker_runs(
    runs: Sequence[Run],
    files: Iterable[Path],
    top: Path,
    *,
    top_name: str,
    changed: Callable[[Path], float],
    hosts_of: Callable[[tuple[Path, ...]], tuple[HostFiles, ...]],
) -> tuple[Run, ...]:
    """Runs, and those of the workers' files among these, newest first.

    A run of workers is shown under the way to its directory, the top directory under
    its own name; the way begins with `./` where another run is called so.

    Args:
        runs: Found otherwise; what lies in their directories is theirs, and all that
            there is where `top` is one of them.
        files: Files of any name below `top`; only workers' traces count.
        top: Where the search began.
        top_name: Shown name of `top`.
        changed: When a file was last changed, seconds since 1970; asked where its name
            does not say when it was written.
        hosts_of: Names the files of one directory.
    """
    taken = {run.directory for run in runs}
    if top in taken:
        return tuple(runs)
    folders: dict[Path, dict[str, Path]] = {}
    # Descending, so that `x.json` replaces its compressed copy.
    for file in sorted(files, reverse=True):
        if is_worker_trace(file.name) and file.parent not in taken:
            folders.setdefault(file.parent, {})[_stem(file)] = file
    found: list[Run] = []
    before: list[Run] = []
    for directory, of_worker in folders.items():
        newest, *older = _one_after_the_other(of_worker.values())
        name = _inside(directory, top) or shown_name(top_name)
        for recording in (newest, *older):
            run = Run(
                name=name,
                directory=directory,
                hosts=hosts_of(tuple(sorted(recording))),
                unix_s=max(_written(file, changed) for file in recording),
            )
            (found if recording is newest else before).append(run)
    named = _told_apart(found, runs, top)
    names = {run.directory: run.name for run in named}
    older_runs = [
        msgspec.structs.replace(run, name=f"{names[run.directory]}@{_time(run)}")
        for run in before
    ]
    return newest_first([*runs, *named, *older_runs])


def named_after_files(files: Sequence[Path]) -> tuple[HostFiles, ...]:
    """Return each file as a host named after it, where its content is not examined."""
    return tuple(
        HostFiles(host=shown_name(_stem(file)), paths=(file,)) for file in files
    )


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(_SUFFIX)


def _one_after_the_other(files: Iterable[Path]) -> list[list[Path]]:
    """Return recordings of a directory, newest first: of each worker one file at most.

    Files that do not say when they were written are workers of the newest one.
    """
    of_worker: dict[str, list[Path]] = {}
    for file in files:
        found = _OF_WORKER.match(file.name)
        worker = _stem(file) if found is None else found["worker"]
        of_worker.setdefault(worker, []).append(file)
    each = [sorted(one, reverse=True) for one in of_worker.values()]
    return [
        [one[back] for one in each if back < len(one)]
        for back in range(max(map(len, each)))
    ]


def _time(run: Run) -> str:
    at = datetime.fromtimestamp(run.unix_s, tz=UTC)
    return at.strftime("%Y_%m_%d_%H_%M_%S_") + f"{at.microsecond // 1000:03}"


def _written(file: Path, changed: Callable[[Path], float]) -> float:
    found = _TIME.search(file.name)
    if found is None:
        return changed(file)
    if found["ms"] is not None:
        return int(found["ms"]) / _MS_PER_S
    return int(found["ns"]) / _NS_PER_S


def _told_apart(found: Sequence[Run], others: Sequence[Run], top: Path) -> list[Run]:
    counts = Counter(run.name for run in (*found, *others))
    return [
        msgspec.structs.replace(run, name=f"./{_inside(run.directory, top)}")
        if counts[run.name] > 1
        else run
        for run in found
    ]


def _inside(directory: Path, top: Path) -> str:
    return "" if directory == top else shown_name(directory.relative_to(top))
