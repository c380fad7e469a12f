"""Train with two workers of Ray, each of which records some steps into one run.

    ray job submit --working-dir . -- python ray_train.py /shared/logs
    stepscope report /shared/logs

The nodes need stepscope, and must all reach the log directory.
"""

from __future__ import annotations

import sys

import ray.train.torch
import torch
from ray.train import ScalingConfig

import stepscope as ss

STEPS = 30


def train_model() -> None:
    model = ray.train.torch.prepare_model(torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        rows = torch.rand(32, 64)
        loss = (model(rows) - rows.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    recorded = ss.integrations.ray.record_workers(train_model, sys.argv[1])
    ray.train.torch.TorchTrainer(
        recorded, scaling_config=ScalingConfig(num_workers=2)
    ).fit()
