"""What `make dist` makes, and whether the wheel alone is enough for every command.

The wheel is installed into an empty environment: nothing but Python and what the wheel
declares, no compiler, Node.js or git on the path, no network but the loopback.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.support.programs.frameworks import interpreter
from tests.support.sites.serve import Site

from stepscope.analysis.tools import TOOLS
from stepscope.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PROFILE = ROOT / "tests/data/torch_cpu"
MOST_BYTES = 6_000_000
#: Steps of a program that ends by itself.
PROGRAM = """
import time
import stepscope as ss
for number in range(300):
    with ss.StepTrace(number):
        time.sleep(0.002)
        sum(range(100_000))
"""
#: Starts a program where only the loopback can be reached.
CUT_OFF = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    up = struct.pack("16sh14x", b"lo", 1)
    fcntl.ioctl(any_socket, 0x8914, up)
os.execv(sys.argv[1], sys.argv[1:])
"""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow(seconds=60),
    # Kernels are compiled, twice.
    pytest.mark.timeout(900),
]


def make_files(folder: Path, temporary: Path) -> dict[str, bytes]:
    """Run the build for this Python, and return each file that it makes."""
    temporary.mkdir()
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "build_tools/dist.py")),
            *("--into", str(folder), sys.executable),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    if "the page is not built" in done.stderr:
        pytest.skip("the page is not built (make web)")
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    make_files(folder, folder.with_name("temporary"))
    return folder


@pytest.fixture(scope="module")
def wheel(made: Path) -> Path:
    (found,) = made.glob("*.whl")
    return found


def test_two_builds_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    again = make_files(tmp_path / "again", tmp_path / "another place")
    assert {path.name: path.read_bytes() for path in made.iterdir()} == again


def test_a_wheel_holds_what_is_needed_and_nothing_else(wheel: Path) -> None:
    version = importlib.metadata.version("stepscope")
    assert re.fullmatch(
        rf"stepscope-{version}-(cp3\d+)-\1-manylinux_2_28_\w+\.whl", wheel.name
    )
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        about = f"stepscope-{version}.dist-info"
        assert {name.partition("/")[0] for name in names} == {"stepscope", about}
        kinds = {Path(name).suffix for name in names if not name.startswith(about)}
        assert kinds.isdisjoint({".c", ".h", ".pyx", ".pyc", ".o"})
        assert not [name for name in names if "/tests/" in name or "test_" in name]
        kernels = {
            path.stem for path in (ROOT / "src/stepscope/_core").glob("[!_]*.py")
        }
        compiled = {
            Path(name).name.partition(".")[0] for name in names if name.endswith(".so")
        }
        assert compiled == {*kernels, "_shared"}
        assert "stepscope/serve/static/index.html" in names
        licences = {name for name in names if name.startswith(f"{about}/licenses/")}
        assert {Path(name).name for name in licences} == {"LICENSE", "THIRD_PARTY.txt"}
        headings = packed.read(f"{about}/licenses/THIRD_PARTY.txt").decode()
        for package in json.loads(packed.read(f"{about}/sboms/stepscope.cdx.json"))[
            "components"
        ]:
            if "npm" in package["purl"]:
                assert f"{package['name']} {package['version']} " in headings
        # Debuggers' names are gone: ELF files without a table of symbols.
        for name in names:
            if name.endswith(".so"):
                assert b".symtab" not in packed.read(name)


def test_an_archive_has_no_sources_of_the_page_and_no_tests(made: Path) -> None:
    (archive,) = made.glob("*.tar.gz")
    assert archive.stat().st_size < MOST_BYTES
    with tarfile.open(archive) as packed:
        inside = {
            name.partition("/")[2].partition("/")[0] for name in packed.getnames()
        }
    assert inside.isdisjoint({"tests", "web", "benchmarks", ".github"})
    assert {"LICENSE", "THIRD_PARTY.txt", "build_tools", "src"} <= inside


def needed_by(package: str) -> set[str]:
    """The distributions that a package needs, directly or not."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        for text in importlib.metadata.requires(waiting.pop()) or ():
            requirement = Requirement(text)
            wanted = requirement.marker is None or requirement.marker.evaluate(
                {"extra": ""}
            )
            if wanted and requirement.name not in found:
                found.add(requirement.name)
                waiting.append(requirement.name)
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it needs; pip uses no network."""
    folder = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "-q", "--python", str(python), "install"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in needed_by("stepscope"):
        held = importlib.metadata.distribution(name)
        for file in held.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(held.locate_file(file)), site / file)
    return folder


@pytest.fixture(scope="module")
def cut_off() -> list[str]:
    """What starts a program without a network; nothing where that is not allowed."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return []
    start = [unshare, "--map-root-user", "--net", sys.executable, "-c", CUT_OFF]
    tried = subprocess.run(
        [*start, sys.executable, "-c", ""], capture_output=True, check=False
    )
    return [] if tried.returncode else start


def started(
    environment: Path, cut_off: list[str], *arguments: str
) -> subprocess.Popen[str]:
    """Start a command of the wheel with an empty home and a path of its own."""
    home = environment / "home"
    home.mkdir(exist_ok=True)
    stepscope = environment / "bin" / "stepscope"
    return subprocess.Popen(
        [*cut_off, str(environment / "bin" / "python"), str(stepscope), *arguments],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": str(environment / "bin"), "HOME": str(home), "LC_ALL": "C.UTF-8"},
    )


def said(environment: Path, cut_off: list[str], *arguments: str) -> tuple[int, str]:
    """The exit status of a command, and all that it prints."""
    with started(environment, cut_off, *arguments) as process:
        out, err = process.communicate(timeout=200)
    assert "Traceback" not in err
    return process.returncode, out + err


#: Command → its arguments, its exit status, and words that it prints.
SMOKE: dict[str, tuple[tuple[str, ...], int, str]] = {
    "run": (("--logdir", "ran", "--", "python", "loop.py"), 0, "Where the step time"),
    "capture": (("localhost:1",), 2, "pip install grpcio"),
    "nsys": (("--", "python", "loop.py"), 2, "nsys"),
    "ncu": (("--", "python", "loop.py"), 2, "ncu"),
    "report": ((str(PROFILE),), 0, "Where the step time went"),
    "try": (("--budget", "1s", "--", "python", "loop.py"), 0, "budget"),
    "show": (("overview_page", str(PROFILE)), 0, "step"),
    "explain": ((str(PROFILE), "--at", "20ms"), 0, "ms"),
    "diff": ((str(PROFILE), str(PROFILE)), 0, "change"),
    "doctor": ((), 0, "kernels of stepscope"),
    "completion": (("bash",), 0, "_STEPSCOPE_COMPLETE=bash_complete"),
    "demo": ((), 0, "1 × NVIDIA H100 80GB HBM3"),
}


def test_no_command_is_left_out() -> None:
    """`serve` has a test of its own."""
    assert {one.name for one in COMMANDS} == {*SMOKE, "serve"}


@pytest.mark.parametrize("command", SMOKE)
def test_every_command_works_from_the_wheel_alone(
    environment: Path, cut_off: list[str], command: str
) -> None:
    arguments, status, words = SMOKE[command]
    home = environment / "home"
    home.mkdir(exist_ok=True)
    (home / "loop.py").write_text(PROGRAM, encoding="utf-8")
    code, text = said(environment, cut_off, command, *arguments)
    assert code == status, text
    assert words in text


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_every_tool_works_from_the_wheel_alone(
    environment: Path, cut_off: list[str], tool: str
) -> None:
    code, text = said(environment, cut_off, "show", tool, str(PROFILE))
    assert code == 0, text


def test_the_version_of_the_wheel_lacks_no_part(
    environment: Path, cut_off: list[str]
) -> None:
    code, text = said(environment, cut_off, "--version")
    assert code == 0
    assert importlib.metadata.version("stepscope") in text
    assert "not compiled" not in text
    assert "not built" not in text


def test_the_page_is_served_from_the_wheel_alone(environment: Path) -> None:
    """On the loopback of this machine: the client is in its network."""
    with started(environment, [], "serve", str(PROFILE), "--port", "0") as process:
        assert process.stdout is not None
        greeting = process.stdout.readline()
        port = int(re.findall(r"127\.0\.0\.1:(\d+)/", greeting)[0])
        site = Site(port, store=None)  # type: ignore[arg-type]
        try:
            page = site.get("index.html")
            assert page.status == 200
            for name in re.findall(rb'(?:src|href)="\./([^"]+)"', page.body):
                assert site.get(name.decode()).status == 200
            report = site.get("data/report?format=text")
            assert b"Where the step time went" in report.body
        finally:
            process.terminate()


TENSORBOARD = """
import sys
from importlib.metadata import entry_points
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client
(point,) = entry_points(group="tensorboard_plugins", name="stepscope")
plugin = point.load()(TBContext(logdir=sys.argv[1]))
assert plugin.is_active()
(app,) = plugin.get_plugin_apps().values()
for route in ("index.html", "data/report?format=text"):
    answer = Client(app).get(f"/data/plugin/stepscope/{route}")
    print(answer.status_code, answer.text)
"""


@pytest.mark.framework
def test_the_tab_of_tensorboard_works_from_the_wheel(environment: Path) -> None:
    python = interpreter("tensorflow")
    says = "import sys; print(sys.version_info[1])"
    minor = subprocess.run([python, "-c", says], capture_output=True, check=True)
    if int(minor.stdout) != sys.version_info[1]:
        pytest.skip("TensorBoard's environment has another Python than this one")
    (site,) = environment.glob("lib/python*/site-packages")
    done = subprocess.run(
        [python, "-c", TENSORBOARD, str(PROFILE)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stderr
    assert "Where the step time went" in done.stdout
    assert done.stdout.count("200 ") == 2
