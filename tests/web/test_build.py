"""The build of the page where it succeeds, and where Node.js or npm cannot be had."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
from tests.support.programs.clones import clone
from tests.support.sites.browser import COMMITTED, ROOT, serving

NO_NODE = "this machine has no Node.js 20.19, 22.12 or later with npm"


def built(
    folder: Path, *, path: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the build in a clone; without PyPI's node, which lies in site-packages."""
    return subprocess.run(
        [sys.executable, "-S", str(folder / "build_tools" / "web_page.py")],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "STEPSCOPE_REQUIRE_UI": "0",
            "PATH": os.environ["PATH"] if path is None else path,
            **environment,
        },
    )


def record(folder: Path) -> dict[str, object]:
    told = folder / "src/stepscope/serve/static/build.json"
    found: dict[str, object] = json.loads(told.read_text("utf-8"))
    return found


def needs_npm() -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm on this machine")


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def test_without_node_the_record_says_so(tmp_path: Path) -> None:
    clone(tmp_path)
    done = built(tmp_path, path=str(tmp_path))
    assert NO_NODE in done.stderr
    assert record(tmp_path) == {"built": False, "reason": NO_NODE}


def test_an_old_node_is_as_good_as_none(tmp_path: Path) -> None:
    clone(tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("node", "npm"):
        (tools / name).write_text("#!/bin/sh\necho v18.20.4\n")
        (tools / name).chmod(0o755)
    built(tmp_path, path=str(tools))
    assert record(tmp_path) == {"built": False, "reason": NO_NODE}


@pytest.mark.slow
def test_a_registry_that_refuses_is_named_and_soon_given_up(
    tmp_path: Path, closed_port: int
) -> None:
    needs_npm()
    clone(tmp_path)
    done = built(
        tmp_path,
        npm_config_registry=f"http://127.0.0.1:{closed_port}/",
        npm_config_cache=str(tmp_path / "cache"),
    )
    assert done.returncode != 0
    told = record(tmp_path)
    assert told["built"] is False
    assert str(told["reason"]).startswith("npm ci failed: ")
    assert f"127.0.0.1:{closed_port}" in str(told["reason"])
    assert "ECONNREFUSED" in str(told["reason"])


def test_where_the_page_is_required_its_absence_is_an_error(tmp_path: Path) -> None:
    clone(tmp_path)
    done = built(tmp_path, path=str(tmp_path), STEPSCOPE_REQUIRE_UI="1")
    assert done.returncode == 1
    assert f"the page was not built: {NO_NODE}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "src/stepscope/serve/static").exists()


def test_a_page_of_the_same_sources_is_kept_without_node(tmp_path: Path) -> None:
    clone(tmp_path)
    static = tmp_path / "src/stepscope/serve/static"
    static.mkdir(parents=True)
    (static / "index.html").write_text("the page")
    sys_path = tmp_path / "build_tools"
    told = subprocess.run(
        [sys.executable, "-c", "import web_page; print(web_page.source_hash())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=sys_path,
    )
    made = {"built": True, "hash": told.stdout.strip()}
    (static / "build.json").write_text(json.dumps(made))
    assert built(tmp_path, path=str(tmp_path)).returncode == 0
    assert record(tmp_path) == made
    # One changed source, and the old page is gone rather than wrong.
    (tmp_path / "web/src/main.tsx").write_text("// changed")
    assert built(tmp_path, path=str(tmp_path)).returncode != 0
    assert record(tmp_path)["built"] is False
    assert not (static / "index.html").exists()


def unbuilt_package(folder: Path) -> Path:
    """The package as an install without npm leaves it; to stand first on the path."""
    skipped = shutil.ignore_patterns("static", "__pycache__")
    shutil.copytree(ROOT / "src", folder, ignore=skipped)
    static = folder / "stepscope/serve/static"
    static.mkdir()
    told = {"built": False, "reason": "npm ci failed: <b>no</b> network"}
    (static / "build.json").write_text(json.dumps(told))
    return folder


@pytest.mark.slow
def test_the_command_line_says_that_the_page_is_missing(tmp_path: Path) -> None:
    package = unbuilt_package(tmp_path / "package")
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    first, second, *box = done.stdout.splitlines()
    assert first.startswith("stepscope, version ")
    assert second.endswith("Web page: missing.")
    assert box[0].startswith("┌")
    assert box[-1].startswith("└")
    assert {len(one) for one in box} == {len(box[0])}
    said = " ".join(one.strip("│ ") for one in box)
    assert "The web page is missing: npm ci failed: <b>no</b> network." in said
    assert "make web" in said
    report = subprocess.run(
        [sys.executable, "-m", "stepscope", "report", str(ROOT / COMMITTED["loop"])],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert "Where the step time went" in report.stdout


def test_an_installation_with_the_page_says_so() -> None:
    if not (ROOT / "src/stepscope/serve/static/index.html").is_file():
        pytest.skip("the page is not built (make web)")
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[1].endswith("Web page: built.")
    assert "missing" not in done.stdout


@pytest.mark.slow
def test_the_server_answers_with_a_plain_page(tmp_path: Path) -> None:
    package = unbuilt_package(tmp_path / "package")
    logs = tmp_path / "logs"
    logs.mkdir()
    with (
        serving(logs, PYTHONPATH=str(package)) as address,
        urllib.request.urlopen(address) as answer,  # noqa: S310 - loopback
    ):
        page = answer.read().decode()
    assert "npm ci failed: &lt;b&gt;no&lt;/b&gt; network" in page
    assert 'href="data/report?format=text"' in page
    assert "<script" not in page


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip wheel` makes of a clone."""
    needs_npm()
    folder = tmp_path_factory.mktemp("wheel")
    clone(folder / "clone", package=True)
    out = folder / "out"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--no-deps", "-q"),
            *("--no-build-isolation", "-w", str(out), str(folder / "clone")),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "STEPSCOPE_REQUIRE_UI": "1"},
    )
    assert done.returncode == 0, done.stderr
    (made,) = out.glob("*.whl")
    return made


@pytest.mark.integration
@pytest.mark.slow(seconds=25)
def test_a_wheel_from_a_clone_holds_the_page(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    here = "stepscope/serve/static/"
    assert {f"{here}index.html", f"{here}build.json", f"{here}THIRD_PARTY.txt"} <= names
    assets = {name for name in names if name.startswith(f"{here}assets/")}
    assert sorted(Path(name).suffix for name in assets) == [".css", ".js"]
    assert not [name for name in names if "node_modules" in name]


@pytest.mark.integration
@pytest.mark.slow
def test_the_demonstration_runs_from_a_wheel(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(installed), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("Where the step time went") == 2
    assert "1 × NVIDIA H100 80GB HBM3" in done.stdout
    assert f"-m stepscope serve {tmp_path}" in done.stdout
