"""Group trace files by worker, and name the hosts and runs of workers.

Programs may write the traces of workers into any directory. Such a directory is a run,
and each file is a host; see `rundir`. A worker may write several files: PyTorch's
schedule writes one every few steps. The newest files of all workers are then one run,
and the earlier files are older runs.

Definition: docs/decisions/0007-hosts-that-are-not-one-run.md.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from stepscope.formats.declared_texts import quality_note
from stepscope.patterns import Pattern
from stepscope.rundir import HostFiles, Run, is_worker_trace, newest_first, shown_name
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from stepscope.trace.model import TraceData
    from stepscope.trace.quality import QualityNote

_SUFFIX: Final = ".pt.trace.json"
#: Matches the time in a file name, since 1970: in ms (13 digits) or, since late 2023,
#: in ns (19 digits); both cover the years 2001 to 2286.
_TIME: Final = Pattern(r"\.(?:(?P<ms>\d{13})|(?P<ns>\d{19}))\.pt\.trace\.json")
#: Matches PyTorch's default file name: the worker (host and process, or a name from the
#: program), then the time of writing.
_OF_WORKER: Final = Pattern(r"(?P<worker>.+)\.(?:\d{13}|\d{19})\.pt\.trace\.json")
_MS_PER_S: Final = 1e3
_NS_PER_S: Final = 1e9
_Host = TypeVar("_Host")
#: Matches the rank or worker number in a file name.
RANK_IN_NAME: Final = Pattern(r"(?i)(rank|worker)[-_]?(\d{1,9})")
#: Maximum number of names that are joined; of more names only the first is shown.
_MAX_JOINED_NAMES: Final = 3


def with_worker_runs(
    runs: Sequence[Run],
    files: Iterable[Path],
    top: Path,
    *,
    top_name: str,
    changed: Callable[[Path], float],
    hosts_of: Callable[[tuple[Path, ...]], tuple[HostFiles, ...]],
) -> tuple[Run, ...]:
    """Return the given runs and the runs of workers' files, newest first.

    The name of a run of workers is the path of its directory below `top`, or `top_name`
    for files in `top` itself. If two runs share a name, the path starts with `./`.

    Args:
        runs: Runs that are not workers' files. Files in their directories are ignored;
            if `top` is one of these directories, all files are ignored.
        files: Files of any name below `top`; only workers' traces are used.
        top: Directory where the search began.
        top_name: Shown name of `top`.
        changed: Returns when a file was last changed, in seconds since 1970. Called for
            files with no time in their names.
        hosts_of: Names the hosts of the files of one directory.
    """
    run_folders = {run.directory for run in runs}
    if top in run_folders:
        return tuple(runs)
    folders: dict[Path, dict[str, Path]] = {}
    # Descending order, so that `x.json` replaces its compressed copy `x.json.gz`.
    for file in sorted(files, reverse=True):
        if is_worker_trace(file.name) and file.parent not in run_folders:
            folders.setdefault(file.parent, {})[_worker_stem(file)] = file
    newest_runs: list[Run] = []
    earlier_runs: list[Run] = []
    for directory, of_worker in folders.items():
        newest, *older = _newest_first_recordings(of_worker.values())
        name = _path_below_top(directory, top) or shown_name(top_name)
        for recording in (newest, *older):
            run = Run(
                name=name,
                directory=directory,
                hosts=hosts_of(tuple(sorted(recording))),
                unix_s=max(_written_unix_s(file, changed) for file in recording),
            )
            (newest_runs if recording is newest else earlier_runs).append(run)
    counts = Counter(run.name for run in (*newest_runs, *runs))
    named = [
        msgspec.structs.replace(run, name=f"./{_path_below_top(run.directory, top)}")
        if counts[run.name] > 1
        else run
        for run in newest_runs
    ]
    names = {run.directory: run.name for run in named}
    older_runs = []
    for run in earlier_runs:
        written = datetime.fromtimestamp(run.unix_s, tz=UTC)
        # Cut the time to milliseconds, as in the names that profilers give.
        label = f"{written:%Y_%m_%d_%H_%M_%S_%f}"[:-3]
        name = f"{names[run.directory]}@{label}"
        older_runs.append(msgspec.structs.replace(run, name=name))
    return newest_first([*runs, *named, *older_runs])


def named_after_files(files: Sequence[Path]) -> tuple[HostFiles, ...]:
    """Return one host per file, named after the file, without reading the file."""
    return tuple(
        HostFiles(host=shown_name(_worker_stem(file)), paths=(file,)) for file in files
    )


def _worker_stem(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(_SUFFIX)


def _newest_first_recordings(files: Iterable[Path]) -> list[list[Path]]:
    """Return the recordings of a directory, newest first.

    A recording has at most one file per worker. Files without a time are in the newest.
    """
    of_worker: dict[str, list[Path]] = {}
    for file in files:
        match = _OF_WORKER.match(file.name)
        worker = _worker_stem(file) if match is None else match["worker"]
        of_worker.setdefault(worker, []).append(file)
    by_worker = [sorted(paths, reverse=True) for paths in of_worker.values()]
    return [
        [paths[back] for paths in by_worker if back < len(paths)]
        for back in range(max(map(len, by_worker)))
    ]


def _written_unix_s(file: Path, changed: Callable[[Path], float]) -> float:
    match = _TIME.search(file.name)
    if match is None:
        return changed(file)
    if match["ms"] is not None:
        return int(match["ms"]) / _MS_PER_S
    return int(match["ns"]) / _NS_PER_S


def _path_below_top(directory: Path, top: Path) -> str:
    return "" if directory == top else shown_name(directory.relative_to(top))


def distinct_hosts(runs: Sequence[Run]) -> list[HostFiles]:
    """Return every host of all runs once, each under a different name.

    A file with several paths is one host. Equal names of hosts are extended by the run;
    if that is not enough, by the folder, the file name or a number.
    """
    of_files: dict[tuple[Path, ...], tuple[Run, HostFiles]] = {}
    for run in runs:
        for host in run.hosts:
            files = tuple(path.resolve() for path in host.paths)
            of_files.setdefault(files, (run, host))
    pairs = list(of_files.values())
    counts = Counter(host.host for _, host in pairs)
    names = [host.host for _, host in pairs]
    for name in counts:
        alike = [index for index, (_, host) in enumerate(pairs) if host.host == name]
        if len(alike) > 1:
            for index, own in zip(
                alike, _distinct_labels([pairs[index] for index in alike]), strict=True
            ):
                names[index] = own
    # An extended name may equal the name of another host.
    uses: Counter[str] = Counter()
    distinct = []
    for (_, host), name in zip(pairs, names, strict=True):
        uses[name] += 1
        own = name if uses[name] == 1 else f"{name} ({uses[name]})"
        distinct.append(msgspec.structs.replace(host, host=own))
    return distinct


def name_of_runs(runs: Sequence[Run]) -> str:
    """Return the shown name of several runs that are opened as one."""
    return joined_names([run.name for run in runs])


def joined_names(all_names: Iterable[str]) -> str:
    """Return distinct names joined; if there are many, only the first and a count."""
    names = list(dict.fromkeys(all_names))
    if len(names) > _MAX_JOINED_NAMES:
        return f"{names[0]} + {len(names) - 1} more"
    return " + ".join(names)


def _distinct_labels(alike: Sequence[tuple[Run, HostFiles]]) -> list[str]:
    # `same` is the number of leading folders that all paths share.
    parts = [host.paths[0].resolve().parent.parts for _, host in alike]
    same = 0
    while all(len(folders) > same for folders in parts) and (
        len({folders[same] for folders in parts}) == 1
    ):
        same += 1
    for labels in (
        # If a run is named after its file, its name does not help to distinguish hosts.
        ["" if run.name == host.paths[0].name else run.name for run, host in alike],
        [folders[same] if len(folders) > same else "" for folders in parts],
    ):
        if len(set(labels)) == len(labels) and all(labels):
            return [
                f"{label}/{host.host}"
                for label, (_, host) in zip(labels, alike, strict=True)
            ]
    return [f"{host.host} ({host.paths[0].name})" for _, host in alike]


def grouped_by_name(files: Iterable[Path]) -> list[tuple[Path, ...]]:
    """Group files whose names differ only in the number of a rank or worker."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        match = RANK_IN_NAME.search(file.name)
        common_name = (
            file.name
            if match is None
            else f"{file.name[: match.start(2)]}\0{file.name[match.end(2) :]}"
        )
        groups.setdefault(common_name, []).append(file)
    return [tuple(group) for group in groups.values()]


def grouped_by_time(
    recorded: Mapping[_Host, tuple[int, int]],
) -> list[tuple[_Host, ...]]:
    """Group files or hosts whose recordings overlap in time.

    Args:
        recorded: File or host → start and end of its recording, on one clock.
    """
    groups: list[list[_Host]] = []
    last_end = 0
    for file, (start, end) in sorted(recorded.items(), key=itemgetter(1)):
        if not groups or start >= last_end:
            groups.append([])
            last_end = end
        groups[-1].append(file)
        last_end = max(last_end, end)
    return [tuple(group) for group in groups]


def several_runs_notes(traces: Sequence[TraceData]) -> list[QualityNote]:
    """Return a note with evidence that hosts are not of one run, or no note.

    Only recordings of one format are compared, because a memory snapshot may be from a
    different time than the trace next to it.
    """
    by_format: dict[str, dict[str, dict[str, Any]]] = {}
    for trace in traces:
        environment = trace.table("environment")
        if not isinstance(environment, Unavailable):
            fields = environment.row(0, named=True)
            by_format.setdefault(fields["format"], {})[trace.host] = fields
    reasons = [
        reason
        for hosts in by_format.values()
        for reason in _several_runs_evidence(hosts)
    ]
    if not reasons:
        return []
    return [
        quality_note("any.not_one_run", len(traces), reasons="; and ".join(reasons))
    ]


def _several_runs_evidence(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    spans = {
        host: (start, max(fields["stop_unix_ns"] or 0, start + end // PS_PER_NS))
        for host, fields in hosts.items()
        if None not in (start := fields["start_unix_ns"], end := fields["end_ps"])
    }
    groups = grouped_by_time(spans)
    if len(groups) > 1:
        first, second = groups[0][0], groups[1][0]
        yield (
            f"by their clocks, hosts were recorded at {len(groups):,} times: {first} "
            f"from {_utc_text(spans[first][0])} and {second} from "
            f"{_utc_text(spans[second][0])} on"
        )
    ranks = Counter(
        fields["rank"] for fields in hosts.values() if fields["rank"] is not None
    )
    rank, count = max(ranks.items(), key=itemgetter(1), default=(0, 0))
    if count > 1:
        yield f"{count:,} of the hosts are rank {rank}"
    sizes = sorted({fields["processes"] for fields in hosts.values()} - {None})
    if len(sizes) > 1:
        yield f"hosts report runs of {sizes[0]:,} and of {sizes[-1]:,} processes"


def _utc_text(unix_ns: int) -> str:
    moment = datetime.fromtimestamp(unix_ns // 10**9, tz=UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
