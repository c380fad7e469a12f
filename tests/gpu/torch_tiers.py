"""One training loop on a GPU, for every profiler alike: it starts none itself.

    torch_tiers.py train|planted|graph

`train` is a small network whose batches come late, in single precision, with an op
whose kernel reads rows thread by thread (`planted::thread_per_row`). `planted` runs
each kernel of planted_kernels.cu, with and without its fault. `graph` replays a step
that was captured. Steps are NVTX ranges (`step N`), an optimizer steps in each; those
from `MEASURED` on lie between the calls by which a profiler is started and stopped.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.cuda import nvtx
from torch_scenes import captured

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[], object]

STEPS, MEASURED = 24, 12
BATCH, SIDE = 256, 64
#: Elements that each of the planted kernels works on.
LENGTH = 2**24
#: Of the chain of reads, so that it stays in the cache of the device; and how far apart
#: two reads of it are, so that neighbouring threads read neighbouring elements.
CHAIN, APART = 2**21, 2**15 + 2**10
#: What the transformation of a batch takes, without the copies around it.
TRANSFORM_S = 0.012


class Images(torch.utils.data.Dataset[torch.Tensor]):
    """Batches that take their time."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        end = time.perf_counter() + TRANSFORM_S
        random = np.random.default_rng(index)
        images = random.random((BATCH, 3, SIDE, SIDE), dtype=np.float32)
        while time.perf_counter() < end:
            images[:8] = np.sqrt(images[:8])
        return torch.from_numpy(images)


def updated(network: nn.Module) -> Callable[[Any], Any]:
    """A function that trains the network on a batch."""
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)

    def update(images: Any) -> Any:
        optimizer.zero_grad()
        loss = network(images).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return update


def network() -> nn.Module:
    torch.manual_seed(20)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).cuda()


def train() -> Step:
    from planted_ops import op_of  # noqa: PLC0415 - compiles them

    normalise = op_of("thread_per_row")
    update = updated(network())
    loader = torch.utils.data.DataLoader(Images(), batch_size=None, num_workers=1)
    batches = iter(loader)

    def step() -> object:
        with nvtx.range("load_batch"):
            images = next(batches)
        with nvtx.range("copy"):
            images = images.cuda()
        with nvtx.range("train"):
            return update(normalise(images)).item()

    return step


def planted() -> Step:
    import planted_ops  # noqa: PLC0415 - compiles them

    numbers = torch.rand(LENGTH, device="cuda")
    rows = numbers.view(-1, 256)
    chain = torch.arange(CHAIN, device="cuda", dtype=torch.int32)
    chain = (chain + APART) % CHAIN
    ops = {name: planted_ops.op_of(name) for name in planted_ops.KERNELS}
    weight = nn.Parameter(torch.ones(8, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=1e-3)

    def given(name: str) -> Any:
        if name in planted_ops.ROWS:
            return rows
        return chain if name in planted_ops.CHAINS else numbers

    def step() -> object:
        for name, op in ops.items():
            with nvtx.range(name):
                op(given(name))
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
        return torch.cuda.synchronize()

    return step


def graph() -> Step:
    update = updated(network())
    images = torch.rand(BATCH, 3, SIDE, SIDE, device="cuda")
    return captured(lambda: update(images))


def main(name: str) -> None:
    """Run all steps."""
    torch.backends.cudnn.allow_tf32 = False
    step = {"train": train, "planted": planted, "graph": graph}[name]()
    times = []
    for number in range(STEPS):
        if number == MEASURED:
            torch.cuda.profiler.start()
        begin = time.perf_counter()
        with nvtx.range(f"step {number}"):
            step()
        times.append(time.perf_counter() - begin)
    torch.cuda.profiler.stop()
    text = " ".join(f"{it * 1e3:.2f}" for it in times)
    sys.stdout.write(f"steps, ms: {text}\n")


if __name__ == "__main__":
    main(sys.argv[1])
