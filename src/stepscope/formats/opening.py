"""Find the runs that a path names, and read the traces of their hosts."""

from __future__ import annotations

import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.errors import BadInput
from stepscope.formats import sniff
from stepscope.formats.declared_texts import quality_note
from stepscope.formats.file_systems import is_url
from stepscope.formats.registry import READERS
from stepscope.formats.workers import (
    distinct_hosts,
    joined_names,
    name_of_runs,
    named_after_files,
    several_runs_notes,
    with_worker_runs,
)
from stepscope.rundir import (
    HostFiles,
    Run,
    Scan,
    changed_unix_s,
    host_name,
    newest_first,
    run_of_file,
    scan_directory,
    shown_name,
)
from stepscope.unavailable import Unavailable
from stepscope.xspace.reading.input_file import existing_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.formats.remote import RemoteDirectory
    from stepscope.trace.model import TraceData
    from stepscope.trace.quality import QualityNote

#: If all files of a run have fewer bytes than this, they are read one after the other:
#: with threads, small files take longer and need more memory.
_SEQUENTIAL_BYTES: Final = 2**20
#: Maximum number of files in one directory whose format is detected.
_MAX_FILES: Final = 1024
#: Maximum number of formats (and of refused files) that the error "no profile" names.
_MAX_KINDS: Final = 3
#: Maximum number of hosts that one sentence names.
_MAX_NAMED_HOSTS: Final = 3
#: File name suffix of SQLite databases, and format of Nsight Systems' databases.
_DATABASE: Final = ".sqlite"
_NSIGHT_SYSTEMS: Final = "nsight_systems"
#: JSON formats of profilers that have no reader; such files are listed with the reason.
_TRACES: Final = frozenset(
    {
        *("autograd_trace", "chrome_trace", "execution_trace", "memory_timeline"),
        "speedscope",
    }
)


def read(path: str | os.PathLike[str]) -> TraceData:
    """Read one file of any format that has a reader.

    Raises:
        BadInput: The file is not a profile; the message names file, problem and remedy.
    """
    remote = _remote_directory(path)
    run = (
        run_of_file(existing_path(path))
        if remote is None
        else _newest_remote_run(remote)
    )
    return _read_host(run.hosts[0])


def open_hosts(*paths: str | os.PathLike[str]) -> tuple[str, dict[str, TraceData]]:
    """Read every host of a run; hosts with large files are read in parallel threads.

    A path is a log directory (which means its newest run), a run directory or a file.
    Several paths are workers of one run. Hosts with equal names get the names of their
    runs, folders or files added. If a host cannot be read, it is left out, and the
    traces of the other hosts get a note.

    Returns:
        Shown name of the run, and host → trace in the order of the paths.

    Raises:
        BadInput: No host can be read; the message names path, problem and remedy.
    """
    return _open_runs([newest_run(path) for path in paths])


def open_run(run: Run) -> tuple[str, dict[str, TraceData]]:
    """Read every host of a run that was already found; see `open_hosts`."""
    return _open_runs([run])


def find_runs(path: Path) -> Scan:
    """Find every run that a path names.

    A log directory may contain many runs, and so may a directory of trace files with
    arbitrary names. A run directory or a file contains one run.

    Raises:
        BadInput: The directory cannot be listed.
    """
    if not path.is_dir():
        run = run_of_file(path)
        return Scan(runs=(run,), results_only=(), refused=(), directories=0)
    scan = scan_directory(path)
    runs = with_worker_runs(
        scan.runs,
        scan.worker_files,
        path,
        top_name=path.absolute().name,
        changed=changed_unix_s,
        hosts_of=_hosts_of_workers,
    )
    if not runs:
        runs = _loose_runs(path, _formats_of_files(path))
    used = {file for run in runs for host in run.hosts for file in host.paths}
    files = (*scan.json_files[:_MAX_FILES], *scan.databases[:_MAX_FILES])
    loose, refused = _runs_of_files([file for file in files if file not in used], path)
    snapshots = scan.memory_files[:_MAX_FILES]
    memory, _ = _runs_of_files([file for file in snapshots if file not in used], path)
    return msgspec.structs.replace(
        scan,
        # By default the first run of a directory is opened; memory snapshots are last.
        runs=(*newest_first((*runs, *loose)), *newest_first(memory)),
        refused=(*scan.refused, *refused),
    )


def _runs_of_files(
    files: Sequence[Path], top: Path
) -> tuple[list[Run], list[tuple[Path, str]]]:
    """Return each readable trace file as a run, and the refused files with reasons.

    Each file is a separate run, named by its path below the top directory, because
    nothing shows which files belong together. Unknown and incomplete files are refused.
    """
    runs, refused = [], []
    for file in files:
        with suppress(OSError):
            status = file.stat()
            format_ = _cached_format(file, status.st_size, status.st_mtime_ns)
            if format_ in _TRACES:
                entry = sniff.FOREIGN[format_]
                refused.append((file, f"{entry.what}. {entry.way_out}"))
            elif _readable_formats({file: format_}):
                reason = None
                if file.suffix == _DATABASE:
                    from stepscope.formats.nsight_systems.database.connection import (  # noqa: PLC0415 - imported only for databases
                        still_written,
                    )

                    reason = still_written(file)
                if reason is not None:
                    refused.append((file, reason))
                    continue
                name = shown_name(file.relative_to(top))
                runs.append(msgspec.structs.replace(run_of_file(file), name=name))
    return runs, refused


# The result is cached because a server scans its log directory repeatedly.
@lru_cache(maxsize=4096)
def _cached_format(file: Path, size: int, changed_ns: int) -> str:
    del size, changed_ns  # Part of the cache key: a changed file is examined again.
    if file.suffix == _DATABASE:
        from stepscope.formats.nsight_systems.database.connection import (  # noqa: PLC0415 - imported only for databases
            is_export,
        )

        return _NSIGHT_SYSTEMS if is_export(file) else ""
    return _detect_formats([file]).get(file, "")


def loose_runs(remote: RemoteDirectory) -> tuple[Run, ...]:
    """Return runs from trace files with arbitrary names in a remote directory.

    Raises:
        BadInput: A file cannot be fetched.
    """
    name = Path(remote.url.rstrip("/"))
    return newest_first(_loose_runs(name, _detect_formats(remote.loose_files())))


def _open_runs(runs: Sequence[Run]) -> tuple[str, dict[str, TraceData]]:
    hosts = distinct_hosts(runs)
    try:
        sizes = [file.stat().st_size for host in hosts for file in host.paths]
    except OSError:
        # The reader of the missing file reports the error.
        sizes = [_SEQUENTIAL_BYTES]
    if sum(sizes) < _SEQUENTIAL_BYTES:
        outcomes = [_read_host_or_error(host) for host in hosts]
    else:
        # The files are large enough to read each host in a separate thread.
        workers = min(len(hosts), os.cpu_count() or 1)
        with ThreadPoolExecutor(max_workers=workers) as pool:
            outcomes = list(pool.map(_read_host_or_error, hosts))
    failures = [outcome for outcome in outcomes if isinstance(outcome, BadInput)]
    if len(failures) == len(outcomes):
        raise failures[0]
    traces = [outcome for outcome in outcomes if not isinstance(outcome, BadInput)]
    notes = [
        *(several_runs_notes(traces) if len(runs) > 1 else ()),
        *_duplicate_notes(hosts),
        *(quality_note("any.host_unreadable", 1, failure=error) for error in failures),
    ]
    traces = _with_host_notes(traces)
    return name_of_runs(runs), {
        trace.host: trace.with_notes(notes) if notes else trace for trace in traces
    }


def _remote_directory(path: str | os.PathLike[str]) -> RemoteDirectory | None:
    """Return the remote directory of a URL; None for a path on this machine."""
    text = os.fspath(path)
    if not is_url(text) or Path(text).exists():
        return None
    from stepscope.formats.remote import RemoteDirectory  # noqa: PLC0415 - imported only for URLs

    return RemoteDirectory(text)


def _newest_remote_run(remote: RemoteDirectory) -> Run:
    runs = remote.runs()
    if runs:
        return remote.fetched(runs[0])
    loose = loose_runs(remote)
    if not loose:
        raise BadInput.at(
            remote.url,
            "holds no profile",
            "Give a URL with plugins/profile/<run>/<host>.xplane.pb or "
            "<worker>.pt.trace.json below it, or that of one such file.",
        )
    return loose[0]


def newest_run(location: str | os.PathLike[str]) -> Run:
    """Return the run that a path names; for a log directory, its newest run.

    Raises:
        BadInput: There is no run; the message names path, files found and remedy.
    """
    remote = _remote_directory(location)
    if remote is not None:
        return _newest_remote_run(remote)
    path = existing_path(location)
    scan = find_runs(path)
    if scan.runs:
        run = scan.runs[0]
        files = run.hosts[0].paths
        formats = {} if path.is_dir() else _detect_formats(files)
        if not _readable_formats(formats):
            return run
        return msgspec.structs.replace(run, hosts=_name_hosts(files, formats[files[0]]))
    raise _no_profile_error(path, scan, Counter(_formats_of_files(path).values()))


def _readable_formats(formats: Mapping[Path, str]) -> set[str]:
    return READERS.keys() & set(formats.values())


def _most_frequent(formats: Mapping[Path, str], readable: set[str]) -> str:
    # Files that only add tables form a run only if there are no recordings.
    recordings = {name for name in readable if not READERS[name].is_added}
    chosen = recordings or readable
    counts = Counter(name for name in formats.values() if name in chosen)
    return max(sorted(counts), key=counts.__getitem__)


def _loose_runs(path: Path, formats: dict[Path, str]) -> tuple[Run, ...]:
    """Return runs from trace files with arbitrary names in a directory.

    Formats are never mixed: only files of the most frequent format become runs. Files
    are hosts of one run if their contents show that they were recorded together.
    """
    readable = _readable_formats(formats)
    if not readable:
        return ()
    chosen = _most_frequent(formats, readable)
    files = sorted(file for file, format_ in formats.items() if format_ == chosen)
    stamps = [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    groups = _recorded_together(tuple(files), tuple(stamps), chosen)
    if len(groups) == 1:
        return (_run_of_group(files, chosen, path.absolute().name),)
    return tuple(
        _run_of_group(group, chosen, joined_names([file.name for file in group]))
        for group in groups
    )


def _run_of_group(files: Sequence[Path], format_: str, name: str) -> Run:
    return Run(
        name=shown_name(name),
        directory=files[0].parent,
        hosts=_name_hosts(files, format_),
        unix_s=max(changed_unix_s(file) for file in files),
    )


# The result is cached because a server scans its log directory repeatedly.
@lru_cache(maxsize=64)
def _recorded_together(
    files: tuple[Path, ...], stamps: tuple[tuple[int, int], ...], format_: str
) -> list[tuple[Path, ...]]:
    del stamps  # Part of the cache key: a changed file is examined again.
    together = READERS[format_].together
    return [files] if together is None or len(files) == 1 else together(files)


def _name_hosts(files: Sequence[Path], format_name: str) -> tuple[HostFiles, ...]:
    reader = READERS.get(format_name)
    if reader is not None and reader.hosts_of is not None:
        return reader.hosts_of(files)
    return tuple(HostFiles(host=host_name(file.name), paths=(file,)) for file in files)


def _hosts_of_workers(files: tuple[Path, ...]) -> tuple[HostFiles, ...]:
    """Return all workers' files as hosts, named as their file format prescribes.

    A file that cannot be read is listed too; opening the file reports the error.
    """
    try:
        stamps = [(file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        return _hosts_of_versions(files, tuple(stamps))
    except (OSError, BadInput):
        return named_after_files(files)


# The result is cached because a server scans its log directory repeatedly.
@lru_cache(maxsize=4096)
def _hosts_of_versions(
    files: tuple[Path, ...], stamps: tuple[tuple[int, int], ...]
) -> tuple[HostFiles, ...]:
    del stamps  # Part of the cache key: a changed file is examined again.
    formats = _detect_formats(files)
    readable = _readable_formats(formats)
    if not readable:
        return named_after_files(files)
    return _name_hosts(files, _most_frequent(formats, readable))


def _no_profile_error(path: Path, scan: Scan, files: Counter[str]) -> BadInput:
    if scan.results_only:
        return BadInput.at(
            scan.results_only[-1],
            "holds results that TensorFlow computed while recording, but no trace "
            "(*.xplane.pb), so nothing more can be computed from it",
            "Give the run's .xplane.pb, or record again.",
        )
    notes = [f"directories searched: {scan.directories:,}"]
    notes += [
        f"found {count} x {sniff.FOREIGN[kind].what}"
        for kind, count in files.most_common(_MAX_KINDS)
    ]
    notes += [f"{entry}: {reason}" for entry, reason in scan.refused[:_MAX_KINDS]]
    return BadInput.at(
        path,
        "holds no profile (" + "; ".join(notes) + ")",
        "Give a directory with plugins/profile/<run>/<host>.xplane.pb or "
        "<worker>.pt.trace.json below it, or one such file.",
    )


def _formats_of_files(directory: Path) -> dict[Path, str]:
    try:
        files = sorted(entry for entry in directory.iterdir() if entry.is_file())
    except OSError:
        return {}
    return _detect_formats(files[:_MAX_FILES])


def _detect_formats(files: Sequence[Path]) -> dict[Path, str]:
    formats = {}
    for file in files:
        with suppress(BadInput):
            formats[file] = sniff.detect_format(file)
    return formats


def _read_host_or_error(host: HostFiles) -> TraceData | BadInput:
    try:
        return _read_host(host)
    except BadInput as error:
        return error


def _read_host(host: HostFiles) -> TraceData:
    format_name = sniff.detect_format(host.paths[0])
    if format_name not in READERS:
        raise sniff.foreign_error(host.paths[0], format_name)
    return READERS[format_name].read(host)


def _duplicate_notes(hosts: Sequence[HostFiles]) -> list[QualityNote]:
    of_size: dict[tuple[int, ...], list[list[HostFiles]]] = {}
    for host in hosts:
        sizes = tuple(path.stat().st_size for path in host.paths)
        alike = of_size.setdefault(sizes, [])
        group = next((group for group in alike if _same_bytes(group[0], host)), None)
        if group is None:
            alike.append([host])
        else:
            group.append(host)
    equal = (group for alike in of_size.values() for group in alike if len(group) > 1)
    notes = []
    for group in equal:
        shown = [host.host for host in group[:_MAX_NAMED_HOSTS]]
        further = len(group) - len(shown)
        last = f"{further:,} more" if further else shown.pop()
        named = f"{', '.join(shown)} and {last}"
        notes.append(quality_note("any.duplicate_hosts", len(group), hosts=named))
    return notes


def _same_bytes(first: HostFiles, second: HostFiles) -> bool:
    from filecmp import cmp  # noqa: PLC0415 - imported only for several hosts

    return all(
        cmp(first_path, second_path, shallow=False)
        for first_path, second_path in zip(first.paths, second.paths, strict=True)
    )


def _with_host_notes(traces: Sequence[TraceData]) -> list[TraceData]:
    environments = [trace.table("environment") for trace in traces]
    names = [
        None if isinstance(environment, Unavailable) else environment["hostname"][0]
        for environment in environments
    ]
    counts = Counter(name for name in names if name is not None)
    noted = []
    for trace, name in zip(traces, names, strict=True):
        host = trace.host
        if name is None:
            notes = []
        elif counts[name] > 1:
            notes = [
                quality_note(
                    "any.host_name_collides", counts[name], scope=host, inside=name
                )
            ]
        # File names keep letters, digits, `.`, `-` and `_`; others become `_`.
        elif re.sub(r"[^A-Za-z0-9._-]", "_", name) != host.rsplit("/", 1)[-1]:
            notes = [quality_note("any.host_name_differs", scope=host, inside=name)]
        else:
            notes = []
        noted.append(trace.with_notes(notes) if notes else trace)
    return noted
