"""Layout of a log directory: where runs are, and which files belong to which host.

`<logdir>/[<sub-run>/]plugins/profile/<run>/<host>.xplane.pb[.gz]`, at any depth. Each
host has one file. The parts of one file (`<host>.part<k>.xplane.pb`) also count as one
host. `<host>.xplane.pb.part` is an unfinished recording, and is used if the host has no
other file. Other files next to the traces (results of other tools, caches) are ignored.

PyTorch's handler for TensorBoard writes into a directory of the program's choice,
`<logdir>/[<run>/]<worker>.<time>.pt.trace.json[.gz]`. The directory of such files is
the run, and each file is a host. If a process wrote several files, only its newest file
is in the newest run; its earlier files are older runs.
"""

from __future__ import annotations

import os
import re
from collections import deque
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.errors import BadInput
from stepscope.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

#: Maximum decompressed size of a trace, in bytes; `xspace/reading/source.py` checks it
#: (docs/formats/README.md#limits-of-every-reader).
LIMIT_BYTES: Final = 16 * 2**30

#: Advice to the user if a path contains nothing that can be read.
PROFILE_WANTED: Final = "Give a log directory, a run directory or a trace file."
TRACE_SUFFIX: Final = ".xplane.pb"
#: File name suffix of a recording that is still being written.
SPOOL_SUFFIX: Final = ".xplane.pb.part"

#: Maximum depth of directories that are searched.
_DEEPEST: Final = 64

#: Sort key of a file without part number; it comes before the parts of the same host.
_WHOLE: Final = -1

_TRACE: Final = Pattern(
    r"(?P<host>.*?)(?:\.part(?P<part>\d+))?\.xplane\.pb(?:\.gz|(?P<spool>\.part))?\Z",
    re.DOTALL,
)
#: File names of worker traces; a leading dot marks files that macOS adds to copies.
_WORKER_TRACE: Final = Pattern(r"[^.].*\.pt\.trace\.json(?:\.gz)?\Z", re.DOTALL)
#: Timelines that TensorFlow and JAX export from a profile for a viewer.
_TIMELINE: Final = Pattern(r"(?P<host>[^.].*)\.trace(?:\.json)?(?:\.gz)?\Z", re.DOTALL)
_JSON: Final = Pattern(r"[^.].*\.json(?:\.gz)?\Z", re.DOTALL)
#: Memory snapshots of PyTorch, and device memory profiles of JAX.
_MEMORY: Final = Pattern(r"[^.].*\.(?:pickle|pkl|prof)\Z", re.DOTALL)
_DATABASE: Final = Pattern(r"[^.].*\.sqlite(?:\.gz)?\Z", re.DOTALL)
_TIME: Final = Pattern(
    r"(\d{4})[_-](\d\d)[_-](\d\d)_(\d\d)[_-](\d\d)[_-](\d\d)(?:[._-](\d{3})(?!\d))?"
)

#: File name suffixes of results that profilers store next to their trace.
_RESULTS: Final = (
    ".overview_page.pb",
    ".input_pipeline.pb",
    ".kernel_stats.pb",
    ".tensorflow_stats.pb",
    ".memory_profile.json.gz",
    ".op_profile.json",
    ".op_stats.pb",
    ".trace.json.gz",
    ".trace",
)


class HostFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Trace files of one host.

    Attributes:
        host: Name of the host, as in the file name.
        paths: The file of the host, or its parts in order.
        limit_bytes: Maximum decompressed size of a file, in bytes.
        mapped: Whether the files may be memory-mapped while they are read; False if
            another process may truncate them meanwhile.
    """

    host: str
    paths: tuple[Path, ...]
    limit_bytes: int = LIMIT_BYTES
    mapped: bool = True


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One capture of one or several hosts.

    Attributes:
        name: Display name, `<sub-run>/<run>`.
        directory: Directory with the run's files.
        hosts: Hosts in the order of their names.
        unix_s: Time of the recording, in seconds since 1970: the time in the run's
            name, or else the last change of its newest file.
    """

    name: str
    directory: Path
    hosts: tuple[HostFiles, ...]
    unix_s: float


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a search below a directory.

    Attributes:
        runs: Runs, newest first; runs of equal time in descending order of names.
        results_only: Run directories that contain profilers' results but no trace.
        worker_files: Traces of workers (`is_worker_trace`); the directory of each is a
            separate run.
        json_files: Other JSON files outside of run directories, which may be traces.
        databases: SQLite files not next to a trace; Nsight Systems may have written
            them.
        memory_files: Files named like memory snapshots or memory profiles.
        refused: (Path, reason why it could not be read).
        directories: Number of directories that were read.
    """

    runs: tuple[Run, ...]
    results_only: tuple[Path, ...]
    refused: tuple[tuple[Path, str], ...]
    directories: int
    worker_files: tuple[Path, ...] = ()
    json_files: tuple[Path, ...] = ()
    databases: tuple[Path, ...] = ()
    memory_files: tuple[Path, ...] = ()


def is_trace(name: str) -> bool:
    """Return whether a file name is that of a trace in a run directory."""
    return _TRACE.match(name) is not None


def is_spool(name: str) -> bool:
    """Return whether a file name is that of an unfinished recording."""
    return name.endswith(SPOOL_SUFFIX)


def is_worker_trace(name: str) -> bool:
    """Return whether a file name is that of a worker's trace (its folder is a run)."""
    return _WORKER_TRACE.match(name) is not None


def run_directory(logdir: Path, run: str) -> Path:
    """Return the directory of a run in a log directory."""
    return logdir / "plugins" / "profile" / run


def new_run_name(now: float) -> str:
    """Return a unique name for a run that begins now (seconds since 1970).

    `YYYY_MM_DD_HH_MM_SS_mmm_hhhh`: local time with milliseconds, which `scan_directory`
    parses, and four random hexadecimal digits, because two runs may begin together.
    """
    moment = datetime.fromtimestamp(now)  # noqa: DTZ006 - names have local time
    milliseconds = moment.microsecond // 1000
    return f"{moment:%Y_%m_%d_%H_%M_%S}_{milliseconds:03d}_{os.urandom(2).hex()}"


def host_file_name(
    hostname: str, environ: Mapping[str, str], taken: Container[str]
) -> str:
    """Return the host name of a process: the name of its trace file without suffix.

    Args:
        hostname: Name of the machine; characters invalid in file names become `_`.
        environ: Environment variables, in which launchers set the rank of a process.
        taken: Hosts that already have a file in the run's directory. Containers often
            share one host name; the process id is then appended.
    """
    host = re.sub(r"[^A-Za-z0-9._-]", "_", hostname).lstrip(".") or "localhost"
    # `.part<k>` at the end of a name means a part of a file.
    host = re.sub(r"\.(part\d*)\Z", r"_\1", host)
    rank = worker_rank(environ)
    if rank is not None:
        host = f"{host}.{rank}"
    if host in taken:
        host = f"{host}.{os.getpid()}"
    again = 1
    while host in taken:
        again += 1
        host = f"{host}.{again}"
    return host


#: Environment variables of launchers: rank of this process, number of processes.
_RANKS: Final = (
    ("RANK", "WORLD_SIZE"),
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def worker_rank(environ: Mapping[str, str]) -> str | None:
    """Return the rank of this process; None if it is the only process."""
    for rank, size in _RANKS:
        if environ.get(rank, "").isdecimal() and environ.get(size, "").isdecimal():
            return environ[rank] if int(environ[size]) > 1 else None
    try:
        task = msgspec.json.decode(environ.get("TF_CONFIG", "{}"), type=_TfConfig).task
    except msgspec.DecodeError:
        return None
    return None if task is None else f"{task.type}{task.index}"


class _TfTask(msgspec.Struct):
    type: str = ""
    index: int = 0


class _TfConfig(msgspec.Struct):
    task: _TfTask | None = None


def host_name(name: str) -> str:
    """Return the host of a trace's file name; `localhost` if the name has none."""
    found = _TRACE.match(name)
    host = found["host"] if found else Path(name).name.split(".")[0]
    return shown_name(host) or "localhost"


def find_runs(logdir: Path) -> tuple[Run, ...]:
    """Return every run with a trace below a log directory, newest first.

    Raises:
        BadInput: The directory does not exist or cannot be listed.
    """
    return scan_directory(logdir).runs


def traces_in(directory: Path) -> tuple[HostFiles, ...]:
    """Return the hosts with traces directly in a directory, by name.

    If both a file and its compressed copy exist, the uncompressed file is used.
    """
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if is_trace(entry.name)]
    return _host_files(directory, names)


def run_of_file(path: Path) -> Run:
    """Return a run that consists of one file, named after the file's directory."""
    name = path.parent.name if _is_profile_folder(path.parent.parent) else path.name
    host = HostFiles(host=host_name(path.name), paths=(path,))
    return Run(
        name=shown_name(name),
        directory=path.parent,
        hosts=(host,),
        unix_s=changed_unix_s(path),
    )


def runs_of_listing(files: Mapping[Path, float], top: Path) -> tuple[Run, ...]:
    """Return the runs that a list of files contains, newest first; read no directory.

    Args:
        files: Path relative to `top` → time of the last change, in seconds since 1970.
        top: The directory; only its name and the names of its parents are used.

    Returns:
        The runs of `files`, each with its own paths.
    """
    names: dict[Path, list[str]] = {}
    for path in files:
        if is_trace(path.name):
            names.setdefault(path.parent, []).append(path.name)
    own = Path()
    if own in names:
        hosts = _host_files(own, names[own])
        return (_make_run(own, top.name, hosts, changed=files.__getitem__),)
    runs = [
        _make_run(
            directory,
            f"{_sub_run(directory.parent, own)}{directory.name}",
            _host_files(directory, found),
            changed=files.__getitem__,
        )
        for directory, found in names.items()
        if _is_profile_folder(top / directory.parent)
    ]
    return newest_first(runs)


def scan_directory(logdir: Path) -> Scan:
    """Search for runs in and below a directory.

    A directory with traces is itself a run. In a directory without traces, runs are the
    children of every `plugins/profile` at any depth. Traces of workers are listed
    wherever they are. Links are followed, and each directory is read once. An entry
    that cannot be read is skipped and listed in `refused`.

    Raises:
        BadInput: The directory does not exist or cannot be listed.
    """
    try:
        own = traces_in(logdir)
    except OSError as error:
        raise BadInput.at(
            logdir, f"cannot be listed ({error.strerror})", PROFILE_WANTED
        ) from error
    if own:
        run = _make_run(logdir, logdir.absolute().name, own)
        return Scan(runs=(run,), results_only=(), refused=(), directories=1)
    walk = _Walk()
    runs: list[Run] = []
    results_only: list[Path] = []
    for directory, sub_run in walk.run_directories(logdir):
        names = walk.file_names(directory)
        hosts = _host_files(directory, [name for name in names if is_trace(name)])
        of_workers = [name for name in names if is_worker_trace(name)]
        if not hosts and not of_workers:
            hosts = _timeline_files(directory, names)
        if hosts:
            runs.append(_make_run(directory, f"{sub_run}{directory.name}", hosts))
            continue
        walk.keep(directory, names, of_workers)
        if _holds_results(names) and not of_workers:
            results_only.append(directory)
    if not runs and not results_only:
        names = walk.file_names(logdir)
        if own := _timeline_files(logdir, names) if _holds_results(names) else ():
            runs.append(_make_run(logdir, logdir.absolute().name, own))
        elif _holds_results(names):
            results_only.append(logdir)
    return Scan(
        runs=newest_first(runs),
        worker_files=tuple(walk.worker_files),
        json_files=tuple(walk.json_files),
        databases=tuple(walk.databases),
        memory_files=tuple(walk.memory_files),
        results_only=tuple(results_only),
        refused=tuple(walk.refused),
        directories=len(walk.seen),
    )


class _Walk:
    """State of one search: directories that were read, and files that were found."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self.refused: list[tuple[Path, str]] = []
        self.worker_files: list[Path] = []
        self.json_files: list[Path] = []
        self.databases: list[Path] = []
        self.memory_files: list[Path] = []

    def run_directories(self, top: Path) -> Iterator[tuple[Path, str]]:
        """Yield run directories of `profile` folders, and the prefix of each name."""
        # Links are followed last, so that each directory is found under its own path.
        waiting: deque[tuple[Path, int]] = deque([(top, 0)])
        links: deque[tuple[Path, int]] = deque()
        # `top` itself may be a profile folder, which only its parent's name shows.
        real_top = top.absolute()
        while waiting or links:
            directory, depth = waiting.popleft() if waiting else links.popleft()
            if not self._first_visit(directory) or depth > _DEEPEST:
                continue
            folders, linked = self._folders(directory)
            if _is_profile_folder(real_top / directory.relative_to(top)):
                prefix = _sub_run(directory, top)
                for child in (*folders, *linked):
                    if self._first_visit(child):
                        yield child, prefix
                continue
            waiting.extend((child, depth + 1) for child in folders)
            links.extend((child, depth + 1) for child in linked)

    def keep(self, directory: Path, names: list[str], of_workers: list[str]) -> None:
        """List the worker traces of a directory; if it has none, its databases."""
        self.worker_files += [directory / name for name in of_workers]
        if not of_workers:
            self.databases += [directory / it for it in names if _DATABASE.match(it)]

    def file_names(self, directory: Path) -> list[str]:
        try:
            return [entry.name for entry in directory.iterdir()]
        except OSError as error:
            self.refused.append((directory, str(error.strerror)))
            return []

    def _folders(self, directory: Path) -> tuple[list[Path], list[Path]]:
        folders: list[Path] = []
        linked: list[Path] = []
        try:
            with os.scandir(directory) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if self._is_folder(entry):
                        kept = linked if entry.is_symlink() else folders
                        kept.append(Path(entry.path))
                    elif is_worker_trace(entry.name):
                        self.worker_files.append(Path(entry.path))
                    elif _JSON.match(entry.name) and entry.is_file():
                        self.json_files.append(Path(entry.path))
                    elif _DATABASE.match(entry.name) and entry.is_file():
                        self.databases.append(Path(entry.path))
                    elif _MEMORY.match(entry.name) and entry.is_file():
                        self.memory_files.append(Path(entry.path))
        except OSError as error:
            self.refused.append((directory, str(error.strerror)))
        return folders, linked

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir()
        except OSError as error:
            # The link points to itself.
            self.refused.append((Path(entry.path), str(error.strerror)))
            return False

    def _first_visit(self, directory: Path) -> bool:
        try:
            status = directory.stat()
        except OSError as error:
            self.refused.append((directory, str(error.strerror)))
            return False
        key = (status.st_dev, status.st_ino)
        if key in self.seen:
            return False
        self.seen.add(key)
        return True


def _holds_results(names: Iterable[str]) -> bool:
    return any(name.endswith(_RESULTS) and not is_worker_trace(name) for name in names)


def _timeline_files(directory: Path, names: Iterable[str]) -> tuple[HostFiles, ...]:
    """Return the hosts that have an exported timeline but no profile."""
    found = {
        name: match["host"]
        for name in sorted(names)
        if (match := _TIMELINE.match(name)) and not is_worker_trace(name)
    }
    return tuple(
        HostFiles(host=host, paths=(directory / name,)) for name, host in found.items()
    )


def _is_profile_folder(directory: Path) -> bool:
    return directory.name == "profile" and directory.parent.name == "plugins"


def _sub_run(profile_folder: Path, top: Path) -> str:
    inside = profile_folder.relative_to(top).parts[:-2]
    return "".join(f"{part}/" for part in inside)


def _host_files(directory: Path, names: Iterable[str]) -> tuple[HostFiles, ...]:
    chosen: dict[str, dict[int, Path]] = {}
    # In descending order, `x.pb` comes last and replaces `x.pb.gz` and `x.pb.part`.
    for name in sorted(names, key=lambda name: (is_spool(name), name), reverse=True):
        found = _TRACE.match(name)
        if found is not None:
            part = _WHOLE if found["part"] is None else int(found["part"])
            chosen.setdefault(host_name(name), {})[part] = directory / name
    return tuple(
        HostFiles(host=host, paths=tuple(parts[part] for part in sorted(parts)))
        for host, parts in sorted(chosen.items())
    )


def newest_first(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Sort runs newest first; runs of equal time in descending order of names."""
    return tuple(sorted(runs, key=lambda run: (run.unix_s, run.name), reverse=True))


def _make_run(
    directory: Path,
    name: str,
    hosts: tuple[HostFiles, ...],
    *,
    changed: Callable[[Path], float] | None = None,
) -> Run:
    recorded = _time_in_name(directory.name)
    if recorded is None:
        when = changed or changed_unix_s
        recorded = max(when(path) for host in hosts for path in host.paths)
    return Run(name=shown_name(name), directory=directory, hosts=hosts, unix_s=recorded)


def shown_name(name: str | os.PathLike[str]) -> str:
    """Return a file name as text; bytes that are not UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _time_in_name(name: str) -> float | None:
    """Return the time in a run's name, read in the time zone of this machine."""
    found = _TIME.match(name)
    if found is None:
        return None
    *parts, milliseconds = found.groups(default="0")
    try:
        moment = datetime(*(int(part) for part in parts))  # type: ignore[arg-type]  # noqa: DTZ001 - names have local time
        return moment.timestamp() + int(milliseconds) / 1000
    except (ValueError, OverflowError, OSError):
        return None


def changed_unix_s(path: Path) -> float:
    """Return the time of a file's last change, in seconds since 1970; 0 if unknown."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
