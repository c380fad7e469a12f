"""Run other profilers on generated programs, and read what they say.

Each function returns what a tool says first, second and so on: the names of functions
for tools with a table of functions, sentences for others. Every tool gets the
best chance that can be given honestly: what happens before the loop of the steps is not
counted, what waits is counted where a tool can see it, and its own annotations are
written into the program where it needs them.
"""

import json
import os
import re
import signal
import subprocess
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from causes_drawn import DECLARED
from overhead import interpreter
from recorded_programs import HERE, SURROUNDINGS

#: Seconds after which a run is ended, and those that a profiler gets to write its file.
LIMIT_S, ENDING_S = 60.0, 8.0
#: Functions of the programs and of their clock that are called before the loop.
_BEFORE_LOOP = frozenset(
    {"prepare", "pass_once", "__init__", "rows_for", "rounds_for", "_seconds_of"}
)
#: Frames of stacks before the loop.
_BEFORE = ("prepare (program.py", "Model.__init__ (program.py", "_find_and_load (")
#: A row of PyTorch's table that is a function of Python: one with a line, or built in.
_TORCH_ROW = re.compile(r"\(\d+\): (\S+)$|^<built-in (?:function|method) (\w+)")
#: Some rows tell the line of a function, and not its name.
_NAMELESS_ROW = re.compile(r"(.+)\((\d+)\): $")
_TORCH_METHOD = re.compile(r"^<method '(\w+)'")
_XPROF_PROGRAM = """
import json, sys
from xprof.convert.raw_to_tool_data import xspace_to_tool_data
said = []
for tool in ("overview_page", "input_pipeline_analyzer"):
    data, _ = xspace_to_tool_data([sys.argv[1]], tool, {})
    tables = json.loads(data)
    for key in ("statement", "input_conclusion", "all_other_statement",
                "kernel_launch_statement", "device_collectives_statement"):
        said += [table["p"][key] for table in tables if table.get("p", {}).get(key)]
json.dump(list(dict.fromkeys(said)), open(sys.argv[2], "w"))
"""
_LOOP_BODY = re.compile(
    r"(?<=        clock\.note_call\(FED, begun\)\n).*?(?=    clock\.write_truth)",
    re.DOTALL,
)


class SaysNothing(Exception):
    """A tool has nothing to say of a program; the message is a line about why."""


def read_xprof(recorded: Path, python: str, folder: Path) -> list[str]:
    """Return XProf's sentences about the recording of a program."""
    profile = next((recorded / "log").rglob("*.xplane.pb"), None)
    if profile is None:
        raise SaysNothing("no recording")
    # It writes caches beside the profile.
    linked = folder / profile.name
    linked.symlink_to(profile)
    written = folder / "said.json"
    _run([python, "-c", _XPROF_PROGRAM, str(linked), str(written)], folder)
    return _read_list(written)


def read_torch_profiler(recorded: Path, python: str, folder: Path) -> list[str]:
    """Return the functions and ops with the most time of their own."""
    written = folder / "rows.json"
    table = DECLARED / "table_of_torch.py"
    program = recorded / "program.py"
    _run([python, str(table), str(program), str(written)], folder)
    return [_function_of_row(row) for row in _read_list(written)]


def read_scalene(recorded: Path, python: str, folder: Path) -> list[str]:
    """Return the functions with the most time: Python's, native and the system's."""
    written = folder / "scalene.json"
    # By default it runs PyTorch's profiler too, whose events take it minutes to read.
    run = ["-m", "scalene", "run", "--cpu-only", "-o", str(written)]
    _run([python, *run, str(recorded / "program.py")], folder)
    if not written.exists():
        raise SaysNothing("no profile was written")
    times: Counter[str] = Counter()
    for file in json.loads(written.read_text() or "{}").get("files", {}).values():
        for one in file["functions"]:
            name = _last_name(one["line"])
            if name not in _BEFORE_LOOP:
                keys = ("n_cpu_percent_python", "n_cpu_percent_c", "n_sys_percent")
                times[name] += sum(one[key] for key in keys)
    return _most_common(times)


def read_py_spy(recorded: Path, python: str, folder: Path) -> list[str]:
    """Return the functions that were seen at work most often, in any process."""
    counts: Counter[str] = Counter()
    for stack, count in _sample(recorded, python, folder, ["--subprocesses"]):
        counts[_last_name(stack[-1].partition(" (")[0])] += count
    return _most_common(counts)


def read_idle_py_spy(recorded: Path, python: str, folder: Path) -> list[str]:
    """Return the functions that the loop's thread was seen in most often."""
    counts: Counter[str] = Counter()
    for stack, count in _sample(recorded, python, folder, ["--idle"]):
        if any(frame.startswith("main (program.py") for frame in stack):
            counts[_last_name(stack[-1].partition(" (")[0])] += count
    return _most_common(counts)


def read_traceml(recorded: Path, python: str, folder: Path) -> list[str]:
    """Return TraceML's verdict, then the other issues of the time of steps."""
    program = folder / "program.py"
    program.write_text(trace_steps((recorded / "program.py").read_text()))
    command = Path(python).with_name("traceml")
    run = ["run", str(program), "--logs-dir", str(folder), "--run-name", "run"]
    _run([python, str(command), *run], folder)
    written = folder / "run" / "final_summary.json"
    if not written.exists():
        raise SaysNothing("no summary was written")
    summary = json.loads(written.read_text())
    issues = [summary["primary_diagnosis"], *summary["step_time"]["issues"]]
    return list(dict.fromkeys(f"{it['status']}: {it['summary']}" for it in issues))


READERS: Mapping[str, Callable[[Path, str, Path], list[str]]] = {
    "xprof": read_xprof,
    "torch_profiler": read_torch_profiler,
    "scalene": read_scalene,
    "py_spy": read_py_spy,
    "py_spy_idle": read_idle_py_spy,
    "traceml": read_traceml,
}


def hear(tool: str, environment: str, recorded: Path, folder: Path) -> list[str]:
    """Run a tool on a program, and return what it says, the most important first.

    Args:
        tool: A key of `causes/peers.toml`.
        environment: The environment that it runs in.
        recorded: Folder of the program and of its recording.
        folder: An empty folder for what the tool writes.

    Raises:
        SaysNothing: It failed, was ended, or said nothing.
    """
    python = interpreter(environment)
    if python is None:
        raise SystemExit(
            f"{environment} is not there: build_tools/framework_venv.py {environment}"
        )
    said = READERS[tool](recorded, python, folder)
    if not said:
        raise SaysNothing("it names nothing")
    return said


def trace_steps(program: str) -> str:
    """Write TraceML's annotations into a PyTorch program, as its manual says."""
    inside = "        with traceml_ai.trace_step(model):\n"
    traced = _LOOP_BODY.sub(
        lambda body: inside + textwrap.indent(body[0], "    "), program
    )
    begin = "import torch\nimport traceml_ai\n\ntraceml_ai.init()\n"
    return traced.replace("import torch\n", begin, 1)


def _sample(
    recorded: Path, python: str, folder: Path, options: Sequence[str]
) -> list[tuple[list[str], int]]:
    """Return py-spy's stacks of the loop and beside it, and how often each was seen."""
    written = folder / "stacks"
    command = [str(Path(python).with_name("py-spy")), "record", "--format", "raw"]
    program = [python, str(recorded / "program.py")]
    _run([*command, *options, "-o", str(written), "--", *program], folder)
    if not written.exists():
        raise SaysNothing("no stacks were written")
    found = []
    for line in written.read_text().splitlines():
        frames, _, count = line.rpartition(" ")
        stack = [it for it in frames.split(";") if not it.startswith("process ")]
        if stack and not any(frame.startswith(_BEFORE) for frame in stack):
            found.append((stack, int(count)))
    return found


def _run(command: Sequence[str], folder: Path) -> None:
    """Run a tool in a group of its own; after a minute ask it to end, then kill it."""
    paths = os.pathsep.join([str(HERE.parent / "src"), str(DECLARED)])
    environment = {
        **os.environ,
        **SURROUNDINGS,
        "PYTHONPATH": paths,
        "PROGRAM_TRUTH": str(folder / "truth"),
        "PATH": f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        for asked, wait_s in ((None, LIMIT_S), (signal.SIGTERM, ENDING_S)):
            if asked is not None:
                os.killpg(process.pid, asked)
            try:
                process.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                continue
        _kill_group(process.pid)
        process.wait()


def _kill_group(group: int) -> None:
    """Kill what a tool has left running."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _read_list(written: Path) -> list[str]:
    if not written.exists():
        raise SaysNothing("it failed, or did not end in time")
    read: list[str] = json.loads(written.read_text())
    return read


def _function_of_row(row: str) -> str:
    nameless = _NAMELESS_ROW.match(row)
    if nameless is not None:
        line = Path(nameless[1]).read_text().splitlines()[int(nameless[2]) - 1]
        return line.strip().removeprefix("def ").partition("(")[0]
    found = _TORCH_ROW.search(row) or _TORCH_METHOD.search(row)
    return _last_name(found[found.lastindex or 0]) if found else row


def _last_name(name: str) -> str:
    return name.rpartition(".")[2]


def _most_common(counts: Counter[str]) -> list[str]:
    return [name for name, count in counts.most_common(10) if count > 0]
