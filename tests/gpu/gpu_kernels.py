"""Kernels of PyTorch on an NVIDIA GPU, recorded and counted; a program, no test.

    gpu_kernels.py FOLDER

Records the cases of `torch_kernels.py` with stepscope into FOLDER, runs them once more
under Nsight Compute, and writes what its counters say of each kernel, in the order of
their launches, into `FOLDER/counters.json`: launch shape, registers, shared memory,
theoretical occupancy and what limits it, and the instructions of the matrix units.
Needs PyTorch with CUDA, `ncu` on the path and the permission to read counters, and
stepscope's `src` on the path.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch_kernels import each

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = Path(__file__).with_name("torch_kernels.py")
OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
LIMITS = "launch__occupancy_limit_"
COLUMNS = {
    "registers": "launch__registers_per_thread",
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes": "launch__shared_mem_per_block_dynamic",
    "occupancy_percent": OCCUPANCY,
    "blocks_by_registers": f"{LIMITS}registers",
    "blocks_by_shared_memory": f"{LIMITS}shared_mem",
    "blocks_by_threads": f"{LIMITS}warps",
    "blocks_at_most": f"{LIMITS}blocks",
}
MATRIX = "sm__inst_executed_pipe_tensor_op_"
#: Instructions of the matrix units, and those of half precision that only share a pipe
#: with them.
PIPES = ("dmma", "gmma", "hmma", "imma", "hmma_type_hfma2")
DEVICE = (
    *("clock_rate", "multiprocessor_count", "display_name", "memory_clock_rate"),
    *("global_memory_bus_width", "compute_capability_major"),
    *("compute_capability_minor", "max_threads_per_multiprocessor"),
)


def annotated(name: str, case: Callable[[], object]) -> None:
    with ss.Trace(name):
        case()
        torch.cuda.synchronize()


def counted() -> dict[str, Any]:
    """What the counters say of the same cases, and of the device."""
    metrics = (
        *(f"{MATRIX}{pipe}.sum" for pipe in PIPES),
        *COLUMNS.values(),
        *(f"device__attribute_{name}" for name in DEVICE),
    )
    done = subprocess.run(
        [
            *("ncu", "--csv", "--page", "raw", "--profile-from-start", "off"),
            *("--print-kernel-base", "demangled", "--print-units", "base"),
            # The clocks of the GPU are left as they are.
            *("--clock-control", "none", "--metrics", ",".join(metrics)),
            *(sys.executable, PROGRAM),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"ncu failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    table = done.stdout[done.stdout.index('"ID"') :]
    # The first row holds the units.
    _, *rows = csv.DictReader(io.StringIO(table))
    return {
        "device": {name: rows[0][f"device__attribute_{name}"] for name in DEVICE},
        "kernels": [
            {
                "name": row["Kernel Name"],
                "block": _whole_numbers(row["Block Size"]),
                "grid": _whole_numbers(row["Grid Size"]),
                **{name: _number(row[column]) for name, column in COLUMNS.items()},
                **{pipe: _number(row[f"{MATRIX}{pipe}.sum"]) for pipe in PIPES},
            }
            for row in rows
        ],
    }


def _whole_numbers(text: str) -> list[int]:
    return [int(it) for it in re.findall(r"\d+", text)]


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def main(arguments: list[str]) -> int:
    """Record, then count."""
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    options = ss.ProfilerOptions(record_shapes=True)
    each(annotated, begin=lambda: ss.start(folder, options), end=ss.stop)
    path = folder / "counters.json"
    path.write_text(json.dumps(counted()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
