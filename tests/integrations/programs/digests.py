"""Digests of what a training leaves: bits that are equal have equal digests."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from pathlib import Path

#: Of the state of a trainer, what depends on the clock.
TIMES = ("_runtime", "_per_second")


def digest_of(value: Any) -> str:
    found = hashlib.sha256()
    _add(found, value)
    return found.hexdigest()


def _add(found: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        _add(found, [str(value.dtype), list(value.shape)])
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            found.update(repr(key).encode())
            _add(found, value[key])
    elif isinstance(value, (list, tuple)):
        found.update(f"{len(value)}".encode())
        for part in value:
            _add(found, part)
    elif hasattr(value, "tobytes"):
        found.update(value.tobytes())
    else:
        found.update(repr(value).encode())


def digests_below(folder: Path) -> dict[str, str]:
    """File → digest of its content, without times and without arguments of paths."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            continue
        if path.name == "training_args.bin":
            found[name] = "is there"
        elif path.suffix in {".pt", ".pth", ".bin"}:
            found[name] = digest_of(torch.load(path, weights_only=False))
        elif path.name == "trainer_state.json":
            found[name] = digest_of(_without_times(json.loads(path.read_text())))
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_times(part)
            for key, part in value.items()
            if not key.endswith(TIMES) and key != "best_model_checkpoint"
        }
    return (
        [_without_times(part) for part in value] if isinstance(value, list) else value
    )


def print_facts(facts: dict[str, Any]) -> None:
    sys.stdout.write(f"\n{json.dumps({'facts': facts})}\n")
    sys.stdout.flush()
