"""A real `stepscope serve` over several runs, and what it should say.

The numbers that the page must show come from `stepscope show TOOL --format json` on the
same folders.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from click.testing import CliRunner
from tests.conftest import DATA, PROFILES, ROOT
from tests.support.traces import blueprint, waiting
from tests.support.traces import memory as memory_traces
from tests.support.xspace.literal import event, line, plane, space

from stepscope.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Runs from files of the repository: (name, folder below the root).
COMMITTED = {
    "keras": "tests/data/tf_keras_fit",
    "loop": "tests/data/tf_custom_loop",
    "eager": "tests/data/tf_eager",
    "jax": "tests/data/jax_marked",
}
#: Runs that single tests ask for.
ASKED_FOR = {
    "sequential_map": DATA / "tf_cpu/sequential_map",
    "requests": DATA / "tf_cpu/inference",
    "busy_gpu": DATA / "gpu/torch_healthy",
    "compiled": DATA / "gpu/jax_healthy",
    "input_bound": DATA / "gpu/jax_input_bound",
    "unstepped": DATA / "gpu/kernels",
}
#: Runs that are profiles of others, where there are any.
OF_OTHERS = {
    "starved": PROFILES / "gpu_tf/t4_starved",
    "launch_bound": PROFILES / "gpu_tf/turing_launch_bound",
}
#: Where the program of the run "jax" lies.
PROGRAMS = DATA / "record"
#: Would run if any name were ever taken for markup.
MARKUP = '<img src=x onerror="hostile()">'
SCRIPT = "<script>hostile()</script>"
HOSTILE_RUN = "<b onmouseover=hostile()>run"
HOSTILE_HOST = "<img src=x onerror=hostile()>"
#: Long ago: runs whose files have just changed count as being written.
OLDEST = 1_700_000_000
US = 1_000_000
READY = re.compile(r"at (http://[\d.]+:\d+/)")


@dataclass(frozen=True)
class Server:
    """A running server: its address, its folder and the ids of its runs by name."""

    address: str
    folder: Path
    runs: dict[str, str]

    @property
    def live(self) -> Server:
        """Who answers a test's own questions."""
        return self

    def place(self, run: str | None) -> str:
        """The address at which the page shows a run."""
        del run  # its id stands in the fragment
        return self.address

    def path_of(self, run: str) -> Path:
        return self.folder / "plugins" / "profile" / run

    def show(self, run: str, tool: str, *more: str) -> dict[str, Any]:
        """The envelope that the command line prints."""
        text = printed("show", tool, str(self.path_of(run)), "--format", "json", *more)
        told: dict[str, Any] = msgspec.json.decode(text)
        return told

    def csv(self, run: str, tool: str, table: str) -> bytes:
        arguments = ("--format", "csv", "--table", table)
        return printed("show", tool, str(self.path_of(run)), *arguments)

    def findings(self, run: str) -> list[dict[str, Any]]:
        findings: list[dict[str, Any]] = self.report(run)["findings"]
        return findings

    def report(self, run: str) -> dict[str, Any]:
        """The report that the command line prints."""
        text = printed("report", str(self.path_of(run)), "--format", "json")
        told: dict[str, Any] = msgspec.json.decode(text)
        return told


@cache
def printed(*arguments: str) -> bytes:
    """What the command line prints; each question is asked once."""
    done = CliRunner().invoke(main, arguments)
    # `report` leaves with 1 where a finding is critical.
    assert done.exit_code in {0, 1}, done.stderr
    return done.stdout_bytes


def fill(folder: Path) -> None:
    """Write every run; later names are newer, so the last one is the newest."""
    base = folder / "plugins" / "profile"
    runs: dict[str, dict[str, bytes]] = {}
    for name, where in COMMITTED.items():
        runs[name] = recorded(ROOT / where)
    for name, place in (ASKED_FOR | OF_OTHERS).items():
        if place.exists():
            runs[name] = recorded(place)
    runs["two_hosts"] = {
        "vm.xplane.pb": bytes(blueprint.a1().data),
        "b.xplane.pb": bytes(blueprint.a5_host_b().data),
    }
    runs["workers"] = {"vm.xplane.pb": bytes(waiting.for_workers().data)}
    runs["allocator"] = {"vm.xplane.pb": bytes(memory_traces.a3().data)}
    runs[HOSTILE_RUN] = {f"{HOSTILE_HOST}.xplane.pb": hostile()}
    runs["vector"] = {"vm.xplane.pb": bytes(blueprint.a1().data)}
    for age, (name, files) in enumerate(runs.items()):
        _write(base / name, files, age)


def fill_run(folder: Path, name: str, place: Path, *, age: int = 0) -> Path:
    """Copy one recorded run; the greater its age number, the newer."""
    return _write(folder / "plugins" / "profile" / name, recorded(place), age)


def _write(run: Path, files: dict[str, bytes], age: int) -> Path:
    for file, content in files.items():
        path = run / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (OLDEST + age, OLDEST + age))
    return run


def recorded(place: Path) -> dict[str, bytes]:
    """Traces by file name; none where the profile is not there."""
    return {path.name: path.read_bytes() for path in place.rglob("*.xplane.pb*")}


def hostile() -> bytes:
    """Eight steps of one GPU whose every name is markup or a formula."""
    steps, kernels, calls, input_ops = [], [], [], []
    for i in range(8):
        at = 1000 * US * i
        steps.append(event(f"train{SCRIPT}", at, 900 * US, {"_r": 1, "step_num": i}))
        input_ops += [
            event("IteratorGetNext", at + 10 * US, 100 * US),
            event(f"Iterator::Root::Map{MARKUP}", at + 12 * US, 80 * US),
        ]
        calls.append(
            event("cuLaunchKernel", at + 200 * US, 5 * US, {"correlation_id": i + 1})
        )
        details = {
            "correlation_id": i + 1,
            "tf_op": f"model/{MARKUP}/MatMul:{SCRIPT}MatMul",
            "kernel_details": "regs:32 grid:10,1,1 block:128,1,1 occ_pct:50",
        }
        kernels += [
            event(f"sgemm{MARKUP}", at + 300 * US, 200 * US, details),
            event(f'=HYPERLINK("{SCRIPT}")', at + 520 * US, 50 * US, details),
        ]
    host = plane(
        "/host:CPU",
        line(1, f"main{MARKUP}", *steps),
        line(2, f"worker{SCRIPT}", *input_ops),
        line(3, "launcher", *calls),
        line(4, f"ops{MARKUP}", event(f"a/{MARKUP}:{SCRIPT}", 100 * US, 50 * US)),
    )
    gpu = plane(
        "/device:GPU:0",
        line(7, "Stream #7(Compute)", *kernels),
        stats={"device_type_string": f"GPU{MARKUP}"},
    )
    return space(host, gpu, hostnames=(HOSTILE_HOST,))


@contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[str]:
    """The program's own server; its address."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "stepscope",
            "serve",
            str(folder),
            "--port",
            "0",
            *options,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )
    assert process.stdout is not None
    try:
        # The folder may stand on the same line, wrapped or not.
        said = ""
        while (found := READY.search(said)) is None:
            told = process.stdout.readline()
            assert told, f"the server ended: {said}"
            said += told
        yield found[1]
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()


@contextmanager
def whole_server(folder: Path) -> Iterator[Server]:
    """A server over all runs, which knows the program of one of them."""
    fill(folder)
    with serving(folder, "--source", str(PROGRAMS)) as address:
        with urllib.request.urlopen(f"{address}data/runs") as answer:  # noqa: S310 - loopback
            runs = msgspec.json.decode(answer.read())["runs"]
        yield Server(address, folder, {each["name"]: each["id"] for each in runs})


def chromium_path() -> str | None:
    """The headless shell, which needs a sixth less time, or the whole browser."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


def why_no_browser() -> str | None:
    """Why the page cannot be driven here; None where it can."""
    if chromium_path() is None:
        return "no Chromium (Debian's package chromium-headless-shell)"
    if not (ROOT / "src/stepscope/serve/static/index.html").is_file():
        return "the page is not built (make web)"
    return None
