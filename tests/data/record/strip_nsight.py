"""Keep of a database of Nsight Systems what it says of one program, and pack it.

    python strip_nsight.py train.sqlite train.sqlite.gz

The environment, other processes, what the program printed and all texts that no event
refers to are left out.
"""

import gzip
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

KEPT = (
    "ANALYSIS_DETAILS",
    "NVTX_EVENTS",
    "OSRT_API",
    "PROFILER_OVERHEAD",
    "TARGET_INFO_SESSION_START_TIME",
)


def strip(source: str, target: str) -> None:
    """Write the packed database."""
    with closing(sqlite3.connect("file::memory:", uri=True)) as made:
        made.execute("ATTACH ? AS whole", (Path(source).as_uri() + "?mode=ro",))
        for name in KEPT:
            made.execute(f"CREATE TABLE {name} AS SELECT * FROM whole.{name}")  # noqa: S608
        made.execute(
            "CREATE TABLE ThreadNames AS SELECT * FROM whole.ThreadNames"
            " WHERE globalTid IN (SELECT globalTid FROM OSRT_API)"
        )
        used = " UNION ".join(
            f"SELECT nameId FROM {name}"  # noqa: S608
            for name in ("OSRT_API", "PROFILER_OVERHEAD", "ThreadNames")
        )
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        made.execute(
            "INSERT INTO StringIds SELECT id, value FROM whole.StringIds"  # noqa: S608
            f" WHERE id IN ({used} UNION SELECT textId FROM NVTX_EVENTS)"
        )
        made.commit()
        content = made.serialize()
    Path(target).write_bytes(gzip.compress(content, 9, mtime=0))


if __name__ == "__main__":
    strip(str(Path(sys.argv[1]).resolve()), sys.argv[2])
