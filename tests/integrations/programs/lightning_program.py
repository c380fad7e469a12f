"""Trainings of a small module with Lightning, with and without stepscope.

    python lightning_program.py FOLDER [fail|fail-without]

Rank 0 prints losses and digests of each training. With `fail`, the sixth step raises.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from digests import digest_of, print_facts
from lightning.pytorch.callbacks import ModelCheckpoint

import stepscope as ss

STEPS, RESUMED_AT = 24, 12
RANKS = int(os.environ.get("WORLD_SIZE", "1"))


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.full((16,), number / 64)


class Regression(lightning.LightningModule):
    """A module that keeps its losses; it may update its parameters itself."""

    def __init__(self, *, manual: bool = False, fails_at: int | None = None) -> None:
        super().__init__()
        self.automatic_optimization = not manual
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
        )
        self.fails_at = fails_at
        self.losses: list[float] = []

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        if self.fails_at is not None and self.global_step >= self.fails_at:
            raise ValueError("the loss ended badly")
        loss = (self.layers(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.losses.append(loss.item())
        self.log("loss", loss)
        if not self.automatic_optimization:
            optimizer: Any = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def validation_step(self, batch: torch.Tensor) -> None:
        self.log("validation", self.layers(batch).mean(), sync_dist=RANKS > 1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 0.01)


def profiler(logdir: Path, **chosen: Any) -> Any:
    return ss.integrations.lightning.StepscopeProfiler(logdir, **chosen)


def train(
    folder: Path,
    profiler: Any,
    *,
    resume: Path | None = None,
    accumulate: int = 2,
    spawned: int = 0,
    **module: Any,
) -> dict[str, Any]:
    lightning.seed_everything(0, verbose=False)
    model = Regression(**module)
    saving = ModelCheckpoint(folder, every_n_train_steps=RESUMED_AT, save_top_k=-1)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=RANKS,
        strategy="ddp" if RANKS > 1 else "auto",
        max_steps=STEPS,
        accumulate_grad_batches=accumulate,
        val_check_interval=4,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[saving],
        profiler=profiler,
    )
    context = "spawn" if spawned else None
    loader = torch.utils.data.DataLoader(
        Rows(),
        batch_size=4,
        shuffle=True,
        num_workers=spawned,
        multiprocessing_context=context,
    )
    held_out = torch.utils.data.DataLoader(Rows(), batch_size=32)
    trainer.fit(
        model, loader, held_out, ckpt_path=None if resume is None else str(resume)
    )
    files = {}
    for path in sorted(folder.glob("*.ckpt")):
        content = torch.load(path, weights_only=False)
        # The state of callbacks has the paths of checkpoints.
        del content["callbacks"]
        files[path.name] = digest_of(content)
    return {
        "losses": model.losses,
        "model": digest_of(model.state_dict()),
        "files": files,
    }


def main(folder: Path, mode: str = "") -> None:
    if mode:
        recorder = profiler(folder / "logs", wait=1) if mode == "fail" else None
        train(folder / "failed", recorder, fails_at=6)
        return
    facts = {"without": train(folder / "without", None)}
    asked = {"wait": 4, "warmup": 1, "active": 10}
    facts["with"] = train(folder / "with", profiler(folder / "logs", **asked))
    (checkpoint,) = (folder / "with").glob(f"*step={RESUMED_AT}.ckpt")
    facts["resumed without"] = train(folder / "without 2", None, resume=checkpoint)
    asked = {"wait": 1, "warmup": 0, "active": 3, "report": False}
    facts["resumed with"] = train(
        folder / "with 2", profiler(folder / "logs 2", **asked), resume=checkpoint
    )
    manual = profiler(folder / "logs 3", wait=1, active=3, report=False)
    facts["manual without"] = train(
        folder / "without 3", None, accumulate=1, manual=True
    )
    facts["manual with"] = train(folder / "with 3", manual, accumulate=1, manual=True)
    if RANKS == 1:
        # Sixteen steps an epoch: workers are spawned before the recorded step 16.
        asked = {"wait": 13, "warmup": 0, "active": 6, "report": False}
        recorder = profiler(folder / "logs 4", **asked)
        train(folder / "spawned", recorder, accumulate=1, spawned=1)
    if os.environ.get("RANK", "0") == "0":
        print_facts(facts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
