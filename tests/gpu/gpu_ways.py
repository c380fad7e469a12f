"""Records programs on a GPU in every way there is; a program, no test.

    gpu_ways.py FOLDER

Each way runs in processes of its own, all at the same time, and writes into
`FOLDER/<way>`: the log directory, or the profile of memory, and `truth.json` with what
the program knows by its own clock. What was printed is in `FOLDER/<way>.log`. Needs
PyTorch and JAX with CUDA, gRPC, and stepscope on the path.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[], object]

STEPSCOPE = (sys.executable, "-m", "stepscope")
SIDE, LAYERS = 2048, 4
#: How long a program that is recorded from outside goes on.
LOOP_S = 14
#: The step that the flight recorder must find, and what makes it slow.
SLOW_STEP, SLOW_S, STEPS = 40, 0.25, 60


def torch_step() -> Step:
    """A step of a network of equal layers, which reads its loss back."""
    import torch  # noqa: PLC0415 - the one framework of the program

    torch.manual_seed(20)
    layers = [torch.nn.Linear(SIDE, SIDE) for _ in range(LAYERS)]
    network = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    rows = torch.randn(SIDE, SIDE, device="cuda")

    def step() -> object:
        optimizer.zero_grad()
        loss = network(rows).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def jax_step() -> Step:
    """The same, by one jitted function."""
    import jax  # noqa: PLC0415 - the one framework of the program
    import jax.numpy as jnp  # noqa: PLC0415 - as above

    def loss(weights: list[Any], rows: Any) -> Any:
        for weight in weights:
            rows = jnp.tanh(rows @ weight)
        return (rows**2).mean()

    @jax.jit
    def train_step(weights: list[Any], rows: Any) -> list[Any]:
        slopes = jax.grad(loss)(weights, rows)
        return [it - 0.01 * slope for it, slope in zip(weights, slopes, strict=True)]

    key = jax.random.key(20)
    weights = [jax.random.normal(key, (SIDE, SIDE)) / SIDE**0.5 for _ in range(LAYERS)]
    rows = jax.random.normal(key, (SIDE, SIDE))

    def step() -> object:
        nonlocal weights
        weights = train_step(weights, rows)
        return jax.block_until_ready(weights)

    return step


STEP_OF = {"torch": torch_step, "jax": jax_step}


def write_truth(folder: Path, **known: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(known, indent=1)
    (folder / "truth.json").write_text(text, encoding="utf-8")


def loop(folder: Path, framework: str, server: str = "", port: int = 0) -> None:
    """Train for a time; with a server where one is asked for."""
    if server == "ours":
        ss.server.start(port)
    elif server == "theirs":
        import jax  # noqa: PLC0415 - only it has one

        jax.profiler.start_server(port)
    step = STEP_OF[framework]()
    times = []
    end = time.monotonic() + LOOP_S
    while time.monotonic() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
        if len(times) == 20:
            sys.stdout.write("trains\n")
            sys.stdout.flush()
    # Later ones are unrecorded, and what the profiler costs is not in them.
    write_truth(folder, last_step_ms=[round(it * 1e3, 4) for it in times[-20:]])


def scheduled(folder: Path) -> None:
    """Some steps, of which a few in the middle are recorded."""
    step = torch_step()
    times = []
    with ss.schedule(wait=2, warmup=8, active=10, logdir=str(folder)) as recording:
        for _ in range(24):
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
            recording.step()
    write_truth(folder, step_ms=[round(it * 1e3, 4) for it in times[10:20]])


@ss.trace_function
def save_checkpoint() -> None:
    time.sleep(SLOW_S)


def flown(folder: Path) -> None:
    """Steps of which one is slow."""
    step = torch_step()
    step()
    with ss.flight_recorder(str(folder), slower_than=3) as recorder:
        for number in range(STEPS):
            with ss.StepTrace(number):
                step()
                time.sleep(0.02)
                if number == SLOW_STEP:
                    save_checkpoint()
        # The steps of the last second are judged once a second.
        time.sleep(2)
    written = [{"why": it.why, "text": it.text} for it in recorder.written]
    write_truth(folder, slow_step=SLOW_STEP, slow_s=SLOW_S, written=written)


def run(folder: Path, framework: str) -> None:
    """Steps under `stepscope run`, which is around this process."""
    step = STEP_OF[framework]()
    for _ in range(80):
        step()
    write_truth(folder, steps=80)


def torch_memory(folder: Path) -> None:
    """A snapshot of PyTorch's allocator, and what it says itself."""
    import torch  # noqa: PLC0415 - the one framework of the program

    folder.mkdir(parents=True, exist_ok=True)
    torch.cuda.memory._record_memory_history(max_entries=10_000)
    step = torch_step()
    for _ in range(5):
        step()
    truth = {
        "allocated_bytes": torch.cuda.memory_allocated(),
        "reserved_bytes": torch.cuda.memory_reserved(),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
    }
    torch.cuda.memory._dump_snapshot(str(folder / "snapshot.pickle"))
    write_truth(folder, **truth)


def jax_memory(folder: Path) -> None:
    """JAX's profile of device memory, and what is alive."""
    import jax  # noqa: PLC0415 - the one framework of the program

    folder.mkdir(parents=True, exist_ok=True)
    step = jax_step()
    step()
    profile = gzip.decompress(jax.profiler.device_memory_profile())
    path = folder / "memory.prof"
    path.write_bytes(gzip.compress(profile, 9, mtime=0))
    stats = jax.devices()[0].memory_stats() or {}
    write_truth(
        folder,
        bytes=sum(array.nbytes for array in jax.live_arrays()),
        arrays=len(jax.live_arrays()),
        bytes_in_use=stats.get("bytes_in_use"),
    )


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def ways(folder: Path) -> dict[str, tuple[list[object], list[object]]]:
    """Way → its program, and what records it from outside once it trains."""
    here: list[object] = [sys.executable, __file__]
    ours, theirs = free_port(), free_port()

    def capture(name: str, *asked: object) -> list[object]:
        return [*STEPSCOPE, "capture", *asked, "--logdir", folder / name]

    def under(*options: object) -> list[object]:
        return [*STEPSCOPE, "run", *options, "--", *here]

    alone: dict[str, list[object]] = {
        "schedule": [*here, "scheduled", folder / "schedule"],
        "flight": [*here, "flown", folder / "flight"],
        "torch_memory": [*here, "torch_memory", folder / "torch_memory"],
        "jax_memory": [*here, "jax_memory", folder / "jax_memory"],
    }
    for framework in STEP_OF:
        name = f"run_{framework}"
        options = ("--logdir", folder / name)
        alone[name] = [*under(*options), "run", folder / name, framework]
    found: dict[str, tuple[list[object], list[object]]] = {
        name: (program, []) for name, program in alone.items()
    }
    for framework in STEP_OF:
        name = f"attach_{framework}"
        found[name] = (
            [*under("--serve"), "loop", folder / name, framework],
            capture(name, "--attach", "PID", "--steps", 10),
        )
    for name, port in (("ours", ours), ("theirs", theirs)):
        way = f"server_{name}_jax"
        found[way] = (
            [*here, "loop", folder / way, "jax", name, port],
            capture(way, f"localhost:{port}", "--ms", 200),
        )
    return found


def recorded(program: list[object], outside: list[object], log: Path) -> int:
    """Run a program, and what records it; its exit status, or that of the latter."""
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*map(str, program)],
            stdout=subprocess.PIPE,
            stderr=written,
            env={**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        )
        assert process.stdout is not None
        status = 0
        if outside:
            process.stdout.readline()
            words = [str(process.pid) if it == "PID" else str(it) for it in outside]
            status = subprocess.run(
                words,
                stdout=written,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=60,
            ).returncode
        written.write(process.communicate(timeout=90)[0])
        return status or process.returncode


def every(folder: Path) -> int:
    """All ways at the same time."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only here

    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    with ThreadPoolExecutor(16) as pool:
        jobs = {
            name: pool.submit(recorded, *both, folder / f"{name}.log")
            for name, both in ways(folder).items()
        }
    failed = 0
    for name, job in jobs.items():
        result = job.exception() or job.result()
        failed += result != 0
        sys.stdout.write(f"{name}: {result}\n")
    return failed


PROGRAMS = {
    it.__name__: it for it in (loop, scheduled, flown, run, torch_memory, jax_memory)
}


def main(arguments: list[str]) -> int:
    """Be one of the programs, or record them all."""
    if len(arguments) == 1:
        return every(Path(arguments[0]))
    name, folder, *rest = arguments
    given = [int(it) if it.isdecimal() else it for it in rest]
    PROGRAMS[name](Path(folder), *given)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
