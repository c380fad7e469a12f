"""Record a PyTorch training loop, skipping the first steps.

python examples/pytorch_loop.py [LOGDIR]
stepscope report LOGDIR
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import stepscope as ss

BATCHES, BATCH, FEATURES = 20, 32, 16


def main(logdir: str) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(BATCHES * BATCH, FEATURES)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with ss.schedule(wait=2, warmup=2, active=10, logdir=logdir) as recording:
        for batch, targets in DataLoader(data, batch_size=BATCH):
            loss = nn.functional.mse_loss(model(batch), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recording.step()
    print(f"loss {loss.item():.4f}; recorded into {logdir}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "logs")
