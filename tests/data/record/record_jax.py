"""Records the JAX profiles under tests/data: one loop, with and without step markers.

`ahead` has markers, and waits for the results only after the last step. `memory` is no
loop: it saves JAX's device memory profile, and its truth is what was kept.

    P=$(python build_tools/framework_venv.py jax)
    $P tests/data/record/record_jax.py marked|unmarked|ahead|memory [FOLDER]

The loop is timed with `time.perf_counter`, independently of the profiler.
"""

import contextlib
import gzip
import itertools
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from storing import store, write_truth

# Sources are named in the compiled module; their folders are this machine's business.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

# Tests record anew into a folder of their own.
DATA = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).resolve().parents[1]
SEED = 20
ROWS, FEATURES, HIDDEN, CLASSES = 128, 128, 256, 10
WARM_UP_STEPS = 5
STEPS = 24
MARKED, UNMARKED, AHEAD, MEMORY = "marked", "unmarked", "ahead", "memory"

Weights = list[jax.Array]


def loss(weights: Weights, rows: jax.Array) -> jax.Array:
    hidden = rows
    for weight in weights[:-1]:
        hidden = jax.nn.relu(hidden @ weight)
    return jnp.mean(jnp.square(hidden @ weights[-1]))


@jax.jit
def train_step(weights: Weights, rows: jax.Array) -> tuple[Weights, jax.Array]:
    value, gradients = jax.value_and_grad(loss)(weights, rows)
    pairs = zip(weights, gradients, strict=True)
    return [weight - 0.01 * gradient for weight, gradient in pairs], value


def record(markers: str) -> None:
    random = np.random.default_rng(SEED)
    shapes = [(FEATURES, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, CLASSES)]
    weights = [jnp.asarray(random.normal(0, 0.05, shape)) for shape in shapes]
    rows = jnp.asarray(random.normal(size=(ROWS, FEATURES)))
    for _ in range(WARM_UP_STEPS):
        weights, value = train_step(weights, rows)
    value.block_until_ready()
    begins, ends = [], []
    with tempfile.TemporaryDirectory() as logdir:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        jax.profiler.start_trace(logdir, profiler_options=options)
        for number in range(STEPS):
            begins.append(time.perf_counter())
            with marker(markers, number):
                weights, value = train_step(weights, rows)
                if markers != AHEAD:
                    value.block_until_ready()
            ends.append(time.perf_counter())
        jax.block_until_ready(weights)
        done = time.perf_counter()
        jax.profiler.stop_trace()
        store(Path(logdir), DATA / f"jax_{markers}")
    windows = itertools.pairwise(begins)
    truth = {
        "recorded_with": versions(),
        "steps": STEPS,
        "step_ms": [
            round((end - begin) * 1e3, 6)
            for begin, end in zip(begins, ends, strict=True)
        ],
        "begin_to_begin_ms": [round((b - a) * 1e3, 6) for a, b in windows],
        "begin_to_done_ms": round((done - begins[0]) * 1e3, 6),
        "module": "jit_train_step",
        "module_runs": STEPS,
    }
    write_truth(DATA / f"jax_{markers}", truth)


def marker(markers: str, number: int) -> contextlib.AbstractContextManager[object]:
    if markers in (MARKED, AHEAD):
        return jax.profiler.StepTraceAnnotation("train", step_num=number)
    return contextlib.nullcontext()


def versions() -> dict[str, str]:
    return {
        "jax": jax.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def make_weights() -> list[jax.Array]:
    return [jnp.ones((256, 128), jnp.float32), jnp.ones((128,), jnp.float32)]


def activate(weights: list[jax.Array]) -> jax.Array:
    return weights[0] @ jnp.ones((128, 64), jnp.float32)


def record_memory() -> None:
    """Keep three arrays, and let a fourth go; JAX counts what is left by itself."""
    weights = make_weights()
    output = activate(weights)
    make_weights()[0].block_until_ready()
    output.block_until_ready()
    target = DATA / "jax_memory"
    target.mkdir(parents=True, exist_ok=True)
    profile = gzip.decompress(jax.profiler.device_memory_profile())
    home = str(Path.home()).encode()
    # Lengths stand before the texts: a path is replaced by one as long.
    profile = profile.replace(home, b"/" + b"h" * (len(home) - 1))
    (target / "memory.prof").write_bytes(gzip.compress(profile, 9, mtime=0))
    kept = [*weights, output]
    truth = {
        "recorded_with": versions(),
        "device": "cpu:0",
        "bytes": sum(array.nbytes for array in jax.live_arrays()),
        "arrays": len(jax.live_arrays()),
        "function_bytes": {
            "make_weights": sum(array.nbytes for array in kept[:2]),
            "activate": output.nbytes,
        },
    }
    write_truth(target, truth)


if __name__ == "__main__":
    known = (MARKED, UNMARKED, AHEAD, MEMORY)
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in known:
        sys.exit(f"usage: record_jax.py {'|'.join(known)} [FOLDER]")
    if sys.argv[1] == MEMORY:
        record_memory()
    else:
        record(sys.argv[1])
