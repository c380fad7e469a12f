"""A loop with Accelerate, with and without stepscope.

    python accelerate_program.py FOLDER

Rank 0 prints losses and digests of each training.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from digests import digest_of, digests_below, print_facts

import stepscope as ss

STEPS, RESUMED_AT, ACCUMULATED = 24, 12, 2


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.full((16,), number / 64)


def train(
    folder: Path,
    trackers: list[Any],
    *,
    resume: Path | None = None,
    is_last: bool = False,
) -> tuple[dict[str, Any], bool]:
    set_seed(0)
    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=ACCUMULATED, log_with=trackers or None
    )
    accelerator.init_trackers("stepscope-test", config={"steps": STEPS})
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    loader = torch.utils.data.DataLoader(Rows(), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    step, losses = 0, []
    if resume is not None:
        accelerator.load_state(str(resume))
        step = RESUMED_AT
    while step < STEPS:
        for batch in loader:
            with accelerator.accumulate(model):
                loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
            if accelerator.sync_gradients:
                step += 1
                accelerator.log({"loss": losses[-1]}, step=step)
                if step == RESUMED_AT:
                    accelerator.save_state(str(folder / "checkpoint"))
                if step == STEPS:
                    break
    accelerator.wait_for_everyone()
    is_first = accelerator.is_main_process
    facts = {"losses": losses, "model": digest_of(model.state_dict())}
    if is_first:
        facts["files"] = digests_below(folder) if folder.exists() else {}
    if is_last:
        accelerator.end_training()
    for tracker in accelerator.trackers:
        tracker.finish()
    return facts, is_first


def tracker(logdir: Path, **chosen: Any) -> list[Any]:
    return [ss.integrations.accelerate.StepscopeTracker(logdir, **chosen)]


def main(folder: Path) -> None:
    facts, _ = train(folder / "without", [])
    found = {"without": facts}
    asked = {"wait": 4, "warmup": 1, "active": 10}
    found["with"], _ = train(folder / "with", tracker(folder / "logs", **asked))
    checkpoint = folder / "with" / "checkpoint"
    found["resumed without"], _ = train(folder / "without 2", [], resume=checkpoint)
    asked = {"wait": 1, "warmup": 0, "active": 3, "report": False}
    found["resumed with"], is_first = train(
        folder / "with 2",
        tracker(folder / "logs 2", **asked),
        resume=checkpoint,
        is_last=True,
    )
    if is_first:
        print_facts(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
