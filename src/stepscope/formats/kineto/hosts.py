"""What the processes are called whose traces are opened together.

Every process of a distributed run writes a file of its own. Its rank is in the file,
else perhaps in the file's name; the name of the machine does not distinguish processes,
because eight ranks may share one.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from stepscope.formats.sniff import head_of
from stepscope.formats.workers import RANK_IN_NAME, grouped_by_name
from stepscope.patterns import Pattern
from stepscope.rundir import HostFiles
from stepscope.xspace.reading.input_file import open_input

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Other numbers may come between the two, but no closing bracket of the object.
_RANK: Final = Pattern(rb'"distributedInfo"\s*:\s*\{[^}]*?"rank"\s*:\s*"?(\d{1,9})')
#: The part of a file after its events is short.
_TAIL_BYTES: Final = 2**16


def hosts_of(paths: Sequence[Path]) -> tuple[HostFiles, ...]:
    """Return each trace as a host of its own: `rank3`, `worker3` or its file's name.

    Where several would be called alike, as two windows of one worker, each of these
    is followed by the name of its file.

    Returns:
        In the order of their names, `rank10` after `rank9`.
    """
    names = [_name(path) for path in paths]
    counts = Counter(names)
    hosts = [
        HostFiles(
            host=name if counts[name] == 1 else f"{name} ({_stem(path)})",
            paths=(path,),
        )
        for name, path in zip(names, paths, strict=True)
    ]
    return tuple(sorted(hosts, key=lambda it: _natural(it.host)))


def recorded_together(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Group traces of different ranks or workers; of equal ones by their files' names.

    A trace that says neither is a run of its own.
    """
    hosts = hosts_of(paths)
    ranks = tuple(it.paths[0] for it in hosts if RANK_IN_NAME.fullmatch(it.host))
    others = [it.paths[0] for it in hosts if it.paths[0] not in ranks]
    return [*([ranks] if ranks else []), *grouped_by_name(others)]


def _name(path: Path) -> str:
    found = _RANK.search(head_of(path)) or _RANK.search(_tail(path))
    if found is not None:
        return f"rank{int(found[1])}"
    named = RANK_IN_NAME.search(path.name)
    return f"{named[1].lower()}{int(named[2])}" if named else _stem(path)


def _tail(path: Path) -> bytes:
    """Return the last bytes of a file; of a packed one they say nothing."""
    with open_input(path) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        return file.read()


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz").removesuffix(".json")
    return name.removesuffix(".trace").removesuffix(".pt") or path.name


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return numbers in a name count as numbers."""
    parts = re.split(r"(\d+)", name)
    return tuple(
        (int(part), "") if at % 2 else (-1, part) for at, part in enumerate(parts)
    )
