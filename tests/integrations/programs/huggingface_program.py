"""Trainings of a tiny GPT-2 with `transformers.Trainer`, with and without stepscope.

    python huggingface_program.py FOLDER [fail|fail-without]

Rank 0 prints losses and digests of each training. With `fail`, the sixth step raises.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from digests import digest_of, digests_below, print_facts
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import stepscope as ss

STEPS, RESUMED_AT = 24, 12


class Tokens(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Rows of tokens; after some rows it may raise."""

    def __init__(self, rows_before_error: int | None = None) -> None:
        self.left = rows_before_error

    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise ValueError("the data ended badly")
        row = (torch.arange(8) * (number + 3)) % 31
        return {"input_ids": row, "labels": row}


def callback(logdir: Path, **chosen: Any) -> list[Any]:
    return [ss.integrations.huggingface.StepscopeCallback(logdir, **chosen)]


def train(
    folder: Path,
    callbacks: list[Any],
    *,
    resume: Path | None = None,
    data: Tokens | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2)
    )
    chosen = {
        "max_steps": STEPS,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "eval_strategy": "steps",
        "eval_steps": 6,
        "save_steps": RESUMED_AT,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        **arguments,
    }
    trainer = Trainer(
        model,
        TrainingArguments(output_dir=str(folder), **chosen),
        train_dataset=data or Tokens(),
        eval_dataset=Tokens(),
        callbacks=callbacks,
    )
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    return {
        "losses": [
            row.get("loss", row.get("eval_loss")) for row in trainer.state.log_history
        ],
        "model": digest_of(model.state_dict()),
        "files": digests_below(folder),
    }


def main(folder: Path, mode: str = "") -> None:
    if mode:
        # Two batches of two rows make a step, on each rank.
        callbacks = callback(folder / "logs", wait=1) if mode == "fail" else []
        train(folder / "failed", callbacks, data=Tokens(6 * 4))
        return
    facts = {"without": train(folder / "without", [])}
    asked = {"wait": 4, "warmup": 1, "active": 10}
    facts["with"] = train(folder / "with", callback(folder / "logs", **asked))
    checkpoint = folder / "with" / f"checkpoint-{RESUMED_AT}"
    facts["resumed without"] = train(folder / "without 2", [], resume=checkpoint)
    asked = {"wait": 1, "warmup": 0, "active": 3, "report": False}
    facts["resumed with"] = train(
        folder / "with 2", callback(folder / "logs 2", **asked), resume=checkpoint
    )
    # Epochs of eight steps, with processes that produce batches.
    train(
        folder / "workers",
        callback(folder / "logs 3", wait=6, warmup=0, active=6, report=False),
        dataloader_num_workers=1,
        per_device_train_batch_size=4,
        eval_strategy="epoch",
        save_strategy="no",
    )
    if os.environ.get("RANK", "0") == "0":
        print_facts(facts)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
