"""Create the virtual environment of a framework, and print its interpreter.

Frameworks pin each other's dependencies, so each lives in an environment of its own
under ``~/.cache/stepscope/venvs`` (or ``$STEPSCOPE_CACHE/venvs``) and none is ever
resolved together with another. Where packages come from is pip's own configuration;
nothing here names an index.

    python build_tools/framework_venv.py NAME...
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("STEPSCOPE_CACHE", Path.home() / ".cache" / "stepscope"))
VENVS = CACHE / "venvs"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What one environment holds: exact requirements, and an import that proves it.

    Attributes:
        bases: Other environments whose packages it uses, instead of copies of them.
    """

    requirements: tuple[str, ...]
    proof: str
    bases: tuple[str, ...] = ()


ENVIRONMENTS = {
    # The build without CUDA: a tenth of the download, and it records the same CPU
    # profiles.
    "tensorflow": Environment(
        # TensorBoard imports `pkg_resources`, which newer releases of setuptools lack.
        requirements=(
            *("tensorflow-cpu==2.21.0", "keras==3.15.1", "tensorboard==2.20.0"),
            "setuptools==80.9.0",
        ),
        proof="import tensorflow, tensorboard.summary",
    ),
    "jax": Environment(requirements=("jax==0.10.2",), proof="import jax"),
    "torch": Environment(
        # Programs that are recorded from outside need gRPC; TensorFlow brings it.
        requirements=("torch==2.13.0", "numpy", "grpcio==1.85.1"),
        proof="import torch, numpy, grpc",
    ),
    # Keras is no framework: it computes with the one that is there. NumPy is its own.
    "keras_jax": Environment(
        requirements=("keras==3.15.1", "jax==0.10.2"),
        proof="import os; os.environ['KERAS_BACKEND'] = 'jax'; import keras",
        bases=("jax",),
    ),
    "keras_torch": Environment(
        requirements=("keras==3.15.1", "torch==2.13.0"),
        proof="import os; os.environ['KERAS_BACKEND'] = 'torch'; import keras",
        bases=("torch",),
    ),
    # One program that feeds JAX from tf.data: both are needed in one process.
    "jax_tfdata": Environment(
        requirements=("jax==0.10.2", "tensorflow-cpu==2.21.0"),
        proof="import jax, tensorflow",
        bases=("tensorflow", "jax"),
    ),
    "xprof": Environment(
        requirements=("xprof==2.24.2",),
        proof="from xprof.convert import raw_to_tool_data",
    ),
    # Other profilers, which `benchmarks/causes_peers.py` runs on PyTorch programs.
    "scalene": Environment(
        requirements=("scalene==2.4.0", "torch==2.13.0", "numpy"),
        proof="import scalene, torch, numpy",
        bases=("torch",),
    ),
    "py_spy": Environment(
        requirements=("py-spy==0.4.3", "torch==2.13.0", "numpy"),
        proof="import torch, numpy, sysconfig; from pathlib import Path; "
        "assert Path(sysconfig.get_path('scripts'), 'py-spy').exists()",
        bases=("torch",),
    ),
    "traceml": Environment(
        requirements=("traceml-ai==0.5.0", "torch==2.13.0", "numpy"),
        proof="import traceml_ai, torch, numpy",
        bases=("torch",),
    ),
    # Libraries that run a training; at its end they report, so what reads profiles is
    # here.
    "trainers": Environment(
        requirements=(
            *("transformers==5.24.0", "accelerate==1.15.0", "lightning==2.6.6"),
            *("keras==3.15.1", "torch==2.13.0", "numpy", "polars==2.1.0"),
            "ray[train]==2.60.0",
        ),
        proof="import accelerate, lightning.pytorch, polars, ray.train.torch, torch; "
        "from transformers import Trainer",
        bases=("torch",),
    ),
    # A notebook's kernel, and what executes and shows notebooks.
    "notebook": Environment(
        requirements=(
            *("ipykernel==7.4.0", "nbconvert==7.17.2"),
            *("jupyterlab==4.6.6", "marimo==0.25.2"),
            *("numpy", "polars==2.1.0", "click", "werkzeug"),
        ),
        proof="import ipykernel, jupyterlab, marimo, nbconvert, polars",
    ),
    # Experiment trackers: reports are logged to them, so what reads profiles is here.
    "trackers": Environment(
        requirements=(
            *("wandb==0.31.0", "mlflow-skinny==3.17.2"),
            # MLflow's server: `mlflow` brings learning libraries besides.
            *("aiohttp", "alembic", "flask", "flask-cors", "pandas", "sqlalchemy"),
            *("numpy", "polars==2.1.0", "click", "werkzeug"),
        ),
        proof="import wandb, mlflow.server.fastapi_app, polars",
    ),
}
#: What recording itself needs beside a framework; profiles are read elsewhere.
RECORDER = ("msgspec==0.22.0",)


class InstallFailed(Exception):
    """One environment could not be made; the message is one line for people."""


def python_of(name: str) -> Path:
    """Where the interpreter of an environment is, whether it exists yet or not."""
    return VENVS / name / "bin" / "python"


def is_current(name: str) -> bool:
    """Whether the environment was finished with today's requirements and this Python.

    The stamp is written last, so an interrupted install counts as none.
    """
    stamp = VENVS / name / "requirements.stamp"
    return stamp.is_file() and stamp.read_text() == _stamp(name)


def create(name: str) -> Path:
    """Make an environment anew and return its interpreter.

    Raises:
        InstallFailed: pip or the import that proves the install failed. The
            environment is left without its stamp, so the next call starts over.
    """
    environment = ENVIRONMENTS[name]
    folder = VENVS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = python_of(name)
    # This interpreter's pip installs into each: none gets its own, which takes seconds.
    venv = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    _run(venv, what=f"venv for {name}")
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = [VENVS / base / packages.relative_to(folder) for base in environment.bases]
    (packages / "bases.pth").write_text("".join(f"{path}\n" for path in shared))
    wanted = (*environment.requirements, *RECORDER)
    # Only modules that are imported get compiled, and only then: a small part.
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    _run(
        [*pip, "--quiet", "--no-compile", *wanted],
        what="pip install " + " ".join(wanted),
    )
    _run([str(python), "-c", environment.proof], what=environment.proof)
    (folder / "requirements.stamp").write_text(_stamp(name))
    return python


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one interpreter a line on standard output, all else on standard error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=sorted(ENVIRONMENTS))
    names = parser.parse_args(arguments).names
    bases = {base for name in names for base in ENVIRONMENTS[name].bases}
    first = dict.fromkeys([*(n for n in names if not ENVIRONMENTS[n].bases), *bases])
    # One waits for the network while the other unpacks.
    with ThreadPoolExecutor(2) as pool:
        done = all(list(pool.map(_ensure, first)))
        done = done and all(pool.map(_ensure, names))
    for name in names if done else ():
        sys.stdout.write(f"{python_of(name)}\n")
    return 0 if done else 1


def _ensure(name: str) -> bool:
    """Make an environment that is not there, and say so; False where that failed."""
    if is_current(name):
        return True
    pins = " ".join((*ENVIRONMENTS[name].requirements, *RECORDER))
    sys.stderr.write(f"installing {pins} into {VENVS / name} ...\n")
    started = time.perf_counter()
    try:
        create(name)
    except InstallFailed as failure:
        sys.stderr.write(f"framework_venv: {name}: {failure}\n")
        return False
    seconds = time.perf_counter() - started
    sys.stderr.write(f"installed {name} in {seconds:.0f} s\n")
    return True


def _stamp(name: str) -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = (*ENVIRONMENTS[name].requirements, *RECORDER)
    bases = (f"{base}: {_stamp(base)}" for base in ENVIRONMENTS[name].bases)
    return "\n".join([f"python {version}", *wanted, *bases, ""])


def _run(command: list[str], *, what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")]
        last = (errors or lines or [f"exit status {done.returncode}"])[-1]
        raise InstallFailed(f"{what} failed: {last.strip()}")


if __name__ == "__main__":
    sys.exit(main())
