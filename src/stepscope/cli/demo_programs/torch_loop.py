"""A small network trained with PyTorch, without any use of stepscope."""

import zlib

import torch

STEPS, BATCH, PIXELS, HIDDEN, CLASSES = 40, 128, 3072, 512, 10

torch.manual_seed(0)
images = torch.randint(0, 32, (256, PIXELS), dtype=torch.uint8)
packed = [zlib.compress(bytes(image.tolist())) for image in images]
labels = torch.randint(0, CLASSES, (256,))


class Packed(torch.utils.data.Dataset):
    """Samples that are decompressed one by one, when they are requested."""

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        row = index % len(packed)
        pixels = torch.frombuffer(
            bytearray(zlib.decompress(packed[row])), dtype=torch.uint8
        )
        return pixels.float() / 32, labels[row]


device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(
    torch.nn.Linear(PIXELS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)
).to(device)
loss_of = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(Packed(), batch_size=BATCH):
    optimizer.zero_grad()
    loss = loss_of(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
print(f"trained {STEPS} steps with PyTorch, loss {loss.item():.3f}")
