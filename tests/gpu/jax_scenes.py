"""Training loops of JAX with a known trouble, and what JAX knows of them.

Each scene sets up and hands over a step, with what is known of it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scene_input import INPUT_MS, make_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[], object]
    Scene = tuple[Step, dict[str, Any]]

__all__ = [
    "SCENES",
    "device_clock",
    "forget_peaks",
    "memory_facts",
    "versions",
]

# Sources are named in the compiled module; their folders are this machine's business.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")


@jax.jit
def update(weights: Any, rows: Any) -> Any:
    def loss_of(both: Any) -> Any:
        hidden = jax.nn.gelu(rows @ both[0])
        return jnp.square((hidden @ both[1]).astype(jnp.float32)).mean()

    loss, slopes = jax.value_and_grad(loss_of)(weights)
    steps = zip(weights, slopes, strict=True)
    return [it - 1e-3 * slope for it, slope in steps], loss


def start(side: int) -> tuple[Any, Any]:
    keys = jax.random.split(jax.random.key(20), 3)
    first, second, rows = (
        jax.random.normal(key, (side, side), jnp.bfloat16) for key in keys
    )
    return [first / side**0.5, second / side**0.5], rows


def healthy(side: int) -> Scene:
    weights, rows = start(side)

    def step() -> object:
        nonlocal weights
        weights, loss = update(weights, rows)
        return float(loss)

    # Forward twice, gradients of both weights, and of the second one's input.
    return step, {"flops_per_step": 5 * 2 * side**3}


def unmarked(side: int) -> Scene:
    step, known = healthy(side)
    return step, {**known, "unmarked": True}


def input_bound(side: int) -> Scene:
    weights, _ = start(side)

    def step() -> object:
        nonlocal weights
        rows = jax.device_put(make_rows(64, side)).astype(jnp.bfloat16)
        weights, loss = update(weights, rows)
        return float(loss)

    return step, {"input_ms_per_step": INPUT_MS}


def copies(side: int) -> Scene:
    rows = np.random.default_rng(20).normal(size=(side, side)).astype("float32")
    double = jax.jit(lambda it: it * 2)
    size = 4 * side * side
    known = {"h2d_bytes_per_step": size, "d2h_bytes_per_step": size}
    return lambda: np.asarray(double(jax.device_put(rows))), known


SCENES: dict[str, Callable[[int], Scene]] = {
    it.__name__: it for it in (healthy, unmarked, input_bound, copies)
}


@contextlib.contextmanager
def device_clock() -> Iterator[list[float]]:
    """JAX has no events of the device to read."""
    yield []


def forget_peaks() -> None:
    """JAX's allocator counts from its beginning."""


def memory_facts() -> dict[str, int | None]:
    """Most bytes that the allocator had given out."""
    told = jax.devices()[0].memory_stats() or {}
    return {"peak_allocated_bytes": told.get("peak_bytes_in_use")}


def versions() -> dict[str, str]:
    return {"jax": jax.__version__, "device": jax.devices()[0].device_kind}
