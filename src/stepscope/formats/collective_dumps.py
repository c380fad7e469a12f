"""Reader of the files that PyTorch's flight recorder writes, one of each rank.

A file is a pickle, which is read without Python's unpickler, or JSON. Point-to-point
operations are left out: their numbers count per pair of ranks.

Definition: docs/hangs.md.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.errors import BadInput, Malformed
from stepscope.formats.memory.plain_pickle import RefusedPickle, plain_pickle
from stepscope.patterns import Pattern
from stepscope.trace.collective_calls import CollectiveCall, RankCalls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Names as PyTorch writes them: `nccl_trace_rank_3`, `comm_lib_trace_rank_3`.
_FILE_NAME: Final = Pattern(r".*rank_?(?P<rank>\d+)(?:\.(?:json|pickle|pkl))?\Z")
_MAX_RANK: Final = 10**6
_MAX_CALLS: Final = 10**6
#: A call takes about 1 KB, and a recorder holds a few thousand.
_MAX_BYTES: Final = 2**30
_DUMP_AGAIN: Final = (
    "Write it again: set TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 "
    "before the job starts."
)
#: Part of the path of PyTorch's own files, which are not the callers of a collective.
_OF_PYTORCH: Final = ("/torch/", "\\torch\\")


def find_collective_dumps(paths: Sequence[str]) -> list[Path]:
    """Return the files of flight recorders among some paths and in their folders.

    Names and first bytes tell them. Folders inside of these are not searched.
    """
    found: list[Path] = []
    for given in map(Path, paths):
        # What cannot be read is told by the readers of profiles.
        with suppress(OSError):
            inside = sorted(given.iterdir()) if given.is_dir() else [given]
            found += [path for path in inside if _is_dump(path)]
    return found


def _is_dump(path: Path) -> bool:
    if not _FILE_NAME.match(path.name) or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(4096)
    # Traces of PyTorch's profiler name the process groups, too.
    is_json = head.lstrip()[:1] == b"{" and b'"schemaVersion"' not in head
    return (head[:1] == b"\x80" or is_json) and b"pg_config" in head


def read_collective_dumps(paths: Sequence[Path]) -> tuple[list[RankCalls], list[str]]:
    """Read the files of all ranks; also return the errors of those that are damaged.

    Raises:
        BadInput: None of them can be read.
    """
    ranks, errors = [], []
    for path in paths:
        try:
            ranks.append(_read_dump(path))
        except BadInput as error:
            errors.append(error)
    if not ranks:
        raise errors[0]
    return ranks, [str(error) for error in errors]


def _read_dump(path: Path) -> RankCalls:
    """Read the file of one rank.

    Raises:
        BadInput: The file cannot be read, or is not of a flight recorder.
    """
    named = _FILE_NAME.match(path.name)
    rank = int(named["rank"]) if named else _MAX_RANK
    if rank >= _MAX_RANK:
        raise BadInput.at(path, "has no rank in its name", _DUMP_AGAIN)
    try:
        data = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else b""
    except OSError as error:
        raise BadInput.at(
            path, f"cannot be read ({error.strerror})", _DUMP_AGAIN
        ) from error
    try:
        told = json.loads(data) if data[:1] != b"\x80" else plain_pickle(data)
    except RefusedPickle as refused:
        raise Malformed.broken_at_offset(
            path, refused.offset, refused.what, _DUMP_AGAIN
        ) from None
    except (ValueError, RecursionError):
        raise BadInput.at(path, "is damaged JSON", _DUMP_AGAIN) from None
    if not isinstance(told, dict) or not isinstance(told.get("entries"), list):
        raise BadInput.at(path, "has no list of collective calls", _DUMP_AGAIN)
    calls = tuple(_collective_calls(told["entries"][:_MAX_CALLS]))
    return RankCalls(rank=rank, groups=_process_groups(told), calls=calls)


def _collective_calls(entries: list[Any]) -> Iterator[CollectiveCall]:
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("is_p2p"):
            continue
        group, number = entry.get("process_group"), entry.get("collective_seq_id")
        name = entry.get("profiling_name")
        if not isinstance(group, tuple | list) or len(group) == 0:
            continue
        if not isinstance(number, int) or not isinstance(name, str):
            continue
        called_ns = entry.get("time_created_ns")
        yield CollectiveCall(
            group=str(group[0]),
            number=number,
            # The backend comes first: `nccl:all_reduce`.
            operation=name.rpartition(":")[2],
            sizes=_join_values(entry.get("input_sizes")),
            dtypes=_join_values(entry.get("input_dtypes")),
            is_started=entry.get("state") in ("started", "completed"),
            # Gloo only sets `retired`.
            is_finished=entry.get("state") == "completed" or bool(entry.get("retired")),
            called_ns=called_ns if isinstance(called_ns, int) else 0,
            caller=_find_caller(entry.get("frames")),
        )


def _join_values(values: object) -> str:
    if not isinstance(values, list):
        return ""
    return ", ".join(
        f"[{', '.join(map(str, each))}]" if isinstance(each, list) else str(each)
        for each in values
    )


def _find_caller(frames: object) -> str:
    """Return the innermost function outside of PyTorch's own files."""
    for frame in frames if isinstance(frames, list) else ():
        if isinstance(frame, dict):
            file = str(frame.get("filename", ""))
            if not any(part in file for part in _OF_PYTORCH):
                return f"{frame.get('name')} ({file}:{frame.get('line')})"
    return ""


def _process_groups(told: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return description and ranks of each group that the file names."""
    groups: dict[str, tuple[str, tuple[int, ...]]] = {}
    for entry in told["entries"]:
        named = entry.get("process_group") if isinstance(entry, dict) else None
        if isinstance(named, tuple | list) and len(named) > 0:
            described = str(named[1]) if len(named) > 1 else ""
            groups[str(named[0])] = described, ()
    configured = told.get("pg_config")
    for name, config in configured.items() if isinstance(configured, dict) else ():
        if isinstance(config, dict):
            known = groups.get(str(name), ("", ()))[0]
            ranks = _parse_ranks(config.get("ranks"))
            groups[str(name)] = known or str(config.get("desc", "")), ranks
    return groups


def _parse_ranks(text: object) -> tuple[int, ...]:
    """Return the ranks of a group, which are written as `[0, 1]`."""
    try:
        ranks = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return ()
    numbers = ranks if isinstance(ranks, list) else []
    return tuple(sorted({rank for rank in numbers if isinstance(rank, int)}))
