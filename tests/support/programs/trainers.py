"""Programs that train with a library, with and without stepscope."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.programs.frameworks import ROOT, interpreter

import stepscope as ss
from stepscope.analysis.model_views import ModelViewsResult
from stepscope.derive.steps.chosen import steps
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PROGRAMS = ROOT / "tests" / "integrations" / "programs"
#: No program asks a network, looks for a GPU, or takes more than one thread.
_SURROUNDINGS = {
    "ACCELERATE_USE_CPU": "true",
    "CUDA_VISIBLE_DEVICES": "-1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "PYTHONPATH": str(ROOT / "src"),
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


class Trained(NamedTuple):
    """What a program printed: facts as JSON in the last line, and its other output."""

    status: int
    facts: dict[str, Any]
    output: str
    errors: str

    def last_lines(self) -> list[str]:
        """Lines that stepscope printed at the end of a training, after an empty one."""
        block = "stepscope: " + self.errors.rpartition("\n\nstepscope: ")[2]
        return [
            line.removeprefix("stepscope: ")
            for line in itertools.takewhile(
                lambda it: it.startswith("stepscope: "), block.splitlines()
            )
        ]


def train(
    program: str | Path,
    *arguments: object,
    launcher: Sequence[str] = (),
    **environment: str,
) -> Trained:
    """Run a program of the folder to its end, with the interpreter of the trainers."""
    done = subprocess.run(
        [
            *(interpreter("trainers"), *launcher, PROGRAMS / program),
            *map(str, arguments),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=220,
        env={**os.environ, **_SURROUNDINGS, **environment},
    )
    facts = {}
    for line in done.stdout.splitlines():
        if line.startswith('{"facts"'):
            facts = json.loads(line)["facts"]
    return Trained(done.returncode, facts, done.stdout, done.stderr)


def recorded_steps(logdir: Path) -> dict[str, list[int]]:
    """Host → numbers of the marked steps of the newest run."""
    profile = ss.open(logdir)
    found = {}
    for host in profile.hosts:
        of_host = profile.derived(host, steps)
        assert not isinstance(of_host, Unavailable), of_host
        assert (of_host.source, of_host.confidence) == ("marker", 1.0)
        found[host] = of_host.rows["step"].to_list()
    return found


def recorded_ranges(logdir: Path) -> dict[str, int]:
    """Name of a range → how often it was recorded."""
    result = ss.open(logdir).tool("model_views")
    assert isinstance(result, ModelViewsResult), result
    found: dict[str, int] = {}
    for name, occurrences in result.annotation.select("name", "occurrences").rows():
        found[name] = found.get(name, 0) + occurrences
    return found
