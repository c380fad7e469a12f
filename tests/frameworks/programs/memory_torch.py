"""A training loop whose process may map 1 GiB more after some steps; a program.

memory_torch.py full|too_large|healthy

RLIMIT_AS is the limit. Then the program holds most of that, or takes a batch of 4 GB.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import torch
from torch import nn

FEATURES = 512
#: Steps before the limit.
USUAL = 16
HELD = 950 << 20


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
            held = torch.ones(HELD if fault == "full" else 1, dtype=torch.uint8)
        loss = model(torch.randn(rows, FEATURES)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # Longer than the time from one reading of the process's memory to the next.
        time.sleep(0.05)
    assert held.all()


if __name__ == "__main__":
    main(sys.argv[1])
