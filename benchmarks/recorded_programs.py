"""Record programs of a framework, each in a process of its own: the parent's side."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from overhead import interpreter

HERE = Path(__file__).resolve().parent
#: Framework → what is imported before its programs are forked.
_IMPORTED_FIRST = {
    "jax": ("jax", "jax.numpy"),
    "plain": ("numpy",),
    "tensorflow": ("keras", "tensorflow"),
    "torch": ("torch", "torch.utils.data", "torch.profiler", "torch._dynamo"),
}
#: One thread for each program: the machine has others to run.
SURROUNDINGS = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "PYTHONPATH": str(HERE.parent / "src"),
}


def request(
    program: Path,
    folder: Path,
    *,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str],
    plan: Mapping[str, float],
    limit_s: float | None = None,
) -> dict[str, Any]:
    """Return how a program is to be recorded into a folder.

    Args:
        program: The program.
        folder: Gets the recording, `log`, and what the program writes to its errors.
        arguments: What the program is called with.
        environment: Variables of its own.
        plan: What to record, as `RunPlan` says.
        limit_s: Seconds after which it is killed.
    """
    notes = folder / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    places = {"logdir": str(folder / "log"), "run": "run", "notes": str(notes)}
    return {
        "program": str(program),
        "arguments": list(arguments),
        "errors": str(folder / "errors"),
        "environment": dict(environment),
        "plan": {**places, **plan},
        "limit_s": limit_s,
        "around": None,
    }


def record_programs(
    framework: str,
    requests: Sequence[Mapping[str, Any]],
    written: Path,
    seconds: float,
    surroundings: Mapping[str, str] | None = None,
) -> None:
    """Record programs one after the other; none begins after so many seconds.

    Args:
        framework: A key of `build_tools/framework_venv.py`, or "plain".
        requests: What `request` returned.
        written: File that the requests are written into.
        seconds: When to begin no further program.
        surroundings: Further variables of the environment.
    """
    if not requests:
        return
    python = sys.executable if framework == "plain" else interpreter(framework)
    if python is None:
        raise SystemExit(f"{framework} is not there. Run `make frameworks`.")
    written.write_text(json.dumps(requests))
    modules = ",".join(_IMPORTED_FIRST[framework])
    asked = (HERE / "forked_programs.py", modules, written, str(seconds))
    environment = {**os.environ, **SURROUNDINGS, **(surroundings or {})}
    subprocess.run([python, *asked], env=environment, check=False)
