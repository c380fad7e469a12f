"""The workers of a run: which files are of one, and what each worker is called.

Definition: docs/decisions/0007-hosts-that-are-not-one-run.md.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from stepscope.patterns import Pattern
from stepscope.trace.quality import QualityNote
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from stepscope.rundir import HostFiles, Run
    from stepscope.trace.model import TraceData

_Host = TypeVar("_Host")

#: The number of a process in the name of a file.
RANK_IN_NAME: Final = Pattern(r"(?i)(rank|worker)[-_]?(\d{1,9})")
#: So many runs are named; of more than these the first is.
_MOST_NAMES: Final = 3


def distinct_hosts(runs: Sequence[Run]) -> list[HostFiles]:
    """Return every host of all runs once, under a name of its own.

    A file that several paths lead to is one host. Hosts of equal names are
    distinguished by their runs, else by the folders in which their files lie, else by
    the names of the files, else by number.
    """
    of_files: dict[tuple[Path, ...], tuple[Run, HostFiles]] = {}
    for run in runs:
        for host in run.hosts:
            files = tuple(path.resolve() for path in host.paths)
            of_files.setdefault(files, (run, host))
    found = list(of_files.values())
    counts = Counter(host.host for _, host in found)
    names = [host.host for _, host in found]
    for name in counts:
        alike = [at for at, (_, host) in enumerate(found) if host.host == name]
        if len(alike) > 1:
            for at, own in zip(alike, _apart([found[it] for it in alike]), strict=True):
                names[at] = own
    # A name made up here may be that of another host.
    taken: Counter[str] = Counter()
    distinct = []
    for (_, host), name in zip(found, names, strict=True):
        taken[name] += 1
        own = name if taken[name] == 1 else f"{name} ({taken[name]})"
        distinct.append(msgspec.structs.replace(host, host=own))
    return distinct


def name_of_all(runs: Sequence[Run]) -> str:
    """Return the shown name of runs that are looked at as one."""
    return joined_names([run.name for run in runs])


def joined_names(all_names: Iterable[str]) -> str:
    """Return names as one; of many the first."""
    names = list(dict.fromkeys(all_names))
    if len(names) > _MOST_NAMES:
        return f"{names[0]} + {len(names) - 1} more"
    return " + ".join(names)


def _apart(alike: Sequence[tuple[Run, HostFiles]]) -> list[str]:
    """Return names for hosts that are called alike."""
    for labels in (
        [_run_label(run, host) for run, host in alike],
        _folder_labels([host.paths[0] for _, host in alike]),
    ):
        if len(set(labels)) == len(labels) and all(labels):
            return [
                f"{label}/{host.host}"
                for label, (_, host) in zip(labels, alike, strict=True)
            ]
    return [f"{host.host} ({host.paths[0].name})" for _, host in alike]


def _run_label(run: Run, host: HostFiles) -> str:
    """Return the name of the run; none where it is only that of the file."""
    return "" if run.name == host.paths[0].name else run.name


def _folder_labels(paths: Sequence[Path]) -> list[str]:
    """Return the first folder in which paths differ, with what follows up to the file.

    Empty for a file that lies where the others part.
    """
    parts = [path.resolve().parent.parts for path in paths]
    same = 0
    while all(len(one) > same for one in parts) and (
        len({one[same] for one in parts}) == 1
    ):
        same += 1
    return [one[same] if len(one) > same else "" for one in parts]


def grouped_by_name(files: Iterable[Path]) -> list[tuple[Path, ...]]:
    """Group files whose names differ in the number of a rank or worker alone."""
    groups: dict[str, list[Path]] = {}
    for file in files:
        found = RANK_IN_NAME.search(file.name)
        rest = (
            file.name
            if found is None
            else f"{file.name[: found.start(2)]}\0{file.name[found.end(2) :]}"
        )
        groups.setdefault(rest, []).append(file)
    return [tuple(group) for group in groups.values()]


def grouped_by_time(
    recorded: Mapping[_Host, tuple[int, int]],
) -> list[tuple[_Host, ...]]:
    """Group files or hosts that were recorded at the same time.

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


def against_one_run(traces: Sequence[TraceData]) -> list[QualityNote]:
    """Return what speaks against hosts being of one run, in one note; none for nothing.

    Only recordings of one format are compared: a memory snapshot may lie beside a
    trace of another time.
    """
    by_format: dict[str, dict[str, dict[str, Any]]] = {}
    for trace in traces:
        environment = trace.table("environment")
        if not isinstance(environment, Unavailable):
            said = environment.row(0, named=True)
            by_format.setdefault(said["format"], {})[trace.host] = said
    reasons = [
        reason
        for hosts in by_format.values()
        for reason in (_at_other_times(hosts), _of_one_rank(hosts), _in_number(hosts))
        if reason
    ]
    if not reasons:
        return []
    return [
        QualityNote(
            kind="not_one_run",
            severity="warning",
            scope="run",
            message="These hosts are shown as one run, but "
            f"{'; and '.join(reasons)}: sums and comparisons over hosts then mean "
            "nothing.",
            count=len(traces),
            remedy="Give the files of one run at a time; compare two runs with "
            "`--against`.",
        )
    ]


def _at_other_times(hosts: Mapping[str, Mapping[str, Any]]) -> str | None:
    spans = {
        host: (start, max(said["stop_unix_ns"] or 0, start + end // PS_PER_NS))
        for host, said in hosts.items()
        if None not in (start := said["start_unix_ns"], end := said["end_ps"])
    }
    groups = grouped_by_time(spans)
    if len(groups) < 2:
        return None
    first, second = groups[0][0], groups[1][0]
    return (
        f"by their clocks they were recorded at {len(groups):,} times: {first} from "
        f"{_utc(spans[first][0])} and {second} from {_utc(spans[second][0])} on"
    )


def _of_one_rank(hosts: Mapping[str, Mapping[str, Any]]) -> str | None:
    ranks = Counter(it["rank"] for it in hosts.values() if it["rank"] is not None)
    rank, count = max(ranks.items(), key=itemgetter(1), default=(0, 0))
    return f"{count:,} of them are rank {rank}" if count > 1 else None


def _in_number(hosts: Mapping[str, Mapping[str, Any]]) -> str | None:
    sizes = sorted({it["processes"] for it in hosts.values()} - {None})
    if len(sizes) < 2:
        return None
    return f"they speak of runs of {sizes[0]:,} and of {sizes[-1]:,} processes"


def _utc(unix_ns: int) -> str:
    moment = datetime.fromtimestamp(unix_ns // 10**9, tz=UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
