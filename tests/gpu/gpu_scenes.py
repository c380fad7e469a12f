"""Records training loops with a known trouble on a GPU; a program, no test.

    gpu_scenes.py torch|jax FOLDER [--scene NAME]... [--without-graphs]

Each scene is recorded in a process of its own into `FOLDER/<framework>_<scene>`: the
log directory, and `truth.json` with what the program's own clocks say (the steps by
`time.perf_counter`, the device by its own events) and what it knows (bytes copied, most
bytes allocated). `--without-graphs` has XLA launch every kernel by itself. Runs in an
environment that has the framework, with stepscope's `src` on the path.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import stepscope as ss

if TYPE_CHECKING:
    from types import ModuleType

WARM_UP, STEPS, SIDE = 10, 8, 4096
NO_GRAPHS = "--xla_gpu_enable_command_buffer="


def record(scenes: ModuleType, name: str, folder: Path) -> None:
    """Record some steps after a warm-up, and write what is known of them."""
    step, known = scenes.SCENES[name](SIDE)
    for _ in range(WARM_UP):
        step()
    scenes.forget_peaks()
    marked = not known.get("unmarked")
    options = ss.ProfilerOptions(
        record_shapes=True, profile_memory=bool(known.get("profile_memory"))
    )
    times, device_ms = [], []
    with ss.Profile(folder, options) as run:
        for number in range(STEPS):
            begin = time.perf_counter()
            with (
                ss.StepTrace(number) if marked else contextlib.nullcontext(),
                scenes.device_clock() as clock,
            ):
                step()
            times.append((begin, time.perf_counter()))
            device_ms += clock
    truth = {
        "recorded_with": scenes.versions(),
        "steps": STEPS,
        "step_ms": [round((end - begin) * 1e3, 4) for begin, end in times],
        "begin_to_begin_ms": [
            round((b[0] - a[0]) * 1e3, 4) for a, b in itertools.pairwise(times)
        ],
        "device_ms": [round(it, 4) for it in device_ms],
        "warnings": list(run.warnings),
        **known,
        **scenes.memory_facts(),
    }
    (folder / "truth.json").write_text(json.dumps(truth, indent=1), encoding="utf-8")


def main() -> int:
    """Record one scene here, or each of several in a process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("framework", choices=("torch", "jax"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scene", action="append")
    parser.add_argument("--without-graphs", action="store_true")
    options = parser.parse_args()
    if options.without_graphs:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {NO_GRAPHS}"
    scenes = importlib.import_module(f"{options.framework}_scenes")
    chosen = options.scene or list(scenes.SCENES)
    if len(chosen) > 1:
        for name in chosen:
            command = [__file__, options.framework, options.folder, "--scene", name]
            flags = ["--without-graphs"] if options.without_graphs else []
            subprocess.run([sys.executable, *command, *flags], check=True)
        return 0
    suffix = "_without_graphs" if options.without_graphs else ""
    folder = options.folder / f"{options.framework}_{chosen[0]}{suffix}"
    folder.mkdir(parents=True, exist_ok=True)
    record(scenes, chosen[0], folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
