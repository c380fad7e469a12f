"""Records the PyTorch profile under tests/data: a small network, fed by a DataLoader.

    P=$(python build_tools/framework_venv.py torch)
    $P tests/data/record/record_torch.py train [FOLDER]

Every part of every step is timed with `time.perf_counter`, independently of the
profiler: the batch, the forward pass, the loss, the backward pass and the optimizer.
"""

import itertools
import sys
import tempfile
import time
from pathlib import Path

import torch
from storing import store_json, write_truth
from torch import nn
from torch.profiler import (
    ProfilerActivity,
    profile,
    schedule,
    tensorboard_trace_handler,
)
from torch.utils.data import DataLoader, Dataset

# Tests record anew into a folder of their own.
DATA = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).resolve().parents[1]
SEED = 20
BATCH, CHANNELS, SIDE, CLASSES = 16, 3, 32, 10
WAIT, WARM_UP, ACTIVE = 2, 2, 6
PARTS = ("batch", "forward", "loss", "backward", "optimizer")
TRAIN = "train"


class Images(Dataset[tuple[torch.Tensor, int]]):
    """As many made-up images as the program asks for; each costs a sort to make."""

    def __len__(self) -> int:
        return BATCH * (WAIT + WARM_UP + ACTIVE)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        noise = torch.rand(CHANNELS * SIDE * SIDE)
        return noise.sort().values.view(CHANNELS, SIDE, SIDE), index % CLASSES


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(CHANNELS, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32 * 16, CLASSES),
    )


def record() -> None:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    network, measure = model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    batches = iter(DataLoader(Images(), batch_size=BATCH, num_workers=0))
    clock: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=WAIT, warmup=WARM_UP, active=ACTIVE, repeat=1),
            on_trace_ready=tensorboard_trace_handler(folder, worker_name="localhost"),
            record_shapes=True,
            profile_memory=True,
            with_stack=False,
        ) as profiler:
            for _ in range(WAIT + WARM_UP + ACTIVE):
                times = [time.perf_counter()]
                images, labels = next(batches)
                times.append(time.perf_counter())
                guesses = network(images)
                times.append(time.perf_counter())
                value = measure(guesses, labels)
                times.append(time.perf_counter())
                optimizer.zero_grad()
                cleared = time.perf_counter()
                value.backward()
                times.append(time.perf_counter())
                optimizer.step()
                times.append(time.perf_counter())
                # Clearing the gradients is the optimizer's work, too.
                times.append(cleared - times[3])
                clock.append(times)
                profiler.step()
        store_json(Path(folder), DATA / "torch_train")
    write_truth(DATA / "torch_train", truth_of(clock[WAIT + WARM_UP :]))


def truth_of(clock: list[list[float]]) -> dict[str, object]:
    """What the script's clock says of the profiled steps, in milliseconds."""
    parts: dict[str, list[float]] = {name: [] for name in PARTS}
    for *times, clearing in clock:
        lengths = [end - begin for begin, end in itertools.pairwise(times)]
        lengths[PARTS.index("backward")] -= clearing
        lengths[PARTS.index("optimizer")] += clearing
        for name, length in zip(PARTS, lengths, strict=True):
            parts[name].append(round(length * 1e3, 6))
    begins = [times[0] for times in clock]
    return {
        "recorded_with": {
            "torch": torch.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
        },
        "steps": ACTIVE,
        "first_step_num": WAIT + WARM_UP,
        "step_ms": [round((it[-2] - it[0]) * 1e3, 6) for it in clock],
        "begin_to_begin_ms": [
            round((b - a) * 1e3, 6) for a, b in itertools.pairwise(begins)
        ],
        **{f"{name}_ms": values for name, values in parts.items()},
        "convolutions_per_step": 2,
        "parameters": 6,
    }


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] != TRAIN:
        sys.exit(f"usage: record_torch.py {TRAIN} [FOLDER]")
    record()
