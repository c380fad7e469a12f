"""The workers of a run that several paths lead to: each once, by a name of its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.rundir import HostFiles, Run

__all__ = ["distinct_hosts", "name_of_all"]

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
    names = list(dict.fromkeys(run.name for run in runs))
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
