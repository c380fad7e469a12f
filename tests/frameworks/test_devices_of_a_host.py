"""JAX with more devices of the host than it has cores: what a step waits for.

The truth is counted from the raw events: the instructions that ran on any thread.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import interpreter

import stepscope as ss
from stepscope.derive.account.owned_time import account
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

DEVICES = 2 * (os.cpu_count() or 1)
PROGRAM = """
import jax, jax.numpy as jnp
def update(weights, rows):
    slope = jax.grad(lambda w: jnp.mean(jnp.tanh(rows @ w[0]) @ w[1]) ** 2)(weights)
    slope = jax.lax.pmean(slope, "devices")
    return [w - 0.01 * by for w, by in zip(weights, slope)]
step = jax.pmap(update, axis_name="devices")
devices = jax.device_count()
weights = [jnp.ones((devices, 256, 1024)), jnp.ones((devices, 1024, 1))]
rows = jnp.ones((devices, 512, 256))
for _ in range(60):
    weights = step(weights, rows)
    jax.block_until_ready(weights)
"""


def stepscope(folder: Path, *arguments: object) -> str:
    return subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
        },
    ).stdout


def instructions(profile: Any, host: str) -> list[tuple[int, int]]:
    """When each instruction ran that exchanges nothing."""
    events, types = profile.table(host, "events"), profile.table(host, "event_types")
    names = types["name"].gather(events["type"]).to_list()
    ran = zip(names, events["start_ps"].to_list(), events["dur_ps"], strict=True)
    computing = ("tanh", "dot", "wrapped_", "multiply", "subtract", "ynn_", "broadcast")
    return [
        (start, start + length)
        for name, start, length in ran
        if length and (name or "").startswith(computing)
    ]


def test_a_device_that_waits_for_others_of_its_process_waits_for_their_work(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    asked = ("--no-report", "--logdir", "log", "--", interpreter("jax"), "program.py")
    stepscope(tmp_path, "run", *asked)
    profile = ss.open(tmp_path / "log")
    (host,) = profile.hosts
    accounted = profile.derived(host, account)
    assert not isinstance(accounted, Unavailable)
    (only,) = accounted.devices
    peer = only.idle["peer"]
    ran = instructions(profile, host)
    assert len(ran) > 10 * DEVICES
    # No instant of the wait has an instruction on any thread.
    waits = list(zip(peer.start_ps.tolist(), peer.end_ps.tolist(), strict=True))
    assert not [
        (max(start, begin), min(end, past))
        for begin, past in waits
        for start, end in ran
        if start < past and end > begin
    ]
    said = json.loads(stepscope(tmp_path, "report", "--format", "json", "log"))
    assert said["headline"]["owner"] == "host_compute"
    assert "exchange" not in said["headline"]["text"]
