"""A job of PyTorch that hangs, as a fault says; no test.

hanging_torch.py FAULT RANKS FOLDER RANK — takes three steps with the other ranks,
then hangs, and after a moment writes the dump of its flight recorder into FOLDER.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

fault, ranks, folder, rank = sys.argv[1:]
os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"

import torch  # noqa: E402 - reads the variable
import torch.distributed as dist  # noqa: E402
from torch._C._distributed_c10d import _dump_fr_trace  # noqa: E402

HANGS_S = 1.5


def train_step(loss: torch.Tensor) -> None:
    dist.all_reduce(loss)


def evaluate(loss: torch.Tensor) -> None:
    dist.broadcast(loss, 0)


def write_dump() -> None:
    Path(folder, f"nccl_trace_rank_{rank}").write_bytes(_dump_fr_trace())
    # A rank that ends early ends the calls of the others.
    time.sleep(2 * HANGS_S)
    os._exit(0)


dist.init_process_group(
    "gloo",
    init_method=f"file://{folder}/store",
    rank=int(rank),
    world_size=int(ranks),
)
loss = torch.ones(4)
for _ in range(3):
    train_step(loss)
evaluate(loss)
dump = threading.Timer(HANGS_S, write_dump)
dump.start()
is_last = int(rank) == int(ranks) - 1
if fault == "branches" and is_last:
    evaluate(loss)
elif not is_last or fault == "branches":
    train_step(loss)
time.sleep(10 * HANGS_S)
