"""Run one measurement of `overhead.py` in a process of its own, and print JSON.

    overhead_program.py annotations
    overhead_program.py ring
    overhead_program.py stored
    overhead_program.py loop numpy|jax|torch|tensorflow BATCHES SIDE LOGDIR STEPS
    overhead_program.py stretches numpy|jax|torch|tensorflow BATCHES LOGDIR STEPS
    overhead_program.py samples numpy|python BATCHES LOGDIR STEPS
    overhead_program.py flight numpy|python BATCHES LOGDIR STEPS
    overhead_program.py stop numpy|jax|torch|tensorflow LEVEL LOGDIR STEPS

A step takes BATCHES times the rows. `stretches` records some parts of one loop and not
others. SIDE is `with`, `without` or `own` (the framework's own profiler alone); the
last two do not import stepscope. `stop` records at the Python tracer level LEVEL. The
program runs in an environment that has the framework, with stepscope's `src` on the
path.
"""

import contextlib
import gc
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

CALLS = 20_000
BLOCKS = 15
WARM_UP = 20
TURNS = 9
KIB = 1024

Step = Callable[[], float]
Figures = dict[str, float]
Mark = Callable[[int], AbstractContextManager[object]]


class Empty:
    """A context manager that does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


def annotations() -> Figures:
    """Nanoseconds of each call: medians of blocks, the kinds taking turns."""
    ss: Any = importlib.import_module("stepscope")
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for block in range(BLOCKS):
            _time_kinds(ss, "off", found)
            ss.start(folder, ss.ProfilerOptions(collectors=("host",)))
            # What a recording sets up at its first annotation is not part of a call.
            with ss.Trace("first"):
                pass
            _time_kinds(ss, "on", found)
            ss.stop(save=block == 0)
    return {kind: sorted(times)[len(times) // 2] for kind, times in found.items()}


def _time_kinds(ss: Any, state: str, found: dict[str, list[float]]) -> None:
    """One block of each kind of call; the ring is emptied between them."""
    recorder: Any = importlib.import_module("stepscope._core.recorder")
    mark_step, trace = ss.mark_step, ss.Trace
    numbers = range(CALLS)

    def empty() -> None:
        for _ in numbers:
            with Empty():
                pass

    def plain() -> None:
        for _ in numbers:
            with trace("part"):
                pass

    def keywords() -> None:
        for i in numbers:
            with trace("train", step_num=i, _r=1):
                pass

    def marks() -> None:
        for i in numbers:
            mark_step(i)

    kinds = (
        ("an empty context manager", empty),
        ("Trace(name)", plain),
        ("Trace(name, step_num=i, _r=1)", keywords),
        ("mark_step(i)", marks),
    )
    for name, run in kinds:
        gc.collect()
        began = time.perf_counter_ns()
        run()
        took = time.perf_counter_ns() - began
        recorder.drain_annotations()
        found.setdefault(f"{name}, {state}", []).append(took / CALLS)


def ring() -> Figures:
    """Bytes of memory that a full ring holds, without and with values."""
    recorder: Any = importlib.import_module("stepscope._core.recorder")
    host: Any = importlib.import_module("stepscope.capture.collectors.host")
    events: int = host._RING_EVENTS  # noqa: SLF001 - what is measured
    found = {"events": float(events)}
    for name, values in (("plain", False), ("with two values", True)):
        gc.collect()
        before = _resident_bytes()
        recorder.start_recording(events)
        for i in range(events):
            stats = {"step_num": i, "_r": 1} if values else {}
            with recorder.Trace("train", **stats):
                pass
        found[name] = float(_resident_bytes() - before)
        recorder.stop_recording()
        recorder.drain_annotations()
    return found


def stored() -> Figures:
    """Measure storing annotations while recording, and stopping after them."""
    ss: Any = importlib.import_module("stepscope")
    session: Any = importlib.import_module("stepscope.capture.recording.session")
    flushes, a_flush = 20, 10_000
    store_s = 0.0
    with tempfile.TemporaryDirectory() as folder:
        ss.start(folder, ss.ProfilerOptions(collectors=("host",)))
        under_way = session.current()
        for flush in range(flushes):
            for i in range(a_flush):
                with ss.Trace("train", step_num=flush * a_flush + i, _r=1):
                    pass
            began = time.perf_counter()
            under_way.flush()
            store_s += time.perf_counter() - began
        began = time.perf_counter()
        run = ss.stop()
        stop_s = time.perf_counter() - began
        file_bytes = run.path.stat().st_size
    events = float(flushes * a_flush)
    return {
        "events": events,
        "store_ns": 1e9 * store_s / events,
        "stop_s": stop_s,
        "bytes_each": file_bytes / events,
    }


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * KIB
    raise SystemExit("this system does not tell what memory a process holds")


def loop(step: Step, framework: str, side: str, logdir: Path, steps: int) -> Figures:
    """Seconds of a training loop, and of starting and stopping beside it."""
    mark: Mark = lambda _: contextlib.nullcontext()  # noqa: E731 - one of two
    found: Figures = {}
    ss: Any = None
    if side == "with":
        ss = importlib.import_module("stepscope")
        mark = ss.StepTrace
        # Frameworks set up their profilers at the first recording of a process.
        ss.start(logdir / "first")
        step()
        ss.stop()
        began = time.perf_counter()
        ss.start(logdir / "measured")
        found["start_s"] = time.perf_counter() - began
    stop_own: Callable[[], object] = int
    if side == "own":
        # The first recording and step of a process set things up and are not measured.
        stop_own = OWN[framework](logdir / "first")
        step()
        stop_own()
        stop_own = OWN[framework](logdir / "measured")
    began, used = time.perf_counter(), time.process_time()
    for number in range(steps):
        with mark(number):
            step()
    found["loop_s"] = time.perf_counter() - began
    found["loop_cpu_s"] = time.process_time() - used
    stop_own()
    if ss is not None:
        began = time.perf_counter()
        run = ss.stop()
        found["stop_s"] = time.perf_counter() - began
        found["file_bytes"] = float(run.path.stat().st_size)
    return found


def stretches(step: Step, logdir: Path, steps: int) -> Figures:
    """Measure how many percent longer a loop takes while it is recorded.

    Three kinds of parts alternate in one process, so that all run under equal load: not
    recorded, recorded by all collectors, and recorded by our own alone. The result is
    the median over the turns.
    """
    ss: Any = importlib.import_module("stepscope")
    kinds = {
        "all": ss.ProfilerOptions(),
        "ours": ss.ProfilerOptions(collectors=("host", "process")),
    }
    return _in_turns(ss, step, logdir, steps, kinds)


def samples(step: Step, logdir: Path, steps: int) -> Figures:
    """Measure what recording costs with samples of functions, and without them."""
    ss: Any = importlib.import_module("stepscope")
    kinds = {
        "sampled": ss.ProfilerOptions(),
        "unsampled": ss.ProfilerOptions(python_sampling_hz=0),
    }
    return _in_turns(ss, step, logdir, steps, kinds)


def flight(step: Step, logdir: Path, steps: int) -> Figures:
    """Measure what the flight recorder costs, with samples of functions and without."""
    ss: Any = importlib.import_module("stepscope")

    def begin(folder: Path, options: object) -> Callable[[], object]:
        recorder = ss.flight_recorder(folder, slower_than=1000, options=options)
        end: Callable[[], object] = recorder.stop
        return end

    unsampled = ss.ProfilerOptions(python_sampling_hz=0, counters_hz=2)
    kinds = {
        "sampled": lambda folder: begin(folder, None),
        "unsampled": lambda folder: begin(folder, unsampled),
    }
    return _in_turns(ss, step, logdir, steps, kinds)


def _in_turns(
    ss: Any, step: Step, logdir: Path, steps: int, recorded: dict[str, Any]
) -> Figures:
    """Percent of each kind over parts that are not recorded, and the length of a step.

    The first recording of a process is not measured.
    """
    kinds = {"without": None, **recorded}
    ss.start(logdir / "first")
    step()
    ss.stop()
    slowed: dict[str, list[float]] = {}
    plain_s: list[float] = []
    for turn in range(TURNS):
        took: dict[str, tuple[float, float]] = {}
        # The order changes from turn to turn.
        at = turn % len(kinds)
        order = [*kinds][at:] + [*kinds][:at]
        for kind in order:
            took[kind] = _stretch(ss, step, steps, logdir / f"{turn}", kinds[kind])
        plain_s.append(took["without"][0])
        for kind in recorded:
            for at, clock in enumerate(("wall", "cpu")):
                ratio = took[kind][at] / took["without"][at]
                slowed.setdefault(f"{kind}_{clock}_percent", []).append(ratio)
    found = {name: 100 * (statistics.median(it) - 1) for name, it in slowed.items()}
    return {**found, "step_ms": 1000 * statistics.median(plain_s) / steps}


def stop(step: Step, level: int, logdir: Path, steps: int) -> Figures:
    """Measure the time to end a recording, and what it leaves."""
    ss: Any = importlib.import_module("stepscope")
    options = ss.ProfilerOptions(python_tracer_level=level)
    # The first recording sets frameworks up.
    for folder in ("first", "measured"):
        ss.start(logdir / folder, options)
        for number in range(steps):
            with ss.StepTrace(number):
                step()
        began, used = time.perf_counter(), time.process_time()
        run = ss.stop()
        took = time.perf_counter() - began, time.process_time() - used
    return {
        "stop_s": took[0],
        "stop_cpu_s": took[1],
        "file_bytes": float(run.path.stat().st_size),
    }


def _stretch(
    ss: Any, step: Step, steps: int, logdir: Path, options: Any
) -> tuple[float, float]:
    """Measure wall and CPU seconds of some steps; without options not recorded.

    Options may be what begins to record, and returns what ends it.
    """
    end: Callable[[], object] = ss.stop
    if callable(options):
        end = options(logdir)
    elif options is not None:
        ss.start(logdir, options)
    began, used = time.perf_counter(), time.process_time()
    for number in range(steps):
        with ss.StepTrace(number):
            step()
    took = time.perf_counter() - began, time.process_time() - used
    if options is not None:
        end()
    return took


def warm_step(framework: str, batches: int) -> Step:
    """A training step that has run a few times."""
    step = STEPS[framework](batches)
    for _ in range(WARM_UP):
        step()
    return step


def numpy_step(batches: int) -> Step:
    """A layer and its gradient."""
    np: Any = importlib.import_module("numpy")
    random = np.random.default_rng(1)
    rows = random.normal(size=(512 * batches, 1024)).astype("float32")
    weights = random.normal(size=(1024, 512)).astype("float32")

    def step() -> float:
        nonlocal weights
        hidden = np.maximum(rows @ weights, 0)
        slope = rows.T @ (hidden - 1)
        weights -= np.float32(1e-6) * slope
        return float(hidden.mean())

    return step


def python_step(batches: int) -> Step:
    """Python alone, which never lets go of the interpreter's lock."""

    def square(value: int) -> int:
        return value * value

    def step() -> float:
        total = 0
        for value in range(100_000 * batches):
            total += square(value)
        return float(total)

    return step


def jax_step(batches: int) -> Step:
    """Two layers, compiled."""
    jax: Any = importlib.import_module("jax")
    keys = jax.random.split(jax.random.key(1), 3)
    rows = jax.random.normal(keys[0], (1024 * batches, 1024))
    state = [
        jax.random.normal(keys[1], (1024, 512)) / 30,
        jax.random.normal(keys[2], (512, 10)) / 30,
    ]

    def update(state: Any, rows: Any) -> Any:
        def loss_of(both: Any) -> Any:
            return ((jax.nn.relu(rows @ both[0]) @ both[1] - 1) ** 2).mean()

        loss, slopes = jax.value_and_grad(loss_of)(state)
        return loss, [
            it - 0.01 * slope for it, slope in zip(state, slopes, strict=True)
        ]

    compiled = jax.jit(update)

    def step() -> float:
        nonlocal state
        loss, state = compiled(state, rows)
        return float(loss)

    return step


def torch_step(batches: int) -> Step:
    """A small convolutional network, on a GPU where there is one to be seen."""
    torch: Any = importlib.import_module("torch")
    nn: Any = importlib.import_module("torch.nn")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(10),
    ).to(device)
    rows = torch.randn(64 * batches, 3, 32, 32, device=device)
    labels = torch.randint(0, 10, (64 * batches,), device=device)
    network(rows)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(rows), labels)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def tensorflow_step(batches: int) -> Step:
    """A small convolutional network, as one function."""
    tf: Any = importlib.import_module("tensorflow")
    keras: Any = importlib.import_module("keras")
    keras.utils.set_random_seed(1)
    network = keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    measure = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rows = tf.random.normal((192 * batches, 32, 32, 3))
    labels = tf.range(192 * batches) % 10

    def update() -> Any:
        with tf.GradientTape() as tape:
            loss = measure(labels, network(rows))
        variables = network.trainable_variables
        slopes = tape.gradient(loss, variables)
        for variable, slope in zip(variables, slopes, strict=True):
            variable.assign_sub(0.01 * slope)
        return loss

    compiled = tf.function(update)
    return lambda: float(compiled())


def jax_own(logdir: Path) -> Callable[[], object]:
    """Start JAX's profiler at our default levels, and return how to end it."""
    jax: Any = importlib.import_module("jax")
    levels = jax.profiler.ProfileOptions()
    levels.host_tracer_level, levels.python_tracer_level = 2, 0
    jax.profiler.start_trace(logdir, profiler_options=levels)
    stop: Callable[[], object] = jax.profiler.stop_trace
    return stop


def torch_own(_: Path) -> Callable[[], object]:
    """Start PyTorch's profiler with its defaults, and return how to end it."""
    profiler: Any = importlib.import_module("torch.profiler").profile()
    profiler.start()
    stop: Callable[[], object] = profiler.stop
    return stop


def tensorflow_own(logdir: Path) -> Callable[[], object]:
    """Start TensorFlow's profiler, and return how to end it."""
    tf: Any = importlib.import_module("tensorflow")
    tf.profiler.experimental.start(str(logdir))
    stop: Callable[[], object] = tf.profiler.experimental.stop
    return stop


OWN: dict[str, Callable[[Path], Callable[[], object]]] = {
    "jax": jax_own,
    "torch": torch_own,
    "tensorflow": tensorflow_own,
}
STEPS: dict[str, Callable[[int], Step]] = {
    "numpy": numpy_step,
    "python": python_step,
    "jax": jax_step,
    "torch": torch_step,
    "tensorflow": tensorflow_step,
}


def main() -> int:
    """Measure one thing."""
    what, *arguments = sys.argv[1:]
    if what == "annotations":
        found = annotations()
    elif what == "ring":
        found = ring()
    elif what == "stored":
        found = stored()
    elif what == "stretches":
        framework, batches, logdir, steps = arguments
        step = warm_step(framework, int(batches))
        found = stretches(step, Path(logdir), int(steps))
    elif what in ("samples", "flight"):
        framework, batches, logdir, steps = arguments
        step = warm_step(framework, int(batches))
        measure = samples if what == "samples" else flight
        found = measure(step, Path(logdir), int(steps))
    elif what == "stop":
        framework, level, logdir, steps = arguments
        found = stop(warm_step(framework, 1), int(level), Path(logdir), int(steps))
    else:
        framework, batches, side, logdir, steps = arguments
        step = warm_step(framework, int(batches))
        found = loop(step, framework, side, Path(logdir), int(steps))
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
