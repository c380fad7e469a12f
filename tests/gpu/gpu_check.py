"""Records each framework on this machine's GPU and compares with its own profiler.

    python tests/gpu/gpu_check.py [--python torch=/path/to/python]... [--output FOLDER]

For JAX, PyTorch and TensorFlow, each in the interpreter that is given for it (or the
environment of `make frameworks`): `gpu_training.py` records a few steps. Then kernels,
copies and fills, by name, with their counts and times, are held against what the
framework's own profiler handed over, which is counted without our readers; PyTorch's
key averages of a second recording must have the same counts. Every tool is run. What
came of it is written as one archive: the profiles, the frameworks' own results and
`verdict.json`.

Exit status: 0 all is equal, 1 something differs, 2 this machine has no GPU.
`--pretend-cpu` does the same without a GPU, with ops of the host in place of kernels.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "tests" / "gpu"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import own_results  # noqa: E402 - needs the path above

import stepscope as ss  # noqa: E402
from stepscope.analysis.tools import TOOLS  # noqa: E402
from stepscope.unavailable import Unavailable  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

    from own_results import Seen

PROGRAM = Path(__file__).with_name("gpu_training.py")
FRAMEWORKS = ("jax", "torch", "tensorflow")
#: These must answer of a program that ran on a GPU.
DEVICE_TOOLS = ("overview_page", "kernel_stats", "trace_viewer")
#: A difference of times below this much for each event is rounding.
ROUNDING_NS = 1.0
NO_GPU, DIFFERS = 2, 1


def gpus() -> list[str]:
    """The GPUs of this machine, as their driver lists them."""
    for command in (("nvidia-smi", "-L"), ("rocm-smi", "--showproductname", "--csv")):
        if shutil.which(command[0]) is None:
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [
            line for line in done.stdout.splitlines() if "GPU" in line or "card" in line
        ]
        if done.returncode == 0 and found:
            return found
    return []


def compared(theirs: Seen, mine: Seen, *, times: bool) -> list[dict[str, Any]]:
    """One line for each group, and one for each name in it that differs."""
    lines = []
    for group, names in theirs.items():
        found = mine.get(group, {})
        wrong = []
        for name in sorted({*names, *found}):
            one, other = names.get(name), found.get(name)
            differs = one is None or other is None or one.count != other.count
            if not differs and times:
                differs = abs(one.total_ns - other.total_ns) > ROUNDING_NS * one.count
            if differs:
                wrong.append({"name": name, "theirs": one, "ours": other})
        lines.append(
            {
                "group": group,
                "ok": not wrong,
                "theirs": _total(names),
                "ours": _total(found),
                "differ": wrong[:20],
            }
        )
    return lines


def _total(names: dict[str, own_results.Sums]) -> dict[str, float]:
    return {
        "names": len(names),
        "events": sum(it.count for it in names.values()),
        "total_us": round(sum(it.total_ns for it in names.values()) / 1000, 3),
    }


def tools_of(profile: Any, *, needed: Iterable[str]) -> dict[str, str]:
    """Tool → "answers", why it cannot, or what is wrong with it."""
    found = {}
    for tool in TOOLS:
        try:
            result = profile.tool(tool.name)
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            found[tool.name] = f"WRONG: {type(error).__name__}: {error}"
            continue
        if not isinstance(result, Unavailable):
            found[tool.name] = "answers"
        elif tool.name in needed:
            found[tool.name] = f"WRONG: {result.reason}"
        else:
            found[tool.name] = f"cannot: {result.reason}"
    return found


def check(
    framework: str, python: str, folder: Path, *, pretend: bool
) -> dict[str, Any]:
    """Record with one framework, and compare."""
    command = [
        python,
        PROGRAM,
        framework,
        folder,
        *(["--pretend-cpu"] if pretend else []),
    ]
    hidden = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"} if pretend else {}
    # What the interpreter lacks may stand on a path of the user's.
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    source = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        command,
        env={**os.environ, **source, **hidden},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if done.returncode != 0:
        return {"ok": False, "failed": done.stderr[-4000:]}
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text("utf-8"))
    if "unavailable" in facts:
        return {"ok": None, **facts}
    (own_file,) = folder.glob("own.*")
    theirs = own_results.own(own_file)
    profile = ss.open(folder / "ours")
    mine = own_results.ours(profile, host_ops=theirs.get(own_results.HOST_OPS, ()))
    checks = compared(theirs, mine, times=True)
    if not pretend and "kernels" not in theirs:
        checks.append(
            {"group": "kernels", "ok": False, "differ": ["none was recorded"]}
        )
    if (folder / "averages.json").exists():
        averages = own_results.averages(folder / "averages.json")
        again = compared(averages, mine, times=False)
        checks += [{**it, "group": f"key averages, {it['group']}"} for it in again]
    tools = tools_of(profile, needed=() if pretend else DEVICE_TOOLS)
    wrong = [name for name, answer in tools.items() if answer.startswith("WRONG")]
    return {
        "ok": all(it["ok"] for it in checks) and not wrong,
        **facts,
        "checks": checks,
        "tools": tools,
    }


def interpreters(given: Iterable[str]) -> dict[str, str]:
    """The interpreter of each framework: as given, or that of `make frameworks`."""
    path = ROOT / "build_tools" / "framework_venv.py"
    spec = importlib.util.spec_from_file_location("framework_venv", path)
    assert spec is not None
    assert spec.loader is not None
    venvs = importlib.util.module_from_spec(spec)
    # dataclasses look their module up while it is being executed.
    sys.modules[spec.name] = venvs
    spec.loader.exec_module(venvs)
    found = {name: str(venvs.python_of(name)) for name in FRAMEWORKS}
    found = {name: python for name, python in found.items() if Path(python).exists()}
    for pair in given:
        name, _, python = pair.partition("=")
        if name not in FRAMEWORKS or not python:
            raise SystemExit(f"--python {pair}: give jax=, torch= or tensorflow=PYTHON")
        found[name] = python
    return found


def bundle(work: Path, verdict: dict[str, Any], output: Path) -> Path:
    """One archive of all that was recorded, and of the programs that recorded it."""
    (work / "verdict.json").write_text(json.dumps(verdict, indent=1), encoding="utf-8")
    for source in (PROGRAM, Path(__file__)):
        shutil.copy(source, work)
    output.mkdir(parents=True, exist_ok=True)
    name = f"gpu_check_{time.strftime('%Y_%m_%d_%H_%M_%S')}"
    path = output / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(work, arcname=name)
    return path


def _say(framework: str, found: dict[str, Any]) -> None:
    if found["ok"] is None:
        print(f"{framework}: not checked: {found['unavailable']}")
        return
    result = "equal" if found["ok"] else "DIFFERS"
    print(f"{framework}: {found.get('what', 'failed')}: {result}")
    for one in found.get("checks", ()):
        mark = "ok" if one["ok"] else "DIFFERS"
        print(f"  {one['group']}: {mark}")
        print(f"    theirs {one.get('theirs')}")
        print(f"    ours   {one.get('ours')}")
        for differing in () if one["ok"] else one["differ"][:5]:
            print(f"    {differing}")
    for tool, answer in found.get("tools", {}).items():
        if answer.startswith("WRONG"):
            print(f"  {tool}: {answer}")
    if "failed" in found:
        print("  " + found["failed"].strip().splitlines()[-1])


def main(arguments: list[str] | None = None) -> int:
    """Check every framework and write the archive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--output", type=Path, default=ROOT / ".cache" / "gpu_check")
    parser.add_argument("--only", choices=FRAMEWORKS, action="append")
    parser.add_argument("--pretend-cpu", action="store_true")
    options = parser.parse_args(arguments)
    devices = gpus()
    if not devices and not options.pretend_cpu:
        print(
            "gpu-check: this machine has no GPU (nvidia-smi and rocm-smi list none); "
            "nothing was checked"
        )
        return NO_GPU
    verdict: dict[str, Any] = {
        "stepscope": ss.__version__,
        "machine": platform.platform(),
        "gpus": devices,
        "pretended_on_cpu": options.pretend_cpu,
        "frameworks": {},
    }
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for name, python in interpreters(options.python).items():
            if options.only and name not in options.only:
                continue
            found = check(name, python, work / name, pretend=options.pretend_cpu)
            verdict["frameworks"][name] = found
            _say(name, found)
        results = [found["ok"] for found in verdict["frameworks"].values()]
        if not any(it is not None for it in results):
            print(
                "gpu-check: no framework here can use the GPU; give one with --python"
            )
        path = bundle(work, verdict, options.output)
    print(f"{path} ({path.stat().st_size / 2**20:.2f} MiB)")
    return 0 if results and False not in results and True in results else DIFFERS


if __name__ == "__main__":
    sys.exit(main())
