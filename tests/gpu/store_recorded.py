"""Puts what was recorded on a GPU under tests/data/gpu; a program, no test.

    store_recorded.py FOLDER

Takes each log directory in FOLDER (of `gpu_scenes.py`, `gpu_kernels.py`, or of an
unpacked archive of `gpu_check.py`) with what lies beside its profile. Profiles get a
neutral name of the machine, everything larger is gzipped. The one that `stepscope demo`
shows goes into the package.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "data" / "record"))

from storing import store  # noqa: E402 - needs the path above

TARGET = ROOT / "tests" / "data" / "gpu"
SHIPPED = ROOT / "src" / "stepscope" / "cli" / "demo_profiles"
#: Small enough to be read as they are.
PLAIN = ("truth.json", "facts.json")


def main(folder: Path) -> None:
    """Store every log directory; `gpu_check.py` has it in a folder `ours`."""
    for plugins in sorted(folder.rglob("plugins")):
        logdir = plugins.parent
        home = logdir.parent if logdir.name == "ours" else logdir
        name = home.name if home is logdir else f"check_{home.name}"
        target = TARGET / name
        target.mkdir(parents=True, exist_ok=True)
        shipped = SHIPPED / name
        store(logdir, shipped if shipped.is_dir() else target)
        for beside in sorted(it for it in home.iterdir() if it.is_file()):
            content = beside.read_bytes()
            if beside.name in PLAIN:
                (target / beside.name).write_bytes(content)
            else:
                stored = target / f"{beside.name}.gz"
                stored.write_bytes(gzip.compress(content, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
