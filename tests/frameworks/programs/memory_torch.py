"""A training loop whose last batch does not fit the process's memory; a program.

memory_torch.py too_large|healthy

RLIMIT_AS leaves 1 GiB beyond what the process has mapped; the batch needs 4 GB.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import torch
from torch import nn

FEATURES = 512
#: Steps before the batch grows.
USUAL = 16


def leave(size: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def main(fault: str) -> None:
    torch.set_num_threads(1)
    model = nn.Sequential(*(nn.Linear(FEATURES, FEATURES) for _ in range(8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(24):
        rows = 128
        if step == USUAL:
            leave(1 << 30)
            rows = 2_000_000 if fault == "too_large" else 256
        loss = model(torch.randn(rows, FEATURES)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
