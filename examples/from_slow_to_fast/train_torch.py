"""A small classifier of images in PyTorch, with five slow spots and a fix for each.

python examples/from_slow_to_fast/train_torch.py [--fixes 5] [--steps 100]

`--fixes N` applies the first N fixes. docs/from-slow-to-fast.md says what each brought.
"""

import argparse
import gc
import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

SIDE, CLASSES, BATCH, TRAINED, HELD_OUT = 32, 10, 32, 4096, 256
MEAN, DEVIATION = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)


def scale_pixels(image: np.ndarray) -> np.ndarray:
    scaled = np.empty((3, SIDE, SIDE), np.float32)
    for row in range(SIDE):
        for column in range(SIDE):
            for color in range(3):
                value = image[row, column, color] / 255
                scaled[color, row, column] = (value - MEAN[color]) / DEVIATION[color]
    return scaled


def scale_image(image: np.ndarray) -> np.ndarray:
    scaled = (image / 255 - MEAN) / DEVIATION
    return scaled.transpose(2, 0, 1).astype(np.float32)


class Images(Dataset[tuple[np.ndarray, int]]):
    """Images that are stored compressed; they are mirrored at random."""

    def __init__(self, count: int, seed: int, fixes: int) -> None:
        random = np.random.default_rng(seed)
        self.labels = random.integers(0, CLASSES, count).tolist()
        noise = random.integers(0, 64, (count, SIDE, SIDE, 3), np.uint8)
        self.packed = []
        for image, label in zip(noise, self.labels, strict=True):
            image[3 * label : 3 * label + 4] += 8  # a brighter bar, by the class
            self.packed.append(zlib.compress(image.tobytes()))
        self.scale = scale_image if fixes >= 3 else scale_pixels

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        pixels = np.frombuffer(zlib.decompress(self.packed[index]), np.uint8)
        image = pixels.reshape(SIDE, SIDE, 3)
        if np.random.default_rng(index).random() < 0.5:
            image = image[:, ::-1]
        return self.scale(image), self.labels[index]


def load_batches(fixes: int, steps: int) -> DataLoader[tuple[np.ndarray, int]]:
    images = Images(TRAINED, seed=0, fixes=fixes)
    generator = torch.Generator().manual_seed(0)
    sampler = RandomSampler(
        images, replacement=True, num_samples=steps * BATCH, generator=generator
    )
    if fixes >= 2:
        return DataLoader(images, BATCH, sampler=sampler, num_workers=2)
    return DataLoader(images, BATCH, sampler=sampler)


@torch.no_grad()
def evaluate(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    hits = [
        (model(some).argmax(1) == true).sum().item()
        for some, true in zip(images.split(BATCH), labels.split(BATCH), strict=True)
    ]
    return sum(hits) / len(labels)


def main(fixes: int, steps: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(2048, 128), nn.ReLU(), nn.Linear(128, CLASSES)),
    )
    optimizer = torch.optim.Adam(model.parameters())
    held_out = Images(HELD_OUT, seed=1, fixes=5)
    test_images = torch.tensor(np.stack([image for image, _ in held_out]))
    test_labels = torch.tensor(held_out.labels)
    checkpoint = Path(tempfile.mkdtemp()) / "checkpoint.pt"
    for step, (images, labels) in enumerate(load_batches(fixes, steps)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if fixes < 1:
            gc.collect()
        if step % (40 if fixes >= 4 else 4) == 0:
            share = evaluate(model, test_images, test_labels)
            print(f"step {step}: loss {loss.item():.4f}, {share:.0%} right")
        if step % (40 if fixes >= 5 else 4) == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, checkpoint)
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixes", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    main(options.fixes, options.steps)
