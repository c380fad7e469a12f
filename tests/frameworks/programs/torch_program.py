"""A training loop in PyTorch with one thing wrong, or nothing; a program, no test.

torch_program.py FAULT
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from clock import DIFFERENT, SEED, STEPS, rows_or, step_begins
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROWS, FEATURES = rows_or(128), 512
FOLDER = Path(tempfile.mkdtemp())


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


def log_metrics() -> None:
    time.sleep(0.2)


def save_checkpoint(model: nn.Module) -> None:
    for at in range(12):
        torch.save(model.state_dict(), FOLDER / f"{at}.pt")


class Node:
    def __init__(self) -> None:
        self.me = self


NODES: list[Node] = []


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU())
                for _ in range(20)
            )
        )
        self.head = nn.Linear(FEATURES, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(rows))


def main(fault: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    model = Model()
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
        inputs = normalize_by_hand(batch) if fault == "slow_transform" else batch
        loss = nn.functional.mse_loss(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if fault == "read_back":
            read_losses(batch)
        if fault == "callback":
            log_metrics()
        if fault == "checkpoint":
            save_checkpoint(model)
        if fault == "collect":
            gc.collect()


if __name__ == "__main__":
    main(sys.argv[1])
