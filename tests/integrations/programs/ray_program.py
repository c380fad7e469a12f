"""A loop of Ray Train with two workers, with and without stepscope.

    python ray_program.py FOLDER

Prints losses and digests of each training.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train.torch
import torch
from digests import digest_of, print_facts
from ray.train import Checkpoint, RunConfig, ScalingConfig

import stepscope as ss

STEPS, ACCUMULATED = 24, 2


def train_loop() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
    )
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    rows = torch.arange(64.0).repeat(16, 1).T / 64
    losses = []
    for number in range(STEPS * ACCUMULATED):
        batch = rows[torch.randint(64, (8,))]
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        loss.backward()
        losses.append(loss.item())
        if number % ACCUMULATED == ACCUMULATED - 1:
            optimizer.step()
            optimizer.zero_grad()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), Path(folder) / "model.pt")
        ray.train.report(
            {"losses": losses}, checkpoint=Checkpoint.from_directory(folder)
        )


def train(folder: Path, loop: Any) -> dict[str, Any]:
    result = ray.train.torch.TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(storage_path=str(folder)),
    ).fit()
    with result.checkpoint.as_directory() as stored:
        state = torch.load(Path(stored) / "model.pt", weights_only=True)
    return {"losses": result.metrics["losses"], "model": digest_of(state)}


def main(folder: Path) -> None:
    ray.init(num_cpus=2, include_dashboard=False)
    facts = {"without": train(folder / "without", train_loop)}
    recorded = ss.integrations.ray.record_workers(
        train_loop, folder / "logs", wait=4, warmup=1, active=10
    )
    facts["with"] = train(folder / "with", recorded)
    ray.shutdown()
    print_facts(facts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
