"""Training loops of PyTorch with a known trouble, and what PyTorch knows of them.

Each scene sets up and hands over a step, with what is known of it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from scene_input import INPUT_MS, make_rows
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[], object]
    Scene = tuple[Step, dict[str, Any]]

__all__ = [
    "SCENES",
    "captured",
    "device_clock",
    "forget_peaks",
    "memory_facts",
    "versions",
]

DEVICE = "cuda"
LAUNCHES = 100


def layers(side: int, dtype: torch.dtype) -> Callable[[Any], torch.Tensor]:
    """Two layers and their optimizer: a function that trains them on a batch."""
    torch.manual_seed(20)
    network = nn.Sequential(
        nn.Linear(side, side), nn.GELU(), nn.Linear(side, side), nn.GELU()
    ).to(DEVICE, dtype)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)

    def update(rows: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = network(rows).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return update


def healthy(side: int) -> Scene:
    update = layers(side, torch.bfloat16)
    rows = torch.randn(side, side, device=DEVICE, dtype=torch.bfloat16)
    # Two layers: forward, gradient of the weights, and of the second one's input.
    return lambda: update(rows).item(), {"flops_per_step": 5 * 2 * side**3}


def launch_bound(side: int) -> Scene:
    state = torch.ones(side, device=DEVICE)

    def step() -> object:
        for _ in range(LAUNCHES):
            state.mul_(1.0001)
        return state.sum().item()

    return step, {"multiplications_per_step": LAUNCHES}


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """Batches that take their time."""

    def __init__(self, side: int) -> None:
        self._side = side

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        del index
        return torch.from_numpy(make_rows(64, self._side))


def input_bound(side: int) -> Scene:
    update = layers(side, torch.bfloat16)
    batches = iter(torch.utils.data.DataLoader(Rows(side), batch_size=1))

    def step() -> object:
        rows = next(batches)[0].to(DEVICE, torch.bfloat16)
        return update(rows).item()

    return step, {"input_ms_per_step": INPUT_MS}


def copies(side: int) -> Scene:
    rows = torch.randn(side, side)
    size = 4 * side * side
    known = {"h2d_bytes_per_step": size, "d2h_bytes_per_step": size}

    def step() -> object:
        return (rows.to(DEVICE) * 2).cpu()

    return step, known


def overlap(side: int) -> Scene:
    """A copy on a stream of its own, beside products on another."""
    pinned = torch.randn(side, side).pin_memory()
    weights = torch.randn(side, side, device=DEVICE, dtype=torch.bfloat16)
    beside = torch.cuda.Stream()

    def step() -> object:
        with torch.cuda.stream(beside):
            pinned.to(DEVICE, non_blocking=True)
        product = weights
        for _ in range(12):
            product = weights @ product
        torch.cuda.synchronize()
        return product

    return step, {"h2d_bytes_per_step": 4 * side * side, "products_per_step": 12}


def graph(side: int) -> Scene:
    """The healthy step, replayed as one graph."""
    update = layers(side, torch.bfloat16)
    rows = torch.randn(side, side, device=DEVICE, dtype=torch.bfloat16)
    return captured(lambda: update(rows)), {"graph": True}


def captured(update: Callable[[], torch.Tensor]) -> Step:
    """A step that replays what an update launches, as one graph."""
    beside = torch.cuda.Stream()
    with torch.cuda.stream(beside):
        for _ in range(3):
            update()
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        loss = update()

    def step() -> object:
        recorded.replay()
        return loss.item()

    return step


def memory(side: int) -> Scene:
    update = layers(side, torch.float32)

    def step() -> object:
        return update(torch.randn(256, side, device=DEVICE)).item()

    return step, {"profile_memory": True}


SCENES: dict[str, Callable[[int], Scene]] = {
    it.__name__: it
    for it in (healthy, launch_bound, input_bound, copies, overlap, graph, memory)
}


@contextlib.contextmanager
def device_clock() -> Iterator[list[float]]:
    """Milliseconds between events of the device before and after."""
    found: list[float] = []
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    yield found
    after.record()
    torch.cuda.synchronize()
    found.append(before.elapsed_time(after))


def forget_peaks() -> None:
    torch.cuda.reset_peak_memory_stats()


def memory_facts() -> dict[str, int]:
    """Most bytes that the allocator had given out, and had taken, since then."""
    return {
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def versions() -> dict[str, str]:
    return {"torch": torch.__version__, "device": torch.cuda.get_device_name(0)}
