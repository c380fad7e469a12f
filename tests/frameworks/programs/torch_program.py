"""A training loop in PyTorch with one thing wrong, or nothing; a program, no test.

torch_program.py FAULT
"""

from __future__ import annotations

import gc
import os
import re
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import clock
import torch
from clock import DIFFERENT, SEED, STEPS, rows_or, step_begins
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

ROWS, FEATURES = rows_or(128), 512
FOLDER = Path(tempfile.mkdtemp())
TEXT = "word " * FEATURES


def slow_collate(examples: list[Any]) -> Any:
    for _ in range(6):
        rows = [sorted(row.tolist()) for row, _ in examples]
    return torch.tensor(rows), torch.stack([label for _, label in examples])


def normalize_by_hand(rows: torch.Tensor) -> torch.Tensor:
    for _ in range(8):
        rows = torch.tensor([[it / 2 for it in row] for row in rows.tolist()])
    return rows


def read_losses(rows: torch.Tensor) -> list[float]:
    """Reads each value by itself."""
    return [value.item() for value in rows.flatten()]


def augment(rows: torch.Tensor) -> torch.Tensor:
    """Sorts a batch often; only one of two ranks does so."""
    for _ in range(12):
        rows = rows.sort(dim=1).values - rows.sort(dim=0).values
    return rows


def scale_rows(rows: torch.Tensor) -> torch.Tensor:
    """Thousands of ops, each on a few numbers."""
    for _ in range(16):
        rows = torch.stack([(row * 0.5).add(0.1) for row in rows])
    return rows


def tokenise(rows: torch.Tensor) -> torch.Tensor:
    """Takes a text apart for each row."""
    for _ in range(4):
        words = [re.findall(r"[a-z]+", TEXT) for _ in rows]
    return torch.tensor([len(of) / FEATURES for of in words])[:, None] * rows


def log_metrics() -> None:
    time.sleep(0.2)


def save_checkpoint(model: nn.Module) -> None:
    for at in range(12):
        torch.save(model.state_dict(), FOLDER / f"{at}.pt")


class Node:
    def __init__(self) -> None:
        self.me = self


NODES: list[Node] = []
LOSSES: list[torch.Tensor] = []


class Model(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.tokenises = fault == "tokenise"
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU())
                for _ in range(20)
            )
        )
        self.head = nn.Linear(FEATURES, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.tokenises:
            rows = tokenise(rows)
        return self.head(self.layers(rows))


def join_ranks() -> int:
    """Become two processes that exchange their gradients; the first has the clock."""
    rank = 0 if os.fork() else 1
    if rank:
        clock.CLOCK = clock.WAITS = None
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    meeting = f"file://{FOLDER / 'meeting'}"
    distributed.init_process_group("gloo", meeting, rank=rank, world_size=2)
    return rank


def transform(fault: str, rank: int, batch: torch.Tensor) -> torch.Tensor:
    if fault == "slow_transform":
        return normalize_by_hand(batch)
    if fault == "tiny_ops":
        return scale_rows(batch)
    return augment(batch) if fault == "straggler" and rank == 1 else batch


def main(fault: str) -> None:
    torch.set_num_threads(1)
    rank = join_ranks() if fault in {"ranks", "straggler"} else 0
    torch.manual_seed(SEED)
    model = Model(fault)
    network = model
    if fault in {"ranks", "straggler"}:
        # One exchange after the backward pass: both ranks meet once in a step.
        network = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=100)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    collate = slow_collate if fault == "slow_collate" else None
    rows = torch.randn(ROWS * DIFFERENT, FEATURES)
    examples = TensorDataset(rows, rows[:, :1])
    if fault == "collect":
        NODES.extend(Node() for _ in range(500_000))
    order = islice(cycle(range(len(rows))), ROWS * STEPS)
    for batch, labels in DataLoader(
        examples, batch_size=ROWS, sampler=order, collate_fn=collate
    ):
        step_begins()
        outputs = network(transform(fault, rank, batch))
        loss = nn.functional.mse_loss(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        texts = [TEXT] * (4096 if fault == "inlined" else 0)
        _ = [word for text in texts for word in text.split()]  # inlined
        if fault == "read_back":
            read_losses(batch)
        if fault == "callback":
            log_metrics()
        if fault == "checkpoint":
            save_checkpoint(model)
        if fault == "collect":
            gc.collect()
        if fault == "leak":
            # Each keeps its whole graph, with all that the step computed.
            LOSSES.append(nn.functional.mse_loss(network(batch), labels))
    if distributed.is_initialized():
        distributed.barrier()


if __name__ == "__main__":
    main(sys.argv[1])
