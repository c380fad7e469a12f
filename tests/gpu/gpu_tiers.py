"""Records one program with three profilers on a GPU; a program, no test.

    gpu_tiers.py FOLDER [--only NAME]...

Runs `torch_tiers.py` by `stepscope run`, `stepscope nsys` and `stepscope ncu`, as users
do, and for what these do not ask for by `nsys` itself. What each printed is put into
`FOLDER/NAME.log`, and how each ended into `FOLDER/ended.json`. Needs PyTorch with CUDA,
`nvcc`, `nsys` and `ncu`, and stepscope on the path.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).with_name("torch_tiers.py")
STEPSCOPE = (sys.executable, "-m", "stepscope")
#: Recording of replayed graphs → what is traced of each.
GRAPHS = {"whole": "graph", "nodes": "node"}
#: Longer than any of them takes; a tool that hangs must not take the others along.
LIMIT_S = 150


def calls(folder: Path) -> dict[str, tuple[str, ...]]:
    """Name → the command line, in the order in which they run."""

    def program(name: str) -> tuple[str, ...]:
        return "--", sys.executable, str(PROGRAM), name

    def path(name: str) -> str:
        return str(folder / name)

    recorded = ("--skip-steps", "12", "--steps", "10")
    return {
        "train": (
            *(*STEPSCOPE, "run", "--logdir", path("train"), *recorded),
            *program("train"),
        ),
        "timeline": (
            *(*STEPSCOPE, "nsys", "--profiler-api", "-o", path("timeline")),
            *program("train"),
        ),
        "step": (
            *(*STEPSCOPE, "ncu", "--profiler-api", "--set", "basic", "--count", "60"),
            *("--beside", path("train"), "-o", path("step"), *program("train")),
        ),
        "planted": (
            *(*STEPSCOPE, "run", "--logdir", path("planted"), *recorded),
            *program("planted"),
        ),
        "kernels": (
            *(*STEPSCOPE, "ncu", "--range", "step 12", "--beside", path("planted")),
            *("-o", path("kernels"), *program("planted")),
        ),
        "op": (
            *(*STEPSCOPE, "ncu", "--op", "planted::thread_per_row", "--count", "2"),
            *("--beside", path("train"), "-o", path("op"), *program("train")),
        ),
        "range": (
            *(*STEPSCOPE, "nsys", "--range", "step 14", "-o", path("range")),
            *program("train"),
        ),
        **{name: graphs(path(name), traced) for name, traced in GRAPHS.items()},
    }


def graphs(output: str, traced: str) -> tuple[str, ...]:
    """Nsight Systems around a step that is replayed as one graph, with its memory."""
    return (
        *("nsys", "profile", "--wait=primary", "--trace=cuda,nvtx", "--sample=none"),
        *("--cpuctxsw=none", "--cuda-memory-usage=true"),
        *(f"--cuda-graph-trace={traced}", "--capture-range=cudaProfilerApi"),
        *("--capture-range-end=stop", "--export=sqlite", "-o", output),
        *(sys.executable, str(PROGRAM), "graph"),
    )


def main() -> int:
    """Run all, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    ended = {}
    for name, command in calls(options.folder.resolve()).items():
        if options.only and name not in options.only:
            continue
        begin = time.perf_counter()
        with (options.folder / f"{name}.log").open("wb") as log:
            try:
                status: object = subprocess.run(
                    command,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    check=False,
                    timeout=LIMIT_S,
                ).returncode
            except (OSError, subprocess.TimeoutExpired) as error:
                status = f"{type(error).__name__}: {error}"
        took = round(time.perf_counter() - begin, 1)
        ended[name] = {"status": status, "seconds": took, "command": list(command)}
        sys.stdout.write(f"{name}: {status}, {took} s\n")
    (options.folder / "ended.json").write_text(json.dumps(ended, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
