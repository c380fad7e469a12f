"""Inside the real TensorBoard: the same application under its prefix."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import interpreter
from tests.support.sites.serve import OLD, Site, put

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.framework

#: Distributions that stepscope needs and TensorFlow's environment may lack; the rest
#: (numpy, werkzeug) must be TensorBoard's own.
LENT = ("click", "msgspec", "polars", "polars-runtime-32")
PREFIX = "data/plugin/stepscope"


def installed(folder: Path, repository: Path) -> None:
    """A folder for the path: stepscope, its entry points, and what it needs."""
    (folder / "stepscope").symlink_to(repository / "src" / "stepscope")
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))
    points = project["project"]["entry-points"]["tensorboard_plugins"]
    about = folder / "stepscope-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: stepscope\nVersion: 0.1.0\n", "utf-8")
    lines = [
        "[tensorboard_plugins]",
        *(f"{name} = {at}" for name, at in points.items()),
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
    for name in LENT:
        found = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in found.files or () if ".." not in file.parts}
        for top in tops:
            if not (folder / top).exists():
                (folder / top).symlink_to(str(found.locate_file(top)))


@pytest.fixture(scope="module")
def tensorboard(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, a1: bytes
) -> Iterator[tuple[Site, Path]]:
    python = interpreter("tensorflow")
    version = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    )
    if tuple(map(int, version.stdout.split())) != sys.version_info[:2]:
        pytest.skip("TensorFlow's environment has another Python than this one")
    folder = tmp_path_factory.mktemp("lent")
    installed(folder, repository)
    logdir = tmp_path_factory.mktemp("logs")
    put(logdir / "train", "r1", "vm", a1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "log.txt"
    with (
        log.open("w") as written,
        subprocess.Popen(
            [
                *(python, "-m", "tensorboard.main", "--logdir", str(logdir)),
                *("--host", "127.0.0.1", "--port", str(port)),
            ],
            stdout=written,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(folder)},
        ) as process,
    ):
        try:
            wait_for(port, process, log)
            yield Site(port, store=None), log  # type: ignore[arg-type]
        finally:
            process.terminate()
            process.wait(30)


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        else:
            return


def test_the_plugin_is_listed_and_active(tensorboard: tuple[Site, Path]) -> None:
    site, _ = tensorboard
    listed = site.get("data/plugins_listing").json
    plugin = listed["stepscope"]
    assert plugin["enabled"] is True
    assert plugin["tab_name"] == "stepscope"
    assert plugin["loading_mechanism"]["type"] == "IFRAME"
    assert plugin["loading_mechanism"]["module_path"] == f"/{PREFIX}/plugin.js"
    assert "profile" not in {
        name for name, one in listed.items() if one["tab_name"] == "stepscope"
    }


def test_the_frame_loads_our_module_and_the_page(
    tensorboard: tuple[Site, Path],
) -> None:
    site, _ = tensorboard
    frame = site.get("data/plugin_entry.html?name=stepscope")
    assert frame.status == 200
    # The frame imports the module, and the policy of the frame allows it: no inline
    # script of ours, no other origin.
    assert b"plugin.js" in frame.body
    module = site.get(f"{PREFIX}/plugin.js")
    assert module.headers["Content-Type"].startswith("text/javascript")
    assert b"export function render()" in module.body
    page = site.get(f"{PREFIX}/index.html")
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "frame-ancestors 'self'" in page.headers["Content-Security-Policy"]
    for name in re.findall(rb'(?:src|href)="\./([^"]+)"', page.body):
        assert site.get(f"{PREFIX}/{name.decode()}").status == 200


def test_data_come_under_the_prefix(tensorboard: tuple[Site, Path]) -> None:
    site, _ = tensorboard
    (run,) = site.get(f"{PREFIX}/data/runs").json["runs"]
    assert run["name"] == "train/r1"
    answer = site.get(f"{PREFIX}/data/tool/overview?run={run['id']}").json
    assert len(answer["data"]["steps"]) == 8
    assert site.get(f"{PREFIX}/data/nothing").status == 404
    assert site.get("data/plugin/stepscope2/data/runs").status == 404


def test_the_rules_for_changes_hold_there_too(tensorboard: tuple[Site, Path]) -> None:
    site, _ = tensorboard
    assert site.get(f"{PREFIX}/data/reload").status == 405
    assert site.ask("POST", f"{PREFIX}/data/reload").status == 403
    crossing = {"X-Stepscope": "1", "Sec-Fetch-Site": "cross-site"}
    assert site.ask("POST", f"{PREFIX}/data/reload", crossing).status == 403
    ours = {"X-Stepscope": "1", "Sec-Fetch-Site": "same-origin"}
    assert site.ask("POST", f"{PREFIX}/data/reload", ours).status == 200


def test_tensorboard_complains_of_nothing(tensorboard: tuple[Site, Path]) -> None:
    site, log = tensorboard
    for path in ("index.html", "plugin.js", "data/runs", "data/report", "nothing"):
        answer = site.get(f"{PREFIX}/{path}")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    told = log.read_text()
    assert "In 3.0, this warning will become an error" not in told
    assert "Traceback" not in told


def test_a_new_run_appears_there(tensorboard: tuple[Site, Path], a1: bytes) -> None:
    site, _ = tensorboard
    listed = site.get(f"{PREFIX}/data/runs").json
    logdir = Path(json.loads(json.dumps(listed["log_directory"])))
    put(logdir / "eval", "r2", "vm", a1, unix_s=OLD + 5)
    end = time.monotonic() + 30
    while len(site.get(f"{PREFIX}/data/runs").json["runs"]) < 2:
        assert time.monotonic() < end
        time.sleep(0.2)
