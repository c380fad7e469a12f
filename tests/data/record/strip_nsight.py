"""Keep of a database of Nsight Systems what it says of one program, and pack it.

    python strip_nsight.py train.sqlite train.sqlite.gz

The environment, other processes, what the program printed, stacks, the tool's own
messages and all texts that no kept row refers to are left out.
"""

import gzip
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

KEPT = (
    "ANALYSIS_DETAILS",
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
    "CUDA_GRAPH_EVENTS",
    "CUDA_GRAPH_NODE_EVENTS",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
    "OSRT_API",
    "PROFILER_OVERHEAD",
    "TARGET_INFO_CUDA_CONTEXT_INFO",
    "TARGET_INFO_CUDA_STREAM",
    "TARGET_INFO_GPU",
    "TARGET_INFO_SESSION_START_TIME",
)
#: What numbers of kinds mean; the same in every database of a release.
MEANINGS = "ENUM_"
#: Columns that refer to texts.
TEXTS = ("nameId", "textId", "demangledName", "shortName", "mangledName")
#: Columns that tell one device of the world from all others.
SERIAL = {"TARGET_INFO_GPU": ("uuid", "busLocation")}


def strip(source: str, target: str) -> None:
    """Write the packed database."""
    with closing(sqlite3.connect("file::memory:", uri=True)) as made:
        made.execute("ATTACH ? AS whole", (Path(source).as_uri() + "?mode=ro",))
        there = {
            name
            for (name,) in made.execute(
                "SELECT name FROM whole.sqlite_master WHERE type = 'table'"
            )
        }
        kept = [name for name in sorted(there) if name in KEPT or MEANINGS in name]
        for name in kept:
            made.execute(f"CREATE TABLE {name} AS SELECT * FROM whole.{name}")  # noqa: S608
        for name, columns in SERIAL.items():
            for column in columns if name in kept else ():
                made.execute(f"UPDATE {name} SET {column} = NULL")  # noqa: S608
        threads = " UNION ".join(
            f"SELECT globalTid FROM {name}"  # noqa: S608
            for name in kept
            if "globalTid" in columns_of(made, name)
        )
        made.execute(
            "CREATE TABLE ThreadNames AS SELECT * FROM whole.ThreadNames"  # noqa: S608
            f" WHERE globalTid IN ({threads})"
        )
        used = " UNION ".join(
            f"SELECT {column} FROM {name}"  # noqa: S608
            for name in (*kept, "ThreadNames")
            for column in columns_of(made, name)
            if column in TEXTS
        )
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        made.execute(
            "INSERT INTO StringIds SELECT id, value FROM whole.StringIds"  # noqa: S608
            f" WHERE id IN ({used})"
        )
        made.commit()
        content = made.serialize()
    Path(target).write_bytes(gzip.compress(content, 9, mtime=0))


def columns_of(made: sqlite3.Connection, name: str) -> list[str]:
    return [row[1] for row in made.execute(f"PRAGMA main.table_info({name})")]


if __name__ == "__main__":
    strip(str(Path(sys.argv[1]).resolve()), sys.argv[2])
