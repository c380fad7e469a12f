"""Notebooks that are executed, and a JupyterLab that shows them."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.programs.frameworks import ROOT, interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def notebook_of(cells: dict[str, str]) -> dict[str, Any]:
    """A notebook in the format of Jupyter."""
    written = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": name,
            "metadata": {"tags": ["raises-exception"]},
            "outputs": [],
            "source": source,
        }
        for name, source in cells.items()
    ]
    kernel = {"display_name": "Python", "language": "python", "name": "python3"}
    return {
        "cells": written,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def run_in_venv(arguments: list[str], folder: Path) -> str:
    """Run a module of the notebook's environment; what it prints."""
    done = subprocess.run(
        [interpreter("notebook"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "POLARS_MAX_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """A JupyterLab that trusts the executed notebook of a folder; its address."""
    run_in_venv(["-m", "jupyter", "trust", "executed.ipynb"], folder)
    options = (
        *("--allow-root", "--no-browser", "--ip=127.0.0.1", "--port=0"),
        *("--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"),
    )
    process = subprocess.Popen(
        [interpreter("notebook"), "-m", "jupyterlab", *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JUPYTER_CONFIG_DIR": str(folder / "config")},
    )
    assert process.stderr is not None
    try:
        said = iter(process.stderr)
        found = next(
            filter(None, (re.search(r"http://127[^ ]*:\d+/", it) for it in said))
        )
        yield found[0]
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stderr.close()
