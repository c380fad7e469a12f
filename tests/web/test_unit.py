"""The unit tests of the page's modules that draw nothing run under vitest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow(seconds=5)

WEB = Path(__file__).resolve().parents[2] / "web"
NEEDED = {
    "chosen.test.ts",
    "definitions.test.ts",
    "format.test.ts",
    "pick.test.ts",
    "raster.test.ts",
    "tiles.test.ts",
    "url.test.ts",
    "value.test.ts",
    "viewport.test.ts",
}


def which_node() -> str | None:
    """The interpreter that builds the page: the machine's, or PyPI's."""
    sys.path.insert(0, str(WEB.parent / "build_tools"))
    try:
        import web_page  # noqa: PLC0415 - beside the package, not in it

        return str(web_page.node_and_npm()[0])
    except web_page.NotBuilt:
        return None
    finally:
        sys.path.pop(0)


def test_vitest_passes(tmp_path: Path) -> None:
    vitest = WEB / "node_modules" / "vitest" / "vitest.mjs"
    node = which_node()
    if node is None or not vitest.is_file():
        why = "vitest needs Node.js and web/node_modules (make web)"
        if os.environ.get("STEPSCOPE_BROWSER") == "required":
            pytest.fail(why)
        pytest.skip(why)
    out = tmp_path / "report.json"
    done = subprocess.run(
        [node, str(vitest), "run", "--reporter=json", f"--outputFile={out}"],
        cwd=WEB,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CI": "1"},
    )
    assert out.is_file(), done.stdout + done.stderr
    told = json.loads(out.read_text("utf-8"))
    failed = [
        f"{case['fullName']}: {' '.join(case['failureMessages'])}"
        for suite in told["testResults"]
        for case in suite["assertionResults"]
        if case["status"] != "passed"
    ]
    assert failed == []
    assert done.returncode == 0, done.stdout + done.stderr
    assert {Path(suite["name"]).name for suite in told["testResults"]} >= NEEDED
    assert all(suite["assertionResults"] for suite in told["testResults"])
