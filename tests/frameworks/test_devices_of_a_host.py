"""JAX with more devices of the host than it has cores: what a step waits for.

The truth is counted from the raw events: the instructions that ran on any thread.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.programs.frameworks import interpreter

import stepscope as ss
from stepscope.derive.account.time_by_cause import account
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


COMPUTING = ("tanh", "dot", "wrapped_", "multiply", "subtract", "ynn_", "broadcast")


def instructions(
    profile: Any, host: str, names: tuple[str, ...]
) -> list[tuple[int, int]]:
    """When instructions ran whose names begin so, on any thread."""
    events, types = profile.table(host, "events"), profile.table(host, "event_types")
    named = types["name"].gather(events["type"]).to_list()
    ran = zip(named, events["start_ps"].to_list(), events["dur_ps"], strict=True)
    return [
        (start, start + length)
        for name, start, length in ran
        if length and (name or "").startswith(names)
    ]


def both(
    some: list[tuple[int, int]], others: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The stretches that lie in one of some and in one of others."""
    return [
        (max(start, begin), min(end, past))
        for begin, past in some
        for start, end in others
        if start < past and end > begin
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
    ran = instructions(profile, host, COMPUTING)
    exchanging = instructions(profile, host, ("all-reduce",))
    # One device works while another is in the exchange, and none while a step waits.
    assert both(exchanging, ran)
    waits = list(zip(peer.start_ps.tolist(), peer.end_ps.tolist(), strict=True))
    assert waits
    assert both(waits, ran) == []
